//! `gunzip`: undoes gzip for clients that do not take it.

use super::compress::forget_identity;
use crate::config::directive::{Arity, HSL, Set, buffers, flag, row};
use crate::encoding::gunzip::Decoder;
use crate::encoding::permission;
use crate::http::body::{BodyError, BodyStream, Chunk};
use crate::http::{Body, Request, Response, body_reader};
use bytes::Bytes;
use conf::table::Row;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "gunzip",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().gunzip.on, d),
        "Undo gzip for clients that do not take it.",
    ),
    row(
        "gunzip_buffers",
        HSL,
        Arity::Exactly(2),
        |b, d| buffers(&mut b.location().gunzip.buffers, d),
        "Accepted: Buffers size themselves.",
    ),
];

crate::config::setting::settings! {
    on: bool = false,
    buffers: (u64, u64) = (0, 0),
}

/// Compressed bytes read from a file at once.
const READ: usize = 16 * 1024;
/// Bytes that come out at once.
const OUTPUT: usize = 64 * 1024;

/// Undoes the gzip of a response for a client that does not take it.
pub fn apply(request: &Request, response: &mut Response) {
    if !request.location().settings.gunzip.on
        || !response
            .headers
            .find("Content-Encoding")
            .is_some_and(|coding| coding.eq_ignore_ascii_case(b"gzip"))
    {
        return;
    }
    request.vary_accept_encoding.set(true);
    if permission::takes_gzip(request, Some(response)) {
        return;
    }
    response.take_out("Content-Encoding");
    forget_identity(response);
    if !request.is_head() {
        let source = body_reader::stream(std::mem::take(&mut response.body), READ);
        response.body = Body::Stream(Box::new(Unpacking {
            source,
            decoder: Decoder::default(),
            input: Bytes::new(),
            flush: false,
            ended: false,
            worked: false,
        }));
    }
}

/// A body being unpacked.
struct Unpacking {
    source: Box<dyn BodyStream>,
    decoder: Decoder,
    input: Bytes,
    /// The source wants to have sent what it gave.
    flush: bool,
    ended: bool,
    worked: bool,
}

impl BodyStream for Unpacking {
    fn poll_fill(&mut self, context: &mut Context<'_>) {
        self.source.poll_fill(context);
    }

    fn trailers(&mut self) -> Vec<(Bytes, Bytes)> {
        self.source.trailers()
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if self.worked {
            self.worked = false;
            // Others have their turn between pieces.
            if pin!(tokio::task::yield_now()).poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        loop {
            let mut out = Vec::new();
            let taken = match self.decoder.read(&self.input, OUTPUT, &mut out) {
                Ok(taken) => taken,
                Err(error) => {
                    return Poll::Ready(Some(Err(BodyError {
                        reason: format!("gunzip failed: {error}"),
                    })));
                }
            };
            self.input = self.input.slice(taken..);
            if !out.is_empty() {
                self.worked = true;
                return Poll::Ready(Some(Ok(Chunk {
                    bytes: Bytes::from(out),
                    flush: self.flush && self.input.is_empty(),
                })));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            match self.source.poll_chunk(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(chunk))) => {
                    self.input = chunk.bytes;
                    self.flush = chunk.flush;
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) if self.decoder.is_complete() => self.ended = true,
                Poll::Ready(None) => {
                    return Poll::Ready(Some(Err(BodyError {
                        reason: "gunzip failed: the compressed body is cut".to_owned(),
                    })));
                }
            }
        }
    }
}
