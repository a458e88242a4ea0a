//! Sending a request to an upstream: its head, and its body from memory, a file, or the client as it comes.

use super::failure::{Failure, Stage};
use crate::http::body::FileRange;
use crate::http::{Interrupt, Request};
use crate::net::{Stream, Timer};
use crate::request_body::read::Reader;
use bytes::Bytes;
use std::io;
use std::task::{Context, Poll};
use wire::fastcgi;
use wire::http1::chunked;

/// Bytes of a file that are read at once.
const PIECE: u64 = 64 * 1024;
/// Bodies up to this size go out in one piece with the head.
const JOINED_MAX: usize = 16 * 1024;

/// How pieces of a body are wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrap {
    Plain,
    Chunked,
    /// Records of standard input.
    Records,
}

/// Where a request's body comes from.
pub enum Source {
    None,
    Memory(Bytes),
    File(FileRange),
    /// The client, as it sends it.
    Client(Box<Reader>),
}

/// Why sending ended early.
pub enum NotSent {
    Failure(Failure),
    /// The client's body could not be read: there is nobody to be asked again.
    Interrupt(Interrupt),
}

/// A request on its way out.
pub struct Sender {
    buffer: Vec<u8>,
    at: usize,
    source: Source,
    wrap: Wrap,
    /// Nothing will follow what is in the buffer.
    last: bool,
}

impl Sender {
    /// `head` is what goes first; records of a program end with an empty one even where there is no body.
    pub fn new(head: Vec<u8>, source: Source, wrap: Wrap) -> Sender {
        let is_none = matches!(source, Source::None);
        let mut sender = Sender {
            buffer: head,
            at: 0,
            source,
            wrap,
            last: false,
        };
        if is_none {
            // Neither a length nor chunks were announced; programs want to be told.
            match wrap {
                Wrap::Records => sender.end(),
                Wrap::Plain | Wrap::Chunked => sender.last = true,
            }
        } else if let Source::Memory(bytes) = &mut sender.source
            && bytes.len() <= JOINED_MAX
        {
            let bytes = std::mem::take(bytes);
            sender.wrap(&bytes);
            sender.end();
        }
        sender
    }

    /// Sends all, or as much as the upstream wants to have before it answers: then false. `sent` counts the bytes.
    pub async fn send(
        &mut self,
        stream: &Stream,
        request: &mut Request,
        timer: &mut Timer,
        sent: &std::cell::Cell<u64>,
    ) -> Result<bool, NotSent> {
        let relay = super::relay::settings(request);
        let (timeout_ms, ignore_abort) = (relay.send_timeout_ms, !relay.heeds_client(request));
        let mut waiting = false;
        let result = std::future::poll_fn(|context| {
            loop {
                match self.poll_step(stream, request, context, sent) {
                    Poll::Ready(Ok(true)) if self.is_done() => return Poll::Ready(Ok(true)),
                    Poll::Ready(Ok(true)) => {
                        waiting = false;
                        continue;
                    }
                    Poll::Ready(Ok(false)) => return Poll::Ready(Ok(false)),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {}
                }
                if !ignore_abort
                    && !matches!(self.source, Source::Client(_))
                    && request.poll_client_ended(context).is_ready()
                {
                    let gone = Failure::ClientGone(Stage::Sending);
                    return Poll::Ready(Err(NotSent::Failure(gone)));
                }
                // While the client is slow its own timeout holds.
                if self.at < self.buffer.len() {
                    if !std::mem::replace(&mut waiting, true) {
                        timer.set(timeout_ms);
                    }
                    if timer.poll_expired(context).is_ready() {
                        let late = Failure::TimedOut(Stage::Sending);
                        return Poll::Ready(Err(NotSent::Failure(late)));
                    }
                }
                return Poll::Pending;
            }
        })
        .await;
        timer.clear();
        result
    }

    /// The next piece of the body for a protocol that wraps it itself, and whether it is the last one. A body that the
    /// client has yet to send takes its `request`.
    pub fn poll_piece(
        &mut self,
        request: Option<&mut Request>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(Bytes, bool), NotSent>> {
        if self.buffer.is_empty() && !self.last {
            std::task::ready!(self.poll_refill(request, context))?;
        }
        let piece = Bytes::from(std::mem::take(&mut self.buffer));
        Poll::Ready(Ok((piece, self.last)))
    }

    /// Whether there is no body, and never was one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.last && self.buffer.is_empty()
    }

