//! Writes a response as HTTP/1: the head in nginx's order, then the body from memory, a file or a stream.

mod file;
mod head;
pub mod pace;

use self::file::{MAX_SENDFILE, readable_at_once, send_file};
use self::head::{Framing, framing, in_one_chunk, last_chunk, write_head};
use self::pace::Pace;
use crate::http::body::{BodyStream, Part};
use crate::http::{Body, Request, Response, sent, thread};
use crate::log;
use crate::net::{Stream, Timer};
use crate::pipeline::hot;
use bytes::{Buf, Bytes};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::task::Poll;
use wire::http1::{Version, chunked};

thread_local! {
    static HEAD: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(4096));
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

/// Bodies in several parts of memory (one chunk and what is around it) up to this size are joined.
const JOIN_MAX: u64 = 64 * 1024;

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
    mut response: Response,
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
        let body = match std::mem::take(&mut response.body) {
            _ if head_only => Body::Empty,
            body if framing == Framing::Chunked => in_one_chunk(request, body),
            body => body,
        };
        if (response.file.is_some() || response.kept.is_some()) && !head_only {
            let memory = match &body {
                Body::Memory(bytes) => Some(bytes),
                _ => None,
            };
            hot::keep(request, &response, hot::Written::Lines(&head), memory);
        }
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
        Body::Parts(parts) => match joined(&parts) {
            Some(bytes) => (bytes, Body::Empty),
            None => (Bytes::new(), Body::Parts(parts)),
        },
        // Its first piece goes out with the head, if it is there at once.
        Body::Stream(source) => {
            return Ok(Some(Unsent {
                head: Bytes::copy_from_slice(head),
                memory: Bytes::new(),
                body: Body::Stream(source),
                framing,
            }));
        }
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
        && request.location().settings.transmission.sendfile
        && range.length <= MAX_SENDFILE
        && readable_at_once(range)
    {
        let sent = taken(
            stream,
            request,
            stream.try_sendfile(&range.file.fd, range.offset, range.length as usize),
        )?;
        range.offset += sent as u64;
        range.length -= sent as u64;
        if range.length == 0 {
            body = Body::Empty;
        }
    }
    if memory.is_empty() && matches!(body, Body::Empty) && stream.try_flush()? {
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

/// Parts in memory as one, where copying them costs less than more calls would.
fn joined(parts: &[Part]) -> Option<Bytes> {
    let in_memory = |part: &Part| matches!(part, Part::Memory(_));
    let length: u64 = parts.iter().map(Part::len).sum();
    if length > JOIN_MAX || !parts.iter().all(in_memory) {
        return None;
    }
    let mut whole = Vec::with_capacity(length as usize);
    for part in parts {
        if let Part::Memory(bytes) = part {
            whole.extend_from_slice(bytes);
        }
    }
    Some(Bytes::from(whole))
}

/// Sends a response that is ready: its head with the date of now, and the bytes.
pub fn begin_ready(
    stream: &Stream,
    request: &Request,
    ready: &hot::Head,
    memory: Bytes,
) -> Result<Option<Unsent>, SendError> {
    HEAD.with(|buffer| {
        let mut head = buffer.borrow_mut();
        head.clear();
        head.extend_from_slice(&ready.bytes);
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
    mut unsent: Unsent,
) -> Result<(), SendError> {
    let mut pace = Pace::new(request);
    if let (Body::Stream(source), true) = (&mut unsent.body, pace.is_unlimited()) {
        send_stream(
            stream,
            timer,
            request,
            &mut pace,
            &mut **source,
            unsent.framing,
            unsent.head,
        )
        .await?;
        flush(stream, timer, request).await?;
        request.sent.complete.set(true);
        return Ok(());
    }
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
    flush(stream, timer, request).await?;
    request.sent.complete.set(true);
    Ok(())
}

/// Waits until what was written is with the kernel.
async fn flush(stream: &Stream, timer: &mut Timer, request: &Request) -> Result<(), SendError> {
    match stream.try_flush()? {
        true => Ok(()),
        false => writable(stream, timer, request).await,
    }
}

/// Waits for room in the socket, no longer than `send_timeout`.
async fn writable(stream: &Stream, timer: &mut Timer, request: &Request) -> Result<(), SendError> {
    writable_while(stream, timer, request, None).await
}

/// Meanwhile `source`, where there is one, may collect what comes for it.
async fn writable_while(
    stream: &Stream,
    timer: &mut Timer,
    request: &Request,
    mut source: Option<&mut dyn BodyStream>,
) -> Result<(), SendError> {
    timer.set(request.location().settings.transmission.send_timeout_ms);
    let ready = std::future::poll_fn(|context| {
        if let Poll::Ready(ready) = stream.poll_writable(context) {
            return Poll::Ready(ready.map_err(SendError::Io));
        }
        if let Some(source) = &mut source {
            source.poll_fill(context);
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
    parts: [Bytes; 2],
) -> Result<(), SendError> {
    let [first, second] = parts;
    write_while(
        stream,
        timer,
        request,
        pace,
        [first, second, Bytes::new(), Bytes::new(), Bytes::new()],
        None,
    )
    .await
}

/// Writes all parts; meanwhile `source`, where there is one, may collect what comes for it.
async fn write_while(
    stream: &Stream,
    timer: &mut Timer,
    request: &Request,
    pace: &mut Pace,
    mut parts: [Bytes; 5],
    mut source: Option<&mut dyn BodyStream>,
) -> Result<(), SendError> {
    loop {
        let left = parts.iter().map(Bytes::len).sum::<usize>() as u64;
        if left == 0 {
            return Ok(());
        }
        let mut admitted = pace.admit(left).await as usize;
        let slices = parts.each_ref().map(|part| {
            let count = part.len().min(admitted);
            admitted -= count;
            IoSlice::new(&part[..count])
        });
        match stream.try_write(&slices) {
            Ok(written) => {
                request
                    .sent
                    .bytes
                    .set(request.sent.bytes.get() + written as u64);
                pace.sent += written as u64;
                let mut written = written;
                for part in &mut parts {
                    let count = part.len().min(written);
                    part.advance(count);
                    written -= count;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                stream.clear_writable();
                let source = source
                    .as_mut()
                    .map(|source| &mut **source as &mut dyn BodyStream);
                writable_while(stream, timer, request, source).await?;
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
        Body::Stream(mut source) => {
            let head = Bytes::new();
            send_stream(stream, timer, request, pace, &mut *source, framing, head).await
        }
        // The connection joins the two ends after the head.
        Body::Tunnel(_) => Ok(()),
    }
}

/// Sends `head` and then what the source gives. What is there at once goes out together.
async fn send_stream(
    stream: &Stream,
    timer: &mut Timer,
    request: &Request,
    pace: &mut Pace,
    source: &mut dyn BodyStream,
    framing: Framing,
    mut head: Bytes,
) -> Result<(), SendError> {
    let mut ahead = None;
    loop {
        let next = match ahead.take() {
            Some(next) => next,
            None => match now(source).await {
                Some(next) => next,
                None => {
                    // It takes its time: the client need not wait for the head.
                    let head = std::mem::take(&mut head);
                    write_all(stream, timer, request, pace, [head, Bytes::new()]).await?;
                    std::future::poll_fn(|context| source.poll_chunk(context)).await
                }
            },
        };
        log::error::write_late(request);
        let Some(chunk) = next else { break };
        let Ok(chunk) = chunk else {
            let _shown = write_all(stream, timer, request, pace, [head, Bytes::new()]).await;
            return Err(SendError::Truncated);
        };
        if chunk.bytes.is_empty() {
            continue;
        }
        ahead = now(source).await;
        let is_last = matches!(ahead, Some(None));
        let end = match framing {
            Framing::Chunked if is_last => last_chunk(request, source.trailers()),
            _ => Bytes::new(),
        };
        let head = std::mem::take(&mut head);
        let parts = match framing {
            Framing::Chunked => {
                let size = chunked::ChunkHead::new(chunk.bytes.len() as u64);
                let size = Bytes::copy_from_slice(size.as_bytes());
                let after = Bytes::from_static(chunked::CHUNK_END);
                [head, size, chunk.bytes, after, end]
            }
            _ => [head, chunk.bytes, Bytes::new(), Bytes::new(), Bytes::new()],
        };
        write_while(stream, timer, request, pace, parts, Some(&mut *source)).await?;
        if is_last {
            log::error::write_late(request);
            return Ok(());
        }
    }
    let end = match framing {
        Framing::Chunked => last_chunk(request, source.trailers()),
        _ => Bytes::new(),
    };
    write_all(stream, timer, request, pace, [head, end]).await
}

/// The next piece if it is there already; `None` if it is not.
async fn now(
    source: &mut dyn BodyStream,
) -> Option<Option<Result<crate::http::body::Chunk, crate::http::body::BodyError>>> {
    std::future::poll_fn(|context| {
        Poll::Ready(match source.poll_chunk(context) {
            Poll::Ready(next) => Some(next),
            Poll::Pending => None,
        })
    })
    .await
}
