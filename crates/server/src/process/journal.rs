//! nginx's lines about the processes: `2026/11/21 12:00:00 [notice] PID#TID: message` in the error log, and until the start
//! is complete `nginx: [emerg] message` on stderr as well.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::log_files::LogFiles;
pub use crate::log::error::Level;
use crate::log::syslog;
use sys::process::{End, Pid};

/// Something to tell whoever runs the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub level: Level,
    /// As nginx words it, with the place: `unknown directive "x" in /etc/nginx/nginx.conf:1`.
    pub message: String,
    /// Found when all was read: `-t` calls the syntax right before it.
    pub late: bool,
}

impl Diagnostic {
    pub fn new(level: Level, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            level,
            message: message.into(),
            late: false,
        }
    }

    #[must_use]
    pub fn late(self) -> Diagnostic {
        Diagnostic { late: true, ..self }
    }
}

/// One `error_log` of the main context.
#[derive(Clone, Debug)]
pub struct ErrorLog {
    pub target: ErrorTarget,
    /// Lines of this level and more severe ones are written.
    pub level: Level,
}

#[derive(Clone, Debug)]
pub enum ErrorTarget {
    Stderr,
    File(PathBuf),
    Syslog(Arc<syslog::Peer>),
}

#[derive(Clone)]
enum Output {
    Stderr,
    File(Arc<File>),
    Syslog(Arc<syslog::Peer>),
}

/// Where the lines go. Cloning shares the files.
#[derive(Clone)]
pub struct Journal {
    outputs: Vec<(Level, Output)>,
    /// Warnings and worse also go to stderr, in the short form.
    repeat_on_stderr: bool,
}

impl Journal {
    /// For the time before the configuration is read: the log of `-e`, or the built-in one. When it cannot be opened,
    /// stderr takes its place, and says so.
    pub fn at_start(target: &ErrorTarget) -> Journal {
        let output = match target {
            ErrorTarget::Stderr => Output::Stderr,
            ErrorTarget::Syslog(peer) => Output::Syslog(Arc::clone(peer)),
            ErrorTarget::File(path) => match sys::file::open_log(path) {
                Ok(file) => Output::File(Arc::new(file)),
                Err(error) => {
                    print_on_stderr(&format!(
                        "nginx: [alert] could not open error log file: {}",
                        open_failed(path, &error)
                    ));
                    Output::Stderr
                }
            },
        };
        Journal {
            outputs: vec![(Level::Notice, output)],
            repeat_on_stderr: true,
        }
    }

    /// For tests of what fails.
    #[cfg(test)]
    pub fn silent() -> Journal {
        Journal {
            outputs: Vec::new(),
            repeat_on_stderr: false,
        }
    }

    /// The configuration's error logs, taken from the open files; where it names none, `former` from level error on.
    pub fn for_logs(logs: &[ErrorLog], files: &LogFiles, former: &Journal) -> Journal {
        let open = |log: &ErrorLog| {
            let output = match &log.target {
                ErrorTarget::Stderr => Output::Stderr,
                ErrorTarget::File(path) => Output::File(files.file(path)?.clone()),
                ErrorTarget::Syslog(peer) => Output::Syslog(Arc::clone(peer)),
            };
            Some((log.level, output))
        };
        let mut outputs: Vec<(Level, Output)> = logs.iter().filter_map(open).collect();
        if outputs.is_empty() {
            let former = former.outputs.iter().cloned();
            outputs.extend(former.map(|(_, output)| (Level::Error, output)));
        }
        Journal {
            outputs,
            repeat_on_stderr: former.repeat_on_stderr,
        }
    }

    /// From here on stderr belongs to the error log: the start is complete.
    pub fn leave_stderr(&mut self) {
        self.repeat_on_stderr = false;
        let writes_there = |(_, output): &(Level, Output)| matches!(output, Output::Stderr);
        if self.outputs.iter().any(writes_there) {
            return;
        }
        if let Some((_, Output::File(file))) = self.outputs.first() {
            let redirected = sys::process::redirect(sys::process::Standard::Error, &**file);
            if let Err(error) = redirected {
                let reason = sys::errno::Errno(&error);
                self.alert(format_args!("dup2(STDERR) failed ({reason})"));
            }
        }
    }

