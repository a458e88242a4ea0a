//! The thread that looks after all pools: it has children started and ended, decides how many there are, and watches what
//! takes too long. Requests do not wait for it; they only tell it.

use super::abandoned::Abandoned;
use super::child::{Child, ChildId, Doing};
use super::output::Output;
use super::scaling::{Decision, Scaler};
use super::state::Dismissed;
use super::way::{Message, Way};
use super::{Event, Nursery, Pool, machine};
use crate::log::error::{self, Level};
use std::collections::HashMap;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// php-fpm's upkeep is due each second.
pub const TICK: Duration = Duration::from_secs(1);
/// While requests wait, `pm auto` looks so often.
pub const WATCHFUL_TICK: Duration = Duration::from_millis(50);
/// Between two looks of `pm auto`.
const LOOKS_APART: Duration = Duration::from_millis(20);
/// What ends slowly is killed after so long.
const FAREWELL_MAX: Duration = Duration::from_secs(5);
pub struct Kept {
    pub pool: Arc<Pool>,
    pub next_tick: Instant,
}

pub struct Living {
    pool: Arc<Pool>,
    pub child: ChildId,
    started: Instant,
    output: Option<Output>,
    /// It was told to end, and is killed then.
    pub killed_at: Option<Instant>,
}

/// The thread's own.
pub struct Keeper {
    pub(super) nursery: Box<dyn Nursery>,
    messages: Receiver<Message>,
    woken: UnixStream,
    is_woken: Arc<AtomicBool>,
    pub(super) pools: Vec<Kept>,
    /// Children that were asked for, with the epoch of their pool then.
    tickets: HashMap<ChildId, (Arc<Pool>, u64)>,
    next_ticket: ChildId,
    pub living: HashMap<i32, Living>,
    pub abandoned: Vec<Abandoned>,
    /// Entries of the slow log that wait for a look at their child.
    pub(super) slow: Vec<super::slow_log::Entry>,
    pub(super) machine: machine::Watch,
}

/// Starts the thread.
pub fn start(nursery: Box<dyn Nursery>) -> std::io::Result<Arc<Way>> {
    let (sender, messages) = channel();
    let (wake, woken) = UnixStream::pair()?;
    wake.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    let is_woken = Arc::new(AtomicBool::new(false));
    let mut keeper = Keeper {
        nursery,
        messages,
        woken,
        is_woken: Arc::clone(&is_woken),
        pools: Vec::new(),
        tickets: HashMap::new(),
        next_ticket: 1,
        living: HashMap::new(),
        abandoned: Vec::new(),
        slow: Vec::new(),
        machine: machine::Watch::new(),
    };
    std::thread::Builder::new()
        .name("pools".to_owned())
        .spawn(move || {
            let _vital = crate::log::panic::Vital;
            while keeper.turn() {}
        })?;
    Ok(Arc::new(Way::new(sender, wake, is_woken)))
}

