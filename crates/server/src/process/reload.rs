//! SIGHUP in the master: the new configuration is read, checked and opened whole while the old one serves. Then the worker
//! takes it in place, or a new worker starts with it where a process cannot change (user, limits, number of threads). Until
//! that has succeeded, everything can be given up without a trace.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::journal::Journal;
use super::master::{Generation, Master};
use super::messages::Parcel;
use super::pid_file;
use super::program::Program;
use super::resources::Resources;
use super::respawn::Respawn;
use sys::process::Pid;

/// A worker that has not taken a configuration after this time is replaced by one that starts with it.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A generation that is opened but not yet in force.
pub struct Pending<C> {
    pub generation: Generation<C>,
    pub journal: Journal,
    how: How,
}

enum How {
    InPlace { worker: Pid, answer_by: Instant },
    NewProcess { worker: Option<Pid> },
}

impl<C> Pending<C> {
    pub fn wants_process(&self) -> bool {
        matches!(self.how, How::NewProcess { worker: None })
    }

    pub fn process_started(&mut self, pid: Pid) {
        if self.wants_process() {
            self.how = How::NewProcess { worker: Some(pid) };
        }
    }

    pub fn new_worker(&self) -> Option<Pid> {
        match self.how {
            How::NewProcess { worker } => worker,
            How::InPlace { .. } => None,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self.how {
            How::InPlace { answer_by, .. } => Some(answer_by),
            How::NewProcess { .. } => None,
        }
    }

    /// Whether this worker is to take the generation in place.
    fn is_taken_by(&self, pid: Pid) -> bool {
        matches!(self.how, How::InPlace { worker, .. } if worker == pid)
    }

    fn waits_for(&self, pid: Pid) -> bool {
        match self.how {
            How::InPlace { worker, .. } => worker == pid,
            How::NewProcess { worker } => worker == Some(pid),
        }
    }
}

impl<P: Program> Master<'_, P> {
    pub(super) fn reload(&mut self) {
        if self.pending.is_some() || self.birth_ends().is_some() {
            self.reload_again = true;
            return;
        }
        self.journal.notice("reconfiguring");
        let recorder = conf::Recorder::new(conf::Disk);
        let loaded = match self.program.load(&recorder) {
            Ok(loaded) => loaded,
            Err(diagnostics) => return self.journal.tell(&diagnostics),
        };
        self.journal.tell(&loaded.warnings);
        let listeners = &self.current.resources.listeners;
        let Ok((resources, journal)) = Resources::open(&loaded.plan, listeners, &self.journal)
        else {
            return;
        };
        let (plan, configuration) = (loaded.plan, loaded.configuration);
        let generation = Generation {
            plan,
            configuration,
            resources,
        };
        let in_place = self.current.plan.fits_same_process(&generation.plan);
        let bundle = recorder.into_bundle().to_bytes();
        // One that does not serve by now may never do so.
        let serving = self
            .serving()
            .map(|worker| (worker.pid, worker.ready && in_place));
        let how = match serving {
            Some((worker, true)) if self.send_reload(worker, &generation.resources, &bundle) => {
                How::InPlace {
                    worker,
                    answer_by: Instant::now() + ANSWER_MAX,
                }
            }
            Some(_) => {
                journal.notice("start worker processes");
                How::NewProcess { worker: None }
            }
            None => {
                self.come_into_force(Pending {
                    generation,
                    journal,
                    how: How::NewProcess { worker: None },
                });
                self.respawn = Respawn::at_once(Instant::now());
                return;
            }
        };
        self.pending = Some(Pending {
            generation,
            journal,
            how,
        });
    }

    /// Until when a worker that does not serve yet may take to do so: a reload waits for that, or for its death.
    fn birth_ends(&self) -> Option<Instant> {
        let ends = self.serving().filter(|worker| !worker.ready)?.started + ANSWER_MAX;
        (Instant::now() < ends).then_some(ends)
    }

    /// When a reload has waited long enough.
    pub(super) fn reload_deadline(&self) -> Option<Instant> {
        let answer = self.pending.as_ref().and_then(Pending::deadline);
        let birth = if self.reload_again {
            self.birth_ends()
        } else {
            None
        };
        answer.into_iter().chain(birth).min()
    }

