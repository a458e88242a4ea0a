//! The head of a response in nginx's order, and how the end of its body is told.

use crate::filter::headers::append_trailers;
use crate::http::body::Part;
use crate::http::{Body, Request, Response, status, thread};
use bytes::Bytes;
use wire::headers;
use wire::http1::{Version, chunked};

/// How the end of the body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    None,
    Length,
    Chunked,
    UntilClose,
}

/// How the end of the body is told to this client.
pub fn framing(request: &Request, response: &Response, head_only: bool) -> Framing {
    // nginx tells no framing with a head alone, but for a length that is known.
    let bodyless = head_only || matches!(response.status, 204 | 304 | 100..=199);
    let known = response.content_length.is_some();
    if known && (!response.expects_trailers || bodyless) {
        return Framing::Length;
    }
    if bodyless {
        return Framing::None;
    }
    let chunked =
        request.location().settings.transmission.chunked && request.version >= Version::Http11;
    if known && !chunked {
        return Framing::Length;
    }
    match chunked {
        true => Framing::Chunked,
        false => Framing::UntilClose,
    }
}

/// Bodies up to this size are copied between the marks of their chunk, which costs less than gathering them.
const JOINED_MAX: usize = 256 * 1024;

/// A body of known length as one chunk with the trailer fields after it; a stream is chunked while it is sent.
pub fn in_one_chunk(request: &Request, body: Body) -> Body {
    let length = match body.length() {
        Some(length) => length,
        None => return body,
    };
    if let Body::Memory(bytes) = &body
        && !bytes.is_empty()
        && bytes.len() <= JOINED_MAX
    {
        let (head, end) = (
            chunked::ChunkHead::new(length),
            last_chunk(request, Vec::new()),
        );
        let parts = [head.as_bytes(), bytes, chunked::CHUNK_END, &end];
        return Body::Memory(Bytes::from(parts.concat()));
    }
    let mut parts = Vec::new();
    if length > 0 {
        let head = chunked::ChunkHead::new(length);
        parts.push(Part::Memory(Bytes::copy_from_slice(head.as_bytes())));
        match body {
            Body::Parts(body) => parts.extend(body),
            body => parts.extend(body.as_part()),
        }
        parts.push(Part::Memory(Bytes::from_static(chunked::CHUNK_END)));
    }
    parts.push(Part::Memory(last_chunk(request, Vec::new())));
    Body::Parts(parts)
}

/// The end of a chunked body: the last chunk and the trailer fields, those of the body's source first.
pub fn last_chunk(request: &Request, of_source: Vec<(Bytes, Bytes)>) -> Bytes {
    let mut trailers = Vec::new();
    for (name, value) in &of_source {
        for part in [&name[..], b": ", value, b"\r\n"] {
            trailers.extend_from_slice(part);
        }
    }
    append_trailers(request, &mut trailers);
    if trailers.is_empty() {
        return Bytes::from_static(chunked::LAST_CHUNK);
    }
    Bytes::from([b"0\r\n", &trailers[..], b"\r\n"].concat())
}

/// The head in the order that nginx writes it.
pub fn write_head(request: &Request, response: &Response, framing: Framing, out: &mut Vec<u8>) {
    let settings = &request.location().settings;
    out.extend_from_slice(b"HTTP/1.1 ");
    // As in nginx a status below 200 has no reason unless an upstream gave one.
    let line = status::line(response.status).filter(|_| response.status >= 200);
    match (&response.status_line, line) {
        (Some(line), _) => out.extend_from_slice(line),
        (None, Some(line)) => out.extend_from_slice(line.as_bytes()),
        (None, None) => {
            out.extend_from_slice(format!("{:03} ", response.status).as_bytes());
        }
    }
    if !response.has_server {
        out.extend_from_slice(b"\r\nServer: ");
        out.extend_from_slice(settings.transmission.server_tokens.text().as_bytes());
    }
    if !response.has_date {
        out.extend_from_slice(b"\r\nDate: ");
        thread::append_date(out);
    }
    write_content_type(response, out);
    if let Some(length) = response.content_length
        && framing != Framing::Chunked
    {
        out.extend_from_slice(b"\r\nContent-Length: ");
        write_number(length, out);
    }
    if let Some(modified) = &response.last_modified
        && !modified.text.is_empty()
        && matches!(response.status, 200 | 206 | 304)
    {
        out.extend_from_slice(b"\r\nLast-Modified: ");
        out.extend_from_slice(&modified.text);
    }
    if let Some(location) = &response.location {
        out.extend_from_slice(b"\r\nLocation: ");
        out.extend_from_slice(location);
    }
    if framing == Framing::Chunked {
        out.extend_from_slice(b"\r\nTransfer-Encoding: chunked");
    }
    write_connection(request, response, out);
    let has_dictionaries = settings.dictionary.dictionaries.is_some();
    if request.vary_accept_encoding.get()
        && (settings.compression.vary || settings.precompress.on || has_dictionaries)
    {
        out.extend_from_slice(b"\r\nVary: Accept-Encoding");
        if has_dictionaries {
            out.extend_from_slice(b", Available-Dictionary");
        }
    }
    out.extend_from_slice(b"\r\n");
    let (before, after) = response.headers.split_at(response.etag_place);
    headers::write(before, out);
    if let Some(etag) = &response.etag {
        out.extend_from_slice(b"ETag: ");
        out.extend_from_slice(etag);
        out.extend_from_slice(b"\r\n");
    }
    headers::write(after, out);
    if response.accept_ranges {
        out.extend_from_slice(b"Accept-Ranges: bytes\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

fn write_content_type(response: &Response, out: &mut Vec<u8>) {
    let Some(kind) = &response.content_type else {
        return;
    };
    out.extend_from_slice(b"\r\nContent-Type: ");
    match &response.charset {
        None => out.extend_from_slice(kind),
        Some(_) => out.extend_from_slice(&response.content_type_as_given().unwrap_or_default()),
    }
}

fn write_connection(request: &Request, response: &Response, out: &mut Vec<u8>) {
    if response.status == 101 {
        out.extend_from_slice(b"\r\nConnection: upgrade");
        return;
    }
    if !request.keep_alive {
        out.extend_from_slice(b"\r\nConnection: close");
        return;
    }
    out.extend_from_slice(b"\r\nConnection: keep-alive");
    if let Some(seconds) = request.location().settings.keepalive.header_seconds {
        out.extend_from_slice(b"\r\nKeep-Alive: timeout=");
        write_number(seconds, out);
    }
}

/// Appends a decimal number.
pub fn write_number(number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}
