//! A server whose delays are known: it answers every request after a time that the test chooses, and notes how long it
//! really took.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What is done with a request, by its number from 0.
pub type Answer = dyn Fn(usize) -> Vec<u8> + Send + Sync;

/// The server; it ends with its owner.
pub struct Responder {
    port: u16,
    state: Arc<State>,
    acceptor: Option<JoinHandle<()>>,
}

struct State {
    answer: Box<Answer>,
    stopping: AtomicBool,
    connections: AtomicUsize,
    requests: AtomicUsize,
    took: Mutex<Vec<Duration>>,
}

impl Responder {
    /// `answer` sleeps as long as it likes and gives the whole reply; an empty one closes the connection.
    pub fn start(
        answer: impl Fn(usize) -> Vec<u8> + Send + Sync + 'static,
    ) -> std::io::Result<Responder> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(State {
            answer: Box::new(answer),
            stopping: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            took: Mutex::new(Vec::new()),
        });
        let shared = Arc::clone(&state);
        let acceptor = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.stopping.load(Ordering::Relaxed) {
                    return;
                }
                shared.connections.fetch_add(1, Ordering::Relaxed);
                let state = Arc::clone(&shared);
                // A connection that breaks is the test's own doing.
                std::thread::spawn(move || state.serve(stream).unwrap_or_default());
            }
        });
        Ok(Responder {
            port,
            state,
            acceptor: Some(acceptor),
        })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
    }

    /// Requests read so far.
    pub fn requests(&self) -> usize {
        self.state.requests.load(Ordering::Relaxed)
    }

    /// How long each answer took, from the request's last byte to the reply's, the shortest first.
    pub fn took(&self) -> Vec<Duration> {
        let mut took = self
            .state
            .took
            .lock()
            .map(|took| took.clone())
            .unwrap_or_default();
        took.sort();
        took
    }
}

impl State {
    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut writer = stream;
        let mut line = String::new();
        loop {
            // A head without a body is all that is sent here.
            loop {
                line.clear();
                if reader.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                if line == "\r\n" {
                    break;
                }
            }
            let began = Instant::now();
            let number = self.requests.fetch_add(1, Ordering::Relaxed);
            let reply = (self.answer)(number);
            if reply.is_empty() {
                return Ok(());
            }
            writer.write_all(&reply)?;
            if let Ok(mut took) = self.took.lock() {
                took.push(began.elapsed());
            }
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.state.stopping.store(true, Ordering::Relaxed);
        // Wakes the acceptor; one that is gone already needs no waking.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}
