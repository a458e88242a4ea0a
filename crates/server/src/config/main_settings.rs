//! Directives of the main and `events` contexts: processes, limits, paths.

use super::affinity::{self, CpuAffinity};
use super::build::Build;
use super::directive::{Arity, Outcome, Set, block, flag, msec, row};
use super::load_module::load_module;
use super::model::LocationKind;
use super::setting::Setting;
use conf::table::{Contexts, Row};
use conf::{Directive, values};
use std::path::PathBuf;

const MAIN: Contexts = Contexts::MAIN;
const EVENTS: Contexts = Contexts::EVENTS;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "daemon",
        MAIN,
        Arity::Flag,
        |b, d| flag(&mut b.main.daemon, d),
        "Whether to go into the background.",
    ),
    row(
        "master_process",
        MAIN,
        Arity::Flag,
        |b, d| flag(&mut b.main.master_process, d),
        "Whether a master process looks after the worker.",
    ),
    row(
        "pid",
        MAIN,
        Arity::Exactly(1),
        pid,
        "The file with the master's process id.",
    ),
    row(
        "user",
        MAIN,
        Arity::Between(1, 2),
        user,
        "User and group of the worker.",
    ),
    row(
        "worker_processes",
        MAIN,
        Arity::Exactly(1),
        worker_processes,
        "Number of worker threads, or auto.",
    ),
    row(
        "worker_rlimit_nofile",
        MAIN,
        Arity::Exactly(1),
        rlimit_nofile,
        "Limit of open files for the worker.",
    ),
    row(
        "worker_rlimit_core",
        MAIN,
        Arity::Exactly(1),
        rlimit_core,
        "Limit of a core file's size.",
    ),
    row(
        "worker_shutdown_timeout",
        MAIN,
        Arity::Exactly(1),
        shutdown_timeout,
        "How long a graceful shutdown may take.",
    ),
    row(
        "worker_priority",
        MAIN,
        Arity::Exactly(1),
        worker_priority,
        "The worker's nice value.",
    ),
    row(
        "worker_cpu_affinity",
        MAIN,
        Arity::AtLeast(1),
        affinity::worker_cpu_affinity,
        "The processors of each worker thread, or auto.",
    ),
    row(
        "working_directory",
        MAIN,
        Arity::Exactly(1),
        working_directory,
        "The worker's current directory.",
    ),
    row(
        "env",
        MAIN,
        Arity::Exactly(1),
        env,
        "An environment variable to keep or set.",
    ),
    row(
        "load_module",
        MAIN,
        Arity::Exactly(1),
        load_module,
        "Nothing is loaded; a known module gives a warning, another one an error.",
    ),
    block(
        "events",
        MAIN,
        Arity::Exactly(0),
        events,
        "How connections are processed.",
    ),
    block("http", MAIN, Arity::Exactly(0), http, "The web server."),
    row(
        "worker_connections",
        EVENTS,
        Arity::Exactly(1),
        worker_connections,
        "Connections of each worker thread.",
    ),
    row(
        "use",
        EVENTS,
        Arity::Exactly(1),
        use_method,
        "The event method: epoll.",
    ),
];

super::setting::settings! {
    daemon: bool = true,
    master_process: bool = true,
    pid: PathBuf = PathBuf::from(super::defaults::PID),
    /// `user` and its group by name; both are known to the system.
    user: Option<(String, Option<String>)> = None,
    worker_processes: usize = 1,
    cpu_affinity: CpuAffinity = CpuAffinity::Any,
    rlimit_nofile: Option<u64> = None,
    rlimit_core: Option<u64> = None,
    shutdown_timeout_ms: Option<u64> = None,
    priority: i32 = 0,
    working_directory: Option<PathBuf> = None,
    env: Vec<(String, Option<String>)> = Vec::new(),
    modules: Vec<Vec<u8>> = Vec::new(),
    worker_connections: u64 = 512,
    event_method: &'static str = "epoll",
    events_seen: bool = false,
}

