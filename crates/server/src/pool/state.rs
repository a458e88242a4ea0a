//! The children, the queue and the counts of a pool, changed under one short lock. The order of the queue is the order of
//! arrival, whichever thread a request is on.

use super::child::{Child, ChildId, Doing, Home, LastRequest};
use super::facts::Facts;
use super::lease::Grant;
use super::scaling::{Census, Scaler};
use super::{Defined, Pool};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A request that waits.
#[derive(Debug)]
pub struct Waiter {
    pub grant: oneshot::Sender<Grant>,
    pub since: Instant,
}

/// What the status page counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub accepted: u64,
    pub max_waiting: usize,
    pub max_active: usize,
    pub max_children_reached: u64,
    pub slow: u64,
    /// Refused because the queue was full, or the request had waited too long.
    pub refused: u64,
    /// The mean duration of a request, weighed towards the last ones.
    pub mean: Duration,
}

#[derive(Debug)]
pub struct State {
    pub defined: Arc<Defined>,
    /// What its children are started with.
    pub print: u64,
    /// Grows when all children are to be replaced.
    pub epoch: u64,
    pub children: BTreeMap<ChildId, Child>,
    /// The one that has been for the longest stands in front.
    pub idle: VecDeque<ChildId>,
    pub waiting: VecDeque<Waiter>,
    pub starting: usize,
    pub scaler: Scaler,
    pub counts: Counts,
    pub failures: Failures,
    /// Why no child could be started the last time.
    pub reason: String,
    /// No configuration has this pool any more.
    pub closed: bool,
    pub started: Instant,
    /// Seconds since 1970.
    pub started_at: i64,
    /// When the numbers of children were last looked at.
    pub upkeep_at: Instant,
    /// When `pm auto` last looked at children and machine for requests that wait.
    pub looked_at: Option<Instant>,
    /// Of the largest child, in bytes; 0 while none was measured.
    pub child_memory: u64,
}

/// Children that end before they have done anything, in a row: the pause before the next one doubles.
#[derive(Debug, Default)]
pub struct Failures {
    row: u32,
    pub next_start: Option<Instant>,
}

/// So many failures in a row are answered at once.
const FREE_FAILURES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl Failures {
    pub fn failed(&mut self, now: Instant) {
        self.row = self.row.saturating_add(1);
        if let Some(doublings) = self.row.checked_sub(FREE_FAILURES + 1) {
            let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
            self.next_start = Some(now + FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE));
        }
    }

    pub fn worked(&mut self) {
        *self = Failures::default();
    }

    /// Whether a child may be started now.
    pub fn allow(&self, now: Instant) -> bool {
        self.next_start.is_none_or(|at| at <= now)
    }

    /// Nobody needs to wait for a child: there will hardly be one.
    pub fn hopeless(&self) -> bool {
        self.row >= FREE_FAILURES
    }
}

/// What a request gets at once.
pub enum Taken {
    Child(ChildId),
    Wait(oneshot::Receiver<Grant>),
    Full,
}

/// A child that has to go; dropping it closes its connections.
#[derive(Debug)]
pub struct Dismissed {
    pub pid: i32,
    pub child: Child,
}

impl State {
    pub fn new(defined: Arc<Defined>, print: u64, now: Instant) -> State {
        State {
            defined,
            print,
            epoch: 0,
            children: BTreeMap::new(),
            idle: VecDeque::new(),
            waiting: VecDeque::new(),
            starting: 0,
            scaler: Scaler::default(),
            counts: Counts::default(),
            failures: Failures::default(),
            reason: String::new(),
            closed: false,
            started: now,
            started_at: crate::log::files::now() as i64,
            upkeep_at: now,
            looked_at: None,
            child_memory: 0,
        }
    }

    pub fn census(&self, now: Instant) -> Census {
        let oldest = self.idle.front().and_then(|id| self.children.get(id));
        let first = self.waiting.iter().find(|waiter| !waiter.grant.is_closed());
        let since = |at: Instant| now.saturating_duration_since(at);
        Census {
            starting: self.starting,
            idle: self.idle.len(),
            busy: self.children.len() - self.idle.len(),
            waiting: self.waiting.len(),
            longest_idle: oldest.map_or(Duration::ZERO, |child| since(child.since)),
            longest_wait: first.map_or(Duration::ZERO, |waiter| since(waiter.since)),
        }
    }

