//! Programs that the worker has started for it: children of the master, which has the rights to start them as anybody. Each
//! listens on a socket of its own that nobody else can reach; the connections to it are the worker's.

use std::ffi::{CString, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::locked_ini::LockedIni;
use super::plan::Plan;
use sys::process::{End, Limit, Pid};
use sys::signal::Signal;
use sys::user::{Gid, User};

/// A program as the configuration has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildSpec {
    /// What the worker calls it.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Its environment; a value `$NAME` is that of the process that starts it.
    pub environment: Vec<(OsString, OsString)>,
    /// It has the environment of the process that starts it, too.
    pub keep_environment: bool,
    /// Only root can start as another; else this is left out.
    pub user: Option<(User, Gid)>,
    pub root: Option<PathBuf>,
    pub directory: Option<PathBuf>,
    pub priority: Option<i32>,
    pub rlimit_nofile: Option<u64>,
    pub rlimit_core: Option<u64>,
    /// The worker reads what it writes to standard output and error.
    pub captured: bool,
    /// Said on each connection before anything else.
    pub greeting: Vec<u8>,
    /// Lines of php.ini that its scripts cannot change; empty: none.
    pub locked: String,
}

impl ChildSpec {
    /// Tells specifications of one name apart; the same in master and worker.
    pub fn print(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        self.command.hash(&mut hasher);
        self.environment.hash(&mut hasher);
        self.keep_environment.hash(&mut hasher);
        let user = self.user.as_ref();
        user.map(|(user, group)| (&user.name, user.uid, *group))
            .hash(&mut hasher);
        (&self.root, &self.directory).hash(&mut hasher);
        (self.priority, self.rlimit_nofile, self.rlimit_core).hash(&mut hasher);
        (self.captured, &self.locked).hash(&mut hasher);
        hasher.finish()
    }
}

/// What the service asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildRequest {
    /// `ticket` comes back with the answer.
    Start {
        ticket: u64,
        name: String,
        print: u64,
    },
    Signal {
        child: Pid,
        signal: Signal,
    },
    /// What its PHP script is doing, in at most `depth` lines.
    Trace {
        child: Pid,
        depth: u32,
    },
}

/// What the service is told.
#[derive(Debug)]
pub enum ChildEvent {
    Started {
        ticket: u64,
        child: Started,
    },
    Failed {
        ticket: u64,
        reason: String,
    },
    Ended {
        child: Pid,
        end: End,
    },
    /// Lines, or why there are none.
    Traced {
        child: Pid,
        calls: Result<String, String>,
    },
}

/// A program at work.
#[derive(Debug)]
pub struct Started {
    pub pid: Pid,
    /// Connected to its socket, to be used one after the other; non-blocking.
    pub connections: Vec<OwnedFd>,
    /// What it says.
    pub output: Option<OwnedFd>,
}

/// Connections made at the start: the first, and the ones that follow when a connection has to be given up. Later nobody
/// can connect any more.
const CONNECTIONS: usize = 4;

/// Starts a program with its own listening socket as standard input, as FastCGI has it.
pub fn start(spec: &ChildSpec, locked: &mut LockedIni) -> Result<Started, String> {
    let failed = |call: &'static str| {
        move |error: io::Error| format!("{call} failed ({})", sys::errno::Errno(&error))
    };
    let (listener, connections) = private_socket(&spec.greeting).map_err(failed("socketpair()"))?;
    let (program, arguments) = spec
        .command
        .split_first()
        .ok_or("there is no program to start")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(OwnedFd::from(listener));
    if !spec.keep_environment {
        command.env_clear();
    }
    for (name, value) in &spec.environment {
        let own = value.to_str().and_then(|value| value.strip_prefix('$'));
        match own.map(std::env::var_os) {
            None => command.env(name, value),
            Some(value) => command.env(name, value.unwrap_or_default()),
        };
    }
    if !spec.locked.is_empty() {
        let place = lock(spec, locked).map_err(failed("writing \"locked.ini\""))?;
        command.env(SCANNED, place);
    }
    let output = match spec.captured {
        true => {
            let (output, written) = io::pipe().map_err(failed("pipe()"))?;
            command.stderr(written.try_clone().map_err(failed("dup()"))?);
            command.stdout(written);
            Some(OwnedFd::from(output))
        }
        false => {
            command.stdout(Stdio::null()).stderr(Stdio::null());
            None
        }
    };
    let setup = setup(spec).map_err(failed("getgrouplist()"))?;
    let shown = program.to_string_lossy();
    let child = sys::spawn::prepare(&mut command, setup)
        .spawn()
        .map_err(|error| {
            format!(
                "\"{shown}\" could not be started ({})",
                sys::errno::Errno(&error)
            )
        })?;
    if let Some(output) = &output {
        sys::socket::set_nonblocking(output, true).map_err(failed("fcntl()"))?;
    }
    Ok(Started {
        pid: Pid(i32::try_from(child.id()).map_err(|error| error.to_string())?),
        connections,
        output,
    })
}

