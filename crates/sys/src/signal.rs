//! Signals as readable events. They are blocked in every thread and read from a descriptor, so nothing ever runs inside a
//! signal handler.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::errno::{check, check_size, retry};
use crate::process::Pid;

/// The signals a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    Hup,
    Int,
    Quit,
    Kill,
    Usr1,
    Usr2,
    Alrm,
    Term,
    Chld,
    Winch,
    Io,
    Sys,
    Pipe,
}

impl Signal {
    const ALL: [Signal; 13] = [
        Signal::Hup,
        Signal::Int,
        Signal::Quit,
        Signal::Kill,
        Signal::Usr1,
        Signal::Usr2,
        Signal::Alrm,
        Signal::Term,
        Signal::Chld,
        Signal::Winch,
        Signal::Io,
        Signal::Sys,
        Signal::Pipe,
    ];

    pub fn number(self) -> i32 {
        match self {
            Signal::Hup => libc::SIGHUP,
            Signal::Int => libc::SIGINT,
            Signal::Quit => libc::SIGQUIT,
            Signal::Kill => libc::SIGKILL,
            Signal::Usr1 => libc::SIGUSR1,
            Signal::Usr2 => libc::SIGUSR2,
            Signal::Alrm => libc::SIGALRM,
            Signal::Term => libc::SIGTERM,
            Signal::Chld => libc::SIGCHLD,
            Signal::Winch => libc::SIGWINCH,
            Signal::Io => libc::SIGIO,
            Signal::Sys => libc::SIGSYS,
            Signal::Pipe => libc::SIGPIPE,
        }
    }

    pub fn from_number(number: i32) -> Option<Signal> {
        Signal::ALL
            .into_iter()
            .find(|signal| signal.number() == number)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Signal::Hup => "SIGHUP",
            Signal::Int => "SIGINT",
            Signal::Quit => "SIGQUIT",
            Signal::Kill => "SIGKILL",
            Signal::Usr1 => "SIGUSR1",
            Signal::Usr2 => "SIGUSR2",
            Signal::Alrm => "SIGALRM",
            Signal::Term => "SIGTERM",
            Signal::Chld => "SIGCHLD",
            Signal::Winch => "SIGWINCH",
            Signal::Io => "SIGIO",
            Signal::Sys => "SIGSYS",
            Signal::Pipe => "SIGPIPE",
        }
    }
}

/// A signal that arrived, and who sent it (0: the kernel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    pub signal: Signal,
    pub sender: Pid,
}

/// A descriptor from which blocked signals are read. Make it before the first thread starts: threads inherit the block.
/// A forked child reads its own signals from it, not its parent's.
pub struct SignalReader {
    descriptor: OwnedFd,
}

impl SignalReader {
    /// Blocks these signals in this thread (and those it will start) and opens the reader, non-blocking.
    pub fn new(signals: &[Signal]) -> io::Result<SignalReader> {
        let set = set_of(signals);
        change_mask(libc::SIG_BLOCK, &set)?;
        // SAFETY: the set is initialised and outlives the call; -1 asks for a new descriptor.
        let descriptor = check(unsafe {
            libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC)
        })?;
        // SAFETY: the kernel just returned this descriptor and nothing else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(SignalReader { descriptor })
    }

    /// The next signal, or `None` when none waits.
    pub fn read(&self) -> io::Result<Option<Received>> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        let descriptor = self.descriptor.as_raw_fd();
        match retry(|| {
            // SAFETY: the buffer has room for the one record asked for.
            check_size(unsafe { libc::read(descriptor, info.as_mut_ptr().cast(), size) })
        }) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            other => other?,
        };
        // SAFETY: the record is integers only, was zeroed, and the kernel writes whole records.
        let info = unsafe { info.assume_init() };
        let signal = i32::try_from(info.ssi_signo)
            .ok()
            .and_then(Signal::from_number);
        let sender = Pid(i32::try_from(info.ssi_pid).unwrap_or(0));
        signal
            .map(|signal| Some(Received { signal, sender }))
            .ok_or_else(|| io::Error::other("unknown signal"))
    }
}

impl AsFd for SignalReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Makes a command start with no signal blocked, as programs expect; std passes on the mask of its parent.
pub fn unblock_in_child(command: &mut Command) -> &mut Command {
    // SAFETY: the closure runs between fork and exec and makes one async-signal-safe call on data of its own.
    unsafe { command.pre_exec(|| change_mask(libc::SIG_SETMASK, &set_of(&[]))) }
}

/// Makes a command end with its parent: it gets `signal` when the thread that started it ends.
pub fn end_with_parent(command: &mut Command, signal: Signal) -> &mut Command {
    let number = libc::c_ulong::from(signal.number().unsigned_abs());
    // SAFETY: the closure runs between fork and exec and makes one async-signal-safe call with integers.
    unsafe {
        command.pre_exec(move || check(libc::prctl(libc::PR_SET_PDEATHSIG, number)).map(drop))
    }
}

fn set_of(signals: &[Signal]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set; sigaddset then gets valid numbers of the enum.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal.number());
        }
        set.assume_init()
    }
}

fn change_mask(how: libc::c_int, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set is initialised; the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) } {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_signals_agree() {
        for signal in Signal::ALL {
            assert_eq!(Signal::from_number(signal.number()), Some(signal));
        }
        assert_eq!(Signal::from_number(0), None);
    }

    #[test]
    fn a_child_starts_with_nothing_blocked() {
        let reader = SignalReader::new(&[Signal::Usr2]).unwrap();
        assert_eq!(reader.read().unwrap(), None);
        let mut command = Command::new("/bin/cat");
        let output = unblock_in_child(command.arg("/proc/self/status"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let blocked = text
            .lines()
            .find_map(|line| line.strip_prefix("SigBlk:"))
            .unwrap();
        assert_eq!(u64::from_str_radix(blocked.trim(), 16).unwrap(), 0);
    }
}
