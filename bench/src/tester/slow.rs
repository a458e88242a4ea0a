//! A server that waits before each answer, a thread for each connection: how many requests it answers depends on who asks
//! only by how soon the next one comes.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;

/// Bytes of a request's head that are looked at.
const HEAD_MAX: usize = 8 * 1024;
const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: slow\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok";

/// Ends when dropped; connections end with those who opened them.
pub struct Slow {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Slow {
    pub fn start(delay: Duration) -> Result<Slow> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let accept = move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                // A tester that goes away is no matter.
                thread::spawn(move || serve(stream, delay).unwrap_or_default());
            }
        };
        Ok(Slow {
            address,
            stop,
            acceptor: Some(thread::spawn(accept)),
        })
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes it.
        let _woken = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ended = acceptor.join();
        }
    }
}

fn serve(mut stream: TcpStream, delay: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut head = Vec::new();
    loop {
        let mut piece = [0; 2048];
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        head.extend_from_slice(&piece[..count]);
        if head.ends_with(b"\r\n\r\n") {
            thread::sleep(delay);
            stream.write_all(ANSWER)?;
            head.clear();
        }
        if head.len() > HEAD_MAX {
            return Ok(());
        }
    }
}
