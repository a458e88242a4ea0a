//! What a configuration asks of the process layer: the main context of nginx.conf, resolved, with nothing opened yet.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::journal::{ErrorLog, ErrorTarget};
use super::listeners::ListenSpec;
use sys::user::{Gid, User};

#[derive(Clone, Debug)]
pub struct Plan {
    pub daemon: bool,
    pub master_process: bool,
    pub pid: PathBuf,
    /// The worker's user and group; used only when the master is root.
    pub user: Option<(User, Gid)>,
    /// `worker_processes`: the threads of the one worker process.
    pub threads: usize,
    pub rlimit_nofile: Option<u64>,
    pub rlimit_core: Option<u64>,
    pub priority: i32,
    pub working_directory: Option<PathBuf>,
    /// The worker's environment, whole.
    pub environment: Vec<(OsString, OsString)>,
    /// How long a graceful end may take; `None`: as long as it takes.
    pub shutdown_timeout: Option<Duration>,
    /// None: the log of `-e`, or the built-in one.
    pub error_logs: Vec<ErrorLog>,
    /// The other logs.
    pub log_files: Vec<PathBuf>,
    pub listen: Vec<ListenSpec>,
}

impl Plan {
    /// nginx's defaults, with nothing to listen at and no log of its own.
    pub fn new(pid: PathBuf) -> Plan {
        Plan {
            daemon: true,
            master_process: true,
            pid,
            user: None,
            threads: 1,
            rlimit_nofile: None,
            rlimit_core: None,
            priority: 0,
            working_directory: None,
            environment: std::env::vars_os()
                .filter(|(name, _)| name == "TZ")
                .collect(),
            shutdown_timeout: None,
            error_logs: Vec::new(),
            log_files: Vec::new(),
            listen: Vec::new(),
        }
    }

    /// Every file to open for writing.
    pub fn log_paths(&self) -> Vec<PathBuf> {
        let error_log = |log: &ErrorLog| match &log.target {
            ErrorTarget::File(path) => Some(path.clone()),
            ErrorTarget::Stderr | ErrorTarget::Syslog(_) => None,
        };
        let error_logs = self.error_logs.iter().filter_map(error_log);
        error_logs.chain(self.log_files.iter().cloned()).collect()
    }

    /// Whether a worker of `self` can take `next` in place. What is set once in the life of a process (user, limits,
    /// threads) cannot change without a new one.
    pub fn fits_same_process(&self, next: &Plan) -> bool {
        self.user == next.user
            && self.threads == next.threads
            && self.rlimit_nofile == next.rlimit_nofile
            && self.rlimit_core == next.rlimit_core
            && self.priority == next.priority
            && self.working_directory == next.working_directory
            && self.environment == next.environment
    }

    /// The user that the worker changes to, which only root can.
    pub fn worker_user(&self) -> Option<&(User, Gid)> {
        self.user.as_ref().filter(|_| sys::process::is_root())
    }
}
