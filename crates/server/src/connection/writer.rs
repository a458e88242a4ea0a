//! Writes a response as HTTP/1: the head in nginx's order, then the body from memory, a file or a stream.

use super::stream::Stream;
use super::timers::Timer;
use crate::http::body::{FileRange, Part};
use crate::http::{Body, Request, Response, status, thread};
use bytes::{Buf, Bytes};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::task::Poll;
use wire::http1::{Version, chunked};

/// Files from this size on are sent by the kernel (sendfile), smaller ones from memory.
pub const SENDFILE_MIN: u64 = 64 * 1024;

thread_local! {
    static HEAD: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(4096));
}

/// How the end of the body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    None,
    Length,
    Chunked,
    UntilClose,
}

/// Why sending ended early.
#[derive(Debug)]
pub enum SendError {
    TimedOut,
    Io(io::Error),
    /// The body ended before its length, or its source failed.
    Truncated,
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        SendError::Io(error)
    }
}

/// Sends a response; true in `request.sent.complete` afterwards if all of it went out.
pub async fn send(
    stream: &Stream,
    timer: &mut Timer,
    request: &mut Request,
    response: Response,
) -> Result<(), SendError> {
    let head_only = request.is_head() || matches!(response.status, 204 | 304 | 100..=199);
    let framing = framing(request, &response, head_only);
    if framing == Framing::UntilClose {
        request.keep_alive = false;
    }
    let memory = match &response.body {
        Body::Memory(bytes) if !head_only => Some(bytes.clone()),
        _ => None,
    };
    let more = !head_only && matches!(response.body, Body::File(_) | Body::Parts(_));
    let rest = HEAD.with(|buffer| {
        let mut head = buffer.borrow_mut();
        head.clear();
        if request.version != Version::Http09 {
            write_head(request, &response, framing, &mut head);
        }
        request.sent.status.set(response.status);
        request.sent.header_bytes.set(head.len() as u64);
        first_write(stream, request, &head, memory, more)
    })?;
    if let Some((head, body)) = rest {
        write_all(stream, timer, request, [head, body]).await?;
    }
    if !head_only {
        send_body(stream, timer, request, response, framing).await?;
    }
    request.sent.complete.set(true);
    Ok(())
}

fn framing(request: &Request, response: &Response, head_only: bool) -> Framing {
    if response.content_length.is_some() {
        return Framing::Length;
    }
    if matches!(response.status, 204 | 304 | 100..=199) {
        return Framing::None;
    }
    let chunked =
        request.location().settings.transmission.chunked && request.version >= Version::Http11;
    match (chunked, head_only) {
        (true, _) => Framing::Chunked,
        (false, true) => Framing::None,
        (false, false) => Framing::UntilClose,
    }
}

