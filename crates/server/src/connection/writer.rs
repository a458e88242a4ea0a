//! Writes a response as HTTP/1: the head in nginx's order, then the body from memory, a file or a stream.

use super::stream::Stream;
use super::timers::Timer;
use crate::filter::headers;
use crate::http::body::{BodyStream, FileRange, Part};
use crate::http::{Body, Request, Response, sent, status, thread};
use crate::pipeline::hot;
use bytes::{Buf, Bytes};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::Poll;
use wire::http1::{Version, chunked};

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

/// Bodies up to this size are copied behind the head and go out in one `send`, which costs less than gathering them.
const COPY_MAX: usize = 4 * 1024;

/// What the first writes left over.
pub struct Unsent {
    head: Bytes,
    memory: Bytes,
    body: Body,
    framing: Framing,
}

/// Sends what the socket takes at once: for most responses all of it.
pub fn begin(
    stream: &Stream,
    request: &mut Request,
    response: Response,
) -> Result<Option<Unsent>, SendError> {
    let head_only = request.is_head() || matches!(response.status, 204 | 304 | 100..=199);
    let framing = framing(request, &response, head_only);
    if framing == Framing::UntilClose {
        request.keep_alive = false;
    }
    HEAD.with(|buffer| {
        let mut head = buffer.borrow_mut();
        head.clear();
        if request.version != Version::Http09 {
            write_head(request, &response, framing, &mut head);
            if request.generation.config.http.variables.uses_sent {
                sent::record(request, &response, framing == Framing::Chunked);
            }
        }
        request.sent.status.set(response.status);
        request.sent.header_bytes.set(head.len() as u64);
        if response.file.is_some() && !head_only {
            hot::keep(request, &response, &head);
        }
        let body = match response.body {
            _ if head_only => Body::Empty,
            body if framing == Framing::Chunked => in_one_chunk(request, body),
            body => body,
        };
        first_writes(stream, request, &mut head, body, framing)
    })
}

/// Writes the head and a body from memory in one call, and begins with a file.
fn first_writes(
    stream: &Stream,
    request: &Request,
    head: &mut Vec<u8>,
    body: Body,
    framing: Framing,
) -> Result<Option<Unsent>, SendError> {
    let (memory, mut body) = match body {
        Body::Memory(bytes) => (bytes, Body::Empty),
        body => (Bytes::new(), body),
    };
    let limited = request.location().settings.limit_rate.applies(request);
    let head_length = head.len();
    let written = if !matches!(body, Body::Empty) {
        stream.try_send(head, true)
    } else if limited {
        stream.try_send(head, !memory.is_empty())
    } else if memory.len() <= COPY_MAX {
        head.extend_from_slice(&memory);
        stream.try_send(head, false)
    } else {
        stream.try_write(&[IoSlice::new(head), IoSlice::new(&memory)])
    };
    let written = taken(stream, request, written)?;
    if written < head_length {
        let head = Bytes::copy_from_slice(&head[written..head_length]);
        return Ok(Some(Unsent {
            head,
            memory,
            body,
            framing,
        }));
    }
    let memory = memory.slice(written - head_length..);
    if let Body::File(range) = &mut body
        && !limited
        && range.length <= MAX_SENDFILE
        && readable_at_once(range)
    {
        let sent = taken(
            stream,
            request,
            stream.try_sendfile(&range.file, range.offset, range.length as usize),
        )?;
        range.offset += sent as u64;
        range.length -= sent as u64;
        if range.length == 0 {
            body = Body::Empty;
        }
    }
    if memory.is_empty() && matches!(body, Body::Empty) {
        request.sent.complete.set(true);
        return Ok(None);
    }
    Ok(Some(Unsent {
        head: Bytes::new(),
        memory,
        body,
        framing,
    }))
}

/// Sends a response that is ready: its head with the date of now, and the bytes.
pub fn begin_ready(
    stream: &Stream,
    request: &Request,
    ready: &hot::Ready,
    memory: Bytes,
) -> Result<Option<Unsent>, SendError> {
    HEAD.with(|buffer| {
        let mut head = buffer.borrow_mut();
        head.clear();
        head.extend_from_slice(&ready.head);
        thread::write_date(&mut head[ready.date.clone()]);
        request.sent.status.set(200);
        request.sent.header_bytes.set(head.len() as u64);
        first_writes(
            stream,
            request,
            &mut head,
            Body::Memory(memory),
            Framing::Length,
        )
    })
}

/// Counts what a write took; a full socket took nothing.
fn taken(
    stream: &Stream,
    request: &Request,
    written: io::Result<usize>,
) -> Result<usize, SendError> {
    match written {
        Ok(written) => {
            request
                .sent
                .bytes
                .set(request.sent.bytes.get() + written as u64);
            Ok(written)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            stream.clear_writable();
            Ok(0)
        }
        Err(error) => Err(error.into()),
    }
}