    /// How a process has ended.
    pub fn end(&self, what: &str, pid: Pid, end: End) {
        match end {
            End::Exited { code } => {
                self.notice(format_args!("{what} {pid} exited with code {code}"))
            }
            End::Signalled {
                number,
                core_dumped,
            } => {
                let core = if core_dumped { " (core dumped)" } else { "" };
                self.alert(format_args!("{what} {pid} exited on signal {number}{core}"));
            }
        }
    }

    pub fn notice(&self, message: impl fmt::Display) {
        self.write(Level::Notice, message);
    }

    pub fn alert(&self, message: impl fmt::Display) {
        self.write(Level::Alert, message);
    }

    pub fn emergency(&self, message: impl fmt::Display) {
        self.write(Level::Emergency, message);
    }

    pub fn tell(&self, diagnostics: &[Diagnostic]) {
        for diagnostic in diagnostics {
            self.write(diagnostic.level, &diagnostic.message);
        }
    }

    /// Writes one line to every output of this level. A full disk is no reason to stop: failures are dropped.
    pub fn write(&self, level: Level, message: impl fmt::Display) {
        let mut on_stderr = false;
        let line = format!(
            "{} [{}] {}#{}: {message}\n",
            timestamp(),
            level.as_str(),
            sys::process::own_pid(),
            sys::process::thread_id()
        );
        for (limit, output) in &self.outputs {
            if level > *limit {
                continue;
            }
            let _dropped = match output {
                Output::File(file) => (&**file).write_all(line.as_bytes()),
                Output::Stderr => {
                    on_stderr = true;
                    std::io::stderr().write_all(line.as_bytes())
                }
                Output::Syslog(peer) => {
                    peer.send_error(level, line.trim_end().as_bytes());
                    Ok(())
                }
            };
        }
        if self.repeat_on_stderr && !on_stderr && level <= Level::Warning {
            print_on_stderr(&format!("nginx: [{}] {message}", level.as_str()));
        }
    }
}

/// A line on stderr that has no place in a log, such as the outcome of `-t`.
pub fn print_on_stderr(line: &str) {
    let _dropped = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// `open() "PATH" failed (2: No such file or directory)`.
pub fn open_failed(path: &Path, error: &std::io::Error) -> String {
    let reason = sys::errno::Errno(error);
    format!("open() \"{}\" failed ({reason})", path.display())
}

fn timestamp() -> String {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let seconds = i64::try_from(since_1970.as_secs()).unwrap_or(0);
    match sys::machine::local_time(seconds) {
        Ok(now) => format!(
            "{:04}/{:02}/{:02} {:02}:{:02}:{:02}",
            now.year, now.month, now.day, now.hour, now.minute, now.second
        ),
        Err(_) => "1970/01/01 00:00:00".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_nginx_form_and_respect_the_level() {
        let root = std::env::temp_dir().join(format!("gannet-journal-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let path = root.join("error.log");
        let files = LogFiles::open([path.clone()]).unwrap();
        let former = Journal {
            outputs: Vec::new(),
            repeat_on_stderr: false,
        };
        let log = ErrorLog {
            target: ErrorTarget::File(path.clone()),
            level: Level::Error,
        };
        let journal = Journal::for_logs(&[log], &files, &former);
        journal.notice("not shown");
        journal.alert(format_args!("worker process {} exited on signal 9", 7));
        let text = std::fs::read_to_string(&path).unwrap();
        let (stamp, rest) = text.split_at("2026/11/21 12:00:00".len());
        assert!(stamp.starts_with("20") && stamp.as_bytes()[4] == b'/');
        let (pid, thread) = (sys::process::own_pid(), sys::process::thread_id());
        assert_eq!(
            rest,
            format!(" [alert] {pid}#{thread}: worker process 7 exited on signal 9\n")
        );
        std::fs::remove_dir_all(root).unwrap();
    }
}
