//! Two sockets joined after a protocol was switched (WebSocket): what comes on one goes out on the other, both ways, until
//! either side has ended.

use super::{Stream, Timer};
use std::io;
use std::task::{Context, Poll};

/// Bytes that wait for a side at most before no more is read for it.
const WAITING_MAX: usize = 64 * 1024;

/// What the joined sides are told.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Neither side may be silent for longer.
    pub read_timeout_ms: u64,
}

/// How a tunnel ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// A side has ended.
    Closed,
    TimedOut,
    /// A side's connection broke.
    Broken,
}

/// An upstream's side, after its response to the switch.
pub struct Tunnel {
    pub stream: Stream,
    /// Came with the head of its response.
    pub received: Vec<u8>,
    pub times: Times,
}

/// One direction.
struct Way {
    waiting: Vec<u8>,
    sent: usize,
    ended: bool,
    /// The end was passed on.
    shut: bool,
}

impl Way {
    fn new(waiting: Vec<u8>) -> Way {
        Way {
            waiting,
            sent: 0,
            ended: false,
            shut: false,
        }
    }

    /// Moves what it can; whether anything moved. `total` counts what went out.
    fn poll_move(
        &mut self,
        from: &Stream,
        to: &Stream,
        total: &mut u64,
        context: &mut Context<'_>,
    ) -> io::Result<bool> {
        let mut moved = false;
        loop {
            if self.sent < self.waiting.len() {
                match to.try_send(&self.waiting[self.sent..], false) {
                    Ok(count) => {
                        self.sent += count;
                        *total += count as u64;
                        moved = true;
                        continue;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        to.clear_writable();
                        match to.poll_writable(context) {
                            Poll::Ready(ready) => {
                                ready?;
                                continue;
                            }
                            Poll::Pending => {}
                        }
                    }
                    Err(error) => return Err(error),
                }
            } else {
                // What TLS has taken and the socket has not goes on by itself.
                if let Poll::Ready(flushed) = to.poll_flush(context) {
                    flushed?;
                }
                self.waiting.clear();
                self.sent = 0;
                if self.ended {
                    if !std::mem::replace(&mut self.shut, true) {
                        to.shut_down();
                    }
                    return Ok(moved);
                }
            }
            if self.ended || self.waiting.len() - self.sent >= WAITING_MAX {
                return Ok(moved);
            }
            // What went out makes room.
            self.waiting.drain(..self.sent);
            self.sent = 0;
            let waiting = &mut self.waiting;
            let read = from.poll_read(context, |bytes| {
                waiting.extend_from_slice(bytes);
                bytes.len()
            });
            match read {
                Poll::Pending => return Ok(moved),
                Poll::Ready(read) => {
                    moved = true;
                    self.ended = read? == 0;
                }
            }
        }
    }
}

/// Joins the client to the tunnel's upstream. Returns how it ended and the bytes that went to the client.
pub async fn join(client: &Stream, client_sent: Vec<u8>, tunnel: Tunnel) -> (End, u64) {
    let upstream = tunnel.stream;
    let (mut up, mut down) = (Way::new(client_sent), Way::new(tunnel.received));
    let (mut to_client, mut to_upstream) = (0, 0);
    let mut timer = Timer::default();
    timer.set(tunnel.times.read_timeout_ms);
    let end = std::future::poll_fn(|context| {
        let moved = down
            .poll_move(&upstream, client, &mut to_client, context)
            .and_then(|down| {
                let up = up.poll_move(client, &upstream, &mut to_upstream, context)?;
                Ok(down || up)
            });
        match moved {
            Err(_) => return Poll::Ready(End::Broken),
            Ok(true) => timer.set(tunnel.times.read_timeout_ms),
            Ok(false) => {}
        }
        // As nginx: the first side that ends, ends both, once its last bytes are out.
        if down.shut || up.shut {
            return Poll::Ready(End::Closed);
        }
        timer.poll_expired(context).map(|()| End::TimedOut)
    })
    .await;
    (end, to_client)
}
