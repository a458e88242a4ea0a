//! One HTTP/2 connection (RFC 9113) from its preface to its end. One task reads and writes frames, by the h2 crate; each
//! stream is a request that passes the same phases as one of HTTP/1. What is ready at once is answered without a task.

mod body;
pub mod directive;
mod fields;
mod link;
mod request;
mod respond;
mod stream;
mod turns;
mod watch;

use self::link::{Link, Output};
use self::request::TooLarge;
use self::turns::{Piece, Priority, Turns};
use super::request_head;
use crate::config::Generation;
use crate::config::model::LocationSettings;
use crate::http::counters::{Activity, Open};
use crate::http::request::Connection;
use crate::http::thread;
use crate::listen::accept::{Place, Shared};
use crate::log::error::{Level, write_connection};
use crate::net::Timer;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

/// What a connection's streams share.
pub struct Streams {
    pub info: Rc<Connection>,
    counted: Open,
    /// Requests under way.
    active: Cell<usize>,
    waker: RefCell<Option<Waker>>,
    turns: Rc<Turns>,
    /// The priorities of streams, as long as these live.
    priorities: RefCell<HashMap<u32, Weak<Cell<Priority>>>>,
    /// Bytes of heads and bodies, both ways: what was not mere talk.
    payload: Cell<u64>,
    /// The stream that was begun last.
    last: Cell<u32>,
}

impl Streams {
    fn has_passed(&self, bytes: usize) {
        self.payload.set(self.payload.get() + bytes as u64);
    }

    /// Notes where a stream's priority is to be found.
    fn announce(&self, id: u32, priority: &Rc<Cell<Priority>>) {
        let mut priorities = self.priorities.borrow_mut();
        if priorities.len() >= 2 * self.active.get().max(PRIORITIES_MIN) {
            priorities.retain(|_, priority| priority.strong_count() > 0);
        }
        priorities.insert(id, Rc::downgrade(priority));
        self.last.set(id);
    }

    /// Gives a stream another priority; false if there is none of the number.
    fn update(&self, id: u32, update: Priority) -> bool {
        let priority = self.priorities.borrow().get(&id).and_then(Weak::upgrade);
        let is_known = priority.is_some();
        if let Some(priority) = priority {
            priority.set(update);
        }
        is_known
    }
}

/// A request under way, counted until it is dropped.
pub struct Active(Rc<Streams>);

impl Active {
    fn begin(streams: &Rc<Streams>) -> Active {
        let active = streams.active.get();
        streams.active.set(active + 1);
        match active {
            0 => streams.counted.set(Activity::Writing),
            _ => crate::http::counters::count_request(),
        }
        Active(Rc::clone(streams))
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let left = self.0.active.get() - 1;
        self.0.active.set(left);
        if left == 0 {
            self.0.counted.set(Activity::Waiting);
            if let Some(waker) = self.0.waker.borrow().as_ref() {
                waker.wake_by_ref();
            }
        }
    }
}

/// One client's connection.
pub struct Http2 {
    timer: Timer,
    streams: Rc<Streams>,
    shared: Rc<Shared>,
    place: Place,
    generation: Rc<Generation>,
    listener: usize,
    output: Rc<RefCell<Output>>,
    /// The connection takes no further requests.
    closing: bool,
    /// It was given up as one that floods.
    flooded: bool,
    waiting: Waiting,
}

/// What the timer runs for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    ForPreface,
    /// For the next request.
    Idle,
    /// For room in the socket.
    ToSend,
    /// For nothing that has a limit here.
    Nothing,
}

/// How a connection ends.
enum End {
    /// All was said.
    Closed,
    /// Nothing more can be sent.
    Broken,
}

/// The parts of a connection that was found to speak HTTP/2.
pub struct Begun {
    pub info: Rc<Connection>,
    pub shared: Rc<Shared>,
    pub place: Place,
    pub counted: Open,
    pub generation: Rc<Generation>,
    pub listener: usize,
}

type Codec = h2::server::Connection<Link, Piece>;

