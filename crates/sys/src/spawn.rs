//! Starting a program as somebody else: all that has to happen between fork and exec.

use std::ffi::CString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::errno::check;
use crate::process::{Limit, Pid, own_pid, resource};
use crate::signal::Signal;
use crate::user::{Gid, Uid};

/// What a child becomes before it executes its program.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// User, group and all further groups.
    pub identity: Option<(Uid, Gid, Vec<Gid>)>,
    /// The directory that becomes its root.
    pub root: Option<CString>,
    /// Its directory, within that root.
    pub directory: Option<CString>,
    pub priority: Option<i32>,
    /// Both the soft and the hard one; `u64::MAX` is none.
    pub limits: Vec<(Limit, u64)>,
}

/// Makes a command start with this setup, with no signal blocked, in a process group of its own, and be killed when the
/// thread ends that starts it.
pub fn prepare(command: &mut Command, setup: Setup) -> &mut Command {
    let parent = own_pid();
    let groups: Vec<libc::gid_t> = match &setup.identity {
        Some((_, _, groups)) => groups.iter().map(|group| group.0).collect(),
        None => Vec::new(),
    };
    let limits: Vec<_> = setup
        .limits
        .iter()
        .map(|&(limit, value)| (resource(limit), value))
        .collect();
    crate::signal::unblock_in_child(command).process_group(0);
    // SAFETY: the closure runs between fork and exec; it makes async-signal-safe calls on data that was made before the
    // fork, and allocates nothing.
    unsafe { command.pre_exec(move || become_child(&setup, &groups, &limits, parent)) }
}

/// Makes a command lead a session of its own.
pub fn lead_session(command: &mut Command) -> &mut Command {
    // SAFETY: the closure runs between fork and exec and makes one async-signal-safe call that takes nothing.
    unsafe { command.pre_exec(crate::process::new_session) }
}

fn become_child(
    setup: &Setup,
    groups: &[libc::gid_t],
    limits: &[(libc::__rlimit_resource_t, u64)],
    parent: Pid,
) -> io::Result<()> {
    for &(limit, value) in limits {
        let pair = libc::rlimit64 {
            rlim_cur: value,
            rlim_max: value,
        };
        // SAFETY: the structure outlives the call, which only reads it.
        check(unsafe { libc::setrlimit64(limit, &raw const pair) })?;
    }
    if let Some(nice) = setup.priority {
        // SAFETY: the call takes integers; 0 means this process.
        check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) })?;
    }
    if let Some(root) = &setup.root {
        // SAFETY: the path is a live, terminated string.
        check(unsafe { libc::chroot(root.as_ptr()) })?;
        // SAFETY: the path is a live, terminated string.
        check(unsafe { libc::chdir(c"/".as_ptr()) })?;
    }
    if let Some((user, group, _)) = &setup.identity {
        // SAFETY: the call takes an integer.
        check(unsafe { libc::setgid(group.0) })?;
        // SAFETY: the pointer and length describe a live slice.
        check(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
        // SAFETY: the call takes an integer.
        check(unsafe { libc::setuid(user.0) })?;
    }
    if let Some(directory) = &setup.directory {
        // SAFETY: the path is a live, terminated string.
        check(unsafe { libc::chdir(directory.as_ptr()) })?;
    }
    // A change of the user clears this, so it comes last; the parent may be gone by now.
    crate::process::end_with_parent(Signal::Kill)?;
    if crate::process::parent_pid() != parent {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_starts_with_its_setup() {
        let setup = Setup {
            directory: Some(c"/usr".to_owned()),
            priority: Some(7),
            limits: vec![(Limit::OpenFiles, 77), (Limit::CoreFile, 0)],
            ..Setup::default()
        };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "pwd; nice; ulimit -n; ulimit -c"]);
        let output = prepare(&mut command, setup).output().unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            "/usr\n7\n77\n0\n"
        );
        let nowhere = Setup {
            directory: Some(c"/no/such/place".to_owned()),
            ..Setup::default()
        };
        let mut command = Command::new("/bin/sh");
        let error = prepare(&mut command, nowhere).spawn().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }
}
