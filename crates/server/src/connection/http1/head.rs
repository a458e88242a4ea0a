//! Reading a request's head off a connection: `poll_head`, until it is whole, refused, or the client is gone.

use super::{Http1, new_request};
use crate::config::Generation;
use crate::connection::request_head;
use crate::http::counters::Activity;
use crate::http::request::Connection;
use crate::http::{Request, thread};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use wire::http1::Error as HeadError;
use wire::http1::request::{Limits, Parser};
use wire::http2::PREFACE;

/// How the reading of a head ended.
pub enum HeadRead {
    /// So many bytes of `pending` or the read buffer are the head; they are in the request.
    Request(Box<Request>),
    Refused(Box<Request>, HeadError),
    /// The server ends the connection.
    Closed,
    /// The client has ended it, perhaps with an error.
    Ended(Option<io::Error>),
    TimedOut {
        partial: bool,
    },
    /// The client speaks HTTP/2: its preface is in `pending`, with what followed it.
    Http2,
    /// Nothing came yet, and another configuration is in force now.
    Stale,
}

/// A head of which a part was received; the bytes are in `pending`.
pub struct Partial {
    parser: Parser,
    started_ms: u64,
}

/// What reading some bytes made of the head.
enum Progress {
    Whole(Box<Request>),
    Refused(Box<Request>, HeadError),
    More,
    /// The preface of HTTP/2.
    Http2,
}

thread_local! {
    static PARSER: RefCell<Parser> = RefCell::new(Parser::new());
}

impl Http1 {
    /// Ready when a head is whole, or none will be. An idle connection waits here with nothing of its own allocated.
    pub fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<HeadRead> {
        if self.partial.is_none() && !self.info.pending.borrow().is_empty() {
            match self.read_pending() {
                Progress::Whole(request) => return Poll::Ready(HeadRead::Request(request)),
                Progress::Refused(request, error) => {
                    return Poll::Ready(HeadRead::Refused(request, error));
                }
                Progress::Http2 => return Poll::Ready(HeadRead::Http2),
                Progress::More => self.begin_timeout(),
            }
        }
        loop {
            let began = self.partial.is_some();
            match self.poll_progress(context) {
                Poll::Ready(Ok(Progress::Whole(request))) => {
                    return Poll::Ready(HeadRead::Request(request));
                }
                Poll::Ready(Ok(Progress::Refused(request, error))) => {
                    return Poll::Ready(HeadRead::Refused(request, error));
                }
                // Part of a head came: from now on it must be whole within its timeout.
                Poll::Ready(Ok(Progress::More)) if !began => self.begin_timeout(),
                Poll::Ready(Ok(Progress::Http2)) => return Poll::Ready(HeadRead::Http2),
                Poll::Ready(Ok(Progress::More)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(HeadRead::Ended(error)),
                Poll::Pending => break,
            }
        }
        self.waited = true;
        if self.partial.is_none()
            && let Some(read) = self.is_to_stop_waiting(context)
        {
            return Poll::Ready(read);
        }
        self.timer
            .poll_expired(context)
            .map(|()| HeadRead::TimedOut {
                partial: self.partial.is_some(),
            })
    }

    /// Nothing of a head came yet: whether the server wants the connection to end, or to serve another configuration.
    /// One that was just made is not idle: as in nginx its first request is answered even while the server shuts down.
    fn is_to_stop_waiting(&mut self, context: &Context<'_>) -> Option<HeadRead> {
        let is_idle = self.info.requests.get() > 0;
        if self.place.is_asked() || (is_idle && self.shared.is_shutting_down()) {
            let least_ms = self.kept_until_ms.saturating_sub(thread::monotonic_ms());
            if least_ms == 0 {
                return Some(HeadRead::Closed);
            }
            if self.shared.is_shutting_down() {
                self.timer.set(least_ms);
            }
        }
        if !self.shared.is_current(&self.generation) {
            return Some(HeadRead::Stale);
        }
        self.place.leave_waker(context);
        None
    }

    /// Whether the first bytes of the connection may be those of HTTP/2.
    fn may_be_http2(&self) -> bool {
        // With TLS the handshake has settled it.
        if self.info.is_tls() {
            return false;
        }
        let listener = &self.generation.config.http.listens[self.listener];
        let server = self.generation.config.server(listener.hosts.default);
        self.info.requests.get() == 0 && (listener.listen.http2 || server.settings.http2.on)
    }

    fn begin_timeout(&mut self) {
        self.counted.set(Activity::Reading);
        self.timer.set(self.head_settings().timeout_ms);
    }

    /// Makes a head of what was received with the request before.
    fn read_pending(&mut self) -> Progress {
        let limits = request_head::limits(self.head_settings());
        let started_ms = thread::monotonic_ms();
        let mut partial = Box::new(Partial {
            parser: Parser::new(),
            started_ms,
        });
        let mut pending = self.info.pending.borrow_mut();
        let parsed = partial.parser.parse(&pending, &limits);
        let progress = progress(
            &self.generation,
            &self.info,
            &mut pending,
            &mut partial,
            parsed,
        );
        if matches!(progress, Progress::More) {
            self.partial = Some(partial);
        }
        progress
    }

    /// One read. The error is that of the connection; `None` is its end.
    fn poll_progress(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Progress, Option<io::Error>>> {
        // The last piece of a head may be younger than this turn.
        let woken = std::mem::take(&mut self.waited) && self.partial.is_none();
        let limits = request_head::limits(self.head_settings());
        let may_be_http2 = self.may_be_http2();
        let Http1 {
            info,
            partial,
            generation,
            ..
        } = self;
        let polled = info.stream.poll_read(context, |bytes| {
            if bytes.is_empty() {
                return None;
            }
            let pending = &mut *info.pending.borrow_mut();
            if may_be_http2 && let Some(progress) = preface(pending, bytes, partial) {
                return Some(progress);
            }
            let Some(begun) = partial else {
                return Some(first_bytes(
                    generation, info, pending, partial, bytes, &limits,
                ));
            };
            pending.extend_from_slice(bytes);
            let parsed = begun.parser.parse(pending, &limits);
            let progress = progress(generation, info, pending, begun, parsed);
            if !matches!(progress, Progress::More) {
                *partial = None;
            }
            Some(progress)
        });
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(Some(error))),
            Poll::Ready(Ok(None)) => Poll::Ready(Err(None)),
            Poll::Ready(Ok(Some(Progress::Whole(mut request)))) => {
                request.read_with_turn = woken;
                Poll::Ready(Ok(Progress::Whole(request)))
            }
            Poll::Ready(Ok(Some(progress))) => Poll::Ready(Ok(progress)),
        }
    }
}