    /// A child for a request on this thread, or a place in the queue.
    pub fn take(&mut self, thread: u64, now: Instant) -> Taken {
        if self.waiting.is_empty()
            && let Some(id) = self.take_idle(thread)
        {
            self.begin(id, now);
            return Taken::Child(id);
        }
        self.waiting.retain(|waiter| !waiter.grant.is_closed());
        if self.waiting.len() >= self.defined.settings.queue_max {
            self.counts.refused += 1;
            return Taken::Full;
        }
        let (grant, granted) = oneshot::channel();
        self.waiting.push_back(Waiter { grant, since: now });
        self.counts.max_waiting = self.counts.max_waiting.max(self.waiting.len());
        Taken::Wait(granted)
    }

    /// The child that this thread used last, or else one that no thread has, or else any.
    fn take_idle(&mut self, thread: u64) -> Option<ChildId> {
        let home = |id: &ChildId| self.children.get(id).and_then(|child| child.home.as_ref());
        let own = |id: &ChildId| home(id).is_some_and(|home| home.thread == thread);
        let index = self
            .idle
            .iter()
            .rposition(own)
            .or_else(|| self.idle.iter().rposition(|id| home(id).is_none()))
            .or(self.idle.len().checked_sub(1))?;
        self.idle.remove(index)
    }

    fn begin(&mut self, id: ChildId, now: Instant) {
        if let Some(child) = self.children.get_mut(&id) {
            child.doing = Doing::Busy;
            child.since = now;
            child.slow_told = false;
        }
        let active = self.children.len() - self.idle.len();
        self.counts.max_active = self.counts.max_active.max(active);
        self.scaler.note_busy(active);
    }

    /// What the request is about that a child has begun with.
    pub fn describe(&mut self, id: ChildId, facts: &mut Facts, cpu: Option<[Duration; 2]>) {
        if let Some(child) = self.children.get_mut(&id) {
            std::mem::swap(&mut child.facts, facts);
            child.cpu_before = cpu.unwrap_or_default();
            child.requests += 1;
            self.counts.accepted += 1;
        }
    }

    /// A child's connection for this thread, which is its home from now on.
    pub fn connection(&mut self, id: ChildId, home: &Home) -> Option<Connection> {
        let child = self.children.get_mut(&id)?;
        let kept = match &child.home {
            Some(known) if known.thread == home.thread => true,
            other => {
                if let Some(other) = other {
                    // A thread that has ended has nothing to let go.
                    let _ended = other.forget.send(id);
                }
                child.home = Some(home.clone());
                false
            }
        };
        Some(Connection {
            number: child.connection_number,
            socket: Arc::clone(&child.connection),
            terminated: Arc::clone(&child.terminated),
            kept,
        })
    }

    /// A request has ended and left its connection as a next one needs it.
    pub fn finish(
        &mut self,
        pool: &Arc<Pool>,
        id: ChildId,
        last: LastRequest,
        now: Instant,
    ) -> Option<Dismissed> {
        let settings = Arc::clone(&self.defined.settings);
        self.failures.worked();
        self.counts.mean = (self.counts.mean * 7 + last.duration) / 8;
        let child = self.children.get_mut(&id)?;
        child.last = last;
        let spent = settings.max_requests > 0 && child.requests >= settings.max_requests;
        let large = settings.max_memory.is_some_and(|most| last.memory > most);
        if child.leaving || spent || large || child.terminated.load(Ordering::Relaxed) {
            return self.dismiss(id);
        }
        self.release(pool, id, now)
    }

    /// Gives a child to the request that has waited the longest, or lets it be idle; one that was to go goes.
    #[must_use]
    pub fn release(&mut self, pool: &Arc<Pool>, id: ChildId, now: Instant) -> Option<Dismissed> {
        if self.children.get(&id)?.leaving {
            return self.dismiss(id);
        }
        while let Some(waiter) = self.waiting.pop_front() {
            self.begin(id, now);
            let waited = now.saturating_duration_since(waiter.since);
            match waiter.grant.send(Grant::new(pool, id, waited)) {
                Ok(()) => return None,
                // Nobody waits there any more.
                Err(grant) => grant.disarm(),
            }
        }
        if let Some(child) = self.children.get_mut(&id) {
            child.doing = Doing::Idle;
            child.since = now;
            self.idle.push_back(id);
        }
        None
    }

    #[must_use]
    pub fn add(
        &mut self,
        pool: &Arc<Pool>,
        id: ChildId,
        child: Child,
        now: Instant,
    ) -> Option<Dismissed> {
        self.children.insert(id, child);
        self.release(pool, id, now)
    }

    /// Takes a child out for good.
    pub fn dismiss(&mut self, id: ChildId) -> Option<Dismissed> {
        self.idle.retain(|idle| *idle != id);
        let child = self.children.remove(&id)?;
        if let Some(home) = &child.home {
            // As above.
            let _ended = home.forget.send(id);
        }
        Some(Dismissed {
            pid: child.pid,
            child,
        })
    }

