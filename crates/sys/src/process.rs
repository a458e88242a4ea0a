//! Processes: fork, wait, kill, sessions, limits and priority.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;

use crate::errno::{check, retry};
use crate::signal::Signal;

/// A process number; always above 0 where it names a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pid(pub i32);

impl fmt::Display for Pid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// The processors online: what `worker_processes auto` counts.
pub use crate::machine::cpu_count;

/// Whether this process may do what only root may: low ports, other users.
pub fn is_root() -> bool {
    crate::user::effective_uid() == crate::user::Uid(0)
}

pub fn own_pid() -> Pid {
    // SAFETY: the call takes nothing and cannot fail.
    Pid(unsafe { libc::getpid() })
}

pub fn parent_pid() -> Pid {
    // SAFETY: the call takes nothing and cannot fail.
    Pid(unsafe { libc::getppid() })
}

/// The kernel's number of the calling thread; equal to the process number in the first one.
pub fn thread_id() -> i32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Fork {
    Parent(Pid),
    Child,
}

/// Splits the process. Refused while the process has a second thread: only then is everything in the child's memory whole
/// and every lock free.
pub fn fork() -> io::Result<Fork> {
    if !is_single_threaded()? {
        return Err(io::Error::other("fork() with several threads"));
    }
    // SAFETY: there is one thread, this one, so the child may do all that the parent may (checked above).
    match check(unsafe { libc::fork() })? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(Pid(pid))),
    }
}

/// Where /proc is not mounted, the kernel is asked to unshare what only a lone thread can.
fn is_single_threaded() -> io::Result<bool> {
    if let Ok(tasks) = std::fs::read_dir("/proc/self/task") {
        return Ok(tasks.take(2).count() == 1);
    }
    // SAFETY: the call takes an integer; for a lone thread it does nothing, else it fails.
    match check(unsafe { libc::unshare(libc::CLONE_THREAD) }) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(error) => Err(error),
    }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited { code: i32 },
    Signalled { number: i32, core_dumped: bool },
}

/// What has become of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Ended(End),
    /// As `trace::stop` asked for, or by a signal on its way.
    Stopped {
        signal: Option<i32>,
    },
}

/// Tells of one child that has ended or stopped; `None` when none has (or there are no children).
pub fn wait_any() -> io::Result<Option<(Pid, Change)>> {
    wait(-1, libc::WNOHANG)
}

/// Waits until this child has ended.
pub fn wait_for(child: Pid) -> io::Result<Option<End>> {
    let child = positive(child)?;
    loop {
        match wait(child, 0)? {
            None => return Ok(None),
            Some((_, Change::Ended(end))) => return Ok(Some(end)),
            Some((_, Change::Stopped { .. })) => {}
        }
    }
}

fn wait(which: libc::pid_t, options: libc::c_int) -> io::Result<Option<(Pid, Change)>> {
    let mut status = 0;
    // SAFETY: the status pointer outlives the call.
    match retry(|| check(unsafe { libc::waitpid(which, &raw mut status, options) })) {
        Ok(0) => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        Err(error) => Err(error),
        Ok(pid) => Ok(Some((Pid(pid), change_of(status)))),
    }
}

fn change_of(status: libc::c_int) -> Change {
    if !libc::WIFSTOPPED(status) {
        return Change::Ended(end_of(status));
    }
    // Above the signal stands what kind of stop it is, if it is not the signal's own.
    let by_signal = status >> 16 == 0;
    Change::Stopped {
        signal: by_signal.then_some(libc::WSTOPSIG(status)),
    }
}

fn end_of(status: libc::c_int) -> End {
    if libc::WIFSIGNALED(status) {
        End::Signalled {
            number: libc::WTERMSIG(status),
            core_dumped: libc::WCOREDUMP(status),
        }
    } else {
        End::Exited {
            code: libc::WEXITSTATUS(status),
        }
    }
}

