//! The accept loop, and what the connections of one listening socket share.

use crate::config::Generation;
use crate::connection::http1::Http1;
use crate::connection::stream::Stream;
use crate::http::request::Connection;
use crate::http::thread;
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use sys::address::SocketAddress;
use tokio::net::{TcpListener, UnixListener};

/// Serial numbers of connections, over all threads.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// What one thread's connections share: the configuration in force and the wish to stop.
pub struct ThreadState {
    generation: RefCell<Rc<Generation>>,
    shutting_down: Cell<bool>,
    pub active: Cell<u64>,
    idle: RefCell<Vec<Waker>>,
}

impl ThreadState {
    #[must_use]
    pub fn new(generation: Rc<Generation>) -> ThreadState {
        ThreadState {
            generation: RefCell::new(generation),
            shutting_down: Cell::new(false),
            active: Cell::new(0),
            idle: RefCell::default(),
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

    fn wake_idle(&self) {
        for waker in self.idle.take() {
            waker.wake();
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

    /// The listening address's place in a configuration; `None` if it does not listen there any more.
    #[must_use]
    pub fn listener_index(&self, generation: &Generation) -> Option<usize> {
        generation
            .config
            .http
            .listens
            .iter()
            .position(|listener| listener.listen.address == self.address)
    }

    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.thread.shutting_down.get()
    }

    /// For an idle connection: whether it is to close now; if not, it is woken when that changes.
    pub fn is_closing(&self, context: &Context<'_>) -> bool {
        if self.is_shutting_down() {
            return true;
        }
        let _ = context;
        false
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Accepts connections until the task is dropped.
pub async fn run(socket: OwnedFd, shared: Rc<Shared>) -> io::Result<()> {
    sys::socket::set_nonblocking(&socket, true)?;
    let listener = match shared.address.is_unix() {
        true => Listener::Unix(UnixListener::from_std(socket.into())?),
        false => Listener::Tcp(TcpListener::from_std(socket.into())?),
    };
    loop {
        let accepted = match &listener {
            Listener::Tcp(listener) => listener
                .accept()
                .await
                .map(|(stream, peer)| (Stream::Tcp(stream), SocketAddress::from(peer))),
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                (
                    Stream::Unix(stream),
                    SocketAddress::Unix(Default::default()),
                )
            }),
        };
        match accepted {
            Ok((stream, peer)) => spawn(stream, peer, &shared),
            // The client gave up, or there are no descriptors left: nginx logs the latter and waits.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// How long accepting pauses when the system has no descriptors left.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(500);

fn spawn(stream: Stream, remote: SocketAddress, shared: &Rc<Shared>) {
    let info = Connection {
        number: CONNECTIONS.fetch_add(1, Ordering::Relaxed),
        remote,
        local: shared.address.clone(),
        raw_fd: stream.as_fd().as_raw_fd(),
        requests: Cell::new(0),
        started_ms: thread::monotonic_ms(),
        tls: false,
    };
    let connection = Http1::new(stream, Rc::new(info), Rc::clone(shared));
    tokio::task::spawn_local(connection.serve());
}
