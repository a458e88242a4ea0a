//! A response's body as frames: as much at a time as the stream's window, the pace and the frames' size allow.

use super::fields;
use super::stream::{FRAME_HEAD, Sending, Stream};
use super::turns::{Piece, Turn};
use crate::connection::writer::SendError;
use crate::connection::writer::pace::Pace;
use crate::http::Request;
use crate::http::body::{BodyError, BodyStream, Chunk};
use crate::http::client_stream::ClientStream;
use crate::log;
use crate::net::Timer;
use bytes::Bytes;
use h2::SendStream;
use std::io;
use std::task::{Context, Poll, Waker};

/// What a stream asks of its window at a time, so that others have their share.
const RESERVED_MAX: u64 = 64 * 1024;

/// A body on its way.
pub struct Sender<'r> {
    request: &'r Request,
    stream: &'r Stream,
    /// The most a frame holds.
    chunk: usize,
    timer: Timer,
    pace: Pace,
    turn: Turn,
}

/// The client or the connection has gone.
pub fn closed() -> SendError {
    SendError::Io(io::ErrorKind::ConnectionReset.into())
}

pub fn failed(error: h2::Error) -> SendError {
    error.into_io().map_or_else(closed, SendError::Io)
}

impl<'r> Sender<'r> {
    pub fn new(request: &'r Request, stream: &'r Stream) -> Sender<'r> {
        Sender {
            request,
            stream,
            chunk: request.location().settings.http2.chunk_size as usize,
            timer: Timer::default(),
            pace: Pace::new(request),
            turn: stream.turn(),
        }
    }

    /// Sends what the window and the pace let through now; gives what is left.
    pub fn at_once(&mut self, mut bytes: Bytes, ends: bool) -> Result<Bytes, SendError> {
        let mut context = Context::from_waker(Waker::noop());
        if self.pace.is_unlimited() && self.turn.poll(&mut context).is_ready() {
            let room = self.reserve(bytes.len() as u64)?;
            let now = bytes.split_to(room.min(bytes.len()));
            self.frames(now, ends && bytes.is_empty())?;
        }
        Ok(bytes)
    }

    /// Sends memory; meanwhile `source`, where there is one, may collect what comes for it.
    pub async fn memory(
        &mut self,
        mut bytes: Bytes,
        ends: bool,
        mut source: Option<&mut dyn BodyStream>,
    ) -> Result<(), SendError> {
        while !bytes.is_empty() {
            let admitted = self.pace.admit(bytes.len() as u64).await;
            self.turn(&mut source).await?;
            let room = match self.reserve(admitted.min(RESERVED_MAX))? {
                0 => self.room(&mut source).await?,
                room => room,
            };
            let now = bytes.split_to(room.min(admitted as usize).min(bytes.len()));
            self.pace.sent += now.len() as u64;
            self.frames(now, ends && bytes.is_empty())?;
        }
        Ok(())
    }

    /// Sends what a source gives, and its trailer fields.
    pub async fn pieces(
        &mut self,
        source: &mut dyn BodyStream,
        expects_trailers: bool,
    ) -> Result<(), SendError> {
        let mut ahead = None;
        loop {
            let next: Option<Result<Chunk, BodyError>> = match ahead.take() {
                Some(next) => next,
                None => std::future::poll_fn(|context| source.poll_chunk(context)).await,
            };
            log::error::write_late(self.request);
            let Some(chunk) = next else { break };
            let Ok(chunk) = chunk else {
                return Err(SendError::Truncated);
            };
            if chunk.bytes.is_empty() {
                continue;
            }
            ahead = std::future::poll_fn(|context| Poll::Ready(now(source, context))).await;
            let is_last = matches!(ahead, Some(None)) && !expects_trailers;
            let trailers = match is_last {
                true => source.trailers(),
                false => Vec::new(),
            };
            let ends = is_last && trailers.is_empty();
            let waiting: Option<&mut dyn BodyStream> = Some(&mut *source);
            self.memory(chunk.bytes, ends, waiting).await?;
            if is_last {
                log::error::write_late(self.request);
                return match ends {
                    true => Ok(()),
                    false => self.end(&trailers),
                };
            }
        }
        self.end(&source.trailers())
    }

    /// Ends the body: with trailer fields if there are any.
    pub fn end(&mut self, of_source: &[(Bytes, Bytes)]) -> Result<(), SendError> {
        let trailers = fields::trailers(self.request, of_source);
        if trailers.is_empty() {
            return self.frames(Bytes::new(), true);
        }
        self.count_head(fields::length(&trailers));
        self.with(|sending| sending.send_trailers(trailers).map_err(failed))
    }

    fn with<T>(
        &self,
        act: impl FnOnce(&mut SendStream<Piece>) -> Result<T, SendError>,
    ) -> Result<T, SendError> {
        match &mut *self.stream.sending.borrow_mut() {
            Sending::Begun(sending) => act(sending),
            Sending::Awaiting(_) => Err(closed()),
        }
    }

    /// Asks for room in the window; gives what is there at once.
    fn reserve(&self, wanted: u64) -> Result<usize, SendError> {
        self.with(|sending| {
            sending.reserve_capacity(wanted as usize);
            Ok(sending.capacity())
        })
    }

    /// Waits for its turn. Others may be before it for long: a connection on which nothing moves is given up as a whole.
    async fn turn(&mut self, source: &mut Option<&mut dyn BodyStream>) -> Result<(), SendError> {
        std::future::poll_fn(|context| {
            if self.turn.poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if self.stream.poll_reset(context).is_ready() {
                return Poll::Ready(Err(closed()));
            }
            if let Some(source) = source {
                source.poll_fill(context);
            }
            Poll::Pending
        })
        .await
    }

    /// Waits for the room that was asked for, no longer than `send_timeout`.
    async fn room(&mut self, source: &mut Option<&mut dyn BodyStream>) -> Result<usize, SendError> {
        let settings = &self.request.location().settings.transmission;
        self.timer.set(settings.send_timeout_ms);
        let (stream, timer) = (self.stream, &mut self.timer);
        let room = std::future::poll_fn(|context| {
            let polled = match &mut *stream.sending.borrow_mut() {
                Sending::Begun(sending) => sending.poll_capacity(context),
                Sending::Awaiting(_) => Poll::Ready(None),
            };
            match polled {
                Poll::Ready(Some(Ok(room))) if room > 0 => return Poll::Ready(Ok(room)),
                Poll::Ready(Some(Ok(_))) => context.waker().wake_by_ref(),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(failed(error))),
                Poll::Ready(None) => return Poll::Ready(Err(closed())),
                Poll::Pending => {}
            }
            if let Some(source) = source {
                source.poll_fill(context);
            }
            timer
                .poll_expired(context)
                .map(|()| Err(SendError::TimedOut))
        })
        .await;
        self.timer.clear();
        room
    }

    /// Gives frames to the library, which has room for them.
    fn frames(&self, mut bytes: Bytes, ends: bool) -> Result<(), SendError> {
        self.with(|sending| {
            loop {
                let frame = bytes.split_to(bytes.len().min(self.chunk));
                self.count(frame.len() as u64);
                let is_last = bytes.is_empty();
                if !frame.is_empty() || ends {
                    sending
                        .send_data(self.stream.piece(frame), ends && is_last)
                        .map_err(failed)?;
                }
                if is_last {
                    return Ok(());
                }
            }
        })
    }

    /// Counts a frame of data. As in nginx `$bytes_sent` has the frame's head in it and `$body_bytes_sent` has not.
    fn count(&self, bytes: u64) {
        self.count_head(FRAME_HEAD);
        let sent = &self.request.sent.bytes;
        sent.set(sent.get() + bytes);
    }

    /// Counts what is sent and is not the body.
    fn count_head(&self, bytes: u64) {
        let sent = &self.request.sent;
        sent.bytes.set(sent.bytes.get() + bytes);
        sent.header_bytes.set(sent.header_bytes.get() + bytes);
    }
}

/// The next piece if it is there already; `None` if it is not.
fn now(
    source: &mut dyn BodyStream,
    context: &mut Context<'_>,
) -> Option<Option<Result<Chunk, BodyError>>> {
    match source.poll_chunk(context) {
        Poll::Ready(next) => Some(next),
        Poll::Pending => None,
    }
}
