//! Reading a request's head off a connection: `read_head`, until it is whole, refused, or the client is gone.

use super::{Http1, new_request};
use crate::config::Generation;
use crate::http::counters::Activity;
use crate::http::{Request, thread};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use wire::http1::Error as HeadError;
use wire::http1::request::Parser;

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
    /// Nothing came yet, and another configuration is in force now.
    Stale,
}

thread_local! {
    static PARSER: RefCell<Parser> = RefCell::new(Parser::new());
}

impl Http1 {
    /// Reads until a head is whole. An idle connection waits here with nothing of its own allocated.
    pub async fn read_head(
        &mut self,
        generation: &Rc<Generation>,
        header_timeout_ms: u64,
        limits: &wire::http1::request::Limits,
    ) -> HeadRead {
        let mut started_ms = None;
        let mut parser: Option<Box<Parser>> = None;
        if !self.pending.is_empty() {
            started_ms = Some(thread::monotonic_ms());
            let mut fresh = Box::new(Parser::new());
            match fresh.parse(&self.pending, limits) {
                Ok(None) => {
                    self.counted.set(Activity::Reading);
                    parser = Some(fresh);
                }
                parsed => {
                    let mut request = new_request(generation, &self.info, thread::monotonic_ms());
                    fresh.exchange_head(&mut request.head);
                    return self
                        .finish_head(request, parsed.map(|length| length.unwrap_or_default()));
                }
            }
            self.timer.set(header_timeout_ms);
        }
        std::future::poll_fn(|context| {
            loop {
                match self.poll_read_head(context, generation, limits, &mut parser, &mut started_ms)
                {
                    Poll::Ready(Some(read)) => return Poll::Ready(read),
                    // Part of a head came: from now on it must be whole within its timeout.
                    Poll::Ready(None) => {
                        if started_ms.is_none() {
                            started_ms = Some(thread::monotonic_ms());
                            self.counted.set(Activity::Reading);
                            self.timer.set(header_timeout_ms);
                        }
                    }
                    Poll::Pending => {
                        self.waited = true;
                        break;
                    }
                }
            }
            if started_ms.is_none() {
                if self.place.is_unwanted() {
                    let least_ms = self.kept_until_ms.saturating_sub(thread::monotonic_ms());
                    if least_ms == 0 {
                        return Poll::Ready(HeadRead::Closed);
                    }
                    if self.shared.is_shutting_down() {
                        self.timer.set(least_ms);
                    }
                }
                if !self.shared.is_current(generation) {
                    return Poll::Ready(HeadRead::Stale);
                }
                self.place.leave_waker(context);
            }
            match self.timer.poll_expired(context) {
                Poll::Ready(()) => Poll::Ready(HeadRead::TimedOut {
                    partial: started_ms.is_some(),
                }),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// One read: `Ready(None)` if more is needed.
    fn poll_read_head(
        &mut self,
        context: &mut Context<'_>,
        generation: &Rc<Generation>,
        limits: &wire::http1::request::Limits,
        parser: &mut Option<Box<Parser>>,
        started_ms: &mut Option<u64>,
    ) -> Poll<Option<HeadRead>> {
        let woken = std::mem::take(&mut self.waited);
        let pending = &mut self.pending;
        let info = &self.info;
        let polled = self.stream.poll_read(context, |bytes| {
            if bytes.is_empty() {
                return None;
            }
            let started = started_ms.unwrap_or_else(thread::monotonic_ms);
            let new_request = || new_request(generation, info, started);
            if pending.is_empty() && parser.is_none() {
                return Some(PARSER.with(|shared| {
                    let mut shared = shared.borrow_mut();
                    shared.reset();
                    match shared.parse(bytes, limits) {
                        Ok(Some(length)) => {
                            let mut request = new_request();
                            shared.exchange_head(&mut request.head);
                            request.buffer.extend_from_slice(&bytes[..length]);
                            pending.extend_from_slice(&bytes[length..]);
                            Some(Ok(request))
                        }
                        Ok(None) => {
                            pending.extend_from_slice(bytes);
                            let mut owned = Box::new(Parser::new());
                            std::mem::swap(&mut *owned, &mut *shared);
                            *parser = Some(owned);
                            None
                        }
                        Err(error) => {
                            let mut request = new_request();
                            shared.exchange_head(&mut request.head);
                            request.buffer.extend_from_slice(bytes);
                            Some(Err((request, error)))
                        }
                    }
                }));
            }
            pending.extend_from_slice(bytes);
            let parser = parser.get_or_insert_default();
            match parser.parse(pending, limits) {
                Ok(Some(length)) => {
                    let mut request = new_request();
                    parser.exchange_head(&mut request.head);
                    request.buffer.extend_from_slice(&pending[..length]);
                    pending.drain(..length);
                    Some(Some(Ok(request)))
                }
                Ok(None) => Some(None),
                Err(error) => {
                    let mut request = new_request();
                    parser.exchange_head(&mut request.head);
                    request.buffer = std::mem::take(pending);
                    Some(Some(Err((request, error))))
                }
            }
        });
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Some(HeadRead::Ended(Some(error)))),
            Poll::Ready(Ok(None)) => Poll::Ready(Some(HeadRead::Ended(None))),
            Poll::Ready(Ok(Some(None))) => Poll::Ready(None),
            Poll::Ready(Ok(Some(Some(Ok(mut request))))) => {
                request.read_with_turn = woken;
                Poll::Ready(Some(HeadRead::Request(request)))
            }
            Poll::Ready(Ok(Some(Some(Err((request, error)))))) => {
                Poll::Ready(Some(HeadRead::Refused(request, error)))
            }
        }
    }

    /// A head that was whole in the bytes received before.
    fn finish_head(
        &mut self,
        mut request: Box<Request>,
        parsed: Result<usize, HeadError>,
    ) -> HeadRead {
        match parsed {
            Ok(length) => {
                request.buffer.extend_from_slice(&self.pending[..length]);
                self.pending.drain(..length);
                HeadRead::Request(request)
            }
            Err(error) => {
                request.buffer = std::mem::take(&mut self.pending);
                HeadRead::Refused(request, error)
            }
        }
    }
}
