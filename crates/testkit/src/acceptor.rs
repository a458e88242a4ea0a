//! A listening socket on a free port, and a thread for each connection: what toy servers stand on.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

pub struct Acceptor {
    port: u16,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    /// Calls `serve` with each connection, in a thread of its own.
    pub fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> std::io::Result<Acceptor> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let stopping = Arc::new(AtomicBool::new(false));
        let (serve, asked) = (Arc::new(serve), Arc::clone(&stopping));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if asked.load(Ordering::Relaxed) {
                    return;
                }
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(stream));
            }
        });
        Ok(Acceptor {
            port,
            stopping,
            thread: Some(thread),
        })
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        // Wakes the thread; one that is gone already needs no waking.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
