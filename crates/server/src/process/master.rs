//! The master: one thread, one loop, looking after one worker process. It serves nothing and decides nothing about requests;
//! it holds the sockets, the privileges and the pid file, and answers signals as nginx does.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::channel::{Channel, Incoming};
use super::journal::{Journal, Level};
use super::log_files;
use super::messages::{Parcel, Report};
use super::nursery::Nursery;
use super::pid_file;
use super::plan::Plan;
use super::program::Program;
use super::reload::Pending;
use super::resources::Resources;
use super::respawn::Respawn;
use super::upgrade::{Origin, Upgrade};
use super::watched::Watched;
use sys::process::{Change, End, Fork, Pid};
use sys::signal::{Received, Signal, SignalReader};

/// How long a worker may take to end after TERM, before it is killed.
const TERMINATION_MAX: Duration = Duration::from_secs(1);

/// A worker that ends with this code could not start, and the next one could not either.
pub const FATAL_CODE: i32 = 2;

const SIGNALS: &[Signal] = &[
    Signal::Hup,
    Signal::Int,
    Signal::Quit,
    Signal::Term,
    Signal::Usr1,
    Signal::Usr2,
    Signal::Winch,
    Signal::Chld,
];

/// A configuration with what is open for it.
#[derive(Clone)]
pub struct Generation<C> {
    pub plan: Plan,
    pub configuration: C,
    pub resources: Resources,
}

/// What a forked worker starts with.
pub struct Seed<C> {
    pub generation: Generation<C>,
    pub channel: Channel,
    pub journal: Journal,
}

pub enum Ending<C> {
    Exit(i32),
    BecomeWorker(Box<Seed<C>>),
}

pub(super) struct Worker {
    pub pid: Pid,
    pub channel: Channel,
    pub started: Instant,
    /// It serves.
    pub ready: bool,
    /// It was told to end.
    pub leaving: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// WINCH: the workers end, the master waits for a new binary to take over, or for HUP.
    NotAccepting,
    Quitting,
    /// The time is when the workers are killed; `None` when they were.
    Terminating(Option<Instant>),
}

pub struct Master<'a, P: Program> {
    pub(super) program: &'a P,
    pub(super) journal: Journal,
    signals: SignalReader,
    pub(super) current: Generation<P::Configuration>,
    pub(super) pending: Option<Pending<P::Configuration>>,
    /// HUP came while one was pending.
    pub(super) reload_again: bool,
    pub(super) workers: Vec<Worker>,
    pub(super) respawn: Respawn,
    pub(super) upgrade: Upgrade,
    pub(super) nursery: Nursery,
    pub(super) watched: Watched,
    phase: Phase,
}

impl<'a, P: Program> Master<'a, P> {
    pub fn new(
        program: &'a P,
        current: Generation<P::Configuration>,
        journal: Journal,
        origin: Origin,
    ) -> io::Result<Self> {
        let mut watched = Watched::default();
        watched.set(&current.plan.watched, Instant::now());
        Ok(Master {
            watched,
            program,
            journal,
            signals: SignalReader::new(SIGNALS)?,
            current,
            pending: None,
            reload_again: false,
            workers: Vec::new(),
            respawn: Respawn::at_once(Instant::now()),
            upgrade: Upgrade::new(origin),
            nursery: Nursery::default(),
            phase: Phase::Running,
        })
    }

    /// Returns in the master at its end, and in each worker at its birth.
    pub fn run(mut self) -> Ending<P::Configuration> {
        self.journal.notice("start worker processes");
        loop {
            let now = Instant::now();
            if let Some(generation) = self.wanted(now) {
                if let Some(seed) = self.start_worker(generation, now) {
                    return Ending::BecomeWorker(Box::new(seed));
                }
                continue;
            }
            if self.is_over() {
                self.close();
                return Ending::Exit(0);
            }
            self.wait(now);
            self.read_channels();
            self.read_signals();
            self.check_deadlines(Instant::now());
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Quitting | Phase::Terminating(_)) && self.workers.is_empty()
    }

    /// The generation that a worker is to be started for now, if any.
    fn wanted(&self, now: Instant) -> Option<Generation<P::Configuration>> {
        if self.phase != Phase::Running {
            return None;
        }
        match &self.pending {
            Some(pending) if pending.wants_process() => Some(pending.generation.clone()),
            // Its worker is about to be ready; if not, this comes to be asked again.
            Some(pending) if pending.new_worker().is_some() => None,
            _ => {
                let due =
                    self.serving().is_none() && self.respawn.due().is_some_and(|due| due <= now);
                due.then(|| self.current.clone())
            }
        }
    }

