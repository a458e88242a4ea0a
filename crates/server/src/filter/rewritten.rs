//! Bodies whose bytes are changed on their way: what is whole in memory at once, files and streams piece by piece.

use crate::http::Body;
use crate::http::body::{BodyError, BodyStream, Chunk};
use crate::http::body_reader;
use bytes::Bytes;
use std::task::{Context, Poll};

/// Bytes read from a file at once.
const READ: usize = 32 * 1024;

/// A change of bytes that keeps what it has to between pieces.
pub trait Change {
    fn feed(&mut self, input: &[u8], out: &mut Vec<u8>);

    /// The body is whole: what was kept goes out.
    fn finish(&mut self, out: &mut Vec<u8>);
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
            change.finish(&mut out);
            Body::Memory(Bytes::from(out))
        }
        None => Body::Stream(Box::new(Rewritten {
            source: body_reader::stream(body, READ),
            change,
            ended: false,
        })),
    }
}

struct Rewritten<C> {
    source: Box<dyn BodyStream>,
    change: C,
    ended: bool,
}

impl<C: Change> BodyStream for Rewritten<C> {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        while !self.ended {
            let chunk = match self.source.poll_chunk(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(chunk) => chunk.and_then(Result::ok),
            };
            let mut out = Vec::new();
            let flush = match chunk {
                Some(chunk) => {
                    self.change.feed(&chunk.bytes, &mut out);
                    chunk.flush
                }
                None => {
                    self.ended = true;
                    self.change.finish(&mut out);
                    false
                }
            };
            if !out.is_empty() {
                let bytes = Bytes::from(out);
                return Poll::Ready(Some(Ok(Chunk { bytes, flush })));
            }
        }
        Poll::Ready(None)
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) {
        self.source.poll_fill(context);
    }

    fn trailers(&mut self) -> Vec<(Bytes, Bytes)> {
        self.source.trailers()
    }
}
