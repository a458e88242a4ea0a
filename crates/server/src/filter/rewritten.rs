//! Bodies whose bytes are changed on their way: what is whole in memory at once, files and streams piece by piece.

use crate::http::Body;
use crate::http::body::{BodyError, BodyStream, Chunk};
use crate::http::body_reader;
use bytes::Bytes;
use std::task::{Context, Poll};

/// Bytes read from a file at once.
const READ: usize = 32 * 1024;

/// A change that makes a body longer stops when it has made so much, and goes on when that was sent.
pub const GROWN_MAX: usize = 256 * 1024;

/// A change of bytes that keeps what it has to between pieces.
pub trait Change {
    fn feed(&mut self, input: &[u8], out: &mut Vec<u8>);

    /// The body is whole: what was kept goes out.
    fn finish(&mut self, out: &mut Vec<u8>);

    /// Whether it stopped at `GROWN_MAX`, and has to go on before it is fed again.
    fn has_stopped(&self) -> bool {
        false
    }

    fn go_on(&mut self, _: &mut Vec<u8>) {}
}

/// The body after `change`.
pub fn body(body: Body, mut change: impl Change + 'static) -> Body {
    let memory = match &body {
        Body::Empty => Some(Bytes::new()),
        Body::Memory(bytes) => Some(bytes.clone()),
        _ => None,
    };
    match memory {
        Some(bytes) => {
            let mut out = Vec::with_capacity(bytes.len());
            change.feed(&bytes, &mut out);
            if !change.has_stopped() {
                change.finish(&mut out);
            }
            if !change.has_stopped() {
                return Body::Memory(Bytes::from(out));
            }
            Body::Stream(Box::new(Rewritten {
                source: body_reader::stream(Body::Empty, READ),
                change,
                made: out,
                flush: false,
                ended: false,
            }))
        }
        None => Body::Stream(Box::new(Rewritten {
            source: body_reader::stream(body, READ),
            change,
            made: Vec::new(),
            flush: false,
            ended: false,
        })),
    }
}

struct Rewritten<C> {
    source: Box<dyn BodyStream>,
    change: C,
    /// What was made before the body was found to be long.
    made: Vec<u8>,
    /// What is made of the last piece is to be sent at once.
    flush: bool,
    ended: bool,
}

impl<C: Change> BodyStream for Rewritten<C> {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        loop {
            if !self.made.is_empty() {
                let bytes = Bytes::from(std::mem::take(&mut self.made));
                let flush = self.flush && !self.change.has_stopped();
                return Poll::Ready(Some(Ok(Chunk { bytes, flush })));
            }
            if self.change.has_stopped() {
                self.change.go_on(&mut self.made);
                continue;
            }
            if self.ended {
                return Poll::Ready(None);
            }
            let chunk = match self.source.poll_chunk(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(chunk) => chunk.and_then(Result::ok),
            };
            self.flush = chunk.as_ref().is_some_and(|chunk| chunk.flush);
            match chunk {
                Some(chunk) => self.change.feed(&chunk.bytes, &mut self.made),
                None => {
                    self.ended = true;
                    self.change.finish(&mut self.made);
                }
            }
        }
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) {
        self.source.poll_fill(context);
    }

    fn trailers(&mut self) -> Vec<(Bytes, Bytes)> {
        self.source.trailers()
    }
}
