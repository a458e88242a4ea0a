//! The accept loop, and what the connections of one listening socket share.

use crate::config::Generation;
use crate::connection::http1::Http1;
use crate::http::places::Places;
use crate::http::request::Connection;
use crate::http::thread;
use crate::log;
use crate::log::error::Level;
use crate::net::stream::{self, Stream};
use crate::pool::Pool;
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use sys::address::SocketAddress;
use tokio::io::Interest;
use tokio::sync::Notify;

/// Serial numbers of connections, over all threads.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// What one thread's connections share: the configuration in force and the wish to stop.
pub struct ThreadState {
    generation: RefCell<Rc<Generation>>,
    shutting_down: Cell<bool>,
    /// The turn in which connections were last asked to make room.
    asked_in: Cell<u64>,
    /// The second after the one in which that was last logged.
    warned_in: Cell<u64>,
    connections: RefCell<Connections>,
    ended: Notify,
}

/// When no more than this part of `worker_connections` is left, idle connections have to go.
const SCARCE_PART: usize = 16;
/// Connections asked to go at a time, at most, and as a part of the open ones.
const ASKED_MAX: usize = 32;
const ASKED_PART: usize = 8;

/// The open connections by place.
#[derive(Default)]
struct Connections {
    open: Places<Seat>,
    /// The place that is asked next.
    next: usize,
}

/// What is known of one connection.
#[derive(Default)]
struct Seat {
    /// Left when the connection is first idle.
    waker: Option<Waker>,
    /// The turn in which the connection was asked to go.
    asked_in: u64,
}

impl Connections {
    fn open(&self) -> usize {
        self.open.taken()
    }

    /// Marks the next few connections as asked; gives their wakers.
    fn ask_next(&mut self, turn: u64) -> Vec<Waker> {
        let wanted = (self.open() / ASKED_PART).clamp(1, ASKED_MAX);
        let mut asked = Vec::with_capacity(wanted);
        let count = self.open.values().count();
        for _ in 0..count {
            self.next = (self.next + 1) % count;
            let seat = self.open.at(self.next);
            if let Some(waker) = &seat.waker {
                seat.asked_in = turn;
                asked.push(waker.clone());
                if asked.len() == wanted {
                    break;
                }
            }
        }
        asked
    }
}

impl ThreadState {
    #[must_use]
    pub fn new(generation: Rc<Generation>) -> ThreadState {
        ThreadState {
            generation: RefCell::new(generation),
            shutting_down: Cell::new(false),
            asked_in: Cell::new(0),
            warned_in: Cell::new(0),
            connections: RefCell::default(),
            ended: Notify::new(),
        }
    }

    /// Puts another configuration in force for all requests from now on.
    pub fn replace(&self, generation: Rc<Generation>) {
        *self.generation.borrow_mut() = generation;
        self.wake_idle();
    }

    /// Asks every connection to end after its request.
    pub fn shut_down(&self) {
        self.shutting_down.set(true);
        self.wake_idle();
    }

    /// Waits until no connection is open.
    pub async fn all_ended(&self) {
        while self.connections.borrow().open() > 0 {
            self.ended.notified().await;
        }
    }

    fn wake_idle(&self) {
        let mut connections = self.connections.borrow_mut();
        let seats = connections.open.values();
        let wakers: Vec<Waker> = seats.filter_map(|seat| seat.waker.clone()).collect();
        drop(connections);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Connections that may still be opened, and whether they are about to run out.
    fn room(&self) -> (usize, bool) {
        let limit = self.generation.borrow().config.main.worker_connections as usize;
        let left = limit.saturating_sub(self.connections.borrow().open());
        (left, left <= limit / SCARCE_PART)
    }

    /// Asks some connections, in turn, to end if they are idle.
    fn make_room(&self) {
        let now = thread::turn();
        let asked = self.connections.borrow_mut().ask_next(now);
        if asked.is_empty() {
            return;
        }
        self.asked_in.set(now);
        let second = thread::monotonic_ms() / 1000;
        if self.warned_in.replace(second + 1) != second + 1 {
            let limit = self.generation.borrow().config.main.worker_connections;
            log::error::write(
                Level::Warning,
                format_args!("{limit} worker_connections are not enough, reusing connections"),
            );
        }
        asked.into_iter().for_each(Waker::wake);
    }
}

/// An open connection's place among the thread's.
pub struct Place {
    thread: Rc<ThreadState>,
    index: usize,
}

impl Place {
    fn take(thread: &Rc<ThreadState>) -> Place {
        let mut connections = thread.connections.borrow_mut();
        let index = connections.open.take();
        Place {
            thread: Rc::clone(thread),
            index,
        }
    }