/// Whether this is the preface of HTTP/2 or its beginning; `None` if it is neither.
fn preface(
    pending: &mut Vec<u8>,
    bytes: &[u8],
    partial: &mut Option<Box<Partial>>,
) -> Option<Progress> {
    let (before, length) = (pending.len(), PREFACE.len());
    let rest = PREFACE.get(before..)?;
    let count = rest.len().min(bytes.len());
    if !PREFACE.starts_with(pending) || rest.get(..count)? != bytes.get(..count)? {
        return None;
    }
    pending.extend_from_slice(bytes);
    if pending.len() >= length {
        *partial = None;
        return Some(Progress::Http2);
    }
    partial.get_or_insert_with(|| {
        Box::new(Partial {
            parser: Parser::new(),
            started_ms: thread::monotonic_ms(),
        })
    });
    Some(Progress::More)
}

/// The first bytes of a head, which are the whole of most: they are read where they lie.
fn first_bytes(
    generation: &Rc<Generation>,
    info: &Rc<Connection>,
    pending: &mut Vec<u8>,
    partial: &mut Option<Box<Partial>>,
    bytes: &[u8],
    limits: &Limits,
) -> Progress {
    PARSER.with(|shared| {
        let mut shared = shared.borrow_mut();
        shared.reset();
        let parsed = shared.parse(bytes, limits);
        let started_ms = thread::monotonic_ms();
        if let Ok(None) = parsed {
            pending.extend_from_slice(bytes);
            let mut begun = Box::new(Partial {
                parser: Parser::new(),
                started_ms,
            });
            std::mem::swap(&mut begun.parser, &mut *shared);
            *partial = Some(begun);
            return Progress::More;
        }
        let mut request = new_request(generation, info, started_ms);
        shared.exchange_head(&mut request.head);
        match parsed {
            Ok(length) => {
                let length = length.unwrap_or_default();
                request.buffer.extend_from_slice(&bytes[..length]);
                pending.extend_from_slice(&bytes[length..]);
                Progress::Whole(request)
            }
            Err(error) => {
                request.buffer.extend_from_slice(bytes);
                Progress::Refused(request, error)
            }
        }
    })
}

/// What has become of a head whose bytes are in `pending`.
fn progress(
    generation: &Rc<Generation>,
    info: &Rc<Connection>,
    pending: &mut Vec<u8>,
    partial: &mut Partial,
    parsed: Result<Option<usize>, HeadError>,
) -> Progress {
    if let Ok(None) = parsed {
        return Progress::More;
    }
    let mut request = new_request(generation, info, partial.started_ms);
    partial.parser.exchange_head(&mut request.head);
    match parsed {
        Ok(length) => {
            let length = length.unwrap_or_default();
            request.buffer.extend_from_slice(&pending[..length]);
            pending.drain(..length);
            Progress::Whole(request)
        }
        Err(error) => {
            request.buffer = std::mem::take(pending);
            Progress::Refused(request, error)
        }
    }
}