    /// The worker of the current generation.
    pub(super) fn serving(&self) -> Option<&Worker> {
        let successor = self.pending.as_ref().and_then(Pending::new_worker);
        self.workers
            .iter()
            .find(|worker| !worker.leaving && Some(worker.pid) != successor)
    }

    fn start_worker(
        &mut self,
        generation: Generation<P::Configuration>,
        now: Instant,
    ) -> Option<Seed<P::Configuration>> {
        let forked = Channel::pair().and_then(|ends| Ok((ends, sys::process::fork()?)));
        match forked {
            Ok(((_, channel), Fork::Child)) => {
                let pending = self
                    .pending
                    .as_ref()
                    .filter(|pending| pending.wants_process());
                let journal = pending
                    .map_or(&self.journal, |pending| &pending.journal)
                    .clone();
                Some(Seed {
                    generation,
                    channel,
                    journal,
                })
            }
            Ok(((channel, _), Fork::Parent(pid))) => {
                self.journal
                    .notice(format_args!("start worker process {pid}"));
                self.workers.push(Worker {
                    pid,
                    channel,
                    started: now,
                    ready: false,
                    leaving: false,
                });
                if let Some(pending) = &mut self.pending {
                    pending.process_started(pid);
                }
                None
            }
            Err(error) => {
                let reason = sys::errno::Errno(&error);
                self.journal.alert(format_args!(
                    "fork() failed while spawning \"worker process\" ({reason})"
                ));
                self.respawn.died(Duration::ZERO, now);
                self.give_up_pending("no worker process could be started for it");
                None
            }
        }
    }

