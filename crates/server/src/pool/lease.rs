//! A child on loan to one request: how a request gets one, waits for one, and gives it back. Everything here runs on the
//! network threads.

use super::access_log::{self, Entry};
use super::answers;
use super::child::{self, ChildId, Home, LastRequest};
use super::facts::Facts;
use super::state::{Connection, Taken};
use super::way::Message;
use super::{Begun, Pool, Unavailable};
use crate::log::error::{self, Level};
use crate::net::{Stream, Timer};
use std::cell::{Cell, OnceCell, RefCell};
use std::future::{Future, poll_fn};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::oneshot;

/// A registered connection of a child that this thread has used.
struct Kept {
    child: ChildId,
    number: u32,
    stream: Stream,
}

thread_local! {
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
    static HOME: OnceCell<Home> = const { OnceCell::new() };
    static FACTS: Cell<Option<Facts>> = const { Cell::new(None) };
}

static THREADS: AtomicU64 = AtomicU64::new(0);

/// This thread's number and its mailbox for connections that are another thread's now.
fn home() -> Home {
    HOME.with(|home| {
        home.get_or_init(|| {
            let (forget, mut forgotten) = unbounded_channel();
            tokio::task::spawn_local(async move {
                while let Some(child) = forgotten.recv().await {
                    KEPT.with(|kept| kept.borrow_mut().retain(|one| one.child != child));
                }
            });
            let thread = THREADS.fetch_add(1, Ordering::Relaxed);
            Home { thread, forget }
        })
        .clone()
    })
}

fn take_kept(child: ChildId, number: u32) -> Option<Stream> {
    KEPT.with(|kept| {
        let mut kept = kept.borrow_mut();
        let index = kept.iter().position(|one| one.child == child)?;
        let one = kept.swap_remove(index);
        (one.number == number).then_some(one.stream)
    })
}

/// The thread's own, so that reading a request's parameters allocates nothing.
fn read_facts(params: &[u8]) -> Facts {
    let mut facts = FACTS.take().unwrap_or_default();
    facts.read(params);
    facts
}

/// A child that was handed over and not yet taken up; it goes to the next one if nobody does.
#[derive(Debug)]
pub struct Grant {
    pool: Option<Arc<Pool>>,
    child: ChildId,
    pub waited: Duration,
}

impl Grant {
    pub fn new(pool: &Arc<Pool>, child: ChildId, waited: Duration) -> Grant {
        Grant {
            pool: Some(Arc::clone(pool)),
            child,
            waited,
        }
    }

    /// It is not handed over after all.
    pub fn disarm(mut self) {
        self.pool = None;
    }

    fn take(mut self) -> ChildId {
        self.pool = None;
        self.child
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.give_back(self.child);
        }
    }
}

impl Pool {
    /// Begins a request with these FastCGI parameters (name-value pairs in their coded form): the pool answers it itself,
    /// or there is a child for it, perhaps after a while in the queue.
    pub async fn begin(self: &Arc<Pool>, params: &[u8]) -> Result<Begun, Unavailable> {
        let now = Instant::now();
        let mut facts = read_facts(params);
        let (measures, queue_timeout_ms) = {
            let state = self.state();
            let defined = &state.defined;
            if let Some(answer) = answers::answer(&state, &facts, now) {
                return Ok(Begun::Answer(answer));
            }
            (defined.measures, defined.settings.queue_timeout_ms)
        };
        if let Some(answer) = answers::check_script(self, &facts) {
            return Ok(Begun::Answer(answer));
        }
        let home = home();
        loop {
            let taken = self.state().take(home.thread, now);
            let (child, waited) = match taken {
                Taken::Child(child) => (child, Duration::ZERO),
                Taken::Full => return Err(self.unavailable(Refusal::Full)),
                Taken::Wait(granted) => {
                    self.keeper.tell(Message::Waits(Arc::clone(self)));
                    let grant = self.wait(granted, queue_timeout_ms).await?;
                    let waited = grant.waited;
                    (grant.take(), waited)
                }
            };
            match self.lend(child, &mut facts, &home, waited, measures) {
                Ok(Some(lease)) => {
                    FACTS.set(Some(facts));
                    return Ok(Begun::Lease(lease));
                }
                Ok(None) => {}
                // Of this process and not of the child: descriptors have run out.
                Err(error) => {
                    self.give_back(child);
                    return Err(Unavailable::Unusable { error });
                }
            }
            // It ended while nobody looked; the next one, then.
            let dismissed = self.state().dismiss(child);
            if let Some(dismissed) = dismissed {
                self.keeper.tell(Message::Dismissed(Box::new(dismissed)));
            }
        }
    }