    /// Whether the body comes from the client while it is sent.
    #[must_use]
    pub fn reads_client(&self) -> bool {
        !self.last && matches!(self.source, Source::Client(_))
    }

    fn is_done(&self) -> bool {
        self.last && self.at == self.buffer.len()
    }

    /// Writes what it can or fetches the next piece. False: the upstream answers already.
    fn poll_step(
        &mut self,
        stream: &Stream,
        request: &mut Request,
        context: &mut Context<'_>,
        sent: &std::cell::Cell<u64>,
    ) -> Poll<Result<bool, NotSent>> {
        if self.at == self.buffer.len() {
            if self.last {
                return Poll::Ready(Ok(true));
            }
            return match self.poll_refill(Some(request), context) {
                Poll::Ready(Ok(())) => Poll::Ready(Ok(true)),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => poll_answer(stream, context).map(|()| Ok(false)),
            };
        }
        // What the client has not sent yet is not worth waiting for.
        let more = !self.last && !matches!(self.source, Source::Client(_));
        match stream.try_send(&self.buffer[self.at..], more) {
            Ok(count) => {
                self.at += count;
                sent.set(sent.get() + count as u64);
                Poll::Ready(Ok(true))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                stream.clear_writable();
                if let Poll::Ready(ready) = stream.poll_writable(context) {
                    let ready = ready.map(|()| true);
                    return Poll::Ready(ready.map_err(|error| failed("epoll_ctl()", error)));
                }
                poll_answer(stream, context).map(|()| Ok(false))
            }
            // It may have said why before it closed.
            Err(_) if poll_answer(stream, context).is_ready() => Poll::Ready(Ok(false)),
            Err(error) => Poll::Ready(Err(failed("send()", error))),
        }
    }

    /// Puts the next piece of the body into the buffer.
    fn poll_refill(
        &mut self,
        request: Option<&mut Request>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), NotSent>> {
        self.buffer.clear();
        self.at = 0;
        match &mut self.source {
            Source::None => self.last = true,
            Source::Memory(bytes) => {
                let bytes = std::mem::take(bytes);
                self.wrap(&bytes);
                self.end();
            }
            Source::File(range) => {
                let mut piece = vec![0; range.length.min(PIECE) as usize];
                let read = sys::io::pread(&range.file.fd, &mut piece, range.offset);
                let read = read.map_err(|error| failed("pread()", error))?;
                if read == 0 && range.length > 0 {
                    let error = io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Poll::Ready(Err(failed("pread()", error)));
                }
                range.offset += read as u64;
                range.length -= read as u64;
                let is_last = range.length == 0;
                self.wrap(&piece[..read]);
                if is_last {
                    self.end();
                }
            }
            Source::Client(reader) => {
                let Some(request) = request else {
                    return Poll::Pending;
                };
                let mut piece = Vec::new();
                let more = match reader.poll_more(request, context, &mut piece) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(more) => more.map_err(NotSent::Interrupt)?,
                };
                self.wrap(&piece);
                if !more {
                    self.end();
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn wrap(&mut self, piece: &[u8]) {
        match self.wrap {
            Wrap::Plain => self.buffer.extend_from_slice(piece),
            Wrap::Chunked if piece.is_empty() => {}
            Wrap::Chunked => chunked::encode(piece, &mut self.buffer),
            Wrap::Records => fastcgi::stdin(&mut self.buffer, piece),
        }
    }

    fn end(&mut self) {
        self.last = true;
        match self.wrap {
            Wrap::Plain => {}
            Wrap::Chunked => self.buffer.extend_from_slice(chunked::LAST_CHUNK),
            Wrap::Records => self.buffer.extend_from_slice(&fastcgi::STDIN_END),
        }
    }
}

/// Ready when the upstream has really sent something, or closed: what the runtime last heard may be out of date.
fn poll_answer(stream: &Stream, context: &mut Context<'_>) -> Poll<()> {
    loop {
        std::task::ready!(stream.poll_readable(context));
        if !stream.is_quiet() {
            return Poll::Ready(());
        }
    }
}

fn failed(call: &str, error: io::Error) -> NotSent {
    NotSent::Failure(Failure::call(call, error, Stage::Sending))
}
