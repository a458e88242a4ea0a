//! SIGUSR2: a new binary starts beside the old one and takes over its listening sockets, as nginx does it: the sockets stay
//! open over exec and are named in the environment, the old pid file makes room. Either side may be an nginx.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::listeners::{INHERITED_SOCKETS, inheritance};
use super::master::Master;
use super::pid_file;
use super::program::Program;
use super::resources::Resources;
use sys::process::Pid;

/// Where this process comes from.
pub struct Origin {
    /// The parent at the start, or the process in front that went into the background.
    pub parent: Pid,
    pub in_background: bool,
    /// A former binary has started this one.
    pub upgraded: bool,
    pub arguments: Vec<OsString>,
}

pub struct Upgrade {
    pub origin: Origin,
    new_binary: Option<Pid>,
}

impl Upgrade {
    pub fn new(origin: Origin) -> Upgrade {
        Upgrade {
            origin,
            new_binary: None,
        }
    }

    /// One at a time, and not while the former binary is still there; nor in the foreground, where the supervisor would
    /// lose sight of the new one.
    pub fn is_possible(&self) -> bool {
        self.new_binary.is_none() && sys::process::parent_pid() != self.origin.parent
    }

    pub fn is_running(&self) -> bool {
        self.new_binary.is_some()
    }

    pub fn is(&self, pid: Pid) -> bool {
        self.new_binary == Some(pid)
    }

    /// Whether another binary listens on the same sockets, so that their files must stay.
    pub fn shares_sockets(&self) -> bool {
        let former_is_alive =
            self.origin.upgraded && sys::process::parent_pid() == self.origin.parent;
        self.is_running() || former_is_alive
    }
}

impl<P: Program> Master<'_, P> {
    pub(super) fn change_binary(&mut self) {
        self.journal.notice("changing binary");
        let pid = self.current.plan.pid.clone();
        let former = pid_file::former(&pid);
        if let Err(error) = std::fs::rename(&pid, &former) {
            let reason = rename_failed(&pid, &former, &error);
            self.journal
                .alert(format_args!("{reason} before executing a new binary"));
            return;
        }
        match start(&self.upgrade.origin.arguments, &self.current.resources) {
            Ok(new_binary) => {
                self.journal
                    .notice(format_args!("start new binary process {new_binary}"));
                self.upgrade.new_binary = Some(new_binary);
            }
            Err(error) => {
                let reason = sys::errno::Errno(&error);
                self.journal.alert(format_args!(
                    "execve() failed while executing a new binary ({reason})"
                ));
                self.put_pid_file_back();
            }
        }
    }

    pub(super) fn new_binary_ended(&mut self) {
        self.upgrade.new_binary = None;
        self.put_pid_file_back();
        self.resume();
    }

    fn put_pid_file_back(&self) {
        let pid = &self.current.plan.pid;
        let former = pid_file::former(pid);
        if let Err(error) = std::fs::rename(&former, pid) {
            let reason = rename_failed(&former, pid, &error);
            self.journal
                .alert(format_args!("{reason} after a new binary has ended"));
        }
    }
}

/// Runs the same command line with the sockets of these resources open and named.
fn start(arguments: &[OsString], resources: &Resources) -> io::Result<Pid> {
    let Some((name, rest)) = arguments.split_first() else {
        return Err(io::Error::from_raw_os_error(NO_SUCH_FILE));
    };
    let has_path = name.as_encoded_bytes().contains(&b'/');
    let program = if has_path {
        name.into()
    } else {
        std::env::current_exe()?
    };
    let mut command = Command::new(program);
    command
        .arg0(name)
        .args(rest)
        .env(INHERITED_SOCKETS, inheritance(&resources.listeners));
    sys::signal::unblock_in_child(&mut command);
    set_close_on_exec(resources, false)?;
    let child = command.spawn();
    set_close_on_exec(resources, true)?;
    let number = i32::try_from(child?.id()).map_err(io::Error::other)?;
    Ok(Pid(number))
}

const NO_SUCH_FILE: i32 = 2;

/// The master has one thread, so nobody else executes anything meanwhile.
fn set_close_on_exec(resources: &Resources, on: bool) -> io::Result<()> {
    for listener in &resources.listeners {
        for socket in listener.sockets() {
            sys::file::set_close_on_exec(socket, on)?;
        }
    }
    Ok(())
}

fn rename_failed(from: &Path, to: &Path, error: &io::Error) -> String {
    let reason = sys::errno::Errno(error);
    format!(
        "rename() {} to {} failed ({reason})",
        from.display(),
        to.display()
    )
}
