//! The thread that looks after all pools: it has children started and ended, decides how many there are, and watches what
//! takes too long. Requests do not wait for it; they only tell it.

use super::auto::Machine;
use super::child::{Child, ChildId, Doing};
use super::output::Output;
use super::scaling::{Decision, Scaler};
use super::state::Dismissed;
use super::{Event, Nursery, Pool, machine, overdue};
use crate::log::error::{self, Level};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the keeper is told.
#[derive(Debug)]
pub enum Message {
    /// A pool that is new here, or has other settings or a successor of its children to start.
    Begin(Arc<Pool>),
    /// A request waits.
    Waits(Arc<Pool>),
    /// A request was given up.
    Abandoned {
        pool: Arc<Pool>,
        child: ChildId,
        /// What the child still says is to be read.
        drain: bool,
    },
    Dismissed(Box<Dismissed>),
    Event(Event),
    Stop,
}

/// The way to the keeper, from any thread.
#[derive(Debug)]
pub struct Way {
    messages: Mutex<Sender<Message>>,
    wake: UnixStream,
    /// A wake-up is under way already.
    woken: Arc<AtomicBool>,
}

impl Way {
    pub fn tell(&self, message: Message) {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        // Either fails only when the keeper has ended, and the process with it.
        let _ended = messages.send(message);
        drop(messages);
        if !self.woken.swap(true, Ordering::AcqRel) {
            let _full = (&self.wake).write(&[0]);
        }
    }
}

/// php-fpm's upkeep is due each second.
const TICK: Duration = Duration::from_secs(1);
/// While requests wait, `pm auto` looks so often.
const WATCHFUL_TICK: Duration = Duration::from_millis(50);
/// What ends slowly is killed after so long.
const FAREWELL_MAX: Duration = Duration::from_secs(5);
/// How long a child may take to notice that its request was given up, unless it has more time for a request anyway.
const ABANDONED_MAX: Duration = Duration::from_secs(60);

struct Kept {
    pool: Arc<Pool>,
    next_tick: Instant,
}

struct Abandoned {
    pool: Arc<Pool>,
    child: ChildId,
    connection: Arc<OwnedFd>,
    drain: bool,
    until: Instant,
}

struct Living {
    pool: Arc<Pool>,
    child: ChildId,
    started: Instant,
    output: Option<Output>,
    /// It was told to end, and is killed then.
    killed_at: Option<Instant>,
}

struct Keeper {
    nursery: Box<dyn Nursery>,
    messages: Receiver<Message>,
    woken: UnixStream,
    is_woken: Arc<AtomicBool>,
    pools: Vec<Kept>,
    /// Children that were asked for, with the epoch of their pool then.
    tickets: HashMap<ChildId, (Arc<Pool>, u64)>,
    next_ticket: ChildId,
    living: HashMap<i32, Living>,
    abandoned: Vec<Abandoned>,
    machine: machine::Watch,
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
        machine: machine::Watch::new(),
    };
    std::thread::Builder::new()
        .name("pools".to_owned())
        .spawn(move || {
            let _vital = crate::log::panic::Vital;
            while keeper.turn() {}
        })?;
    Ok(Arc::new(Way {
        messages: Mutex::new(sender),
        wake,
        woken: is_woken,
    }))
}

