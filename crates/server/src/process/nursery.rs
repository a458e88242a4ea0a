//! The programs of the workers, as the master sees them: started, signalled and buried on behalf of the worker that asked.
//! None outlives its worker.

use std::time::{Duration, Instant};

use super::channel::Channel;
use super::children::{self, ChildRequest};
use super::journal::Journal;
use super::locked_ini::LockedIni;
use super::master::Master;
use super::messages::Parcel;
use super::plan::Plan;
use super::program::Program;
use super::tracing::Tracing;
use sys::process::{End, Pid};
use sys::signal::Signal;

/// How long a program may take to end after its worker, before it is killed.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

struct Child {
    pid: Pid,
    worker: Pid,
    /// When it is killed: its worker is gone.
    killed_at: Option<Instant>,
}

/// All programs of all workers.
#[derive(Default)]
pub struct Nursery {
    children: Vec<Child>,
    locked: LockedIni,
    tracing: Tracing,
}

impl Nursery {
    /// Does what a worker asks for, and tells it what came of it.
    pub fn handle(
        &mut self,
        request: ChildRequest,
        worker: Pid,
        channel: &mut Channel,
        plans: (&Plan, Option<&Plan>),
        journal: &Journal,
    ) {
        // A worker whose channel is broken is about to be buried, and its children with it.
        match request {
            ChildRequest::Start {
                ticket,
                name,
                print,
            } => match children::start_planned(plans.0, plans.1, &name, print, &mut self.locked) {
                Ok(child) => {
                    self.children.push(Child {
                        pid: child.pid,
                        worker,
                        killed_at: None,
                    });
                    let _broken = channel.send(&Parcel::child_started(ticket, &child));
                }
                Err(reason) => {
                    let _broken = channel.send(&Parcel::child_failed(ticket, &reason));
                }
            },
            ChildRequest::Signal { child, signal } => {
                let own = |one: &Child| one.pid == child && one.worker == worker;
                if self.children.iter().any(own) {
                    kill(child, signal, journal);
                }
            }
            ChildRequest::Trace { child, depth } => {
                let own = |one: &Child| one.pid == child && one.worker == worker;
                // Of one that has ended the worker is told anyway.
                if self.children.iter().any(own)
                    && let Err(reason) = self.tracing.begin(child, depth)
                {
                    let _broken = channel.send(&Parcel::child_traced(child, &Err(reason)));
                }
            }
        }
    }

    /// A child stands still, as was asked for; gives its worker and what it was doing.
    pub fn stopped(
        &mut self,
        pid: Pid,
        signal: Option<i32>,
    ) -> Option<(Pid, Result<String, String>)> {
        let calls = self.tracing.stopped(pid, signal)?;
        let child = self.children.iter().find(|child| child.pid == pid)?;
        Some((child.worker, calls))
    }

    /// Forgets a child that has ended; gives its worker.
    pub fn bury(&mut self, pid: Pid) -> Option<Pid> {
        let index = self.children.iter().position(|child| child.pid == pid)?;
        self.tracing.forget(pid);
        Some(self.children.swap_remove(index).worker)
    }

    /// Lets the children of a worker that has ended follow it.
    pub fn orphan(&mut self, worker: Pid, now: Instant, journal: &Journal) {
        for child in &mut self.children {
            if child.worker == worker && child.killed_at.is_none() {
                child.killed_at = Some(now + FAREWELL_MAX);
                kill(child.pid, Signal::Term, journal);
            }
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.children
            .iter()
            .filter_map(|child| child.killed_at)
            .min()
    }

    pub fn check_deadlines(&mut self, now: Instant, journal: &Journal) {
        for child in &mut self.children {
            if child.killed_at.is_some_and(|at| at <= now) {
                // The kernel answers for what follows.
                child.killed_at = None;
                kill(child.pid, Signal::Kill, journal);
            }
        }
    }
}

fn kill(pid: Pid, signal: Signal, journal: &Journal) {
    if let Err(error) = sys::process::kill(pid, signal) {
        let (number, reason) = (signal.number(), sys::errno::Errno(&error));
        journal.alert(format_args!("kill({pid}, {number}) failed ({reason})"));
    }
}

impl<P: Program> Master<'_, P> {
    pub(super) fn handle_child_request(&mut self, worker: Pid, request: ChildRequest) {
        let pending = self.pending.as_ref();
        let next = pending.map(|pending| &pending.generation.plan);
        let plans = (&self.current.plan, next);
        let asking = self.workers.iter_mut().find(|one| one.pid == worker);
        if let Some(asking) = asking {
            let (channel, journal) = (&mut asking.channel, &self.journal);
            self.nursery
                .handle(request, worker, channel, plans, journal);
        }
    }

    /// Tells its worker what a child that stands still was doing.
    pub(super) fn child_stopped(&mut self, child: Pid, signal: Option<i32>) {
        let Some((owner, calls)) = self.nursery.stopped(child, signal) else {
            return;
        };
        if let Some(worker) = self.workers.iter_mut().find(|one| one.pid == owner) {
            // As above.
            let _broken = worker.channel.send(&Parcel::child_traced(child, &calls));
        }
    }

    /// Tells its worker that a child has ended; false for a process that is no child.
    pub(super) fn bury_child(&mut self, child: Pid, end: End) -> bool {
        let Some(owner) = self.nursery.bury(child) else {
            return false;
        };
        if let Some(worker) = self.workers.iter_mut().find(|one| one.pid == owner) {
            // As above.
            let _broken = worker.channel.send(&Parcel::child_ended(child, end));
        }
        true
    }
}