    fn wait(&self, now: Instant) {
        let mut watches = vec![sys::io::Watch {
            descriptor: self.signals.as_fd(),
            read: true,
            write: false,
        }];
        for worker in &self.workers {
            let write = worker.channel.has_outgoing();
            watches.push(sys::io::Watch {
                descriptor: worker.channel.as_fd(),
                read: true,
                write,
            });
        }
        let timeout = self
            .next_deadline()
            .map(|deadline| deadline.saturating_duration_since(now));
        if let Err(error) = sys::io::wait(&watches, timeout) {
            self.journal.alert(format_args!(
                "poll() failed ({})",
                sys::errno::Errno(&error)
            ));
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let own = match self.phase {
            Phase::Terminating(deadline) => deadline,
            Phase::Running => {
                let successor = self.pending.as_ref().and_then(Pending::new_worker);
                let waits = self.serving().is_none() && successor.is_none();
                let respawn = self.respawn.due().filter(|_| waits);
                respawn.into_iter().chain(self.reload_deadline()).min()
            }
            Phase::NotAccepting | Phase::Quitting => None,
        };
        let others = [self.nursery.deadline(), self.watched.deadline()];
        own.into_iter().chain(others.into_iter().flatten()).min()
    }

    fn check_deadlines(&mut self, now: Instant) {
        if let Phase::Terminating(Some(deadline)) = self.phase
            && deadline <= now
        {
            for worker in &self.workers {
                kill(worker.pid, Signal::Kill, &self.journal);
            }
            self.phase = Phase::Terminating(None);
        }
        self.nursery.check_deadlines(now, &self.journal);
        self.check_reload_deadline(now);
        if self.watched.have_changed(now) {
            self.journal
                .notice("certificates have changed, reconfiguring");
            self.reconfigure();
        }
    }

    fn read_signals(&mut self) {
        loop {
            match self.signals.read() {
                Ok(Some(received)) => self.handle_signal(received),
                Ok(None) => return,
                Err(error) => {
                    self.journal.alert(format_args!(
                        "read() of a signal failed ({})",
                        sys::errno::Errno(&error)
                    ));
                    return;
                }
            }
        }
    }

    fn handle_signal(&mut self, received: Received) {
        let ignored = received.signal == Signal::Usr2 && !self.upgrade.is_possible();
        let action = match received.signal {
            Signal::Quit => ", shutting down",
            Signal::Term | Signal::Int => ", exiting",
            Signal::Winch if self.upgrade.origin.in_background => ", stop accepting connections",
            Signal::Hup => ", reconfiguring",
            Signal::Usr1 => ", reopening logs",
            Signal::Usr2 if ignored => ", ignoring",
            Signal::Usr2 => ", changing binary",
            _ => "",
        };
        self.journal.notice(describe(received, action));
        match received.signal {
            Signal::Chld => self.reap(),
            Signal::Term | Signal::Int => self.terminate(),
            Signal::Quit => self.quit(),
            Signal::Hup => self.reconfigure(),
            Signal::Usr1 => self.reopen(),
            Signal::Usr2 if ignored => {
                let reason =
                    "the new binary is not started: the old or the new one has to end first";
                self.journal.write(Level::Critical, reason);
            }
            Signal::Usr2 => self.change_binary(),
            Signal::Winch if self.upgrade.origin.in_background => self.stop_accepting(),
            _ => {}
        }
    }

    fn terminate(&mut self) {
        if matches!(self.phase, Phase::Terminating(_)) {
            return;
        }
        self.phase = Phase::Terminating(Some(Instant::now() + TERMINATION_MAX));
        self.dismiss_workers(&Parcel::terminate(), Signal::Term);
    }

    fn quit(&mut self) {
        if matches!(self.phase, Phase::Terminating(_) | Phase::Quitting) {
            return;
        }
        self.phase = Phase::Quitting;
        self.dismiss_workers(&Parcel::quit(), Signal::Quit);
        self.close_listeners();
    }

    fn stop_accepting(&mut self) {
        if self.phase == Phase::Running {
            self.phase = Phase::NotAccepting;
            self.dismiss_workers(&Parcel::quit(), Signal::Quit);
        }
    }

    /// HUP: nginx starts workers again where WINCH has ended them, with a new binary at work beside it, and else reads
    /// its configuration.
    fn reconfigure(&mut self) {
        if !matches!(self.phase, Phase::Running | Phase::NotAccepting) {
            return;
        }
        let resumes = self.phase == Phase::NotAccepting;
        self.phase = Phase::Running;
        if resumes {
            self.respawn = Respawn::at_once(Instant::now());
        }
        if !self.upgrade.is_running() {
            self.reload();
        }
    }

    fn dismiss_workers(&mut self, order: &Parcel<std::os::fd::BorrowedFd<'_>>, signal: Signal) {
        self.give_up_pending("the server ends");
        for worker in &mut self.workers {
            dismiss(worker, order, signal, &self.journal);
        }
    }

    /// Tells the worker of the former generation to end gracefully.
    pub(super) fn quit_all_but(&mut self, successor: Pid) {
        for worker in self
            .workers
            .iter_mut()
            .filter(|worker| worker.pid != successor)
        {
            if !worker.leaving {
                dismiss(worker, &Parcel::quit(), Signal::Quit, &self.journal);
            }
        }
    }

    fn reopen(&mut self) {
        self.journal.notice("reopening logs");
        let owner = self.current.plan.worker_user().map(|(user, _)| user.uid);
        let mut fresh = Vec::new();
        for (path, file) in self.current.resources.logs.iter() {
            let reopened = log_files::reopen(path, owner).and_then(|opened| {
                let copy = opened
                    .try_clone()
                    .and_then(|copy| sys::file::replace(file, copy));
                copy.map_err(|error| format!("dup3() failed ({})", sys::errno::Errno(&error)))?;
                Ok(opened)
            });
            match reopened {
                Ok(opened) => fresh.push((path, opened)),
                Err(error) => self.journal.emergency(error),
            }
        }
        self.journal.leave_stderr();
        let logs: Vec<_> = fresh
            .iter()
            .map(|(path, file)| (*path, file.as_fd()))
            .collect();
        let order = Parcel::reopen(&logs);
        for worker in &mut self.workers {
            if worker.channel.send(&order).is_err() {
                kill(worker.pid, Signal::Usr1, &self.journal);
            }
        }
    }

    fn read_channels(&mut self) {
        let mut reports = Vec::new();
        for worker in &mut self.workers {
            // A worker that closed its end is about to be reaped, which tells more.
            let _closing = worker.channel.flush();
            while let Incoming::Message(parcel) = worker.channel.receive() {
                match parcel.into_report() {
                    Ok(report) => reports.push((worker.pid, report)),
                    Err(_) => self
                        .journal
                        .alert(format_args!("worker process {} sent nonsense", worker.pid)),
                }
            }
        }
        for (pid, report) in reports {
            self.handle_report(pid, report);
        }
    }

    fn handle_report(&mut self, pid: Pid, report: Report) {
        match report {
            Report::Ready => {
                for worker in self.workers.iter_mut().filter(|worker| worker.pid == pid) {
                    worker.ready = true;
                }
                self.worker_is_ready(pid);
            }
            Report::Reloaded => self.worker_has_reloaded(pid),
            Report::Refused(reason) => self.worker_has_refused(pid, &reason),
            Report::Child(request) => self.handle_child_request(pid, request),
            Report::Drained => {
                self.journal.notice(format_args!(
                    "former configuration of worker process {pid} exited with code 0"
                ));
            }
        }
    }

    fn reap(&mut self) {
        loop {
            match sys::process::wait_any() {
                Ok(Some((pid, Change::Ended(end)))) => self.bury(pid, end),
                Ok(Some((pid, Change::Stopped { signal }))) => self.child_stopped(pid, signal),
                Ok(None) => return,
                Err(error) => {
                    self.journal.alert(format_args!(
                        "waitpid() failed ({})",
                        sys::errno::Errno(&error)
                    ));
                    return;
                }
            }
        }
    }

    fn bury(&mut self, pid: Pid, end: End) {
        // What it said before it died is worth hearing.
        self.read_channels();
        if self.upgrade.is(pid) {
            self.journal.end("new binary process", pid, end);
            self.new_binary_ended();
            return;
        }
        if self.bury_child(pid, end) {
            return;
        }
        let Some(index) = self.workers.iter().position(|worker| worker.pid == pid) else {
            self.journal.end("unknown process", pid, end);
            return;
        };
        let worker = self.workers.remove(index);
        self.nursery.orphan(pid, Instant::now(), &self.journal);
        self.journal.end("worker process", pid, end);
        if worker.leaving {
            return;
        }
        let fatal = end == End::Exited { code: FATAL_CODE };
        if self.pending_worker_ended(pid) {
            return;
        }
        if fatal {
            let what = "exited with fatal code 2 and cannot be respawned";
            self.journal
                .alert(format_args!("worker process {pid} {what}"));
            self.respawn.never();
        } else {
            let now = Instant::now();
            self.respawn
                .died(now.saturating_duration_since(worker.started), now);
        }
    }

    /// The old binary serves again when the new one has failed.
    pub(super) fn resume(&mut self) {
        if self.phase == Phase::NotAccepting {
            self.phase = Phase::Running;
            self.respawn = Respawn::at_once(Instant::now());
            self.journal.notice("start worker processes");
        }
    }

    fn close_listeners(&mut self) {
        let listeners = std::mem::take(&mut self.current.resources.listeners);
        if self.upgrade.shares_sockets() {
            return;
        }
        for listener in listeners {
            listener.remove_file(&self.journal);
        }
    }

    fn close(&mut self) {
        let pid = &self.current.plan.pid;
        if self.upgrade.is_running() {
            pid_file::remove(&pid_file::former(pid), &self.journal);
        } else {
            pid_file::remove(pid, &self.journal);
        }
        self.close_listeners();
        self.journal.notice("exit");
    }
}

/// `signal 1 (SIGHUP) received from 123, reconfiguring`.
pub(super) fn describe(received: Received, action: &str) -> String {
    let (number, name) = (received.signal.number(), received.signal.as_str());
    match received.sender {
        Pid(0) => format!("signal {number} ({name}) received{action}"),
        sender => format!("signal {number} ({name}) received from {sender}{action}"),
    }
}

/// Tells a worker to end, by signal if its channel is broken.
fn dismiss(
    worker: &mut Worker,
    order: &Parcel<std::os::fd::BorrowedFd<'_>>,
    signal: Signal,
    journal: &Journal,
) {
    worker.leaving = true;
    if worker.channel.send(order).is_err() {
        kill(worker.pid, signal, journal);
    }
}

fn kill(pid: Pid, signal: Signal, journal: &Journal) {
    if let Err(error) = sys::process::kill(pid, signal) {
        let reason = sys::errno::Errno(&error);
        journal.alert(format_args!(
            "kill({pid}, {}) failed ({reason})",
            signal.number()
        ));
    }
}