/// Sends a signal to one process.
pub fn kill(pid: Pid, signal: Signal) -> io::Result<()> {
    // SAFETY: the call takes integers; groups and "everyone" (0 and below) are refused.
    check(unsafe { libc::kill(positive(pid)?, signal.number()) }).map(drop)
}

/// Whether a process with this number exists.
pub fn exists(pid: Pid) -> bool {
    let Ok(number) = positive(pid) else {
        return false;
    };
    // SAFETY: signal 0 checks and sends nothing.
    match check(unsafe { libc::kill(number, 0) }) {
        Ok(_) => true,
        Err(error) => error.raw_os_error() == Some(libc::EPERM),
    }
}

pub(crate) fn positive(pid: Pid) -> io::Result<libc::pid_t> {
    if pid.0 > 0 {
        Ok(pid.0)
    } else {
        Err(io::Error::from_raw_os_error(libc::ESRCH))
    }
}

/// Leaves the terminal's session: the process leads one of its own.
pub fn new_session() -> io::Result<()> {
    // SAFETY: the call takes nothing.
    check(unsafe { libc::setsid() }).map(drop)
}

/// The three descriptors every process starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    Input,
    Output,
    Error,
}

/// Makes a standard descriptor another name for `target`; it survives exec.
pub fn redirect(standard: Standard, target: impl AsFd) -> io::Result<()> {
    let number = match standard {
        Standard::Input => libc::STDIN_FILENO,
        Standard::Output => libc::STDOUT_FILENO,
        Standard::Error => libc::STDERR_FILENO,
    };
    // SAFETY: the source is borrowed and open. The standard descriptors are owned by no value of std, which allows for
    // their being redirected.
    retry(|| check(unsafe { libc::dup2(target.as_fd().as_raw_fd(), number) })).map(drop)
}

/// Opens whichever of descriptors 0 to 2 is closed on /dev/null, so that no socket or log takes its number.
pub fn fill_standard_descriptors() -> io::Result<()> {
    loop {
        let null = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        if null.as_raw_fd() > libc::STDERR_FILENO {
            return Ok(());
        }
        // It took a standard number: leave it there.
        let _kept = std::os::fd::IntoRawFd::into_raw_fd(null);
    }
}

/// Replaces the environment by these variables. Refused while the process has a second thread, which might be reading it.
pub fn replace_environment(variables: &[(OsString, OsString)]) -> io::Result<()> {
    if !is_single_threaded()? {
        return Err(io::Error::other("the environment with several threads"));
    }
    let former: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).collect();
    for name in former {
        // SAFETY: no other thread exists that could read the environment meanwhile (checked above).
        unsafe { std::env::remove_var(name) };
    }
    for (name, value) in variables {
        let bytes = name.as_bytes();
        if bytes.is_empty()
            || bytes.contains(&b'=')
            || bytes.contains(&0)
            || value.as_bytes().contains(&0)
        {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: as above.
        unsafe { std::env::set_var(name, value) };
    }
    Ok(())
}

/// Sets the permission bits that new files lose; returns the former ones.
pub fn set_umask(mask: u32) -> u32 {
    // SAFETY: the call takes an integer and cannot fail.
    unsafe { libc::umask(mask) }
}

/// -20 (most favoured) to 19, for the whole process.
pub fn set_priority(nice: i32) -> io::Result<()> {
    // SAFETY: the call takes integers; 0 means this process.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) }).map(drop)
}

/// The same for the calling thread only (Linux keeps the value per thread): background work steps back.
pub fn set_thread_priority(nice: i32) -> io::Result<()> {
    let thread = libc::id_t::try_from(thread_id()).map_err(io::Error::other)?;
    // SAFETY: the call takes integers.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, thread, nice) }).map(drop)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    OpenFiles,
    /// Bytes.
    CoreFile,
}

/// Sets both the soft and the hard limit.
pub fn set_limit(limit: Limit, value: u64) -> io::Result<()> {
    let pair = libc::rlimit64 {
        rlim_cur: value,
        rlim_max: value,
    };
    // SAFETY: the structure outlives the call, which only reads it.
    check(unsafe { libc::setrlimit64(resource(limit), &raw const pair) }).map(drop)
}