    /// Whether a child has taken up its next connection, which it does when it is done with the one before.
    pub fn has_moved_on(&self, id: ChildId) -> bool {
        let child = self.children.get(&id);
        let spare = child.and_then(|child| child.spares.last());
        let is_read = |spare: &OwnedFd| matches!(sys::socket::unread_by_peer(spare), Ok(0));
        // What a process leaves unread when it ends is gone, too, but then the connection is broken before.
        spare.is_some_and(|spare| is_read(spare) && !is_broken(spare))
    }

    /// The next connection of a child takes the place of the one before.
    pub fn reconnect(&mut self, id: ChildId) -> bool {
        let Some(child) = self.children.get_mut(&id) else {
            return false;
        };
        if child.leaving || child.terminated.load(Ordering::Acquire) {
            return false;
        }
        let Some(spare) = child.spares.pop() else {
            return false;
        };
        child.connection = Arc::new(spare);
        child.connection_number += 1;
        if let Some(home) = child.home.take() {
            // As above.
            let _ended = home.forget.send(id);
        }
        true
    }

    /// Everybody who waits is told that it is in vain.
    pub fn refuse_all(&mut self) {
        self.counts.refused += self.waiting.len() as u64;
        self.waiting.clear();
    }
}

fn is_broken(connection: &OwnedFd) -> bool {
    let watch = sys::io::Watch {
        descriptor: connection.as_fd(),
        read: false,
        write: false,
    };
    let ready = sys::io::wait(&[watch], Some(Duration::ZERO));
    ready.is_ok_and(|ready| ready.first().is_some_and(|ready| ready.read))
}

/// A child's connection as a lease needs it.
pub struct Connection {
    pub number: u32,
    pub socket: Arc<OwnedFd>,
    pub terminated: Arc<AtomicBool>,
    /// This thread may still have it registered.
    pub kept: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_that_fail_at_birth_are_replaced_more_and_more_slowly() {
        let now = Instant::now();
        let mut failures = Failures::default();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            failures.failed(now);
            let pause = failures.next_start.map_or(Duration::ZERO, |at| at - now);
            pauses.push(pause.as_millis());
        }
        let expected = [0, 0, 0, 100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000];
        assert_eq!(pauses, expected);
        assert!(failures.hopeless() && !failures.allow(now));
        failures.worked();
        assert!(!failures.hopeless() && failures.allow(now));
    }

    fn child(at: Instant) -> Child {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        Child {
            pid: 1,
            connection: Arc::new(ours.into()),
            spares: Vec::new(),
            connection_number: 0,
            home: None,
            doing: Doing::Idle,
            since: at,
            started: at,
            started_at: 0,
            epoch: 0,
            requests: 0,
            facts: Facts::default(),
            last: LastRequest::default(),
            cpu_before: Default::default(),
            slow_told: false,
            terminated: Arc::default(),
            leaving: false,
        }
    }

    fn pool() -> Arc<Pool> {
        let settings =
            super::super::settings::Reading::new("www").finish(Some(crate::pool::Pm::Auto));
        let defined = Arc::new(Defined {
            settings: Arc::new(settings.unwrap()),
            access_log: None,
            slowlog: None,
            measures: false,
        });
        let (sender, _messages) = std::sync::mpsc::channel();
        let (wake, _woken) = std::os::unix::net::UnixStream::pair().unwrap();
        let way = crate::pool::Way::new(sender, wake, Arc::default());
        Arc::new(Pool::new(&defined, 0, &Arc::new(way)))
    }

    /// The request it was taken for went away before it began, and a reload came between.
    #[test]
    fn a_child_that_is_to_go_is_not_lent_again() {
        let (pool, now) = (pool(), Instant::now());
        let mut state = pool.state();
        assert!(state.add(&pool, 1, child(now), now).is_none());
        assert!(matches!(state.take(0, now), Taken::Child(1)));
        state.children.get_mut(&1).unwrap().leaving = true;
        assert!(state.release(&pool, 1, now).is_some());
        assert!(state.idle.is_empty() && state.children.is_empty());
    }

    #[test]
    fn a_child_that_is_given_back_goes_to_the_one_who_waits() {
        let (pool, now) = (pool(), Instant::now());
        let mut state = pool.state();
        assert!(state.add(&pool, 1, child(now), now).is_none());
        assert!(matches!(state.take(0, now), Taken::Child(1)));
        let Taken::Wait(mut granted) = state.take(0, now) else {
            panic!("there is one child only");
        };
        assert!(state.release(&pool, 1, now).is_none());
        let grant = granted.try_recv().unwrap();
        assert!(state.idle.is_empty() && state.waiting.is_empty());
        grant.disarm();
    }
}