/// Sends what `begin` left over.
pub async fn finish(
    stream: &Stream,
    timer: &mut Timer,
    request: &Request,
    unsent: Unsent,
) -> Result<(), SendError> {
    let mut pace = Pace::new(request);
    write_all(
        stream,
        timer,
        request,
        &mut Pace::unlimited(),
        [unsent.head, Bytes::new()],
    )
    .await?;
    write_all(
        stream,
        timer,
        request,
        &mut pace,
        [unsent.memory, Bytes::new()],
    )
    .await?;
    send_body(
        stream,
        timer,
        request,
        &mut pace,
        unsent.body,
        unsent.framing,
    )
    .await?;
    request.sent.complete.set(true);
    Ok(())
}

/// `limit_rate` of one response: nginx lets a response have sent `rate` bytes for every second since it began, and one
/// second in advance, beyond the first `after` bytes.
struct Pace {
    rate: u64,
    after: u64,
    sent: u64,
    started_ms: u64,
}

impl Pace {
    fn new(request: &Request) -> Pace {
        let (rate, after) = request.location().settings.limit_rate.evaluate(request);
        Pace {
            rate,
            after,
            sent: 0,
            started_ms: thread::monotonic_ms(),
        }
    }

    fn unlimited() -> Pace {
        Pace {
            rate: 0,
            after: 0,
            sent: 0,
            started_ms: 0,
        }
    }

    /// Bytes that may be sent now, or the milliseconds to wait.
    fn allowance(&self) -> Result<u64, u64> {
        if self.rate == 0 {
            return Ok(u64::MAX);
        }
        let seconds = (thread::monotonic_ms() - self.started_ms) / 1000 + 1;
        let allowed = self.rate.saturating_mul(seconds).saturating_add(self.after);
        match allowed.checked_sub(self.sent) {
            Some(bytes) if bytes > 0 => Ok(bytes),
            _ => Err(((self.sent - allowed) * 1000 / self.rate + 1).max(1)),
        }
    }

    /// Waits until something may be sent, and says how much of `wanted`.
    async fn admit(&self, wanted: u64) -> u64 {
        loop {
            match self.allowance() {
                Ok(bytes) => return bytes.min(wanted),
                Err(wait_ms) => tokio::time::sleep(std::time::Duration::from_millis(wait_ms)).await,
            }
        }
    }
}