    /// A child that was taken and did nothing.
    fn give_back(self: &Arc<Pool>, child: ChildId) {
        let dismissed = self.state().release(self, child, Instant::now());
        if let Some(dismissed) = dismissed {
            self.keeper.tell(Message::Dismissed(Box::new(dismissed)));
        }
    }

    /// In the queue.
    async fn wait(
        &self,
        mut granted: oneshot::Receiver<Grant>,
        timeout_ms: u64,
    ) -> Result<Grant, Unavailable> {
        let mut timer = Timer::default();
        if timeout_ms > 0 {
            timer.set(timeout_ms);
        }
        let outcome = poll_fn(|context| {
            if let Poll::Ready(granted) = Pin::new(&mut granted).poll(context) {
                return Poll::Ready(granted.map_err(|_| Refusal::Hopeless));
            }
            timer.poll_expired(context).map(|()| Err(Refusal::TooOld))
        })
        .await;
        outcome.map_err(|refusal| {
            if refusal == Refusal::TooOld {
                self.state().counts.refused += 1;
            }
            self.unavailable(refusal)
        })
    }

    fn unavailable(&self, refusal: Refusal) -> Unavailable {
        let state = self.state();
        match refusal {
            Refusal::Hopeless => Unavailable::NoChild {
                reason: state.reason.clone(),
            },
            Refusal::Full | Refusal::TooOld => {
                // When the queue of now should be through.
                let children = u32::try_from(state.children.len().max(1)).unwrap_or(1);
                let waiting = u32::try_from(state.waiting.len()).unwrap_or(u32::MAX);
                let ahead = (state.counts.mean / children).saturating_mul(waiting);
                let retry_after = ahead.as_secs().clamp(1, RETRY_AFTER_MAX);
                match refusal {
                    Refusal::Full => Unavailable::Full { retry_after },
                    _ => Unavailable::TooOld { retry_after },
                }
            }
        }
    }

    /// `None` if the child is not there any more; an error is one of this process.
    fn lend(
        self: &Arc<Pool>,
        child: ChildId,
        facts: &mut Facts,
        home: &Home,
        waited: Duration,
        measures: bool,
    ) -> std::io::Result<Option<Lease>> {
        let Some(pid) = self.state().children.get(&child).map(|child| child.pid) else {
            return Ok(None);
        };
        let cpu = match measures {
            true => child::processor_time(pid),
            false => None,
        };
        let Some(connection) = self.state().connection(child, home) else {
            return Ok(None);
        };
        let stream = registered(child, &connection)?;
        // One that has ended a moment ago may not have been told of yet.
        match sys::io::peek(&stream, &mut [0]) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            _ => return Ok(None),
        }
        self.state().describe(child, facts, cpu);
        Ok(Some(Lease {
            pool: Arc::clone(self),
            child,
            pid,
            number: connection.number,
            terminated: connection.terminated,
            stream: Some(stream),
            began: Instant::now(),
            waited,
            measures,
            finished: false,
        }))
    }
}

fn registered(child: ChildId, connection: &Connection) -> std::io::Result<Stream> {
    if connection.kept
        && let Some(stream) = take_kept(child, connection.number)
    {
        return Ok(stream);
    }
    let socket: OwnedFd = connection.socket.try_clone()?;
    Stream::to_upstream(socket, false)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Full,
    TooOld,
    Hopeless,
}

/// Seconds; clients are not sent away for longer.
const RETRY_AFTER_MAX: u64 = 60;

