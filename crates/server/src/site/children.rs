//! Pools on one side, the process layer that starts their children on the other: what a pool's settings mean to a process,
//! and the news between the two.

use crate::pool::{Event, GREETING, Nursery, Settings};
use crate::process::{ChildEvent, ChildRequest, ChildSpec, ListenSpec, Notifier};
use std::ffi::OsString;
use sys::address::SocketAddress;
use sys::listen::{ListenOptions, SocketFile};
use sys::process::{End, Pid};
use sys::signal::Signal;
use sys::user::{Gid, Uid, User};

/// What a pool's children are started with. Master and worker must come to the same, so nothing here depends on the
/// environment of either.
pub fn spec(settings: &Settings, worker: Option<&(User, Gid)>) -> Result<ChildSpec, String> {
    let process = &settings.process;
    let user = match &process.user {
        Some(name) => Some(find_user(settings, name)?),
        None => worker.cloned(),
    };
    let mut environment: Vec<(OsString, OsString)> = Vec::new();
    let mut put = |name: &str, value: &str| {
        environment.retain(|(known, _)| known != name);
        environment.push((name.into(), value.into()));
    };
    if let Some((user, _)) = &user {
        put("USER", &user.name);
        if let Ok(Some(home)) = sys::user::home(&user.name) {
            put("HOME", &home);
        }
    }
    for (name, value) in &process.environment {
        put(name, value);
    }
    // Children are counted here, and one does one thing at a time.
    put("PHP_FCGI_MAX_REQUESTS", "0");
    put("PHP_FCGI_CHILDREN", "0");
    if let Some(directory) = &process.ini_directory {
        let scanned = directory.join("conf.d");
        put("PHP_INI_SCAN_DIR", &scanned.to_string_lossy());
    }
    Ok(ChildSpec {
        name: settings.name.clone(),
        command: command(settings),
        environment,
        keep_environment: process.keep_environment,
        user,
        root: process.chroot.clone(),
        directory: process.chdir.clone(),
        priority: process.priority,
        rlimit_nofile: process.rlimit_files,
        rlimit_core: process.rlimit_core,
        captured: settings.catch_workers_output,
        greeting: GREETING.to_vec(),
        locked: locked(settings),
    })
}

/// `listen`: a socket for other programs. The pool serves this server's own requests without it.
pub fn listen_spec(settings: &Settings) -> Result<Option<ListenSpec>, String> {
    let Some(listen) = &settings.listen else {
        return Ok(None);
    };
    let pool = &settings.name;
    let owner = match &listen.owner {
        Some(name) => match known_user(name) {
            Some(user) => Some(user.uid),
            None => return Err(format!("[pool {pool}] cannot get uid for user '{name}'")),
        },
        None => None,
    };
    let group = match &listen.group {
        Some(name) => match known_group(name) {
            Some(group) => Some(group),
            None => return Err(format!("[pool {pool}] cannot get gid for group '{name}'")),
        },
        None => None,
    };
    let is_root = sys::process::is_root();
    let file = SocketFile {
        mode: listen.mode.unwrap_or(0o660),
        owner: owner.filter(|_| is_root),
        group: group.filter(|_| is_root),
    };
    let spec = |address: SocketAddress| ListenSpec {
        options: ListenOptions {
            backlog: u32::try_from(listen.backlog).unwrap_or(u32::MAX),
            ipv6_only: false,
            file: address.is_unix().then_some(file),
            ..ListenOptions::default()
        },
        address,
        optional: true,
    };
    Ok(listen.place.clone().map(spec))
}

/// A number that no user has is a user, too.
fn known_user(name: &str) -> Option<User> {
    if let Ok(Some(user)) = sys::user::user(name) {
        return Some(user);
    }
    let number = name.parse::<u32>().ok()?;
    Some(User {
        name: name.to_owned(),
        uid: Uid(number),
        gid: Gid(number),
    })
}

fn known_group(name: &str) -> Option<Gid> {
    match sys::user::group(name) {
        Ok(Some(group)) => Some(group),
        _ => name.parse::<u32>().ok().map(Gid),
    }
}

