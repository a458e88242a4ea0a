//! Reading a request's body off its connection: whole, into memory or a temporary file, or piece by piece.

use super::{CONTINUE, InFile, expects_continue};
use crate::http::client_stream::Gone;
use crate::http::request::{Connection, Incoming, RequestBody};
use crate::http::temp_file::TempFile;
use crate::http::{Interrupt, Phase, Request};
use crate::log::error::{Level, write_request};
use crate::net::Timer;
use bytes::Bytes;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::task::{Context, Poll};
use sys::errno::Errno;

/// A body being read.
pub struct Reader {
    timer: Timer,
    timeout_ms: u64,
    /// Body bytes so far, without the framing of chunks.
    decoded: u64,
    max_size: u64,
    waiting: bool,
}

impl Reader {
    /// Begins to read, and tells a client that waits for it to send its body.
    pub fn begin(request: &mut Request) -> Phase<Reader> {
        let settings = &request.location().settings.request_body;
        let (timeout_ms, max_size) = (settings.timeout_ms, settings.max_size);
        if !request.continued && expects_continue(request) {
            request.continued = true;
            match request.connection.stream.try_send(CONTINUE, false) {
                Ok(sent) if sent == CONTINUE.len() => request.sent.bytes.set(sent as u64),
                _ => return Err(gone(request)),
            }
        }
        Ok(Reader {
            timer: Timer::default(),
            timeout_ms,
            decoded: 0,
            max_size,
            waiting: false,
        })
    }

    /// Appends the next piece of the body to `out`; false once the body is whole.
    pub async fn more(&mut self, request: &mut Request, out: &mut Vec<u8>) -> Phase<bool> {
        std::future::poll_fn(|context| self.poll_more(request, context, out)).await
    }