    fn send_reload(&mut self, pid: Pid, next: &Resources, bundle: &[u8]) -> bool {
        let logs: Vec<_> = next
            .logs
            .iter()
            .map(|(path, file)| (path, file.as_fd()))
            .collect();
        let current = &self.current.resources.listeners;
        let listeners: Vec<_> = next
            .listeners
            .iter()
            .map(|listener| {
                let kept = current.iter().any(|other| {
                    let as_open = other.sockets().is_empty() == listener.sockets().is_empty();
                    as_open && other.is_same_place(&listener.spec)
                });
                (!kept).then(|| listener.sockets().iter().map(AsFd::as_fd).collect())
            })
            .collect();
        let order = Parcel::reload(bundle, &logs, &listeners);
        let worker = self.workers.iter_mut().find(|worker| worker.pid == pid);
        worker.is_some_and(|worker| worker.channel.send(&order).is_ok())
    }

    pub(super) fn worker_is_ready(&mut self, pid: Pid) {
        if let Some(pending) = self
            .pending
            .take_if(|pending| pending.new_worker() == Some(pid))
        {
            self.come_into_force(pending);
            self.quit_all_but(pid);
        }
        self.reload_if_asked();
    }

    pub(super) fn worker_has_reloaded(&mut self, pid: Pid) {
        if let Some(pending) = self.pending.take_if(|pending| pending.is_taken_by(pid)) {
            self.come_into_force(pending);
            self.journal.notice(format_args!(
                "worker process {pid} serves the new configuration"
            ));
            self.reload_if_asked();
        }
    }

    pub(super) fn worker_has_refused(&mut self, pid: Pid, reason: &str) {
        if self
            .pending
            .as_ref()
            .is_some_and(|pending| pending.is_taken_by(pid))
        {
            self.give_up_pending(reason);
            self.reload_if_asked();
        }
    }

    /// Whether the death of this worker ends a reload. One that was to take the configuration in place has to be replaced
    /// all the same, so only the death of a successor is settled by it.
    pub(super) fn pending_worker_ended(&mut self, pid: Pid) -> bool {
        let Some(pending) = self
            .pending
            .as_ref()
            .filter(|pending| pending.waits_for(pid))
        else {
            return false;
        };
        let was_successor = pending.new_worker() == Some(pid);
        self.give_up_pending("its worker process ended before it served");
        self.reload_if_asked();
        was_successor
    }

    pub(super) fn check_reload_deadline(&mut self, now: Instant) {
        match &mut self.pending {
            Some(pending) if pending.deadline().is_some_and(|deadline| deadline <= now) => {
                let what = "the worker process has not taken the new configuration";
                self.journal
                    .alert(format_args!("{what}, another one starts"));
                pending.how = How::NewProcess { worker: None };
            }
            Some(_) => {}
            None => self.reload_if_asked(),
        }
    }

    pub(super) fn give_up_pending(&mut self, reason: &str) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        let message = format!("the former configuration stays in force: {reason}");
        self.journal.emergency(message);
        pending
            .generation
            .resources
            .give_up(&self.current.resources, &self.journal);
    }

    pub(super) fn reload_if_asked(&mut self) {
        if std::mem::take(&mut self.reload_again) {
            self.reload();
        }
    }

    fn come_into_force(&mut self, pending: Pending<P::Configuration>) {
        let former = std::mem::replace(&mut self.current, pending.generation);
        (self.watched).set(&self.current.plan.watched, Instant::now());
        self.journal = pending.journal;
        self.journal.leave_stderr();
        self.current
            .resources
            .succeed(&former.resources, &self.journal);
        let pid = &self.current.plan.pid;
        if *pid != former.plan.pid {
            match pid_file::write(pid) {
                Ok(()) => pid_file::remove(&former.plan.pid, &self.journal),
                Err(error) => {
                    self.journal.emergency(error);
                    self.current.plan.pid = former.plan.pid;
                }
            }
        }
    }
}