fn find_user(settings: &Settings, name: &str) -> Result<(User, Gid), String> {
    let pool = &settings.name;
    let Some(user) = known_user(name) else {
        return Err(format!("[pool {pool}] cannot get uid for user '{name}'"));
    };
    let group = match &settings.process.group {
        None => user.gid,
        Some(name) => match known_group(name) {
            Some(group) => group,
            None => return Err(format!("[pool {pool}] cannot get gid for group '{name}'")),
        },
    };
    Ok((user, group))
}

/// The command of the pool, or php-cgi with the pool's settings of php.ini.
fn command(settings: &Settings) -> Vec<OsString> {
    let process = &settings.process;
    if !process.command.is_empty() {
        return process.command.iter().map(OsString::from).collect();
    }
    let version = process.version.as_deref().unwrap_or("");
    let mut command = vec![OsString::from(format!("php-cgi{version}"))];
    if let Some(directory) = &process.ini_directory {
        command.push("-c".into());
        command.push(directory.join("php.ini").into());
    }
    for (name, value) in &process.ini {
        command.push("-d".into());
        command.push(format!("{name}={}", quoted(value)).into());
    }
    command
}

/// What scripts of php-cgi cannot change. A pool that is shut in a directory cannot read the file; its settings can be
/// changed.
fn locked(settings: &Settings) -> String {
    let process = &settings.process;
    if !process.command.is_empty() || process.chroot.is_some() {
        return String::new();
    }
    let lines = process.locked.iter();
    lines
        .map(|(name, value)| format!("{name}={}\n", quoted(value)))
        .collect()
}

/// A value as a line of php.ini has it: words, numbers and PHP's own constants as they are, all else between quotes.
fn quoted(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_. |&~^".contains(&byte);
    let is_constant = value.starts_with("E_") || !value.contains([' ', '|', '&', '~', '^']);
    if is_constant && value.bytes().all(plain) {
        return value.to_owned();
    }
    if !value.contains('\'') {
        return format!("'{value}'");
    }
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace('$', "\\$"))
}

/// Pools ask here for processes.
pub struct Asking(pub Notifier);

impl Nursery for Asking {
    fn start(&self, ticket: u64, pool: &str, print: u64) {
        self.0.child(ChildRequest::Start {
            ticket,
            name: pool.to_owned(),
            print,
        });
    }

    fn signal(&self, pid: i32, kill: bool) {
        let signal = if kill { Signal::Kill } else { Signal::Term };
        self.0.child(ChildRequest::Signal {
            child: Pid(pid),
            signal,
        });
    }

    fn trace(&self, pid: i32, depth: u32) {
        self.0.child(ChildRequest::Trace {
            child: Pid(pid),
            depth,
        });
    }
}

/// The process layer's news in the pools' terms.
pub fn event(event: ChildEvent) -> Event {
    match event {
        ChildEvent::Started { ticket, child } => Event::Started {
            ticket,
            pid: child.pid.0,
            connections: child.connections,
            output: child.output,
        },
        ChildEvent::Failed { ticket, reason } => Event::Failed { ticket, reason },
        ChildEvent::Traced { child, calls } => Event::Traced {
            pid: child.0,
            calls,
        },
        ChildEvent::Ended { child, end } => {
            let (how, crashed) = match end {
                End::Exited { code } => (format!("exited with code {code}"), code != 0),
                End::Signalled {
                    number,
                    core_dumped,
                } => {
                    let name = Signal::from_number(number).map_or("unknown", Signal::as_str);
                    let core = if core_dumped { " (core dumped)" } else { "" };
                    (format!("exited on signal {number} ({name}{core})"), true)
                }
            };
            Event::Ended {
                pid: child.0,
                how,
                crashed,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn values_of_php_ini_are_quoted_where_they_would_be_misread() {
        for (value, expected) in [
            ("32M", "32M"),
            ("E_ALL & ~E_NOTICE", "E_ALL & ~E_NOTICE"),
            ("a b", "'a b'"),
            ("/var/log/x.log", "'/var/log/x.log'"),
            ("a;b", "'a;b'"),
            ("it's $x \"q\"", "\"it's \\$x \\\"q\\\"\""),
        ] {
            assert_eq!(quoted(value), expected);
        }
    }
}
