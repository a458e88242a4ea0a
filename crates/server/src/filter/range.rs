//! Byte ranges (RFC 9110 section 14).

use crate::config::directive::{Arity, HSL, Set, number, row};
use crate::http::body::{BodyError, BodyStream, Chunk, Part};
use crate::http::{Body, Interrupt, Phase, Request, Response};
use bytes::{Buf, Bytes};
use conf::table::Row;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use wire::fields::etag;
use wire::fields::range::{self, Wanted};
use wire::http1::{Known, Version};

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "max_ranges",
    HSL,
    Arity::Exactly(1),
    |b, d| number(&mut b.location().range.max_ranges, d),
    "The most ranges in one request; 0: ranges are not offered.",
)];

crate::config::setting::settings! {
    max_ranges: u64 = u64::MAX,
}

/// Cuts the body to what a Range field asks for: 206 with one part or several, or 416.
pub fn apply(request: &Request, response: &mut Response) -> Phase {
    let settings = &request.location().settings.range;
    let Some(size) = response.content_length else {
        return Ok(());
    };
    if !response.allow_ranges
        || response.status != 200
        || settings.max_ranges == 0
        || request.version < Version::Http10
    {
        return Ok(());
    }
    response.accept_ranges = true;
    let Some(value) = request.field(Known::Range) else {
        return Ok(());
    };
    if let Some(condition) = request.field(Known::IfRange) {
        let modified = response.last_modified.as_ref().map(|last| last.seconds);
        if !etag::if_range_holds(condition, response.etag.as_deref(), modified) {
            return Ok(());
        }
    }
    let max_ranges = usize::try_from(settings.max_ranges).ok();
    let parts = match range::parse(value, size, max_ranges) {
        Wanted::Whole => return Ok(()),
        Wanted::Unsatisfiable => return Err(unsatisfiable(response, size)),
        Wanted::Parts(parts) => parts,
    };
    match (parts.as_slice(), whole(&response.body, size)) {
        ([part], _) => {
            let value = format!("bytes {}-{}/{size}", part.start, part.end - 1);
            response.headers.push("Content-Range", value);
            response.content_length = Some(part.end - part.start);
            response.body = cut(std::mem::take(&mut response.body), part);
        }
        (parts, Some(whole)) if !response.single_range => {
            multipart(response, &whole, parts, size);
        }
        _ => return Ok(()),
    }
    response.status = 206;
    response.status_line = None;
    response.accept_ranges = false;
    Ok(())
}

/// The body as one part of this size, if it can be cut at several places.
fn whole(body: &Body, size: u64) -> Option<Part> {
    match body {
        Body::Empty if size == 0 => Some(Part::Memory(Bytes::new())),
        body => body.as_part(),
    }
}

/// The piece of a body that a range means. Without a body (HEAD) there is nothing to cut.
fn cut(body: Body, range: &Range<u64>) -> Body {
    let length = range.end - range.start;
    if let Some(part) = body.as_part() {
        return part.slice(range.start, length).into();
    }
    match body {
        Body::Parts(parts) => Body::Parts(cut_parts(&parts, range)),
        Body::Stream(mut stream) => Body::Stream(Box::new(Piece {
            skip: stream.leave_out(range.start),
            stream,
            left: length,
        })),
        body => body,
    }
}

/// What a range means of several parts.
fn cut_parts(parts: &[Part], range: &Range<u64>) -> Vec<Part> {
    let mut at = 0;
    let mut cut = Vec::new();
    for part in parts {
        let start = range.start.clamp(at, at + part.len());
        let end = range.end.clamp(at, at + part.len());
        if start < end {
            cut.push(part.slice(start - at, end - start));
        }
        at += part.len();
    }
    cut
}

/// A piece of a stream; what comes behind it is not waited for.
struct Piece {
    stream: Box<dyn BodyStream>,
    skip: u64,
    left: u64,
}

impl BodyStream for Piece {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        loop {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            let mut chunk = match ready!(self.stream.poll_chunk(context)) {
                Some(Ok(chunk)) => chunk,
                end => return Poll::Ready(end),
            };
            let skipped = self.skip.min(chunk.bytes.len() as u64);
            self.skip -= skipped;
            chunk.bytes.advance(skipped as usize);
            let taken = self.left.min(chunk.bytes.len() as u64);
            self.left -= taken;
            chunk.bytes.truncate(taken as usize);
            if !chunk.bytes.is_empty() || chunk.flush {
                return Poll::Ready(Some(Ok(chunk)));
            }
        }
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) {
        self.stream.poll_fill(context);
    }
}

/// 416 with the fields that the response has so far; the error pages give it a body.
fn unsatisfiable(response: &mut Response, size: u64) -> Interrupt {
    let mut headers = std::mem::take(&mut response.headers);
    headers.remove("Last-Modified");
    headers.push("Content-Range", format!("bytes */{size}"));
    Interrupt::Respond(Box::new(Response {
        headers,
        ..Response::status(416)
    }))
}

/// The number of the last multipart response, which is its boundary.
static BOUNDARY: AtomicU64 = AtomicU64::new(0);

fn multipart(response: &mut Response, whole: &Part, parts: &[Range<u64>], size: u64) {
    let boundary = format!("{:020}", BOUNDARY.fetch_add(1, Ordering::Relaxed) + 1);
    let mut before = format!("\r\n--{boundary}\r\n").into_bytes();
    if let Some(kind) = &response.content_type {
        before.extend_from_slice(b"Content-Type: ");
        before.extend_from_slice(kind);
        if let Some(charset) = &response.charset {
            before.extend_from_slice(b"; charset=");
            before.extend_from_slice(charset);
        }
        before.extend_from_slice(b"\r\n");
    }
    before.extend_from_slice(b"Content-Range: bytes ");
    let mut body = Vec::with_capacity(parts.len() * 2 + 1);
    for part in parts {
        let mut head = before.clone();
        head.extend_from_slice(
            format!("{}-{}/{size}\r\n\r\n", part.start, part.end - 1).as_bytes(),
        );
        body.push(Part::Memory(Bytes::from(head)));
        body.push(whole.slice(part.start, part.end - part.start));
    }
    body.push(Part::Memory(Bytes::from(format!("\r\n--{boundary}--\r\n"))));
    response.content_type = Some(Bytes::from(format!(
        "multipart/byteranges; boundary={boundary}"
    )));
    response.charset = None;
    response.set_body(Body::Parts(body));
}