impl Keeper {
    fn turn(&mut self) -> bool {
        self.wait();
        // In this order: who tells something after the pipe was emptied, wakes again.
        while matches!(self.woken.read(&mut [0; 64]), Ok(1..)) {}
        self.is_woken.swap(false, Ordering::AcqRel);
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Begin(pool) => self.begin(pool),
                Message::Waits(pool) => self.serve_waiting(&pool),
                Message::Abandoned { pool, child } => self.abandon(pool, child),
                Message::Dismissed(dismissed) => self.retire(*dismissed),
                Message::Event(event) => self.hear(event),
                Message::Stop => return false,
            }
        }
        let now = Instant::now();
        self.look_at_abandoned(now);
        self.give_up_slow(now);
        self.read_outputs();
        self.kill_late(now);
        self.tick(now);
        true
    }

    fn wait(&self) {
        let read = |descriptor| sys::io::Watch {
            descriptor,
            read: true,
            write: false,
        };
        let mut watches = vec![read(self.woken.as_fd())];
        let outputs = self.living.values().filter_map(|one| one.output.as_ref());
        watches.extend(outputs.map(|output| read(output.as_fd())));
        let kills = self.living.values().filter_map(|one| one.killed_at);
        let ticks = self.pools.iter().map(|kept| kept.next_tick);
        let abandoned = self.abandoned_deadline();
        let slow = self.slow_deadline();
        let next = kills.chain(ticks).chain(abandoned).chain(slow).min();
        let timeout = next.map(|next| next.saturating_duration_since(Instant::now()));
        if let Err(error) = sys::io::wait(&watches, timeout) {
            let reason = sys::errno::Errno(&error);
            error::write(Level::Alert, format_args!("poll() failed ({reason})"));
        }
    }

    /// A pool comes into force, with new settings perhaps.
    fn begin(&mut self, pool: Arc<Pool>) {
        let now = Instant::now();
        let (missing, outdated) = {
            let state = pool.state();
            let current = |child: &&Child| child.epoch == state.epoch;
            let current = state.children.values().filter(current).count();
            let settings = &state.defined.settings;
            let initial = Scaler::initial(settings, &self.machine.look(now));
            // Children take the place of others one by one.
            let wanted = initial.max(state.children.len()).min(settings.max_children);
            let outdated = state.children.len() > current;
            (wanted.saturating_sub(current + state.starting), outdated)
        };
        if pool.state().closed {
            self.retire_outdated(&pool, usize::MAX);
        } else {
            // With others still at work there is no hurry.
            let at_once = if outdated {
                missing.min(self.machine.processors())
            } else {
                missing
            };
            self.spawn(&pool, at_once, now);
        }
        if !self.pools.iter().any(|kept| Arc::ptr_eq(&kept.pool, &pool)) {
            self.pools.push(Kept {
                pool,
                next_tick: now + TICK,
            });
        }
    }

    fn spawn(&mut self, pool: &Arc<Pool>, count: usize, now: Instant) {
        for _ in 0..count {
            let (name, print, epoch) = {
                let mut state = pool.state();
                if !state.failures.allow(now) || state.closed {
                    return;
                }
                state.starting += 1;
                (pool.name.clone(), state.print, state.epoch)
            };
            let ticket = self.next_ticket;
            self.next_ticket += 1;
            self.tickets.insert(ticket, (Arc::clone(pool), epoch));
            self.nursery.start(ticket, &name, print);
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Started {
                ticket,
                pid,
                connections,
                output,
            } => self.started(ticket, pid, connections, output),
            Event::Failed { ticket, reason } => self.failed(ticket, reason),
            Event::Ended { pid, how, crashed } => self.ended(pid, &how, crashed),
            Event::Traced { pid, calls } => self.finish_slow(pid, calls),
        }
    }

    fn started(
        &mut self,
        ticket: ChildId,
        pid: i32,
        mut connections: Vec<OwnedFd>,
        output: Option<OwnedFd>,
    ) {
        let now = Instant::now();
        let Some((pool, epoch)) = self.tickets.remove(&ticket) else {
            return;
        };
        connections.reverse();
        let Some(connection) = connections.pop() else {
            self.nursery.signal(pid, true);
            return self.no_child(&pool, format!("child {pid} has no connection"), now);
        };
        let mut state = pool.state();
        state.starting = state.starting.saturating_sub(1);
        let child = Child {
            pid,
            connection: Arc::new(connection),
            spares: connections,
            connection_number: 0,
            home: None,
            doing: Doing::Idle,
            since: now,
            started: now,
            started_at: crate::log::files::now() as i64,
            epoch,
            requests: 0,
            facts: Default::default(),
            last: Default::default(),
            cpu_before: Default::default(),
            slow_told: false,
            terminated: Arc::new(AtomicBool::new(false)),
            leaving: false,
        };
        let decorate = state.defined.settings.decorate_workers_output;
        let output = output.map(|output| Output::new(output, &pool.name, pid, decorate));
        self.living.insert(
            pid,
            Living {
                pool: Arc::clone(&pool),
                child: ticket,
                started: now,
                output,
                killed_at: None,
            },
        );
        let dismissed = state.add(&pool, ticket, child, now);
        drop(state);
        let name = &pool.name;
        error::write(
            Level::Info,
            format_args!("[pool {name}] child {pid} started"),
        );
        if let Some(dismissed) = dismissed {
            self.farewell(dismissed);
        }
        // It takes the place of one of a former configuration, and the next one follows.
        if self.retire_outdated(&pool, 1) {
            self.spawn(&pool, 1, now);
        }
        self.serve_waiting(&pool);
    }

    /// Lets up to `count` children of a former configuration go; says whether there are more.
    fn retire_outdated(&mut self, pool: &Arc<Pool>, count: usize) -> bool {
        let mut dismissed = Vec::new();
        let more = {
            let mut state = pool.state();
            let epoch = state.epoch;
            let closed = state.closed;
            let outdated = |child: &Child| (child.epoch != epoch || closed) && !child.leaving;
            let mut ids: Vec<ChildId> = state
                .children
                .iter()
                .filter(|(_, child)| outdated(child))
                .map(|(id, _)| *id)
                .collect();
            // Idle ones first.
            ids.sort_by_key(|id| !state.idle.contains(id));
            for id in ids.iter().take(count) {
                match state.children.get_mut(id) {
                    Some(child) if child.doing != Doing::Idle => child.leaving = true,
                    _ => dismissed.extend(state.dismiss(*id)),
                }
            }
            ids.len() > count
        };
        dismissed.into_iter().for_each(|one| self.farewell(one));
        more
    }

    fn failed(&mut self, ticket: ChildId, reason: String) {
        let now = Instant::now();
        if let Some((pool, _)) = self.tickets.remove(&ticket) {
            self.no_child(&pool, reason, now);
        }
    }

    /// A child that was asked for is not to be had.
    fn no_child(&mut self, pool: &Arc<Pool>, reason: String, now: Instant) {
        let name = &pool.name;
        error::write(
            Level::Error,
            format_args!("[pool {name}] no child could be started: {reason}"),
        );
        let mut state = pool.state();
        state.starting = state.starting.saturating_sub(1);
        state.failures.failed(now);
        state.reason = reason;
        if state.children.is_empty() && state.failures.hopeless() {
            state.refuse_all();
        }
        drop(state);
        self.serve_waiting(pool);
    }

    /// A process has ended.
    fn ended(&mut self, pid: i32, how: &str, crashed: bool) {
        let now = Instant::now();
        self.finish_slow(pid, Err("the process has ended".to_owned()));
        let Some(mut living) = self.living.remove(&pid) else {
            return;
        };
        if let Some(output) = &mut living.output {
            output.read();
        }
        let pool = living.pool;
        self.abandoned.retain(|one| one.child != living.child);
        let age = now.saturating_duration_since(living.started);
        let level = if crashed { Level::Warning } else { Level::Info };
        let (name, seconds) = (&pool.name, age.as_secs_f64());
        error::write(
            level,
            format_args!("[pool {name}] child {pid} {how} after {seconds:.6} seconds from start"),
        );
        if living.killed_at.is_some() {
            return;
        }
        {
            let mut state = pool.state();
            let Some(dismissed) = state.dismiss(living.child) else {
                return;
            };
            if dismissed.child.requests == 0 {
                state.failures.failed(now);
                state.reason = format!("child {pid} {how}");
                if state.children.is_empty() && state.failures.hopeless() {
                    state.refuse_all();
                }
            }
        }
        self.replace(&pool, now);
    }

    /// A child that has done its work goes, and another takes its place.
    pub fn retire(&mut self, dismissed: Dismissed) {
        let pool = self.living.get(&dismissed.pid);
        let pool = pool.map(|living| Arc::clone(&living.pool));
        self.farewell(dismissed);
        if let Some(pool) = pool {
            self.replace(&pool, Instant::now());
        }
    }

    /// There is one child less than there was.
    fn replace(&mut self, pool: &Arc<Pool>, now: Instant) {
        let decision = {
            let mut state = pool.state();
            let (census, settings) = (state.census(now), Arc::clone(&state.defined.settings));
            state.scaler.child_ended(&settings, &census)
        };
        self.carry_out(pool, decision, now);
    }

    /// Decides about children for requests that wait.
    fn serve_waiting(&mut self, pool: &Arc<Pool>) {
        let now = Instant::now();
        if let Some(kept) = self
            .pools
            .iter_mut()
            .find(|kept| Arc::ptr_eq(&kept.pool, pool))
        {
            kept.next_tick = kept.next_tick.min(now + WATCHFUL_TICK);
        }
        {
            let mut state = pool.state();
            let recent = |at: Instant| now.saturating_duration_since(at) < LOOKS_APART;
            let is_auto = state.defined.settings.pm == super::Pm::Auto;
            // With a look for each request that waits there would be little time for anything else.
            if is_auto && !state.children.is_empty() && state.looked_at.is_some_and(recent) {
                return;
            }
            state.looked_at = Some(now);
        }
        let machine = self.measured(pool, now);
        let since = self.machine.since_start(now);
        let decision = {
            let mut state = pool.state();
            if state.closed || state.waiting.is_empty() {
                return;
            }
            let (census, settings) = (state.census(now), Arc::clone(&state.defined.settings));
            state
                .scaler
                .request_waits(&settings, &census, &machine, since)
        };
        self.carry_out(pool, decision, now);
    }

    pub(super) fn carry_out(&mut self, pool: &Arc<Pool>, decision: Option<Decision>, now: Instant) {
        let say = |level: Level, text: &Option<String>| {
            if let Some(text) = text {
                error::write(level, format_args!("[pool {}] {text}", pool.name));
            }
        };
        match decision {
            None => {}
            Some(Decision::Spawn { count, why }) => {
                say(Level::Notice, &why);
                self.spawn(pool, count, now);
            }
            Some(Decision::Retire { count, why }) => {
                say(Level::Notice, &why);
                let dismissed: Vec<Dismissed> = {
                    let mut state = pool.state();
                    let ids: Vec<ChildId> = state.idle.iter().copied().take(count).collect();
                    ids.into_iter().filter_map(|id| state.dismiss(id)).collect()
                };
                dismissed.into_iter().for_each(|one| self.farewell(one));
            }
            Some(Decision::Warn(text)) => {
                pool.state().counts.max_children_reached += 1;
                say(Level::Warning, &Some(text));
            }
        }
    }

    /// Tells a child to end; its connections close with it.
    fn farewell(&mut self, dismissed: Dismissed) {
        let now = Instant::now();
        let Dismissed { pid, child } = dismissed;
        drop(child);
        if let Some(living) = self.living.get_mut(&pid) {
            living.killed_at = Some(now + FAREWELL_MAX);
            self.nursery.signal(pid, false);
        }
    }

    fn kill_late(&mut self, now: Instant) {
        for (pid, living) in &mut self.living {
            if living.killed_at.is_some_and(|at| at <= now) {
                living.killed_at = Some(now + FAREWELL_MAX);
                self.nursery.signal(*pid, true);
            }
        }
    }

    fn read_outputs(&mut self) {
        for living in self.living.values_mut() {
            if let Some(output) = &mut living.output
                && !output.read()
            {
                living.output = None;
            }
        }
    }
}
