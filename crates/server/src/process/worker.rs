//! The worker process: becomes the user it is to be, starts the service, and then its main thread listens to the master, to
//! signals and to the service's own notices.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use super::channel::{Channel, Incoming};
use super::children::{self, ChildEvent, ChildRequest};
use super::journal::Journal;
use super::listeners::Listener;
use super::locked_ini::LockedIni;
use super::log_files::{self, LogFiles, OpenLogs};
use super::master::{FATAL_CODE, Generation, Seed, describe};
use super::messages::{Order, Parcel, Reload, Report};
use super::pid_file;
use super::plan::Plan;
use super::program::{Notice, Notifier, Program, Service, Spawn};
use super::resources::Resources;
use super::tracing::Tracing;
use sys::process::Change;
use sys::signal::{Received, Signal, SignalReader};

/// How long the service may take to stop, once it is told to.
const STOP_MAX: Duration = Duration::from_secs(3);

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

/// A worker under a master, from its birth; returns the exit code.
pub fn run<P: Program>(program: &P, seed: Seed<P::Configuration>) -> i32 {
    let Seed {
        generation,
        channel,
        journal,
    } = seed;
    if let Err(error) = settle(&generation.plan, &journal) {
        journal.emergency(error);
        return FATAL_CODE;
    }
    match Worker::start(program, generation, journal.clone(), Some(channel)) {
        Ok(worker) => worker.run(),
        Err(error) => {
            journal.emergency(error);
            FATAL_CODE
        }
    }
}

/// Environment, limits, priority, user, directory: all that is set once in the life of a process. What only makes the
/// worker slower or smaller is logged, the rest is fatal, as in nginx.
fn settle(plan: &Plan, journal: &Journal) -> Result<(), String> {
    use sys::process::{self, Limit};
    let complain = |call: &str, result: std::io::Result<()>| {
        if let Err(error) = result {
            journal.alert(format_args!(
                "{call} failed ({})",
                sys::errno::Errno(&error)
            ));
        }
    };
    complain("setenv()", process::replace_environment(&plan.environment));
    if plan.priority != 0 {
        complain(
            &format!("setpriority({})", plan.priority),
            process::set_priority(plan.priority),
        );
    }
    if let Some(files) = plan.rlimit_nofile {
        let call = format!("setrlimit(RLIMIT_NOFILE, {files})");
        complain(&call, process::set_limit(Limit::OpenFiles, files));
    }
    if let Some(bytes) = plan.rlimit_core {
        let call = format!("setrlimit(RLIMIT_CORE, {bytes})");
        complain(&call, process::set_limit(Limit::CoreFile, bytes));
    }
    if let Some((user, group)) = plan.worker_user() {
        let keeps = match plan.foreign_addresses {
            true => sys::user::Keeps::ForeignAddresses,
            false => sys::user::Keeps::Nothing,
        };
        sys::user::become_user(user, *group, keeps).map_err(|error| {
            format!(
                "{} failed ({})",
                error.call,
                sys::errno::Errno(&error.source)
            )
        })?;
        complain("prctl(PR_SET_DUMPABLE)", process::set_dumpable());
    }
    if let Some(directory) = &plan.working_directory {
        std::env::set_current_dir(directory).map_err(|error| {
            format!(
                "chdir(\"{}\") failed ({})",
                directory.display(),
                sys::errno::Errno(&error)
            )
        })?;
    }
    Ok(())
}

/// The main thread's state, under a master or alone.
pub struct Worker<'a, P: Program> {
    program: &'a P,
    service: P::Service,
    plan: Plan,
    resources: Resources,
    open_logs: OpenLogs,
    journal: Journal,
    signals: SignalReader,
    /// `None`: there is no master, or no more.
    channel: Option<Channel>,
    alone: bool,
    notices: Receiver<Notice>,
    woken: UnixStream,
    quitting: Option<Quitting>,
    /// Without a master, the programs are its own.
    locked: LockedIni,
    tracing: Tracing,
}

struct Quitting {
    deadline: Option<Instant>,
}

/// Whether the main thread goes on.
#[derive(PartialEq, Eq)]
enum Then {
    GoOn,
    End,
}