impl Http2 {
    #[must_use]
    pub fn new(begun: Begun) -> Http2 {
        Http2 {
            timer: Timer::default(),
            streams: Rc::new(Streams {
                info: begun.info,
                counted: begun.counted,
                active: Cell::new(0),
                waker: RefCell::new(None),
                turns: Rc::default(),
                priorities: RefCell::default(),
                payload: Cell::new(0),
                last: Cell::new(0),
            }),
            shared: begun.shared,
            place: begun.place,
            generation: begun.generation,
            listener: begun.listener,
            output: Rc::default(),
            closing: false,
            flooded: false,
            waiting: Waiting::ForPreface,
        }
    }

    /// The settings of the address's default server, which hold for the connection itself.
    fn settings(
        &self,
    ) -> (
        &directive::Settings,
        &request_head::Settings,
        &LocationSettings,
    ) {
        let config = &self.generation.config;
        let server = config.server(config.http.listens[self.listener].hosts.default);
        let location = config.location(server.base);
        let settings = &server.settings;
        (&settings.http2, &settings.request_head, &location.settings)
    }

    /// Serves the connection until it ends.
    pub async fn serve(mut self) {
        let link = Link::new(Rc::clone(&self.streams.info), Rc::clone(&self.output));
        let timeout_ms = self.settings().1.timeout_ms;
        self.timer.set(timeout_ms);
        let mut handshake = pin!(self.builder().handshake::<_, Piece>(link));
        let begun = std::future::poll_fn(|context| {
            self.output.borrow_mut().begin_turn();
            if let Poll::Ready(begun) = handshake.as_mut().poll(context) {
                return Poll::Ready(begun.ok());
            }
            let sent = self
                .output
                .borrow_mut()
                .poll_send(&self.streams.info.stream, context);
            if let Poll::Ready(Err(_)) = sent {
                return Poll::Ready(None);
            }
            self.timer.poll_expired(context).map(|()| None)
        });
        let Some(mut codec) = begun.await else { return };
        self.timer.clear();
        self.waiting = Waiting::Nothing;
        let no_delay = self.settings().2.transmission.tcp_nodelay;
        if no_delay && self.streams.info.stream.is_tcp() {
            // It only costs time if the system does not want to.
            let _ = sys::socket::set_no_delay(&self.streams.info.stream, true);
        }
        let end = std::future::poll_fn(|context| self.poll_turn(&mut codec, context)).await;
        drop(codec);
        if let End::Closed = end {
            self.linger().await;
        }
    }

    fn builder(&self) -> Builder {
        let (settings, head, _) = self.settings();
        let mut builder = Builder::new();
        let limits = request_head::limits(head);
        let fields = limits.large_buffer.saturating_mul(limits.large_buffers);
        let streams = u32::try_from(settings.max_concurrent_streams).unwrap_or(u32::MAX);
        let window = settings.window();
        builder
            .max_concurrent_streams(streams)
            .initial_window_size(window)
            .initial_connection_window_size(
                window
                    .saturating_mul(streams)
                    .clamp(CONNECTION_WINDOW_MIN, i32::MAX as u32),
            )
            .max_header_list_size(u32::try_from(fields.saturating_mul(2)).unwrap_or(u32::MAX))
            .max_send_buffer_size(SEND_BUFFER)
            .max_concurrent_reset_streams(RESET_STREAMS_MAX);
        builder
    }

