//! From the command line to the master's loop: read, open, go into the background, write the pid file. `-t` and `-s` take
//! the same way and leave it early.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::daemon::{self, Daemon, Launch};
use super::journal::{Diagnostic, ErrorTarget, Journal, print_on_stderr};
use super::listeners;
use super::master::{Ending, Generation, Master};
use super::pid_file;
use super::program::{Loaded, Program};
use super::resources::Resources;
use super::signal_process::{self, SignalCommand};
use super::upgrade::Origin;
use super::{single, worker};

/// What the command line asks for.
pub struct Invocation {
    /// nginx.conf, as it is named in messages.
    pub configuration: PathBuf,
    /// The log until the configuration names another.
    pub error_log: ErrorTarget,
    pub action: Action,
    /// `gannet/0.1.0`, for the log.
    pub version: &'static str,
    /// The command line, which a binary upgrade repeats.
    pub arguments: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Serve,
    Test { quiet: bool, dump: bool },
    Signal(SignalCommand),
}

/// Runs until the end; returns the exit code. The process must have one thread.
pub fn run<P: Program>(program: &P, invocation: &Invocation) -> i32 {
    // On failure a descriptor below 3 stays closed, as it was.
    let _as_it_was = sys::process::fill_standard_descriptors();
    let journal = Journal::at_start(&invocation.error_log);
    let loaded = match program.load(&conf::Disk) {
        Ok(loaded) => loaded,
        Err(diagnostics) => {
            tell_in_order(invocation, &diagnostics, false, &journal);
            report_test(invocation, "test failed");
            return 1;
        }
    };
    match invocation.action {
        Action::Signal(command) => signal_process::send(command, &loaded.plan.pid, &journal),
        Action::Test { quiet, dump } => {
            tell_in_order(invocation, &loaded.warnings, true, &journal);
            test(invocation, &loaded, &journal, quiet, dump)
        }
        Action::Serve => {
            journal.tell(&loaded.warnings);
            serve(program, invocation, loaded, &journal)
        }
    }
}

fn report_test(invocation: &Invocation, outcome: &str) {
    if let Action::Test { .. } = invocation.action {
        let path = invocation.configuration.display();
        print_on_stderr(&format!("nginx: configuration file {path} {outcome}"));
    }
}

/// Tells what came of reading. Between what was found while reading and what was found in it afterwards, a test calls the
/// syntax right, which it is if the reading came to its `end`.
fn tell_in_order(
    invocation: &Invocation,
    diagnostics: &[Diagnostic],
    end: bool,
    journal: &Journal,
) {
    let reading = diagnostics.iter().take_while(|found| !found.late).count();
    let (reading, late) = diagnostics.split_at(reading);
    journal.tell(reading);
    if let Action::Test { quiet: false, .. } = invocation.action
        && (end || !late.is_empty())
    {
        let path = invocation.configuration.display();
        print_on_stderr(&format!(
            "nginx: the configuration file {path} syntax is ok"
        ));
    }
    journal.tell(late);
}

/// `-t` and `-T`: what a start would open is opened and closed again.
fn test<C>(
    invocation: &Invocation,
    loaded: &Loaded<C>,
    journal: &Journal,
    quiet: bool,
    dump: bool,
) -> i32 {
    let plan = &loaded.plan;
    let writable = pid_file::probe(&plan.pid).inspect_err(|error| journal.emergency(error));
    if writable.is_err() || Resources::probe(plan, journal).is_err() {
        report_test(invocation, "test failed");
        return 1;
    }
    if !quiet {
        report_test(invocation, "test is successful");
    }
    if dump {
        let mut text = Vec::new();
        for (path, bytes) in &loaded.files {
            text.extend_from_slice(b"# configuration file ");
            text.extend_from_slice(path.as_os_str().as_bytes());
            text.extend_from_slice(b":\n");
            text.extend_from_slice(bytes);
            text.push(b'\n');
        }
        if std::io::stdout().write_all(&text).is_err() {
            return 1;
        }
    }
    0
}

fn serve<P: Program>(
    program: &P,
    invocation: &Invocation,
    loaded: Loaded<P::Configuration>,
    journal: &Journal,
) -> i32 {
    let Loaded {
        plan,
        configuration,
        ..
    } = loaded;
    let inherited = listeners::inherited(journal);
    let upgraded = std::env::var_os(listeners::INHERITED_SOCKETS).is_some();
    let Ok((resources, mut journal)) = Resources::open(&plan, &inherited, journal) else {
        return 1;
    };
    drop(inherited);
    introduce(invocation, &journal);
    let mut origin = Origin {
        parent: sys::process::parent_pid(),
        in_background: upgraded,
        upgraded,
        arguments: invocation.arguments.clone(),
    };
    let launch = match background(&plan, &mut origin, &journal) {
        Ok(launch) => launch,
        Err(exit_code) => return exit_code,
    };
    if let Err(error) = pid_file::write(&plan.pid) {
        journal.emergency(error);
        return 1;
    }
    journal.leave_stderr();
    let generation = Generation {
        plan,
        configuration,
        resources,
    };
    if !generation.plan.master_process {
        return single::run(program, generation, journal, || complete(launch));
    }
    let master = match Master::new(program, generation, journal.clone(), origin) {
        Ok(master) => master,
        Err(error) => {
            journal.emergency(format_args!(
                "signalfd() failed ({})",
                sys::errno::Errno(&error)
            ));
            return 1;
        }
    };
    complete(launch);
    match master.run() {
        Ending::Exit(code) => code,
        // The master's memory is a copy here, and gone by now.
        Ending::BecomeWorker(seed) => worker::run(program, *seed),
    }
}

fn complete(launch: Option<Launch>) {
    if let Some(launch) = launch {
        launch.complete();
    }
}

/// The first lines in the log, as nginx writes them.
fn introduce(invocation: &Invocation, journal: &Journal) {
    journal.notice("using the \"epoll\" event method");
    journal.notice(invocation.version);
    if let Ok(release) = std::fs::read_to_string("/proc/sys/kernel/osrelease") {
        journal.notice(format_args!("OS: Linux {}", release.trim_end()));
    }
    if let Ok((soft, hard)) = sys::process::limits(sys::process::Limit::OpenFiles) {
        journal.notice(format_args!("getrlimit(RLIMIT_NOFILE): {soft}:{hard}"));
    }
}

/// Goes into the background where the configuration says so; an upgraded binary is there already. `Err` is the exit code
/// of the process that stays in front.
fn background(
    plan: &super::plan::Plan,
    origin: &mut Origin,
    journal: &Journal,
) -> Result<Option<Launch>, i32> {
    if !plan.daemon || origin.upgraded {
        return Ok(None);
    }
    let former = sys::process::own_pid();
    match daemon::detach() {
        Ok(Daemon::Starter(code)) => Err(code),
        Ok(Daemon::Background(launch)) => {
            origin.parent = former;
            origin.in_background = true;
            Ok(Some(launch))
        }
        Err(error) => {
            journal.emergency(format_args!(
                "daemon() failed ({})",
                sys::errno::Errno(&error)
            ));
            Err(1)
        }
    }
}