/// Where PHP looks for further files of settings.
const SCANNED: &str = "PHP_INI_SCAN_DIR";

/// Writes what scripts cannot change; gives the directories that PHP is to read, the usual ones first.
fn lock(spec: &ChildSpec, locked: &mut LockedIni) -> io::Result<OsString> {
    let user = spec.user.as_ref().filter(|_| sys::process::is_root());
    let group = user.map(|(_, group)| *group);
    let place = locked.write(spec.print(), &spec.locked, group)?;
    let mut set = spec.environment.iter();
    let known = match set.find(|(name, _)| name == SCANNED) {
        Some((_, value)) => Some(value.clone()),
        None if spec.keep_environment => std::env::var_os(SCANNED),
        None => None,
    };
    // An empty name is that of PHP's own directory.
    let mut all = known.unwrap_or_default();
    all.push(":");
    all.push(place);
    Ok(all)
}

/// Starts what the worker means: a plan in force, or else one that is about to be.
pub fn start_planned(
    plan: &Plan,
    next: Option<&Plan>,
    name: &str,
    print: u64,
    locked: &mut LockedIni,
) -> Result<Started, String> {
    let specs = std::iter::once(plan).chain(next);
    match specs.into_iter().find_map(|plan| plan.child(name, print)) {
        Some(spec) => start(spec, locked),
        None => Err("it is not in the configuration any more".to_owned()),
    }
}

fn setup(spec: &ChildSpec) -> io::Result<sys::spawn::Setup> {
    let terminated = |path: &PathBuf| CString::new(path.as_os_str().as_bytes());
    let user = spec.user.as_ref().filter(|_| sys::process::is_root());
    let identity = match user {
        Some((user, group)) => Some((user.uid, *group, sys::user::groups_of(user, *group)?)),
        None => None,
    };
    let nofile = spec.rlimit_nofile.map(|files| (Limit::OpenFiles, files));
    let core = spec.rlimit_core.map(|bytes| (Limit::CoreFile, bytes));
    Ok(sys::spawn::Setup {
        identity,
        root: spec.root.as_ref().map(terminated).transpose()?,
        directory: spec.directory.as_ref().map(terminated).transpose()?,
        priority: spec.priority,
        limits: nofile.into_iter().chain(core).collect(),
    })
}

/// A listening socket and connections to it. For a moment it has a name, in a directory that only this user may enter.
fn private_socket(greeting: &[u8]) -> io::Result<(UnixListener, Vec<OwnedFd>)> {
    let mut random = [0; 16];
    sys::machine::random(&mut random)?;
    let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let directory = std::env::temp_dir().join(format!("gannet-{name}"));
    std::fs::DirBuilder::new().mode(0o700).create(&directory)?;
    let path = directory.join("child");
    let made = UnixListener::bind(&path).and_then(|listener| {
        let mut connections = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            let mut connection = UnixStream::connect(&path)?;
            connection.write_all(greeting)?;
            connection.set_nonblocking(true)?;
            connections.push(OwnedFd::from(connection));
        }
        Ok((listener, connections))
    });
    let _never_made = std::fs::remove_file(&path);
    std::fs::remove_dir(&directory)?;
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_program_gets_a_socket_that_has_no_name() {
        let (listener, connections) = private_socket(b"hello").unwrap();
        assert_eq!(connections.len(), CONNECTIONS);
        let mut greeting = [0; 5];
        let (mut accepted, _) = listener.accept().unwrap();
        accepted.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"hello");
        let address = listener.local_addr().unwrap();
        assert!(!address.as_pathname().unwrap().exists());
    }

    #[test]
    fn specifications_differ_by_what_they_start() {
        let spec = ChildSpec {
            name: "www".into(),
            ..ChildSpec::default()
        };
        let nicer = ChildSpec {
            priority: Some(1),
            ..spec.clone()
        };
        assert_eq!(spec.print(), spec.clone().print());
        assert_ne!(spec.print(), nicer.print());
    }
}