impl<'a, P: Program> Worker<'a, P> {
    /// Starts the service and tells the master. Without a channel the process is on its own.
    pub fn start(
        program: &'a P,
        generation: Generation<P::Configuration>,
        journal: Journal,
        channel: Option<Channel>,
    ) -> Result<Self, String> {
        let failed = |call: &'static str| {
            move |error| format!("{call} failed ({})", sys::errno::Errno(&error))
        };
        // Before the service starts its threads, which inherit the block.
        let signals = SignalReader::new(SIGNALS).map_err(failed("signalfd()"))?;
        let (sender, notices) = mpsc::channel();
        let (wake, woken) = UnixStream::pair().map_err(failed("socketpair()"))?;
        for end in [&wake, &woken] {
            end.set_nonblocking(true)
                .map_err(failed("ioctl(FIONBIO)"))?;
        }
        let Generation {
            plan,
            configuration,
            resources,
        } = generation;
        let spawn = Spawn {
            plan: &plan,
            resources: &resources,
            journal: &journal,
            notifier: Notifier::new(sender, wake),
        };
        let service = program.start(spawn, configuration)?;
        let mut open_logs = OpenLogs::default();
        open_logs.add(&resources.logs);
        let alone = channel.is_none();
        let mut worker = Worker {
            program,
            service,
            plan,
            resources,
            open_logs,
            journal,
            signals,
            channel,
            alone,
            locked: LockedIni::default(),
            tracing: Tracing::default(),
            notices,
            woken,
            quitting: None,
        };
        worker.report(&Report::Ready);
        Ok(worker)
    }

    /// Until the end; returns the exit code.
    pub fn run(mut self) -> i32 {
        while self.turn() == Then::GoOn {}
        self.journal.notice("exiting");
        self.end()
    }

    /// The same without a master, which would remove what the process leaves behind.
    pub fn run_alone(mut self) -> i32 {
        while self.turn() == Then::GoOn {}
        self.journal.notice("exiting");
        pid_file::remove(&self.plan.pid, &self.journal);
        self.close_listeners();
        self.end()
    }

    /// The process ends even when the service does not.
    fn end(self) -> i32 {
        let journal = self.journal.clone();
        let watch = move || {
            std::thread::sleep(STOP_MAX);
            journal.alert("the service has not stopped in time");
            std::process::exit(0);
        };
        if let Err(error) = std::thread::Builder::new().spawn(watch) {
            let reason = sys::errno::Errno(&error);
            self.journal
                .alert(format_args!("pthread_create() failed ({reason})"));
        }
        self.service.stop();
        self.journal.notice("exit");
        0
    }

    fn turn(&mut self) -> Then {
        self.wait();
        while let Ok(Some(received)) = self.signals.read() {
            if self.handle_signal(received) == Then::End {
                return Then::End;
            }
        }
        while let Some(order) = self.next_order() {
            if self.obey(order) == Then::End {
                return Then::End;
            }
        }
        // The bytes only wake; the notices are in the queue.
        while matches!(self.woken.read(&mut [0; 64]), Ok(1..)) {}
        while let Ok(notice) = self.notices.try_recv() {
            match notice {
                Notice::Drained => self.report(&Report::Drained),
                Notice::Finished if self.quitting.is_some() => return Then::End,
                Notice::Finished => {}
                Notice::Child(request) => self.ask_for_child(request),
            }
        }
        self.check_deadline()
    }

    fn wait(&mut self) {
        let watch = |descriptor, write| sys::io::Watch {
            descriptor,
            read: true,
            write,
        };
        let mut watches = vec![
            watch(self.signals.as_fd(), false),
            watch(self.woken.as_fd(), false),
        ];
        if let Some(channel) = &self.channel {
            watches.push(watch(channel.as_fd(), channel.has_outgoing()));
        }
        let deadline = self
            .quitting
            .as_ref()
            .and_then(|quitting| quitting.deadline);
        let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if let Err(error) = sys::io::wait(&watches, timeout) {
            self.journal.alert(format_args!(
                "poll() failed ({})",
                sys::errno::Errno(&error)
            ));
        }
    }

    fn check_deadline(&self) -> Then {
        let deadline = self
            .quitting
            .as_ref()
            .and_then(|quitting| quitting.deadline);
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            Then::End
        } else {
            Then::GoOn
        }
    }

    fn handle_signal(&mut self, received: Received) -> Then {
        let action = match received.signal {
            Signal::Term | Signal::Int => ", exiting",
            Signal::Quit => ", shutting down",
            Signal::Usr1 => ", reopening logs",
            Signal::Hup if self.alone => ", reconfiguring",
            _ => ", ignoring",
        };
        if received.signal != Signal::Chld {
            self.journal.notice(describe(received, action));
        }
        match received.signal {
            // With a master, who has the pools' children, what this process started is waited for by who started it.
            Signal::Chld if self.alone => self.bury_children(),
            Signal::Term | Signal::Int => return Then::End,
            Signal::Quit => self.quit(),
            Signal::Usr1 => self.reopen_alone(),
            Signal::Hup if self.alone => self.reload_alone(),
            _ => {}
        }
        Then::GoOn
    }

    fn next_order(&mut self) -> Option<Order> {
        let channel = self.channel.as_mut()?;
        // A broken channel shows when reading.
        let _shows = channel.flush();
        let order = match channel.receive() {
            Incoming::Message(parcel) => parcel.into_order().ok(),
            Incoming::Empty => return None,
            Incoming::Closed => None,
        };
        if order.is_none() {
            // As with nginx, a worker outlives a master that was killed, and goes on serving.
            self.journal.alert("the master process is gone");
            self.channel = None;
        }
        order
    }

    fn obey(&mut self, order: Order) -> Then {
        match order {
            Order::Terminate => return Then::End,
            Order::Child(event) => self.service.child(event),
            Order::Quit => self.quit(),
            Order::Reopen(logs) => self.reopen(LogFiles::received(logs)),
            Order::Reload(reload) => {
                let report = match self.reload(reload) {
                    Ok(()) => Report::Reloaded,
                    Err(reason) => Report::Refused(reason),
                };
                self.report(&report);
            }
        }
        Then::GoOn
    }

    fn report(&mut self, report: &Report) {
        if let Some(channel) = &mut self.channel {
            // A broken channel shows when reading.
            let _shows = channel.send(&Parcel::report(report));
        }
    }

    /// The master starts programs; without one this process does.
    fn ask_for_child(&mut self, request: ChildRequest) {
        if self.channel.is_some() {
            return self.report(&Report::Child(request));
        }
        match request {
            ChildRequest::Start { ticket, .. } if !self.alone => {
                let reason = "the master process is gone".to_owned();
                self.service.child(ChildEvent::Failed { ticket, reason });
            }
            ChildRequest::Start {
                ticket,
                name,
                print,
            } => {
                let event =
                    match children::start_planned(&self.plan, None, &name, print, &mut self.locked)
                    {
                        Ok(child) => ChildEvent::Started { ticket, child },
                        Err(reason) => ChildEvent::Failed { ticket, reason },
                    };
                self.service.child(event);
            }
            ChildRequest::Trace { child, depth } => {
                if let Err(reason) = self.tracing.begin(child, depth) {
                    let calls = Err(reason);
                    self.service.child(ChildEvent::Traced { child, calls });
                }
            }
            ChildRequest::Signal { child, signal } => {
                // It may have ended, which is then told.
                let _ended = sys::process::kill(child, signal);
            }
        }
    }

    fn bury_children(&mut self) {
        while let Ok(Some((child, change))) = sys::process::wait_any() {
            let event = match change {
                Change::Ended(end) => {
                    self.tracing.forget(child);
                    Some(ChildEvent::Ended { child, end })
                }
                Change::Stopped { signal } => {
                    let calls = self.tracing.stopped(child, signal);
                    calls.map(|calls| ChildEvent::Traced { child, calls })
                }
            };
            if let Some(event) = event {
                self.service.child(event);
            }
        }
    }

    fn quit(&mut self) {
        if self.quitting.is_none() {
            self.journal.notice("gracefully shutting down");
            let timeout: Option<Duration> = self.plan.shutdown_timeout;
            self.quitting = Some(Quitting {
                deadline: timeout.map(|timeout| Instant::now() + timeout),
            });
            self.service.quit();
            self.close_listeners();
        }
    }

    /// Or new connections would wait for a worker that never comes.
    fn close_listeners(&mut self) {
        for listener in std::mem::take(&mut self.resources.listeners) {
            if self.alone {
                listener.remove_file(&self.journal);
            }
        }
    }

    fn reopen(&mut self, fresh: LogFiles) {
        self.journal.notice("reopening logs");
        self.service.flush_logs();
        for (path, file) in fresh.iter() {
            if let Err(error) = self.open_logs.swap(path, file) {
                self.journal.alert(format_args!(
                    "dup3() failed ({})",
                    sys::errno::Errno(&error)
                ));
            }
        }
        self.journal.leave_stderr();
    }

    /// USR1 sent to this process: it opens the files with its own rights, which the master's chown has given it.
    fn reopen_alone(&mut self) {
        let paths = self.open_logs.paths();
        let mut fresh = Vec::new();
        for path in paths {
            match log_files::reopen(&path, None) {
                Ok(file) => fresh.push((path, file.into())),
                Err(error) => self.journal.emergency(error),
            }
        }
        self.reopen(LogFiles::received(fresh));
    }

    fn reload(&mut self, reload: Reload) -> Result<(), String> {
        if self.quitting.is_some() {
            return Err("the worker process is shutting down".to_owned());
        }
        let bundle = conf::Bundle::from_bytes(&reload.bundle).map_err(|error| error.to_string())?;
        let loaded = self.program.load(&bundle).map_err(|diagnostics| {
            let reason = diagnostics.into_iter().next_back();
            reason.map_or_else(
                || "no reason given".to_owned(),
                |diagnostic| diagnostic.message,
            )
        })?;
        let listen = &loaded.plan.listen;
        if listen.len() != reload.listeners.len() {
            return Err("the worker process reads other addresses than the master".to_owned());
        }
        let places = listen.iter().zip(reload.listeners);
        let listeners = places.map(|(spec, sockets)| match sockets {
            Some(sockets) => Ok(Arc::new(Listener::received(spec.clone(), sockets))),
            None => {
                let kept = self
                    .resources
                    .listeners
                    .iter()
                    .find(|own| own.is_same_place(spec));
                kept.cloned().ok_or_else(|| {
                    format!("the worker process has no sockets for {}", spec.address)
                })
            }
        });
        let listeners = listeners.collect::<Result<_, String>>()?;
        let resources = Resources {
            listeners,
            logs: LogFiles::received(reload.logs),
        };
        let journal = Journal::for_logs(&loaded.plan.error_logs, &resources.logs, &self.journal);
        self.take(loaded.plan, loaded.configuration, resources, journal)
    }

    /// HUP without a master.
    fn reload_alone(&mut self) {
        self.journal.notice("reconfiguring");
        let loaded = match self.program.load(&conf::Disk) {
            Ok(loaded) => loaded,
            Err(diagnostics) => return self.journal.tell(&diagnostics),
        };
        self.journal.tell(&loaded.warnings);
        let former = self.resources.clone();
        let opened = Resources::open(&loaded.plan, &former.listeners, &self.journal);
        let Ok((resources, journal)) = opened else {
            return;
        };
        match self.take(
            loaded.plan,
            loaded.configuration,
            resources.clone(),
            journal,
        ) {
            Ok(()) => resources.succeed(&former, &self.journal),
            Err(reason) => {
                self.journal.emergency(reason);
                resources.give_up(&former, &self.journal);
            }
        }
    }

    fn take(
        &mut self,
        plan: Plan,
        configuration: P::Configuration,
        resources: Resources,
        journal: Journal,
    ) -> Result<(), String> {
        self.service.replace(&plan, configuration, &resources)?;
        self.open_logs.add(&resources.logs);
        (self.plan, self.resources, self.journal) = (plan, resources, journal);
        self.journal.leave_stderr();
        Ok(())
    }
}
