//! `listen … proxy_protocol`: what a proxy says of its client, taken off a connection before anything else (TLS and the
//! first request come after it).

use super::Http1;
use crate::connection::complaints;
use std::io;
use std::task::{Context, Poll};
use wire::proxy_protocol::{self, Broken, HEADER_MAX, Read};

/// How reading the header ended.
enum Outcome {
    Whole,
    Broken(Broken, Vec<u8>),
    Failed(io::Error),
    Ended,
    TimedOut,
    /// The server needs the connection's place.
    Asked,
}

impl Http1 {
    /// Whether a proxy has to speak first.
    pub fn expects_proxy_header(&self) -> bool {
        self.generation.config.http.listens[self.listener]
            .listen
            .proxy_protocol
    }

    /// Reads the header within the timer's deadline; false: the connection is to be closed.
    pub async fn read_proxy_header(&mut self) -> bool {
        let outcome = std::future::poll_fn(|context| self.poll_proxy_header(context)).await;
        let (generation, listener, info) = (&self.generation, self.listener, &self.info);
        match outcome {
            Outcome::Whole => return true,
            Outcome::Broken(broken, bytes) => {
                complaints::proxy_header(generation, listener, info, &broken, &bytes);
            }
            Outcome::Failed(error) => {
                complaints::closed(generation, listener, info, Some(&error));
            }
            Outcome::Ended => complaints::closed(generation, listener, info, None),
            Outcome::TimedOut => complaints::timed_out_waiting(generation, listener, info),
            Outcome::Asked => {}
        }
        false
    }

    /// The bytes after the header stay in the socket.
    fn poll_proxy_header(&mut self, context: &mut Context<'_>) -> Poll<Outcome> {
        let mut bytes = [0; HEADER_MAX];
        let mut seen = 0;
        loop {
            let length = match self.info.stream.poll_peek(context, &mut bytes, seen) {
                Poll::Pending => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Outcome::Failed(error)),
                Poll::Ready(Ok(length)) if length <= seen => return Poll::Ready(Outcome::Ended),
                Poll::Ready(Ok(length)) => length,
            };
            seen = length;
            match proxy_protocol::read(&bytes[..length]) {
                Ok(Read::Partial) => {}
                Ok(Read::Whole(length, header)) => {
                    if let Some(header) = header {
                        // It is read once.
                        let _ = self.info.proxied.set(header);
                    }
                    let taken = self.info.stream.take(&mut bytes[..length]);
                    return Poll::Ready(taken.map_or_else(Outcome::Failed, |()| Outcome::Whole));
                }
                Err(broken) => {
                    // What stayed unread would make a reset of the close.
                    let _ = self.info.stream.take(&mut bytes[..length]);
                    return Poll::Ready(Outcome::Broken(broken, bytes[..length].to_vec()));
                }
            }
        }
        if self.place.is_asked() {
            return Poll::Ready(Outcome::Asked);
        }
        self.place.leave_waker(context);
        self.timer.poll_expired(context).map(|()| Outcome::TimedOut)
    }
}
