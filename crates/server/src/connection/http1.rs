//! One HTTP/1 connection from accept to close: reads heads, has them answered, and decides whether it goes on.

mod handshake;
mod head;
mod proxy_header;

use self::handshake::Opened;
use self::head::{HeadRead, Partial};
use super::complaints;
use super::discard;
use super::http2::{Begun, Http2};
use super::keepalive::Lingering;
use super::request_head;
use super::secured;
use super::writer::{self, SendError, Unsent};
use crate::config::Generation;
use crate::http::counters::{Activity, Open};
use crate::http::request::{Buffers, Connection, Incoming};
use crate::http::{Body, Request, Response, thread};
use crate::listen::accept::{Place, Shared};
use crate::log;
use crate::log::error::Level;
use crate::net::Timer;
use crate::net::tunnel::{End, join};
use crate::pipeline::{self, hot};
use crate::request_body;
use std::cell::RefCell;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use wire::http1::Error as HeadError;
use wire::http1::Version;

/// What a connection does after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    KeepAlive,
    Close,
    /// Close with a reset (`reset_timedout_connection`, 444 with it).
    Reset,
    /// Read on for a while, so that the client gets the response before it sees the close.
    Linger,
}

/// One client's connection.
pub struct Http1 {
    pub timer: Timer,
    pub info: Rc<Connection>,
    pub shared: Rc<Shared>,
    place: Place,
    counted: Open,
    /// `keepalive_min_timeout`: until then an idle connection is not closed for the server's sake.
    kept_until_ms: u64,
    /// A read has said "nothing there" before.
    waited: bool,
    /// The configuration of the request being read, and the place of the connection's address in it.
    generation: Rc<Generation>,
    listener: usize,
    /// A head that has begun to come.
    partial: Option<Box<Partial>>,
}

/// What is left to do for a request.
enum Later {
    RefuseHead(Box<Request>, u16),
    Refuse(Box<Request>, u16),
    Exchange(Box<Request>),
    Finish(Box<Request>, Unsent),
}

/// Requests of one connection that are answered before the others have their turn.
const TURN_REQUESTS: u32 = 32;

/// Buffers of finished requests that a thread keeps for the next ones.
const SPARE_MAX: usize = 64;

thread_local! {
    static SPARE: RefCell<Vec<Buffers>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn new_request(
    generation: &Rc<Generation>,
    connection: &Rc<Connection>,
    started_ms: u64,
) -> Box<Request> {
    let buffers = SPARE
        .with(|spare| spare.borrow_mut().pop())
        .unwrap_or_default();
    Box::new(Request::new(
        Rc::clone(generation),
        Rc::clone(connection),
        started_ms,
        buffers,
    ))
}

/// Keeps a finished request's memory.
pub(super) fn recycle(request: Box<Request>) {
    let buffers = request.into_buffers();
    SPARE.with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < SPARE_MAX {
            spare.push(buffers);
        }
    });
}

impl Http1 {
    /// A connection; `None` if nobody listens at its address any more.
    #[must_use]
    pub fn new(info: Rc<Connection>, shared: Rc<Shared>, place: Place) -> Option<Http1> {
        let generation = shared.generation();
        let listener = shared.listener_index(&generation, &info)?;
        Some(Http1 {
            timer: Timer::default(),
            info,
            shared,
            place,
            counted: Open::accepted(),
            kept_until_ms: 0,
            waited: false,
            generation,
            listener,
            partial: None,
        })
    }

    /// The limits on heads of the address's default server.
    fn head_settings(&self) -> &request_head::Settings {
        let config = &self.generation.config;
        let server = config.http.listens[self.listener].hosts.default;
        &config.server(server).settings.request_head
    }

    /// Takes up the configuration in force; false if it does not listen here.
    fn is_up_to_date(&mut self) -> bool {
        if !self.shared.is_current(&self.generation) {
            self.generation = self.shared.generation();
            match self.shared.listener_index(&self.generation, &self.info) {
                Some(index) => self.listener = index,
                None => return false,
            }
        }
        true
    }