    /// Leaves the waker of an idle connection, so that it hears of a shutdown or a new configuration. A task has the same
    /// waker all its life: it is left once.
    pub fn leave_waker(&self, context: &Context<'_>) {
        let mut connections = self.thread.connections.borrow_mut();
        let waker = &mut connections.open.at(self.index).waker;
        if waker.is_none() {
            *waker = Some(context.waker().clone());
        }
    }
}

impl Place {
    /// Whether this connection is to end if it is idle, because a new one needs the room.
    /// Being asked holds for this turn and the next, in which the connection is woken.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        let recent = thread::turn().saturating_sub(1);
        let asked_in = self.thread.asked_in.get();
        asked_in != 0
            && asked_in >= recent
            && self
                .thread
                .connections
                .borrow_mut()
                .open
                .at(self.index)
                .asked_in
                >= recent
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut connections = self.thread.connections.borrow_mut();
        connections.open.give_back(self.index);
        if connections.open() == 0 {
            self.thread.ended.notify_one();
        }
    }
}

/// What the connections of one listening socket share.
pub struct Shared {
    pub thread: Rc<ThreadState>,
    pub address: SocketAddress,
}

impl Shared {
    #[must_use]
    pub fn generation(&self) -> Rc<Generation> {
        Rc::clone(&self.thread.generation.borrow())
    }

    /// Whether a configuration is the one in force.
    #[must_use]
    pub fn is_current(&self, generation: &Rc<Generation>) -> bool {
        Rc::ptr_eq(generation, &self.thread.generation.borrow())
    }

    /// The place in a configuration of the address that a connection came to; `None` if nobody listens there any more.
    #[must_use]
    pub fn listener_index(
        &self,
        generation: &Generation,
        connection: &Connection,
    ) -> Option<usize> {
        let listens = &generation.config.http.listens;
        let index = listens
            .iter()
            .position(|listener| listener.listen.address == self.address)?;
        let covers = &listens[index].covers;
        if covers.is_empty() {
            return Some(index);
        }
        let ip = connection.local_address().ip()?;
        let exact = covers.iter().find(|(covered, _)| *covered == ip);
        Some(exact.map_or(index, |&(_, exact)| exact))
    }

    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.thread.shutting_down.get()
    }
}

/// Accepts connections until the task is dropped.
pub async fn run(socket: OwnedFd, shared: Rc<Shared>) -> io::Result<()> {
    let _vital = log::panic::Vital;
    sys::socket::set_nonblocking(&socket, true)?;
    let is_tcp = !shared.address.is_unix();
    let listener = stream::watch(socket, Interest::READABLE)?;
    loop {
        let mut ready = listener.readable().await?;
        for taken in 0..ACCEPT_BATCH {
            if taken > 0 && !sys::io::is_readable(&listener) {
                ready.clear_ready();
                break;
            }
            match sys::socket::accept(&listener) {
                Ok((socket, peer)) => {
                    if shared.thread.room().1 {
                        shared.thread.make_room();
                        // Those that were asked go now.
                        tokio::task::yield_now().await;
                    }
                    // Of many that wait, most have sent their request already.
                    match Stream::new(socket, is_tcp, taken > 0) {
                        Ok(stream) => spawn(stream, peer, &shared),
                        Err(error) => complain("epoll_ctl()", &error),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready.clear_ready();
                    break;
                }
                // The client gave up: the next may wait.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    complain("accept4()", &error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    break;
                }
            }
        }
        tokio::task::yield_now().await;
    }
}

fn complain(call: &str, error: &io::Error) {
    let reason = sys::errno::Errno(error);
    log::error::write(
        log::error::Level::Critical,
        format_args!("{call} failed ({reason})"),
    );
}

/// Connections that are accepted before others get their turn.
const ACCEPT_BATCH: usize = 64;

/// How long accepting pauses when the system has no descriptors left.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(500);

fn spawn(stream: Stream, remote: SocketAddress, shared: &Rc<Shared>) {
    if shared.thread.room().0 == 0 {
        let limit = shared.generation().config.main.worker_connections;
        log::error::write(
            Level::Alert,
            format_args!("{limit} worker_connections are not enough"),
        );
        return;
    }
    if let Some(pool) = shared
        .generation()
        .config
        .http
        .pools
        .listening_at(&shared.address)
    {
        return serve_guest(Arc::clone(pool), stream, remote, shared);
    }
    let info = Connection {
        number: CONNECTIONS.fetch_add(1, Ordering::Relaxed),
        remote,
        local: shared.address.clone(),
        exact_local: Default::default(),
        stream,
        pending: RefCell::default(),
        requests: Cell::new(0),
        started_ms: thread::monotonic_ms(),
        proxied: Default::default(),
        asked_name: Default::default(),
        settled: Default::default(),
    };
    let place = Place::take(&shared.thread);
    let Some(connection) = Http1::new(Rc::new(info), Rc::clone(shared), place) else {
        return;
    };
    tokio::task::spawn_local(connection.serve());
}

/// A web server that asks a pool of PHP workers by itself.
fn serve_guest(pool: Arc<Pool>, stream: Stream, remote: SocketAddress, shared: &Rc<Shared>) {
    let place = Place::take(&shared.thread);
    let shared = Rc::clone(shared);
    tokio::task::spawn_local(async move {
        let rests = |context: &Context<'_>| {
            place.leave_waker(context);
            shared.is_shutting_down() || place.is_asked()
        };
        pool.serve_guest(stream, remote, rests).await;
    });
}