    /// One pass: takes the requests that have come, writes what is to be written, and sees to the timer.
    fn poll_turn(&mut self, codec: &mut Codec, context: &mut Context<'_>) -> Poll<End> {
        self.leave_waker(context);
        self.take_up_configuration(codec);
        self.output.borrow_mut().begin_turn();
        let mut begun = 0;
        loop {
            match codec.poll_accept(context) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    self.begin(codec, request, respond);
                    begun += 1;
                    self.end_flood(codec, begun);
                }
                Poll::Ready(Some(Err(error))) => {
                    self.complain(&error);
                    // What the library has to say to the client is in the buffer.
                    let _told = self.poll_send(context);
                    return Poll::Ready(match error.is_io() {
                        true => End::Broken,
                        false => End::Closed,
                    });
                }
                Poll::Ready(None) => {
                    let _told = self.poll_send(context);
                    return Poll::Ready(End::Closed);
                }
                Poll::Pending => break,
            }
        }
        self.take_updates();
        self.end_flood(codec, begun);
        let blocked = match self.poll_send(context) {
            Poll::Ready(Err(_)) => return Poll::Ready(End::Broken),
            Poll::Ready(Ok(())) => false,
            Poll::Pending => true,
        };
        self.see_to_timer(blocked);
        if self.timer.poll_expired(context).is_ready() {
            return self.expired(codec, context);
        }
        Poll::Pending
    }

    fn take_updates(&self) {
        let mut output = self.output.borrow_mut();
        // What is told of a stream may come before the stream.
        output.watch.updates.retain(|&(id, priority)| {
            !self.streams.update(id, priority) && id > self.streams.last.get()
        });
    }

    /// Gives up a client that begins (and resets) more streams at once than it may have, or that sends little else than
    /// frames that ask for nothing. The measures are much as nginx's.
    fn end_flood(&mut self, codec: &mut Codec, begun: u64) {
        let total = self.output.borrow().total;
        let is_talk = total > self.streams.payload.get().saturating_mul(8) + TALK_MAX;
        let most = self.settings().0.max_concurrent_streams.saturating_mul(2);
        if self.flooded || !(is_talk || begun > most) {
            return;
        }
        self.flooded = true;
        self.closing = true;
        self.say(match is_talk {
            true => format_args!("http2 flood detected"),
            false => format_args!("client sent too many streams at once"),
        });
        codec.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
    }

    fn poll_send(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output
            .borrow_mut()
            .poll_send(&self.streams.info.stream, context)
    }

    fn leave_waker(&self, context: &Context<'_>) {
        self.place.leave_waker(context);
        let waker = &mut *self.streams.waker.borrow_mut();
        if !waker
            .as_ref()
            .is_some_and(|known| known.will_wake(context.waker()))
        {
            *waker = Some(context.waker().clone());
        }
    }

    /// Another configuration may be in force, the server may be shutting down, or another connection needs the room.
    fn take_up_configuration(&mut self, codec: &mut Codec) {
        if !self.shared.is_current(&self.generation) {
            let generation = self.shared.generation();
            match self.shared.listener_index(&generation, &self.streams.info) {
                Some(index) => (self.generation, self.listener) = (generation, index),
                None => self.close(codec),
            }
        }
        let is_idle = self.streams.active.get() == 0;
        if self.shared.is_shutting_down() || (is_idle && self.place.is_asked()) {
            self.close(codec);
        }
    }

    /// Says GOAWAY: requests under way are answered, no others.
    fn close(&mut self, codec: &mut Codec) {
        if std::mem::replace(&mut self.closing, true) {
            return;
        }
        match self.streams.active.get() {
            0 => codec.abrupt_shutdown(Reason::NO_ERROR),
            _ => codec.graceful_shutdown(),
        }
    }

    /// Begins to answer a request.
    fn begin(
        &mut self,
        codec: &mut Codec,
        head: http::Request<RecvStream>,
        respond: SendResponse<Piece>,
    ) {
        let requests = self.streams.info.requests.get() + 1;
        self.streams.info.requests.set(requests);
        let active = Active::begin(&self.streams);
        let (_, _, location) = self.settings();
        let keepalive = &location.keepalive;
        let age = thread::monotonic_ms().saturating_sub(self.streams.info.started_ms);
        if requests >= keepalive.requests || age > keepalive.time_ms {
            self.close(codec);
        }
        let (generation, streams) = (&self.generation, &self.streams);
        match request::prepare(generation, streams, self.listener, head, respond) {
            Ok(prepared) => respond::answer(prepared, active),
            Err(TooLarge) => {
                self.say(format_args!("client sent too large header"));
                self.closing = true;
                codec.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            }
        }
    }

    /// A line of the error log about the connection.
    fn say(&self, message: std::fmt::Arguments<'_>) {
        let logs = &self.settings().2.error_log.logs;
        let message = format_args!("{message} while processing HTTP/2 connection");
        write_connection(logs, &self.streams.info, Level::Info, message);
    }

    fn see_to_timer(&mut self, blocked: bool) {
        let (_, _, location) = self.settings();
        let wanted = match (blocked, self.streams.active.get()) {
            (true, _) => Waiting::ToSend,
            (false, 0) => Waiting::Idle,
            (false, _) => Waiting::Nothing,
        };
        let moved = self.output.borrow_mut().has_moved();
        if wanted == self.waiting && !(moved && wanted == Waiting::ToSend) {
            return;
        }
        let after_ms = match wanted {
            Waiting::ToSend => location.transmission.send_timeout_ms,
            Waiting::Idle if self.closing => location.keepalive.lingering_timeout_ms,
            Waiting::Idle => location.keepalive.timeout_ms,
            Waiting::Nothing | Waiting::ForPreface => {
                return {
                    self.timer.clear();
                    self.waiting = wanted;
                };
            }
        };
        self.timer.set(after_ms);
        self.waiting = wanted;
    }

    fn expired(&mut self, codec: &mut Codec, context: &mut Context<'_>) -> Poll<End> {
        if self.waiting != Waiting::Idle {
            self.say(format_args!("client timed out (110: Connection timed out)"));
            return Poll::Ready(End::Broken);
        }
        // Whoever does not answer the farewell has had it.
        if self.closing {
            return Poll::Ready(End::Closed);
        }
        self.close(codec);
        let _told = codec.poll_closed(context);
        let _told = self.poll_send(context);
        Poll::Ready(End::Closed)
    }

    /// What the error log says of a connection that the library has given up.
    fn complain(&self, error: &h2::Error) {
        match (error.is_io(), error.is_remote()) {
            (true, _) => self.say(format_args!("{error}")),
            (_, true) => self.say(format_args!("client ended the connection: {error}")),
            _ => self.say(format_args!("client broke the protocol: {error}")),
        }
    }

    /// Sends what is left, then reads and drops what the client still sends, so that it sees the farewell before the close.
    async fn linger(mut self) {
        let keepalive = self.settings().2.keepalive.clone();
        let end_ms = thread::monotonic_ms() + keepalive.lingering_time_ms;
        self.timer.set(keepalive.lingering_timeout_ms);
        let sent = std::future::poll_fn(|context| {
            if let Poll::Ready(sent) = self.poll_send(context) {
                return Poll::Ready(sent.is_ok());
            }
            self.timer.poll_expired(context).map(|()| false)
        });
        if !sent.await {
            return;
        }
        // Whoever floods is not listened to any longer.
        if self.flooded {
            return;
        }
        let stream = &self.streams.info.stream;
        stream.shut_down();
        loop {
            let left_ms = end_ms.saturating_sub(thread::monotonic_ms());
            if left_ms == 0 {
                return;
            }
            self.timer.set(left_ms.min(keepalive.lingering_timeout_ms));
            let read = std::future::poll_fn(|context| {
                match stream.poll_read(context, |bytes| bytes.len()) {
                    Poll::Ready(read) => Poll::Ready(read.ok()),
                    Poll::Pending => self.timer.poll_expired(context).map(|()| None),
                }
            });
            match read.await {
                Some(read) if read > 0 => {}
                _ => return,
            }
        }
    }
}

/// The connection's window is at least this: what HTTP/2 begins with.
const CONNECTION_WINDOW_MIN: u32 = 65_535;

/// Bytes that a client may send beside eight times what it sends and gets in requests.
const TALK_MAX: u64 = 1024 * 1024;

/// Priorities that are kept before those of ended streams are looked for.
const PRIORITIES_MIN: usize = 32;

/// Bytes that wait for a stream's window or the socket before its source is asked for more.
const SEND_BUFFER: usize = 256 * 1024;

/// Streams that the server reset whose late frames are still known to be of no interest.
const RESET_STREAMS_MAX: usize = 64;