impl Settings {
    /// What only all of the main context together can tell; `sockets` are to be listened at.
    pub fn check(
        &self,
        sockets: usize,
        warnings: &mut Vec<conf::Error>,
    ) -> Result<(), conf::Error> {
        if !self.events_seen {
            return Err(conf::Error::new(
                "no \"events\" section in configuration",
                None,
            ));
        }
        if sockets as u64 >= self.worker_connections {
            return Err(conf::Error::new(
                format!(
                    "{} worker_connections are not enough for {sockets} listening sockets",
                    self.worker_connections
                ),
                None,
            ));
        }
        let masks = self.cpu_affinity.masks();
        if masks > 1 && masks != self.worker_processes {
            warnings.push(conf::Error::new(
                "the number of \"worker_processes\" is not equal to the number of \"worker_cpu_affinity\" masks, \
                 using last mask for remaining worker processes",
                None,
            ));
        }
        Ok(())
    }
}

/// The first argument as text; nginx's files are bytes, but a name that is not UTF-8 is nobody's name.
fn first(directive: &Directive) -> Result<&str, &'static str> {
    directive.args[0].as_str().ok_or("invalid value")
}

fn pid(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let path = build.paths.in_prefix(first(directive)?);
    build.main.pid.set(path)
}

fn user(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.main.user.vacant()?;
    if sys::user::effective_uid() != sys::user::Uid(0) {
        build.warn(
            directive,
            "the \"user\" directive makes sense only if the master process runs with super-user privileges, ignored",
        );
        return build.main.user.set(None);
    }
    let name = first(directive)?;
    let group = directive.args.get(1).map(|word| word.to_string());
    let missing = |call: &str, name: &str| format!("{call}(\"{name}\") failed");
    if !matches!(sys::user::user(name), Ok(Some(_))) {
        return Err(missing("getpwnam", name).into());
    }
    let group_name = group.as_deref().unwrap_or(name);
    if !matches!(sys::user::group(group_name), Ok(Some(_))) {
        return Err(missing("getgrnam", group_name).into());
    }
    build.main.user.set(Some((name.to_owned(), group)))
}

fn worker_processes(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.main.worker_processes.vacant()?;
    let count = match &directive.args[0][..] {
        b"auto" => sys::machine::cpu_count() as u64,
        text => values::parse_number(text).ok_or("invalid value")?,
    };
    // nginx takes 0 and then serves nothing; one thread is what was meant.
    setting.set(count.clamp(1, MAX_WORKERS) as usize)
}

/// More threads than this serve nobody.
pub const MAX_WORKERS: u64 = 1024;

/// A number with or without a sign.
fn worker_priority(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.main.priority.vacant()?;
    let (sign, digits) = match &directive.args[0][..] {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    let number = values::parse_number(digits)
        .and_then(|number| i32::try_from(number).ok())
        .ok_or("invalid number")?;
    setting.set(sign * number)
}

fn working_directory(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let path = PathBuf::from(first(directive)?);
    build.main.working_directory.set(Some(path))
}

fn env(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let text = first(directive)?;
    let variable = match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (text.to_owned(), None),
    };
    build.main.env.0.get_or_insert_default().push(variable);
    Ok(())
}

fn events(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.main.events_seen.set(true)?;
    build.same_frame(directive, EVENTS)
}

fn http(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    if build.http.seen {
        return Err("is duplicate".into());
    }
    build.http.seen = true;
    let frame = build.nested(directive, Contexts::HTTP, LocationKind::None)?;
    build.http.frame = Some(Box::new(frame));
    Ok(())
}

fn worker_connections(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.main.worker_connections.vacant()?;
    let word = &directive.args[0];
    setting.set(values::parse_number(word).ok_or_else(|| format!("invalid number \"{word}\""))?)
}

fn use_method(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.main.event_method.vacant()?;
    match &directive.args[0][..] {
        b"epoll" => setting.set("epoll"),
        _ => Err(format!("invalid event type \"{}\"", directive.args[0]).into()),
    }
}

fn rlimit_nofile(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.main.rlimit_nofile.vacant()?;
    setting.set(Some(
        values::parse_number(&directive.args[0]).ok_or("invalid number")?,
    ))
}

fn rlimit_core(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.main.rlimit_core.vacant()?;
    setting.set(Some(
        values::parse_offset(&directive.args[0]).ok_or("invalid value")?,
    ))
}

fn shutdown_timeout(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.main.shutdown_timeout_ms.vacant()?;
    let mut time = Setting::default();
    msec(&mut time, directive)?;
    build.main.shutdown_timeout_ms.set(time.0)
}
