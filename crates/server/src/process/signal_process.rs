//! `-s`: a short-lived process that reads the pid file the configuration names, and signals the master.

use std::path::Path;

use super::journal::{Journal, Level, open_failed};
use super::pid_file::{self, Content};
use sys::signal::Signal;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalCommand {
    Stop,
    Quit,
    Reopen,
    Reload,
}

impl SignalCommand {
    pub fn from_word(word: &[u8]) -> Option<SignalCommand> {
        match word {
            b"stop" => Some(SignalCommand::Stop),
            b"quit" => Some(SignalCommand::Quit),
            b"reopen" => Some(SignalCommand::Reopen),
            b"reload" => Some(SignalCommand::Reload),
            _ => None,
        }
    }

    fn signal(self) -> Signal {
        match self {
            SignalCommand::Stop => Signal::Term,
            SignalCommand::Quit => Signal::Quit,
            SignalCommand::Reopen => Signal::Usr1,
            SignalCommand::Reload => Signal::Hup,
        }
    }
}

/// The exit code.
pub fn send(command: SignalCommand, pid_path: &Path, journal: &Journal) -> i32 {
    journal.notice("signal process started");
    let pid = match pid_file::read(pid_path) {
        Ok(Content::Pid(pid)) => pid,
        Ok(Content::Invalid(text)) => {
            let path = pid_path.display();
            journal.write(
                Level::Error,
                format_args!("invalid PID number \"{text}\" in \"{path}\""),
            );
            return 1;
        }
        Err(error) if error.kind() == std::io::ErrorKind::IsADirectory => {
            let (path, reason) = (pid_path.display(), sys::errno::Errno(&error));
            journal.write(
                Level::Critical,
                format_args!("pread() \"{path}\" failed ({reason})"),
            );
            return 1;
        }
        Err(error) => {
            journal.write(Level::Error, open_failed(pid_path, &error));
            return 1;
        }
    };
    let signal = command.signal();
    match sys::process::kill(pid, signal) {
        Ok(()) => 0,
        Err(error) => {
            let reason = sys::errno::Errno(&error);
            journal.alert(format_args!(
                "kill({pid}, {}) failed ({reason})",
                signal.number()
            ));
            1
        }
    }
}
