//! Clients that ask without a pause until they are told to stop, and count what they got.

use crate::site::{DEADLINE, POLL, request};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;
use testkit::client::Client;

/// Whether a client keeps its connection or makes one for each request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    Kept,
    Fresh,
}

#[derive(Default)]
struct Tally {
    stop: AtomicBool,
    answered: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

pub struct Traffic {
    tally: Arc<Tally>,
    clients: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// For each way of connecting, so many clients that ask for `path` and want the answer to satisfy `expected`.
    pub fn start(
        port: u16,
        path: &str,
        kinds: &[(Connections, usize)],
        expected: fn(&str) -> bool,
    ) -> Traffic {
        let tally = Arc::new(Tally::default());
        let kinds = kinds
            .iter()
            .flat_map(|(kind, count)| (0..*count).map(|_| *kind));
        let clients = kinds.map(|kind| {
            let (tally, path) = (Arc::clone(&tally), path.to_owned());
            std::thread::spawn(move || tally.ask(port, &path, kind, expected))
        });
        Traffic {
            clients: clients.collect(),
            tally,
        }
    }

    /// Requests answered well so far.
    pub fn answered(&self) -> usize {
        self.tally.answered.load(Ordering::Relaxed)
    }

    /// Waits until so many more requests were answered well.
    pub fn wait_for(&self, more: usize) {
        let enough = self.answered() + more;
        let deadline = Instant::now() + DEADLINE;
        while self.answered() < enough {
            let failures = self.tally.failures.lock().expect("no client panicked");
            assert!(
                Instant::now() < deadline,
                "{} answers are missing; the first failures: {:?}",
                enough - self.answered(),
                failures.iter().take(5).collect::<Vec<_>>()
            );
            drop(failures);
            std::thread::sleep(POLL);
        }
    }

    /// Ends the clients; gives the number of good answers, and what went wrong.
    pub fn stop(mut self) -> (usize, Vec<String>) {
        self.tally.stop.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            client.join().expect("a client");
        }
        let failures =
            std::mem::take(&mut *self.tally.failures.lock().expect("no client panicked"));
        (self.answered(), failures)
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.tally.stop.store(true, Ordering::Relaxed);
    }
}

impl Tally {
    fn ask(&self, port: u16, path: &str, kind: Connections, expected: fn(&str) -> bool) {
        let field = if kind == Connections::Kept {
            "keep-alive"
        } else {
            "close"
        };
        let bytes = request(path, field).into_bytes();
        let mut kept: Option<Client> = None;
        while !self.stop.load(Ordering::Relaxed) {
            let mut client = match kept
                .take()
                .map_or_else(|| Client::connect(port).map(Client::forgotten), Ok)
            {
                Ok(client) => client,
                Err(error) => {
                    self.failed(format!("connect: {error}"));
                    continue;
                }
            };
            client.send(&bytes);
            match client.read_reply("GET") {
                Some(reply)
                    if reply.status() == 200
                        && reply.fault.is_none()
                        && expected(&reply.text()) =>
                {
                    self.answered.fetch_add(1, Ordering::Relaxed);
                    let stays = reply.field("Connection") != Some("close");
                    kept = (kind == Connections::Kept && stays).then_some(client);
                }
                Some(reply) => self.failed(format!("{} {:?}", reply.status_line, reply.text())),
                None => self.failed(format!("no reply on a {field} connection")),
            }
        }
    }

    fn failed(&self, what: String) {
        self.failures.lock().expect("no client panicked").push(what);
    }
}