    /// Serves the connection until it ends.
    #[expect(
        clippy::manual_async_fn,
        reason = "an async function would keep `self` twice"
    )]
    pub fn serve(mut self) -> impl Future<Output = ()> {
        async move {
            let mut first = true;
            let (mut turn, mut served) = (thread::turn(), 0);
            while self.is_up_to_date() {
                if turn != thread::turn() {
                    (turn, served) = (thread::turn(), 0);
                } else if served >= TURN_REQUESTS {
                    tokio::task::yield_now().await;
                }
                served += 1;
                if first {
                    self.timer.set(self.head_settings().timeout_ms);
                    if self.expects_opening() {
                        match Box::pin(self.open()).await {
                            Opened::Closed => return,
                            Opened::Http2 => return self.change_to_http2().await,
                            Opened::Http1 => {}
                        }
                    }
                }
                let pipelined = !self.info.pending.borrow().is_empty();
                let read = std::future::poll_fn(|context| self.poll_head(context)).await;
                let next = match read {
                    HeadRead::Request(mut request) => {
                        request.pipelined = pipelined;
                        self.answer_at_once(request)
                    }
                    HeadRead::Refused(mut request, error) => {
                        request.pipelined = pipelined;
                        self.give_up(HeadRead::Refused(request, error), first)
                    }
                    HeadRead::Stale => continue,
                    HeadRead::Http2 => return self.change_to_http2().await,
                    read => self.give_up(read, first),
                };
                let next = match next {
                    Ok(next) => next,
                    // On the heap, so that an idle connection does not carry the room for it.
                    Err(later) => Box::pin(self.answer_later(later)).await,
                };
                self.counted.set(Activity::Waiting);
                match next {
                    Next::KeepAlive => first = false,
                    Next::Close => return,
                    Next::Reset => {
                        let _ = sys::socket::set_reset_on_close(&self.info.stream);
                        return;
                    }
                    Next::Linger => return Box::pin(self.linger()).await,
                }
            }
        }
    }

    /// The client has said that it speaks HTTP/2.
    fn change_to_http2(self) -> Pin<Box<impl Future<Output = ()>>> {
        let begun = Begun {
            info: self.info,
            shared: self.shared,
            place: self.place,
            counted: self.counted,
            generation: self.generation,
            listener: self.listener,
        };
        Box::pin(Http2::new(begun).serve())
    }

    /// No head was read: what the log says of it, and what the client still gets.
    fn give_up(&mut self, read: HeadRead, first: bool) -> Result<Next, Later> {
        let (generation, listener) = (Rc::clone(&self.generation), self.listener);
        match read {
            HeadRead::Ended(error) => {
                self.ended(&generation, listener, error);
                Ok(Next::Close)
            }
            HeadRead::TimedOut { partial: false } => {
                if first {
                    complaints::timed_out_waiting(&generation, listener, &self.info);
                }
                Ok(Next::Close)
            }
            HeadRead::TimedOut { partial: true } => {
                let mut request = self.partial_request(&generation);
                complaints::timed_out(&mut request, listener);
                Err(Later::RefuseHead(request, 408))
            }
            HeadRead::Refused(mut request, error) => {
                request_head::prepare_refused(&mut request, listener);
                if error == HeadError::InvalidHttp09Method {
                    request.version = Version::Http09;
                }
                let status = complaints::refused(&request, error);
                Err(Later::RefuseHead(request, status))
            }
            HeadRead::Closed | HeadRead::Stale | HeadRead::Http2 | HeadRead::Request(_) => {
                Ok(Next::Close)
            }
        }
    }

    /// Answers a request for which a response is ready; what needs more than one write is left for later.
    fn answer_at_once(&mut self, mut request: Box<Request>) -> Result<Next, Later> {
        self.info.requests.set(self.info.requests.get() + 1);
        self.counted.set(Activity::Writing);
        self.timer.clear();
        if let Err(status) = request_head::prepare(&mut request, self.listener) {
            return Err(Later::Refuse(request, status));
        }
        if let Err(status) = secured::check(&request, self.expects_tls()) {
            return Err(Later::Refuse(request, status));
        }
        request.keep_alive = request.keep_alive && !self.shared.is_shutting_down();
        let Some((ready, bytes)) = hot::find(&request) else {
            return Err(Later::Exchange(request));
        };
        ready.note(&mut request);
        if self.is_spent(&request) {
            request.keep_alive = false;
        }
        let Some(head) = ready.head(&request) else {
            return Err(Later::Exchange(request));
        };
        let sent = match writer::begin_ready(&self.info.stream, &request, head, bytes) {
            Ok(Some(unsent)) => return Err(Later::Finish(request, unsent)),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        let next = self.conclude(&request, sent);
        recycle(request);
        Ok(next)
    }

    /// Does what could not be done at once.
    async fn answer_later(&mut self, later: Later) -> Next {
        match later {
            Later::RefuseHead(request, status) => self.refuse(request, self.listener, status).await,
            Later::Refuse(request, status) => self.refuse_prepared(request, status).await,
            Later::Exchange(request) => self.exchange(request).await,
            Later::Finish(mut request, unsent) => self.finish(&mut request, Ok(Some(unsent))).await,
        }
    }

    /// Has a request answered by the phases and sends the response.
    async fn exchange(&mut self, mut request: Box<Request>) -> Next {
        let mut response = pipeline::phases::respond(&mut request).await;
        if request_body::unread(&request) {
            response = Box::pin(self.settle_body(&mut request, response)).await;
        }
        let Some(response) = response else {
            return self.hang_up(&request);
        };
        if self.is_spent(&request) {
            request.keep_alive = false;
        }
        let next = self.send(&mut request, response).await;
        if next == Next::KeepAlive && request_body::unread(&request) {
            return match Box::pin(discard::rest(self, &mut request)).await {
                true => self.keep_alive(&request),
                false => Next::Close,
            };
        }
        recycle(request);
        next
    }

    /// Takes what has come of a body that the response did not need, and says `100 Continue` where the client waits.
    async fn settle_body(
        &mut self,
        request: &mut Request,
        response: Option<Response>,
    ) -> Option<Response> {
        let response = response?;
        let refused = response.status >= 300;
        if let Err(error) = discard::pending(self, request) {
            log::error::write_request(request, Level::Error, format_args!("{error}"));
            request.keep_alive = false;
            request.incoming = Incoming::Done;
            if !refused {
                return pipeline::phases::refuse(request, error.status()).await;
            }
        }
        if !refused
            && !request.continued
            && request_body::unread(request)
            && request_body::expects_continue(request)
        {
            let sent = self
                .info
                .stream
                .try_send(request_body::CONTINUE, false)
                .unwrap_or_default();
            request.sent.bytes.set(sent as u64);
            if sent < request_body::CONTINUE.len() {
                request.keep_alive = false;
            }
        }
        Some(response)
    }

    /// Closes without an answer (nginx's 444).
    fn hang_up(&self, request: &Request) -> Next {
        if request.sent.status.get() == 0 {
            request.sent.status.set(444);
        }
        log::access::write(request);
        match request.location().settings.keepalive.reset_timedout {
            true => Next::Reset,
            false => Next::Close,
        }
    }

    async fn send(&mut self, request: &mut Request, mut response: Response) -> Next {
        if let Body::Tunnel(_) = &response.body {
            let body = std::mem::take(&mut response.body);
            return Box::pin(self.tunnel(request, response, body)).await;
        }
        let begun = writer::begin(&self.info.stream, request, response);
        self.finish(request, begun).await
    }

    /// Sends the head of a response that switches protocols, and joins the two ends.
    async fn tunnel(&mut self, request: &mut Request, response: Response, body: Body) -> Next {
        request.keep_alive = false;
        let begun = writer::begin(&self.info.stream, request, response);
        let sent = match begun {
            Ok(None) => Ok(()),
            Ok(Some(unsent)) => {
                writer::finish(&self.info.stream, &mut self.timer, request, unsent).await
            }
            Err(error) => Err(error),
        };
        if let (Ok(()), Body::Tunnel(tunnel)) = (&sent, body) {
            let pending = self.info.pending.take();
            let (end, bytes) = join(&self.info.stream, pending, *tunnel).await;
            request.sent.bytes.set(request.sent.bytes.get() + bytes);
            if end == End::TimedOut {
                log::error::write_request(
                    request,
                    Level::Error,
                    format_args!(
                        "upstream timed out (110: Connection timed out) while proxying upgraded connection"
                    ),
                );
            }
        }
        let _closed = self.conclude(request, sent);
        Next::Close
    }

    /// Sends what the first writes left over, and logs the request.
    async fn finish(
        &mut self,
        request: &mut Request,
        begun: Result<Option<Unsent>, SendError>,
    ) -> Next {
        let sent = match begun {
            Ok(None) => Ok(()),
            Ok(Some(unsent)) => {
                Box::pin(writer::finish(
                    &self.info.stream,
                    &mut self.timer,
                    request,
                    unsent,
                ))
                .await
            }
            Err(error) => Err(error),
        };
        self.conclude(request, sent)
    }

    /// Logs a request whose response went out or did not, and decides how the connection goes on.
    fn conclude(&mut self, request: &Request, sent: Result<(), SendError>) -> Next {
        if let Err(error) = &sent {
            complaints::unsent(request, error);
        }
        log::access::write(request);
        match sent {
            Ok(()) if request.keep_alive => self.keep_alive(request),
            Ok(()) => self.close(request),
            Err(SendError::TimedOut) if request.location().settings.keepalive.reset_timedout => {
                Next::Reset
            }
            Err(_) => Next::Close,
        }
    }

    /// How a connection ends after a response: with what the client still sends read and dropped, where there is any.
    fn close(&self, request: &Request) -> Next {
        let more = request_body::unread(request) || !self.info.pending.borrow().is_empty();
        match request.location().settings.keepalive.lingering_close {
            Lingering::Always => Next::Linger,
            Lingering::On if more && request.sent.status.get() != 400 => Next::Linger,
            _ => Next::Close,
        }
    }

    /// Whether the connection has had its share of requests or time.
    fn is_spent(&self, request: &Request) -> bool {
        let settings = &request.location().settings.keepalive;
        let age = thread::monotonic_ms().saturating_sub(self.info.started_ms);
        settings.timeout_ms == 0
            || self.info.requests.get() >= settings.requests
            || age > settings.time_ms
            || settings.disable.holds_for(request)
    }

    fn keep_alive(&mut self, request: &Request) -> Next {
        let settings = &request.location().settings;
        if self.info.requests.get() == 1
            && settings.transmission.tcp_nodelay
            && self.info.stream.is_tcp()
        {
            let _ = sys::socket::set_no_delay(&self.info.stream, true);
        }
        self.timer.set(settings.keepalive.timeout_ms);
        let least_ms = settings.keepalive.min_timeout_ms;
        self.kept_until_ms = match least_ms {
            0 => 0,
            least_ms => thread::monotonic_ms() + least_ms.min(settings.keepalive.timeout_ms),
        };
        Next::KeepAlive
    }

    /// A request of what has come of its head.
    fn partial_request(&mut self, generation: &Rc<Generation>) -> Box<Request> {
        let mut request = new_request(generation, &self.info, thread::monotonic_ms());
        request.buffer = self.info.pending.take();
        request
    }

    /// The client has gone: between requests, or within a head, which is logged as a bad request.
    fn ended(&mut self, generation: &Rc<Generation>, listener: usize, error: Option<io::Error>) {
        if self.info.pending.borrow().is_empty() {
            return complaints::closed(generation, listener, &self.info, error.as_ref());
        }
        let mut request = self.partial_request(generation);
        self.info.requests.set(self.info.requests.get() + 1);
        complaints::abandoned(&mut request, listener, error.as_ref());
        request.sent.status.set(400);
        log::access::write(&request);
    }

    /// Answers a request whose head could not be read, with the settings of the address's default server.
    async fn refuse(&mut self, mut request: Box<Request>, listener: usize, status: u16) -> Next {
        self.info.requests.set(self.info.requests.get() + 1);
        self.counted.set(Activity::Writing);
        request_head::prepare_refused(&mut request, listener);
        self.refuse_prepared(request, status).await
    }

    async fn refuse_prepared(&mut self, mut request: Box<Request>, status: u16) -> Next {
        request.keep_alive = false;
        if status == 408 {
            request.sent.status.set(408);
            return self.hang_up(&request);
        }
        let response = pipeline::phases::refuse(&mut request, status).await;
        let Some(response) = response else {
            return Next::Close;
        };
        match self.send(&mut request, response).await {
            Next::Close if status != 400 => Next::Linger,
            next => next,
        }
    }

    /// Reads and drops what the client still sends, for `lingering_time` at most.
    async fn linger(mut self) {
        self.info.stream.shut_down();
        let generation = self.shared.generation();
        let Some(listener) = self.shared.listener_index(&generation, &self.info) else {
            return;
        };
        let config = &generation.config;
        let base = config
            .server(config.http.listens[listener].hosts.default)
            .base;
        let settings = &config.location(base).settings.keepalive;
        let end = thread::monotonic_ms() + settings.lingering_time_ms;
        loop {
            let left = end.saturating_sub(thread::monotonic_ms());
            if left == 0 {
                return;
            }
            self.timer.set(left.min(settings.lingering_timeout_ms));
            match self.read_some(|bytes| bytes.len()).await {
                Some(Ok(read)) if read > 0 => {}
                _ => return,
            }
        }
    }

    /// Reads once within the timer's deadline; `None` if it passed.
    pub async fn read_some<T>(&mut self, take: impl FnOnce(&[u8]) -> T) -> Option<io::Result<T>> {
        let mut take = Some(take);
        let mut read = pin!(std::future::poll_fn(|context| {
            let polled = self
                .info
                .stream
                .poll_read(context, |bytes| take.take().map(|take| take(bytes)));
            match polled {
                Poll::Ready(Ok(Some(value))) => Poll::Ready(Some(Ok(value))),
                Poll::Ready(Ok(None)) => Poll::Ready(None),
                Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error))),
                Poll::Pending => self.timer.poll_expired(context).map(|()| None),
            }
        }));
        read.as_mut().await
    }
}

#[cfg(test)]
mod tests {
    use super::Http1;

    /// Bytes of a connection's task while it waits, without the runtime's own.
    const IDLE_MAX: usize = 352;

    #[test]
    fn an_idle_connection_is_small() {
        fn size<F: Future>(_: impl Fn(Http1) -> F) -> usize {
            size_of::<F>()
        }
        let idle = size(Http1::serve);
        assert!(idle <= IDLE_MAX, "{idle} bytes");
    }
}