/// The head in the order that nginx writes it.
fn write_head(request: &Request, response: &Response, framing: Framing, out: &mut Vec<u8>) {
    let settings = &request.location().settings;
    out.extend_from_slice(b"HTTP/1.1 ");
    match (&response.status_line, status::line(response.status)) {
        (Some(line), _) => out.extend_from_slice(line),
        (None, Some(line)) => out.extend_from_slice(line.as_bytes()),
        (None, None) => write_number(u64::from(response.status), out),
    }
    if !response.headers.contains("Server") {
        out.extend_from_slice(b"\r\nServer: ");
        out.extend_from_slice(settings.transmission.server_tokens.text().as_bytes());
    }
    if !response.headers.contains("Date") {
        out.extend_from_slice(b"\r\nDate: ");
        thread::append_date(out);
    }
    if let Some(kind) = &response.content_type {
        out.extend_from_slice(b"\r\nContent-Type: ");
        out.extend_from_slice(kind);
        if let Some(charset) = &response.charset {
            out.extend_from_slice(b"; charset=");
            out.extend_from_slice(charset);
        }
    }
    if let Some(length) = response.content_length {
        out.extend_from_slice(b"\r\nContent-Length: ");
        write_number(length, out);
    }
    if let Some(modified) = &response.last_modified {
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
    if let Some(etag) = &response.etag {
        out.extend_from_slice(b"\r\nETag: ");
        out.extend_from_slice(etag);
    }
    out.extend_from_slice(b"\r\n");
    response.headers.write_to(out);
    out.extend_from_slice(b"\r\n");
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

type Rest = Option<(Bytes, Bytes)>;

/// Writes head and body in one call; what the socket did not take is returned.
fn first_write(
    stream: &Stream,
    request: &Request,
    head: &[u8],
    body: Option<Bytes>,
    more: bool,
) -> Result<Rest, SendError> {
    let body = body.unwrap_or_default();
    if head.is_empty() && body.is_empty() {
        return Ok(None);
    }
    let written = if more {
        stream.try_write_more(head)
    } else if body.is_empty() {
        stream.try_write(&[IoSlice::new(head)])
    } else {
        stream.try_write(&[IoSlice::new(head), IoSlice::new(&body)])
    };
    let written = match written {
        Ok(written) => written,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            stream.clear_writable();
            0
        }
        Err(error) => return Err(error.into()),
    };
    request
        .sent
        .bytes
        .set(request.sent.bytes.get() + written as u64);
    if written == head.len() + body.len() {
        return Ok(None);
    }
    let head_rest = Bytes::copy_from_slice(&head[written.min(head.len())..]);
    let body_rest = body.slice(written.saturating_sub(head.len())..);
    Ok(Some((head_rest, body_rest)))
}

/// Waits for room in the socket, no longer than `send_timeout`.
async fn writable(stream: &Stream, timer: &mut Timer, request: &Request) -> Result<(), SendError> {
    timer.set(request.location().settings.transmission.send_timeout_ms);
    let ready = std::future::poll_fn(|context| {
        if let Poll::Ready(ready) = stream.poll_writable(context) {
            return Poll::Ready(ready.map_err(SendError::Io));
        }
        timer
            .poll_expired(context)
            .map(|()| Err(SendError::TimedOut))
    })
    .await;
    timer.clear();
    ready
}

async fn write_all(
    stream: &Stream,
    timer: &mut Timer,
    request: &Request,
    mut parts: [Bytes; 2],
) -> Result<(), SendError> {
    while parts.iter().any(|part| !part.is_empty()) {
        match stream.try_write(&[IoSlice::new(&parts[0]), IoSlice::new(&parts[1])]) {
            Ok(written) => {
                request
                    .sent
                    .bytes
                    .set(request.sent.bytes.get() + written as u64);
                let first = written.min(parts[0].len());
                parts[0].advance(first);
                parts[1].advance(written - first);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                stream.clear_writable();
                writable(stream, timer, request).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

async fn send_body(
    stream: &Stream,
    timer: &mut Timer,
    request: &Request,
    response: Response,
    framing: Framing,
) -> Result<(), SendError> {
    match response.body {
        Body::Empty | Body::Memory(_) => Ok(()),
        Body::File(range) => send_file(stream, timer, request, range).await,
        Body::Parts(parts) => {
            for part in parts {
                match part {
                    Part::Memory(bytes) => {
                        write_all(stream, timer, request, [bytes, Bytes::new()]).await?
                    }
                    Part::File(range) => send_file(stream, timer, request, range).await?,
                }
            }
            Ok(())
        }
        Body::Stream(mut source) => {
            while let Some(chunk) = std::future::poll_fn(|context| source.poll_chunk(context)).await
            {
                let Ok(chunk) = chunk else {
                    return Err(SendError::Truncated);
                };
                if chunk.bytes.is_empty() {
                    continue;
                }
                if framing == Framing::Chunked {
                    let head = chunked::ChunkHead::new(chunk.bytes.len() as u64);
                    let head = Bytes::copy_from_slice(head.as_bytes());
                    write_all(stream, timer, request, [head, chunk.bytes]).await?;
                    write_all(
                        stream,
                        timer,
                        request,
                        [Bytes::from_static(chunked::CHUNK_END), Bytes::new()],
                    )
                    .await?;
                } else {
                    write_all(stream, timer, request, [chunk.bytes, Bytes::new()]).await?;
                }
            }
            if framing == Framing::Chunked {
                write_all(
                    stream,
                    timer,
                    request,
                    [Bytes::from_static(chunked::LAST_CHUNK), Bytes::new()],
                )
                .await?;
            }
            Ok(())
        }
    }
}

async fn send_file(
    stream: &Stream,
    timer: &mut Timer,
    request: &Request,
    range: FileRange,
) -> Result<(), SendError> {
    let most = request
        .location()
        .settings
        .transmission
        .sendfile_max_chunk
        .clamp(1, MAX_SENDFILE);
    let mut offset = range.offset;
    let end = range.offset + range.length;
    while offset < end {
        match stream.try_sendfile(&range.file, offset, (end - offset).min(most) as usize) {
            Ok(0) => return Err(SendError::Truncated),
            Ok(sent) => {
                offset += sent as u64;
                request
                    .sent
                    .bytes
                    .set(request.sent.bytes.get() + sent as u64);
                if sent as u64 == most {
                    tokio::task::yield_now().await;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                stream.clear_writable();
                writable(stream, timer, request).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The most one sendfile call is asked for, so that one client does not keep the thread.
const MAX_SENDFILE: u64 = 2 * 1024 * 1024;
