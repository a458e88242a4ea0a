//! The fields of the response, kept for `$sent_http_NAME` where a configuration uses such a variable.

use super::counters::{self, Compression};
use super::{Request, Response};
use std::cell::Cell;
use std::io::Write;

/// What a response that is compressed on the fly was and became.
#[derive(Debug)]
pub struct Compressed {
    /// The coding's name.
    pub coding: &'static str,
    pub level: u8,
    pub taken: Cell<u64>,
    pub given: Cell<u64>,
}

impl Compressed {
    #[must_use]
    pub fn new(coding: &'static str, level: u8) -> Compressed {
        Compressed {
            coding,
            level,
            taken: Cell::new(0),
            given: Cell::new(0),
        }
    }

    /// Notes what was compressed before.
    pub fn recall(&self, taken: u64, given: u64) {
        self.taken.set(taken);
        self.given.set(given);
    }

    /// Counts bytes that went in and came out.
    pub fn count(&self, taken: usize, given: usize) {
        self.taken.set(self.taken.get() + taken as u64);
        self.given.set(self.given.get() + given as u64);
        counters::count_compression(Compression::BytesIn, taken as u64);
        counters::count_compression(Compression::BytesOut, given as u64);
    }
}

/// Notes the fields as they stand. The headers filter does so before it evaluates its values, the protocol when it
/// has written the head, with `chunked` as it decided.
pub fn record(request: &Request, response: &Response, chunked: bool) {
    let mut fields = request.sent.fields.borrow_mut();
    fields.clear();
    let mut line = |name: &str, value: &[&[u8]]| {
        fields.extend_from_slice(name.as_bytes());
        fields.extend_from_slice(b": ");
        for part in value {
            fields.extend_from_slice(part);
        }
        fields.extend_from_slice(b"\r\n");
    };
    if let Some(kind) = &response.content_type {
        match &response.charset {
            Some(charset) => line("Content-Type", &[kind, b"; charset=", charset]),
            None => line("Content-Type", &[kind]),
        }
    }
    if let (false, Some(length)) = (chunked, response.content_length) {
        line("Content-Length", &[length.to_string().as_bytes()]);
    }
    if let Some(modified) = &response.last_modified
        && !modified.text.is_empty()
    {
        line("Last-Modified", &[&modified.text]);
    }
    if let Some(location) = &response.location {
        line("Location", &[location]);
    }
    if chunked {
        line("Transfer-Encoding", &[b"chunked"]);
    }
    line("Connection", &[connection(request, response)]);
    if let Some(etag) = &response.etag {
        line("ETag", &[etag]);
    }
    let settings = &request.location().settings.keepalive;
    if let (true, Some(seconds)) = (request.keep_alive, settings.header_seconds) {
        // Writing to memory does not fail.
        let _ = write!(fields, "Keep-Alive: timeout={seconds}\r\n");
    }
    response.headers.write_to(&mut fields);
    if response.accept_ranges {
        fields.extend_from_slice(b"Accept-Ranges: bytes\r\n");
    }
    if chunked {
        let mut trailers = request.sent.trailers.borrow_mut();
        trailers.clone_from(&response.trailers);
    }
}

fn connection(request: &Request, response: &Response) -> &'static [u8] {
    match (response.status, request.keep_alive) {
        (101, _) => b"upgrade",
        (_, true) => b"keep-alive",
        (_, false) => b"close",
    }
}

/// The recorded fields, in order.
pub fn lines(recorded: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    recorded.split(|&byte| byte == b'\n').filter_map(|line| {
        let line = line.strip_suffix(b"\r")?;
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], line.get(colon + 2..).unwrap_or_default()))
    })
}