impl Keeper {
    fn turn(&mut self) -> bool {
        self.wait();
        self.is_woken.store(false, Ordering::Release);
        while matches!(self.woken.read(&mut [0; 64]), Ok(1..)) {}
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Begin(pool) => self.begin(pool),
                Message::Waits(pool) => self.serve_waiting(&pool),
                Message::Abandoned { pool, child, drain } => self.abandon(pool, child, drain),
                Message::Dismissed(dismissed) => self.farewell(*dismissed),
                Message::Event(event) => self.hear(event),
                Message::Stop => return false,
            }
        }
        let now = Instant::now();
        self.look_at_abandoned(now);
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
        watches.extend(self.abandoned.iter().map(|one| sys::io::Watch {
            read: one.drain,
            ..read(one.connection.as_fd())
        }));
        let kills = self.living.values().filter_map(|one| one.killed_at);
        let ticks = self.pools.iter().map(|kept| kept.next_tick);
        let until = self.abandoned.iter().map(|one| one.until);
        let next = kills.chain(ticks).chain(until).min();
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
        let mut state = pool.state();
        state.starting = state.starting.saturating_sub(1);
        let Some(connection) = connections.pop() else {
            return;
        };
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
        state.add(&pool, ticket, child, now);
        let name = &pool.name;
        error::write(
            Level::Info,
            format_args!("[pool {name}] child {pid} started"),
        );
        drop(state);
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
        let Some((pool, _)) = self.tickets.remove(&ticket) else {
            return;
        };
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
        self.serve_waiting(&pool);
    }

    /// A process has ended.
    fn ended(&mut self, pid: i32, how: &str, crashed: bool) {
        let now = Instant::now();
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
        let decision = {
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
            let (census, settings) = (state.census(now), Arc::clone(&state.defined.settings));
            state.scaler.child_ended(&settings, &census)
        };
        self.carry_out(&pool, decision, now);
    }

    /// Decides about children for requests that wait.
    fn serve_waiting(&mut self, pool: &Arc<Pool>) {
        let now = Instant::now();
        let machine = self.machine.look(now);
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
        if let Some(kept) = self
            .pools
            .iter_mut()
            .find(|kept| Arc::ptr_eq(&kept.pool, pool))
        {
            kept.next_tick = kept.next_tick.min(now + WATCHFUL_TICK);
        }
    }

    fn carry_out(&mut self, pool: &Arc<Pool>, decision: Option<Decision>, now: Instant) {
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

    fn abandon(&mut self, pool: Arc<Pool>, child: ChildId, drain: bool) {
        let now = Instant::now();
        let connection = {
            let mut state = pool.state();
            let own = state.defined.settings.request_terminate_timeout;
            let Some(one) = state.children.get_mut(&child) else {
                return;
            };
            one.doing = Doing::Abandoned;
            (Arc::clone(&one.connection), own)
        };
        let (connection, terminate) = connection;
        // With a limit of its own it is killed by that.
        let limit = if terminate > 0 {
            Duration::from_secs(terminate) + TICK
        } else {
            ABANDONED_MAX
        };
        self.abandoned.push(Abandoned {
            pool,
            child,
            connection,
            drain,
            until: now + limit,
        });
    }

    /// Children that have closed the connection of a request that was given up are free again.
    fn look_at_abandoned(&mut self, now: Instant) {
        let all = std::mem::take(&mut self.abandoned);
        for one in all {
            let closed = match one.drain {
                true => is_drained(&one.connection),
                false => is_broken(&one.connection),
            };
            if !closed && one.until > now {
                self.abandoned.push(one);
                continue;
            }
            let Abandoned { pool, child, .. } = one;
            let mut state = pool.state();
            if closed && state.reconnect(child) && is_open(&state, child) {
                state.release(&pool, child, now);
                continue;
            }
            let dismissed = state.dismiss(child);
            drop(state);
            if let Some(dismissed) = dismissed {
                self.farewell(dismissed);
                if !closed
                    && let Some(living) = self.living.values_mut().find(|one| one.child == child)
                {
                    living.killed_at = Some(now);
                }
                self.kill_late(now);
            }
            self.serve_waiting(&pool);
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

    fn tick(&mut self, now: Instant) {
        let due: Vec<Arc<Pool>> = self
            .pools
            .iter()
            .filter(|kept| kept.next_tick <= now)
            .map(|kept| Arc::clone(&kept.pool))
            .collect();
        for pool in due {
            for pid in overdue::look(&pool, now) {
                self.nursery.signal(pid, true);
            }
            let machine = self.measured(&pool, now);
            let since = self.machine.since_start(now);
            let (decision, next) = {
                let mut state = pool.state();
                let settings = Arc::clone(&state.defined.settings);
                let census = state.census(now);
                let waits = census.waiting > 0;
                let upkeep = now.saturating_duration_since(state.upkeep_at) >= TICK;
                let decision = match (state.closed, upkeep) {
                    (true, _) => None,
                    (false, true) => {
                        state.upkeep_at = now;
                        state.scaler.tick(&settings, &census, &machine, since)
                    }
                    (false, false) if waits => state
                        .scaler
                        .request_waits(&settings, &census, &machine, since),
                    (false, false) => None,
                };
                let next = if waits {
                    WATCHFUL_TICK
                } else {
                    overdue::heartbeat(&settings).min(TICK)
                };
                (decision, next)
            };
            self.carry_out(&pool, decision, now);
            let ended = pool.state().closed && pool.state().children.is_empty();
            self.pools.retain_mut(|kept| {
                if !Arc::ptr_eq(&kept.pool, &pool) {
                    return true;
                }
                kept.next_tick = now + next;
                !ended
            });
        }
    }

    /// The machine, with what a child of this pool needs at most.
    fn measured(&mut self, pool: &Arc<Pool>, now: Instant) -> Machine {
        let pids: Vec<i32> = {
            let state = pool.state();
            let measures = state.defined.settings.pm == super::Pm::Auto
                && now.saturating_duration_since(state.upkeep_at) >= TICK;
            match measures {
                true => state.children.values().map(|child| child.pid).collect(),
                false => Vec::new(),
            }
        };
        let largest = pids
            .into_iter()
            .filter_map(super::child::memory)
            .map(|memory| memory.own)
            .max();
        let mut state = pool.state();
        if let Some(largest) = largest {
            state.child_memory = largest;
        }
        let mut machine = self.machine.look(now);
        machine.child_memory = state.child_memory;
        machine
    }
}

/// Whether the other side has closed after what it said, which is dropped.
fn is_drained(connection: &Arc<OwnedFd>) -> bool {
    let mut buffer = [0; 16 << 10];
    for _ in 0..DRAIN_READS {
        match sys::io::receive(connection, &mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
    false
}

/// Others get their turn between so many reads.
const DRAIN_READS: usize = 16;

/// Whether the other side has closed, or has ended before it took up the connection.
fn is_broken(connection: &Arc<OwnedFd>) -> bool {
    let watch = sys::io::Watch {
        descriptor: connection.as_fd(),
        read: false,
        write: false,
    };
    let ready = sys::io::wait(&[watch], Some(Duration::ZERO));
    ready.is_ok_and(|ready| ready.first().is_some_and(|ready| ready.read))
}

/// The spare connection of a process that has ended is broken.
fn is_open(state: &super::state::State, child: ChildId) -> bool {
    let connection = state.children.get(&child).map(|child| &child.connection);
    connection.is_some_and(|connection| !is_broken(connection))
}