fn framing(request: &Request, response: &Response, head_only: bool) -> Framing {
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

/// A body of known length as one chunk with the trailer fields after it; a stream is chunked while it is sent.
fn in_one_chunk(request: &Request, body: Body) -> Body {
    let length = match body.length() {
        Some(length) => length,
        None => return body,
    };
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
    parts.push(Part::Memory(last_chunk(request)));
    Body::Parts(parts)
}

/// The end of a chunked body: the last chunk and the trailer fields.
fn last_chunk(request: &Request) -> Bytes {
    let mut trailers = Vec::new();
    headers::append_trailers(request, &mut trailers);
    if trailers.is_empty() {
        return Bytes::from_static(chunked::LAST_CHUNK);
    }
    Bytes::from([b"0\r\n", &trailers[..], b"\r\n"].concat())
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
    out.extend_from_slice(b"\r\nServer: ");
    match &response.server {
        Some(server) => out.extend_from_slice(server),
        None => out.extend_from_slice(settings.transmission.server_tokens.text().as_bytes()),
    }
    out.extend_from_slice(b"\r\nDate: ");
    match &response.date {
        Some(date) => out.extend_from_slice(date),
        None => thread::append_date(out),
    }
    if let Some(kind) = &response.content_type {
        out.extend_from_slice(b"\r\nContent-Type: ");
        out.extend_from_slice(kind);
        if let Some(charset) = &response.charset {
            out.extend_from_slice(b"; charset=");
            out.extend_from_slice(charset);
        }
    }
    if let Some(length) = response.content_length
        && framing != Framing::Chunked
    {
        out.extend_from_slice(b"\r\nContent-Length: ");
        write_number(length, out);
    }
    if let Some(modified) = &response.last_modified
        && !modified.text.is_empty()
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
    if let Some(etag) = &response.etag {
        out.extend_from_slice(b"\r\nETag: ");
        out.extend_from_slice(etag);
    }
    out.extend_from_slice(b"\r\n");
    response.headers.write_to(out);
    if response.accept_ranges {
        out.extend_from_slice(b"Accept-Ranges: bytes\r\n");
    }
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
    pace: &mut Pace,
    mut parts: [Bytes; 2],
) -> Result<(), SendError> {
    loop {
        let left = (parts[0].len() + parts[1].len()) as u64;
        if left == 0 {
            return Ok(());
        }
        let admitted = pace.admit(left).await as usize;
        let first = &parts[0][..parts[0].len().min(admitted)];
        let second = &parts[1][..parts[1].len().min(admitted - first.len())];
        match stream.try_write(&[IoSlice::new(first), IoSlice::new(second)]) {
            Ok(written) => {
                request
                    .sent
                    .bytes
                    .set(request.sent.bytes.get() + written as u64);
                pace.sent += written as u64;
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
}

async fn send_body(
    stream: &Stream,
    timer: &mut Timer,
    request: &Request,
    pace: &mut Pace,
    body: Body,
    framing: Framing,
) -> Result<(), SendError> {
    match body {
        Body::Empty => Ok(()),
        Body::Memory(bytes) => write_all(stream, timer, request, pace, [bytes, Bytes::new()]).await,
        Body::File(range) => send_file(stream, timer, request, pace, range).await,
        Body::Parts(parts) => {
            for part in parts {
                match part {
                    Part::Memory(bytes) => {
                        write_all(stream, timer, request, pace, [bytes, Bytes::new()]).await?
                    }
                    Part::File(range) => send_file(stream, timer, request, pace, range).await?,
                }
            }
            Ok(())
        }
        Body::Stream(source) => send_stream(stream, timer, request, pace, source, framing).await,
    }
}

async fn send_stream(
    stream: &Stream,
    timer: &mut Timer,
    request: &Request,
    pace: &mut Pace,
    mut source: Box<dyn BodyStream>,
    framing: Framing,
) -> Result<(), SendError> {
    while let Some(chunk) = std::future::poll_fn(|context| source.poll_chunk(context)).await {
        let Ok(chunk) = chunk else {
            return Err(SendError::Truncated);
        };
        if chunk.bytes.is_empty() {
            continue;
        }
        if framing == Framing::Chunked {
            let head = chunked::ChunkHead::new(chunk.bytes.len() as u64);
            let head = Bytes::copy_from_slice(head.as_bytes());
            write_all(stream, timer, request, pace, [head, chunk.bytes]).await?;
            write_all(
                stream,
                timer,
                request,
                pace,
                [Bytes::from_static(chunked::CHUNK_END), Bytes::new()],
            )
            .await?;
        } else {
            write_all(stream, timer, request, pace, [chunk.bytes, Bytes::new()]).await?;
        }
    }
    if framing == Framing::Chunked {
        write_all(
            stream,
            timer,
            request,
            pace,
            [last_chunk(request), Bytes::new()],
        )
        .await?;
    }
    Ok(())
}

async fn send_file(
    stream: &Stream,
    timer: &mut Timer,
    request: &Request,
    pace: &mut Pace,
    range: FileRange,
) -> Result<(), SendError> {
    let most = request.location().settings.transmission.sendfile_max_chunk;
    let most = if most == 0 {
        MAX_SENDFILE
    } else {
        most.min(MAX_SENDFILE)
    };
    let mut offset = range.offset;
    let end = range.offset + range.length;
    while offset < end {
        let count = pace.admit((end - offset).min(most)).await;
        let piece = FileRange {
            file: Rc::clone(&range.file),
            offset,
            length: count,
        };
        if !readable_at_once(&piece) {
            fetch(&piece).await?;
        }
        match stream.try_sendfile(&range.file, offset, count as usize) {
            Ok(0) => return Err(SendError::Truncated),
            Ok(sent) => {
                offset += sent as u64;
                pace.sent += sent as u64;
                request
                    .sent
                    .bytes
                    .set(request.sent.bytes.get() + sent as u64);
                if sent as u64 == count && offset < end {
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

/// Whether the piece's first and last byte are in memory, so that sendfile will not wait for a disk.
fn readable_at_once(range: &FileRange) -> bool {
    let cached = |offset| {
        matches!(
            sys::io::pread_cached(&range.file.fd, &mut [0], offset),
            Ok(sys::io::Cached::Read(_))
        )
    };
    range.length == 0 || (cached(range.offset) && cached(range.offset + range.length - 1))
}

/// Brings a piece of a file into memory, away from the network thread.
async fn fetch(range: &FileRange) -> Result<(), SendError> {
    let file = range.file.fd.try_clone()?;
    let (offset, end) = (range.offset, range.offset + range.length);
    let read = tokio::task::spawn_blocking(move || {
        let mut buffer = vec![0; FETCH_SIZE];
        let mut at = offset;
        while at < end {
            match sys::io::pread(&file, &mut buffer, at)? {
                0 => break,
                read => at += read as u64,
            }
        }
        Ok::<(), io::Error>(())
    });
    read.await.map_err(|_| SendError::Truncated)??;
    Ok(())
}

/// Bytes that a background read takes at a time.
const FETCH_SIZE: usize = 256 * 1024;

/// The most one sendfile call is asked for, so that one client does not keep the thread.
const MAX_SENDFILE: u64 = 2 * 1024 * 1024;
