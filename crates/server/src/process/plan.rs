//! What a configuration asks of the process layer: the main context of nginx.conf, resolved, with nothing opened yet.

use std::ffi::OsString;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::children::ChildSpec;
use super::journal::{ErrorLog, ErrorTarget};
use super::listeners::ListenSpec;
use sys::user::{Gid, Uid, User};

#[derive(Clone, Debug)]
pub struct Plan {
    pub daemon: bool,
    pub master_process: bool,
    pub pid: PathBuf,
    /// The worker's user and group; used only when the master is root.
    pub user: Option<(User, Gid)>,
    /// The worker connects from addresses that are not the machine's (`proxy_bind … transparent`).
    pub foreign_addresses: bool,
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
    /// Directories that the worker writes to: made for it where they are missing.
    pub directories: Vec<PathBuf>,
    /// Files whose change is a reason to read the configuration again.
    pub watched: Vec<PathBuf>,
    /// The programs that the worker may have started, each name once.
    pub children: Vec<ChildSpec>,
}

impl Plan {
    /// nginx's defaults, with nothing to listen at and no log of its own.
    pub fn new(pid: PathBuf) -> Plan {
        Plan {
            daemon: true,
            master_process: true,
            pid,
            user: None,
            foreign_addresses: false,
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
            directories: Vec::new(),
            watched: Vec::new(),
            children: Vec::new(),
        }
    }

    /// The program that the worker means: of this name and this content.
    pub fn child(&self, name: &str, print: u64) -> Option<&ChildSpec> {
        let mut named = self.children.iter().filter(|spec| spec.name == name);
        named.find(|spec| spec.print() == print)
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

    /// Makes the directories that are missing, the worker's own. One that cannot be made is told by whoever wants to write
    /// there.
    pub fn make_directories(&self) {
        for directory in self
            .directories
            .iter()
            .filter(|directory| !directory.exists())
        {
            let parent = directory.parent().map_or(Ok(()), std::fs::create_dir_all);
            let mut builder = std::fs::DirBuilder::new();
            let made = parent.and_then(|()| builder.mode(0o700).create(directory));
            if let (Ok(()), Some((user, _))) = (made, self.worker_user()) {
                let _refused = sys::file::change_owner_at(directory, user.uid);
            }
        }
    }

    /// Whether a worker of `self` can take `next` in place. What is set once in the life of a process (user, limits,
    /// threads) cannot change without a new one.
    pub fn fits_same_process(&self, next: &Plan) -> bool {
        self.user == next.user
            && self.foreign_addresses == next.foreign_addresses
            && self.threads == next.threads
            && self.rlimit_nofile == next.rlimit_nofile
            && self.rlimit_core == next.rlimit_core
            && self.priority == next.priority
            && self.working_directory == next.working_directory
            && self.environment == next.environment
    }

    /// Lets the worker become the owner of `directory`, an absolute path, where not everybody may read it.
    pub fn serve_as_owner_of(&mut self, directory: &Path) {
        if is_public(directory) {
            return;
        }
        // One that cannot be looked at cannot be served either, whoever tries.
        if let Ok(owner) = directory.metadata() {
            let user = User {
                name: owner.uid().to_string(),
                uid: Uid(owner.uid()),
                gid: Gid(owner.gid()),
            };
            let group = user.gid;
            self.user = Some((user, group));
        }
    }

    /// The user that the worker changes to, which only root can.
    pub fn worker_user(&self) -> Option<&(User, Gid)> {
        self.user.as_ref().filter(|_| sys::process::is_root())
    }
}

/// Whether everybody may list a directory and come to it.
fn is_public(directory: &Path) -> bool {
    const SEARCH: u32 = 0o001;
    const READ: u32 = 0o004;
    let has = |path: &Path, bits: u32| {
        let mode = path.metadata().map(|metadata| metadata.mode());
        mode.is_ok_and(|mode| mode & bits == bits)
    };
    has(directory, READ) && directory.ancestors().all(|path| has(path, SEARCH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir_all, metadata, remove_dir_all, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_private_directory_is_served_by_its_owner() {
        let home = PathBuf::from(format!("/tmp/gannet-plan-{}", std::process::id()));
        let inner = home.join("inner");
        create_dir_all(&inner).unwrap();
        let user_for = |home_mode, inner_mode| {
            set_permissions(&home, Permissions::from_mode(home_mode)).unwrap();
            set_permissions(&inner, Permissions::from_mode(inner_mode)).unwrap();
            let mut plan = Plan::new("pid".into());
            plan.serve_as_owner_of(&inner);
            plan.user.map(|(user, group)| (user.uid.0, group.0))
        };
        let owner = metadata(&inner).unwrap();
        let owner = Some((owner.uid(), owner.gid()));
        assert_eq!(user_for(0o755, 0o755), None);
        assert_eq!(user_for(0o711, 0o755), None);
        assert_eq!(user_for(0o700, 0o755), owner);
        assert_eq!(user_for(0o755, 0o750), owner);
        assert_eq!(user_for(0o755, 0o711), owner);
        remove_dir_all(&home).unwrap();
    }
}