/// A child at work for one request. Dropped without `finish`, the request counts as given up: the child learns of it and is
/// of use again when it has.
pub struct Lease {
    pool: Arc<Pool>,
    child: ChildId,
    pid: i32,
    number: u32,
    terminated: Arc<AtomicBool>,
    /// There until the end.
    stream: Option<Stream>,
    began: Instant,
    waited: Duration,
    measures: bool,
    finished: bool,
}

impl Lease {
    /// The connection to the child, as if it had just been opened; `None` only after the end.
    pub fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref()
    }

    /// How long the request was in the queue.
    pub fn queue_time(&self) -> Duration {
        self.waited
    }

    /// What can be asked when the lease is gone.
    pub fn fate(&self) -> Fate {
        Fate(Arc::clone(&self.terminated))
    }

    pub fn pool_name(&self) -> &str {
        &self.pool.name
    }

    /// The request is over, its answer had this status. `reusable`: all of the answer was read, and nothing after it, so
    /// that the connection can have another request.
    pub fn finish(mut self, reusable: bool, status: u16) {
        self.finished = true;
        let now = Instant::now();
        let last = self.measure(now);
        self.write_access_log(last, status);
        if !reusable {
            return self.abandon();
        }
        if let Some(stream) = self.stream.take() {
            let kept = Kept {
                child: self.child,
                number: self.number,
                stream,
            };
            KEPT.with(|all| all.borrow_mut().push(kept));
        }
        let dismissed = self.pool.state().finish(&self.pool, self.child, last, now);
        if let Some(dismissed) = dismissed {
            self.pool
                .keeper
                .tell(Message::Dismissed(Box::new(dismissed)));
        }
    }

    fn measure(&self, now: Instant) -> LastRequest {
        let mut last = LastRequest {
            duration: now.saturating_duration_since(self.began),
            ..LastRequest::default()
        };
        if self.measures {
            let before = {
                let state = self.pool.state();
                let child = state.children.get(&self.child);
                child.map(|one| one.cpu_before).unwrap_or_default()
            };
            let after = child::processor_time(self.pid).unwrap_or(before);
            last.cpu = [0, 1].map(|mode| after[mode].saturating_sub(before[mode]));
            last.memory = child::memory(self.pid).unwrap_or_default().all;
        }
        last
    }

    fn write_access_log(&self, last: LastRequest, status: u16) {
        let state = self.pool.state();
        let defined = Arc::clone(&state.defined);
        let Some(log) = &defined.access_log else {
            return;
        };
        let Some(child) = state.children.get(&self.child) else {
            return;
        };
        let settings = &defined.settings;
        let path = |suppressed: &String| suppressed.as_bytes() == child.facts.script_name;
        if settings.access_suppress.iter().any(path) {
            return;
        }
        let ended = crate::log::files::now();
        let entry = Entry {
            pool: &settings.name,
            facts: &child.facts,
            status,
            child: self.pid,
            parent: sys::process::own_pid().0,
            duration: last.duration,
            cpu: last.cpu,
            memory: last.memory,
            began: ended.saturating_sub(last.duration.as_secs()) as i64,
            ended: ended as i64,
        };
        let mut line = Vec::with_capacity(128);
        access_log::write(&settings.access_format, &entry, &mut line);
        drop(state);
        if let Err(reason) = log.write(&line, ended) {
            error::write(Level::Alert, format_args!("{reason}"));
        }
    }

    /// The child finds its connection ended when it reads and broken when it writes next, as with php-fpm; whether it stops
    /// then is PHP's matter (`ignore_user_abort`). It is free when it takes up its next connection.
    fn abandon(&mut self) {
        let Some(stream) = self.stream.take() else {
            return;
        };
        // It may have closed first.
        let _closed = sys::socket::shutdown(&stream, std::net::Shutdown::Both);
        drop(stream);
        self.pool.keeper.tell(Message::Abandoned {
            pool: Arc::clone(&self.pool),
            child: self.child,
        });
    }
}

/// What became of the child.
pub struct Fate(Arc<AtomicBool>);

impl Fate {
    /// `request_terminate_timeout` has passed and the child was killed: the client gets 504.
    pub fn was_terminated(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.finished {
            let last = self.measure(Instant::now());
            self.write_access_log(last, 499);
            self.abandon();
        }
    }
}