/// The soft and the hard limit.
pub fn limits(limit: Limit) -> io::Result<(u64, u64)> {
    let mut pair = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure outlives the call, which fills it.
    check(unsafe { libc::getrlimit64(resource(limit), &raw mut pair) })?;
    Ok((pair.rlim_cur, pair.rlim_max))
}

pub(crate) fn resource(limit: Limit) -> libc::__rlimit_resource_t {
    match limit {
        Limit::OpenFiles => libc::RLIMIT_NOFILE,
        Limit::CoreFile => libc::RLIMIT_CORE,
    }
}

/// Allows core dumps again after the process has changed its user.
pub fn set_dumpable() -> io::Result<()> {
    // SAFETY: the call takes integers.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1 as libc::c_ulong, 0, 0, 0) }).map(drop)
}

/// This process gets `signal` when its parent ends, however it ends. Changing the user clears it: call it after that, and
/// then compare `parent_pid` with the expected one, for the parent may be gone already.
pub fn end_with_parent(signal: Signal) -> io::Result<()> {
    let number = libc::c_ulong::from(signal.number().unsigned_abs());
    // SAFETY: the call takes integers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, number, 0, 0, 0) }).map(drop)
}

/// Keeps the calling thread on these processors, counted from 0.
pub fn set_affinity(processors: &[usize]) -> io::Result<()> {
    // SAFETY: cpu_set_t is an array of integers; all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let room = 8 * size_of::<libc::cpu_set_t>();
    for &processor in processors {
        if processor >= room {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: the number lies within the set, as checked.
        unsafe { libc::CPU_SET(processor, &mut set) };
    }
    // SAFETY: the set outlives the call and has the size stated; 0 means this thread.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) })
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn fork_is_refused_with_several_threads() {
        // The test runner itself is a second thread.
        assert_eq!(
            fork().unwrap_err().to_string(),
            "fork() with several threads"
        );
    }

    #[test]
    fn a_killed_child_tells_its_signal() {
        let mut command = Command::new("/bin/cat");
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = Pid(i32::try_from(child.id()).unwrap());
        assert!(exists(pid));
        kill(pid, Signal::Kill).unwrap();
        assert_eq!(
            wait_for(pid).unwrap(),
            Some(End::Signalled {
                number: 9,
                core_dumped: false
            })
        );
        assert!(!exists(pid));
        // std does not know that the child is gone.
        assert!(child.wait().is_err());
        assert_eq!(
            kill(pid, Signal::Term).unwrap_err().raw_os_error(),
            Some(libc::ESRCH)
        );
    }

    #[test]
    fn a_child_stops_for_a_look_and_goes_on() {
        let mut command = Command::new("/bin/cat");
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = Pid(i32::try_from(child.id()).unwrap());
        if crate::trace::stop(pid).is_ok() {
            let stopped = Change::Stopped { signal: None };
            assert_eq!(wait(pid.0, 0).unwrap(), Some((pid, stopped)));
            crate::trace::release(pid, None).unwrap();
        }
        drop(child.stdin.take());
        assert_eq!(wait_for(pid).unwrap(), Some(End::Exited { code: 0 }));
        // std does not know that the child is gone.
        assert!(child.wait().is_err());
    }

    #[test]
    fn groups_and_everyone_are_never_signalled() {
        for number in [0, -1, -1234] {
            assert_eq!(
                kill(Pid(number), Signal::Term).unwrap_err().raw_os_error(),
                Some(libc::ESRCH)
            );
        }
    }

    #[test]
    fn limits_are_read_and_threads_bound() {
        assert!(limits(Limit::OpenFiles).unwrap().0 > 0);
        assert!(set_affinity(&[1 << 20]).is_err());
        std::thread::spawn(|| {
            set_thread_priority(5).unwrap();
            assert_ne!(thread_id(), own_pid().0);
        })
        .join()
        .unwrap();
    }
}
