//! Pools of FastCGI workers, PHP's first of all: what php-fpm does, done by the server that has the requests. `upstream`
//! asks a pool for a child; the process layer starts and buries children.

// Read from the configuration:
pub mod directive; // php_pool, php_pool_include
mod ini; // php-fpm's files
mod settings; // php-fpm's words
mod values;
// A request's way:
mod answers; // what needs no child
mod facts; // what is kept of a request
mod guest; // requests of other programs
mod lease; // a child for a request, or a place in the queue
mod state; // children, queue and counts under one lock
// Looked after:
mod abandoned; // requests that were given up
mod auto; // `pm auto`
mod child; // one child
mod keeper; // the thread that looks after all pools
mod machine; // processors and memory
mod output; // catch_workers_output
mod overdue; // limits of time
mod scaling; // how many children
mod slow_log; // requests that take too long, and what they are doing
mod upkeep; // what is done each second
mod way; // what the thread is told
// Told:
mod access_log; // php-fpm's format language
mod status; // the status page

pub use lease::{Fate, Lease};
pub use settings::{Listen, Pm, Process, Settings};
pub use way::Way;

use crate::log::files::LogFile;
use bytes::Bytes;
use state::State;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;
use sys::address::SocketAddress;
use way::Message;

/// The number of a pool within its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolId(usize);

/// The pools of one configuration.
#[derive(Debug, Default)]
pub struct Pools {
    list: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    defined: Arc<Defined>,
    /// At work once the configuration is in force.
    pool: OnceLock<Arc<Pool>>,
}

/// A pool as one configuration has it.
#[derive(Debug)]
pub struct Defined {
    pub settings: Arc<Settings>,
    pub access_log: Option<Arc<LogFile>>,
    pub slowlog: Option<Arc<LogFile>>,
    /// Processor time and memory of each request are asked for.
    pub measures: bool,
}

impl Pools {
    pub fn new(raw: directive::RawPools) -> Pools {
        let defined = |pool: directive::RawPool| Defined {
            measures: pool.settings.measures(),
            settings: Arc::new(pool.settings),
            access_log: pool.log,
            slowlog: pool.slowlog,
        };
        let entry = |pool| Entry {
            defined: Arc::new(defined(pool)),
            pool: OnceLock::new(),
        };
        Pools {
            list: raw.finish().into_iter().map(entry).collect(),
        }
    }

    /// The pool of `fastcgi_pass pool:NAME`.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<PoolId> {
        let mut names = self.list.iter();
        names
            .position(|entry| entry.defined.settings.name.as_bytes() == name)
            .map(PoolId)
    }

    /// The pool at work; `None` only before the configuration is in force.
    #[must_use]
    pub fn get(&self, id: PoolId) -> Option<&Arc<Pool>> {
        self.list.get(id.0)?.pool.get()
    }

    /// The pool that other programs find at an address.
    #[must_use]
    pub fn listening_at(&self, address: &SocketAddress) -> Option<&Arc<Pool>> {
        let here = |entry: &&Entry| {
            let listen = entry.defined.settings.listen.as_ref();
            listen.is_some_and(|listen| listen.place.as_ref() == Some(address))
        };
        self.list.iter().find(here)?.pool.get()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Defined> {
        self.list.iter().map(|entry| &*entry.defined)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Comes into force after `former`: a pool of the same name goes on, its children give way one by one to new ones.
    /// `print` tells what children of a pool are started with.
    pub fn come_into_force(
        &self,
        former: &Pools,
        keeper: &Arc<Way>,
        print: impl Fn(&Settings) -> u64,
    ) {
        for entry in &self.list {
            let settings = &entry.defined.settings;
            let print = print(settings);
            let known = former
                .find(settings.name.as_bytes())
                .and_then(|id| former.get(id));
            let pool = match known {
                Some(pool) => {
                    pool.renew(&entry.defined, print);
                    Arc::clone(pool)
                }
                None => Arc::new(Pool::new(&entry.defined, print, keeper)),
            };
            keeper.tell(Message::Begin(Arc::clone(&pool)));
            // A configuration comes into force once.
            let _once = entry.pool.set(pool);
        }
        for entry in &former.list {
            let gone = self.find(entry.defined.settings.name.as_bytes()).is_none();
            if let Some(pool) = entry.pool.get().filter(|_| gone) {
                pool.state().closed = true;
                keeper.tell(Message::Begin(Arc::clone(pool)));
            }
        }
    }
}

/// A pool at work. It outlives reloads.
#[derive(Debug)]
pub struct Pool {
    pub name: String,
    /// `pool:NAME`, as logs and `$upstream_addr` show it.
    pub peer: Bytes,
    state: Mutex<State>,
    keeper: Arc<Way>,
}

/// What became of a request for a child.
pub enum Begun {
    /// The pool has answered it: a CGI response.
    Answer(Vec<u8>),
    Lease(Lease),
}

/// Why there is no child for a request. `retry_after` is in seconds.
#[derive(Debug)]
pub enum Unavailable {
    /// The queue is full: 503.
    Full { retry_after: u64 },
    /// It has waited for `queue_timeout`: 503.
    TooOld { retry_after: u64 },
    /// Children cannot be started, or end at once: 502.
    NoChild { reason: String },
    /// There is a child, and no descriptor for its connection: 500.
    Unusable { error: std::io::Error },
}

impl Pool {
    fn new(defined: &Arc<Defined>, print: u64, keeper: &Arc<Way>) -> Pool {
        Pool {
            name: defined.settings.name.clone(),
            peer: format!("pool:{}", defined.settings.name).into(),
            state: Mutex::new(State::new(Arc::clone(defined), print, Instant::now())),
            keeper: Arc::clone(keeper),
        }
    }

    fn renew(&self, defined: &Arc<Defined>, print: u64) {
        let mut state = self.state();
        state.defined = Arc::clone(defined);
        state.print = print;
        state.epoch += 1;
        state.closed = false;
        state.failures = Default::default();
    }

    /// A panic under the lock leaves counts that are off by one at worst.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who starts and signals processes for a pool; the answers come as `Event`s to `Way::hear`.
pub trait Nursery: Send {
    fn start(&self, ticket: u64, pool: &str, print: u64);
    /// SIGTERM, or with `kill` SIGKILL.
    fn signal(&self, pid: i32, kill: bool);
    /// Asks what the PHP script of a process is doing; `Event::Traced` answers.
    fn trace(&self, pid: i32, depth: u32);
}

/// What the process layer tells of children.
#[derive(Debug)]
pub enum Event {
    Started {
        ticket: u64,
        pid: i32,
        /// To be used one after the other.
        connections: Vec<OwnedFd>,
        output: Option<OwnedFd>,
    },
    Failed {
        ticket: u64,
        reason: String,
    },
    /// `how` is a phrase for the log: `exited with code 0`.
    Ended {
        pid: i32,
        how: String,
        crashed: bool,
    },
    /// The calls of a script, a line each, or why they are not known.
    Traced {
        pid: i32,
        calls: Result<String, String>,
    },
}

/// Starts the thread that looks after pools.
pub fn start(nursery: Box<dyn Nursery>) -> std::io::Result<Arc<Way>> {
    keeper::start(nursery)
}

impl Way {
    pub fn hear(&self, event: Event) {
        self.tell(Message::Event(event));
    }

    pub fn stop(&self) {
        self.tell(Message::Stop);
    }
}

/// What a child says that PHP skips, so that it does not close the connection after five seconds without a word.
pub const GREETING: [u8; 8] = wire::fastcgi::STDIN_END;