    pub fn poll_more(
        &mut self,
        request: &mut Request,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Phase<bool>> {
        if matches!(request.incoming, Incoming::Done) {
            return Poll::Ready(Ok(false));
        }
        if matches!(request.incoming, Incoming::Stream) {
            return self.poll_stream(request, context, out);
        }
        let connection = Rc::clone(&request.connection);
        if !connection.pending.borrow().is_empty() {
            let pending = connection.pending.take();
            let taken = self.take(request, &connection, &pending, out);
            return Poll::Ready(taken);
        }
        let polled = connection.stream.poll_read(context, |bytes| match bytes {
            [] => None,
            bytes => Some(self.take(request, &connection, bytes, out)),
        });
        match polled {
            Poll::Ready(Ok(Some(taken))) => {
                self.waiting = false;
                Poll::Ready(taken)
            }
            Poll::Ready(Ok(None)) => {
                let message = format_args!("client prematurely closed connection");
                write_request(request, Level::Info, message);
                Poll::Ready(Err(gone(request)))
            }
            Poll::Ready(Err(error)) => {
                let reason = Errno(&error);
                write_request(
                    request,
                    Level::Info,
                    format_args!("recv() failed ({reason})"),
                );
                Poll::Ready(Err(gone(request)))
            }
            Poll::Pending => self.wait(request, context),
        }
    }

    /// Nothing has come: it may take `client_body_timeout`.
    fn wait(&mut self, request: &mut Request, context: &mut Context<'_>) -> Poll<Phase<bool>> {
        if !std::mem::replace(&mut self.waiting, true) {
            self.timer.set(self.timeout_ms);
        }
        self.timer.poll_expired(context).map(|()| {
            request.keep_alive = false;
            request.incoming = Incoming::Done;
            Err(Interrupt::Status(408))
        })
    }

    /// The next piece of a body that the request's stream brings.
    fn poll_stream(
        &mut self,
        request: &mut Request,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Phase<bool>> {
        let polled = match &request.stream {
            Some(stream) => stream.poll_data(context),
            None => Poll::Ready(None),
        };
        let bytes = match polled {
            Poll::Pending => return self.wait(request, context),
            Poll::Ready(None) => {
                request.incoming = Incoming::Done;
                return Poll::Ready(Ok(false));
            }
            Poll::Ready(Some(Err(Gone::WrongLength))) => {
                let message =
                    format_args!("client sent a body of another length than it announced");
                write_request(request, Level::Info, message);
                request.incoming = Incoming::Done;
                return Poll::Ready(Err(Interrupt::Status(400)));
            }
            Poll::Ready(Some(Err(Gone::Closed))) => {
                let message = format_args!("client prematurely closed stream");
                write_request(request, Level::Info, message);
                return Poll::Ready(Err(gone(request)));
            }
            Poll::Ready(Some(Ok(bytes))) => bytes,
        };
        self.waiting = false;
        let came = bytes.len() as u64;
        request.received.set(request.received.get() + came);
        let former = self.decoded;
        self.decoded += came;
        if request.chunked && self.max_size != 0 && self.decoded > self.max_size {
            write_request(
                request,
                Level::Error,
                format_args!(
                    "client intended to send too large chunked body: {former}+{came} bytes"
                ),
            );
            request.body_refused = true;
            return Poll::Ready(Err(Interrupt::Status(413)));
        }
        out.extend_from_slice(&bytes);
        Poll::Ready(Ok(true))
    }

    /// Takes what `bytes` hold of the body; what follows it stays with the connection.
    fn take(
        &mut self,
        request: &mut Request,
        connection: &Connection,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Phase<bool> {
        let before = out.len();
        let taken = decode(&mut request.incoming, bytes, out);
        let Ok(taken) = taken else {
            write_request(
                request,
                Level::Error,
                format_args!("client sent invalid chunked body"),
            );
            request.incoming = Incoming::Done;
            return Err(Interrupt::Status(400));
        };
        request.received.set(request.received.get() + taken as u64);
        connection
            .pending
            .borrow_mut()
            .extend_from_slice(&bytes[taken..]);
        let came = (out.len() - before) as u64;
        self.decoded += came;
        // What a chunk announces counts before it comes.
        let announced = match &request.incoming {
            Incoming::Chunked(decoder) => decoder.left_in_chunk(),
            _ => 0,
        };
        let piece = came.saturating_add(announced);
        if request.chunked
            && self.max_size != 0
            && self.decoded.saturating_add(announced) > self.max_size
        {
            let former = self.decoded - came;
            write_request(
                request,
                Level::Error,
                format_args!(
                    "client intended to send too large chunked body: {former}+{piece} bytes"
                ),
            );
            request.body_refused = true;
            return Err(Interrupt::Status(413));
        }
        Ok(!matches!(request.incoming, Incoming::Done))
    }
}

/// Appends the body bytes of `bytes` to `out`; returns how many bytes were of the body and its framing.
fn decode(
    incoming: &mut Incoming,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<usize, wire::http1::Error> {
    match incoming {
        Incoming::Done | Incoming::Stream => Ok(0),
        Incoming::Length(left) => {
            let taken = (bytes.len() as u64).min(*left);
            *left -= taken;
            if *left == 0 {
                *incoming = Incoming::Done;
            }
            out.extend_from_slice(&bytes[..taken as usize]);
            Ok(taken as usize)
        }
        Incoming::Chunked(decoder) => {
            let mut at = 0;
            while at < bytes.len() {
                let step = decoder.decode(&bytes[at..])?;
                out.extend_from_slice(&bytes[at..][step.data.clone()]);
                at += step.consumed;
                if step.done {
                    *incoming = Incoming::Done;
                    break;
                }
                if step.consumed == 0 {
                    break;
                }
            }
            Ok(at)
        }
    }
}

/// The client is not there any more: nothing can be answered.
fn gone(request: &mut Request) -> Interrupt {
    request.keep_alive = false;
    request.incoming = Incoming::Done;
    request.sent.status.set(400);
    Interrupt::Hangup
}

/// Reads the whole body, as `client_body_buffer_size` and `client_body_in_file_only` say. Once read, it stays with the
/// request; a request without a body has none to read.
pub async fn read(request: &mut Request) -> Phase {
    if !matches!(request.body, RequestBody::Unread) || !super::unread(request) {
        return Ok(());
    }
    let settings = &request.location().settings.request_body;
    let in_file_only = settings.in_file_only != InFile::Off;
    let size = settings.buffer_size;
    // As in nginx, a body that is a little larger than the buffer gets a buffer of its own size.
    let in_memory = match request.content_length {
        Some(length) if length < size + size / 4 => length,
        _ => size,
    };
    let mut reader = Reader::begin(request)?;
    let expected = request.content_length.unwrap_or(0).min(in_memory);
    let mut memory = Vec::with_capacity(expected as usize);
    let mut file = None;
    loop {
        let more = reader.more(request, &mut memory).await?;
        let is_full = memory.len() as u64 > in_memory || (more && memory.len() as u64 == in_memory);
        if file.is_some() || is_full || (!more && in_file_only) {
            spill(request, &mut file, &memory)?;
            memory.clear();
        }
        if !more {
            break;
        }
    }
    request.body = match file {
        Some(file) => RequestBody::File(Rc::new(file)),
        None => RequestBody::Memory(Bytes::from(memory)),
    };
    Ok(())
}

/// Moves what was read to the file, which is made the first time.
fn spill(request: &Request, file: &mut Option<TempFile>, memory: &[u8]) -> Phase {
    let settings = &request.location().settings.request_body;
    let file = match file {
        Some(file) => file,
        None => {
            let mut created = settings
                .temp_path
                .create()
                .map_err(|(path, error)| failed(request, "open", &path, &error))?;
            created.stays = settings.in_file_only == InFile::On;
            if settings.in_file_only == InFile::Off {
                let path = created.path.display();
                write_request(
                    request,
                    Level::Warning,
                    format_args!("a client request body is buffered to a temporary file {path}"),
                );
            }
            file.insert(created)
        }
    };
    match file.write(memory) {
        Ok(()) => Ok(()),
        Err(error) => Err(failed(request, "pwrite", &file.path, &error)),
    }
}

fn failed(request: &Request, call: &str, path: &Path, error: &io::Error) -> Interrupt {
    let (path, reason) = (path.display(), Errno(error));
    write_request(
        request,
        Level::Critical,
        format_args!("{call}() \"{path}\" failed ({reason})"),
    );
    Interrupt::Status(500)
}
