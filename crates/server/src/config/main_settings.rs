//! Directives of the main and `events` contexts: processes, limits, paths.

use super::build::Build;
use super::directive::{Arity, Outcome, Set, accept, block, flag, number, row};
use super::setting::Complaint;
use crate::config::model::LocationKind;
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
        "Accepted with a notice where the feature is built in.",
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
        |b, d| number(&mut b.main.worker_connections, d),
        "Connections of each worker thread.",
    ),
    row(
        "use",
        EVENTS,
        Arity::Exactly(1),
        use_method,
        "The event method: epoll.",
    ),
    row(
        "multi_accept",
        EVENTS,
        Arity::Flag,
        accept,
        "Accepted: each wake-up accepts as many connections as wait.",
    ),
    row(
        "accept_mutex",
        EVENTS,
        Arity::Flag,
        accept,
        "Accepted: every thread has its own socket.",
    ),
    row(
        "accept_mutex_delay",
        EVENTS,
        Arity::Exactly(1),
        accept,
        "Accepted: every thread has its own socket.",
    ),
    row(
        "debug_connection",
        EVENTS,
        Arity::Exactly(1),
        accept,
        "Accepted: there is no debug log by connection.",
    ),
];

super::setting::settings! {
    daemon: bool = true,
    master_process: bool = true,
    pid: PathBuf = PathBuf::from(super::defaults::PID),
    user: Option<(String, Option<String>)> = None,
    worker_processes: usize = 1,
    rlimit_nofile: Option<u64> = None,
    rlimit_core: Option<u64> = None,
    shutdown_timeout_ms: Option<u64> = None,
    priority: i32 = 0,
    working_directory: Option<PathBuf> = None,
    env: Vec<(String, Option<String>)> = Vec::new(),
    worker_connections: u64 = 512,
    events_seen: bool = false,
}

fn pid(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let path = build
        .paths
        .in_prefix(directive.args[0].as_str().ok_or("invalid value")?);
    build.main.pid.set(path)
}

fn user(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let mut words = directive
        .args
        .iter()
        .map(|word| word.as_str().map(str::to_owned));
    let user = words.next().flatten().ok_or("invalid value")?;
    let group = words
        .next()
        .map(|word| word.ok_or("invalid value"))
        .transpose()?;
    build.main.user.set(Some((user, group)))
}

fn worker_processes(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let count = match &directive.args[0][..] {
        b"auto" => sys::machine::cpu_count(),
        text => values::parse_number(text)
            .filter(|&count| count > 0)
            .ok_or("invalid value")? as usize,
    };
    build.main.worker_processes.set(count.min(MAX_WORKERS))
}

/// More threads than this serve nobody.
pub const MAX_WORKERS: usize = 1024;

fn worker_priority(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let text = directive.args[0].as_str().ok_or("invalid value")?;
    let priority: i32 = text.parse().map_err(|_| "invalid number")?;
    build.main.priority.set(priority)
}

fn working_directory(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let path = PathBuf::from(directive.args[0].as_str().ok_or("invalid value")?);
    build.main.working_directory.set(Some(path))
}

fn env(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let text = directive.args[0].as_str().ok_or("invalid value")?;
    let variable = match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (text.to_owned(), None),
    };
    build.main.env.0.get_or_insert_default().push(variable);
    Ok(())
}

fn load_module(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.warn(
        directive,
        format!(
            "load_module \"{}\" is ignored: modules are built in",
            directive.args[0]
        ),
    );
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

fn use_method(_: &mut Build<'_>, directive: &Directive) -> Outcome {
    match &directive.args[0][..] {
        b"epoll" => Ok(()),
        _ => Err(Complaint::from(format!(
            "invalid event type \"{}\"",
            directive.args[0]
        ))),
    }
}

fn rlimit_nofile(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.main.rlimit_nofile.set(Some(
        values::parse_number(&directive.args[0]).ok_or("invalid number")?,
    ))
}

fn rlimit_core(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.main.rlimit_core.set(Some(
        values::parse_offset(&directive.args[0]).ok_or("invalid value")?,
    ))
}

fn shutdown_timeout(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.main.shutdown_timeout_ms.set(Some(
        values::parse_msec(&directive.args[0]).ok_or("invalid value")?,
    ))
}
