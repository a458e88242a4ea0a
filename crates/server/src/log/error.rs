//! The error log: `error_log`, and lines as nginx writes them:
//! `2026/11/21 12:00:00 [error] PID#THREAD: *CONNECTION message, client: …, server: …, request: "…", host: "…"`.

use super::files::{self, LogFile, LogFiles};
use super::syslog;
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, row};
use crate::config::setting::Complaint;
use crate::http::request::Connection;
use crate::http::trace::Severity;
use crate::http::{Request, thread};
use conf::table::{Contexts, Row};
use conf::{Directive, values};
use std::cell::Cell;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use sys::address::SocketAddress;
use wire::http1::Known;

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "error_log",
    Contexts::MAIN.or(HSL),
    Arity::AtLeast(1),
    error_log,
    "Where errors are logged, from which level on.",
)];

crate::config::setting::settings! {
    logs: ErrorLogs = ErrorLogs::default(),
}

/// A longer line is cut, its line end included.
const MAX_LINE: usize = 2048;

/// nginx's levels, most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Emergency,
    Alert,
    Critical,
    Error,
    Warning,
    Notice,
    Info,
    Debug,
}

impl Level {
    const ALL: [Level; 8] = [
        Level::Emergency,
        Level::Alert,
        Level::Critical,
        Level::Error,
        Level::Warning,
        Level::Notice,
        Level::Info,
        Level::Debug,
    ];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Emergency => "emerg",
            Level::Alert => "alert",
            Level::Critical => "crit",
            Level::Error => "error",
            Level::Warning => "warn",
            Level::Notice => "notice",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

/// Where lines go.
#[derive(Debug, Clone)]
pub enum Target {
    File(Arc<LogFile>),
    Syslog(Arc<syslog::Peer>),
}

/// One `error_log`.
#[derive(Debug, Clone)]
pub struct ErrorLog {
    pub level: Level,
    pub target: Target,
}

/// The error logs that hold in one block.
#[derive(Debug, Clone)]
pub struct ErrorLogs {
    /// The most talkative of them: the one compare that a line which nobody wants costs.
    level: Level,
    logs: Arc<Vec<ErrorLog>>,
}

impl Default for ErrorLogs {
    fn default() -> Self {
        ErrorLogs {
            level: Level::Emergency,
            logs: Arc::default(),
        }
    }
}

/// The error logs of the main context: those written there, or else the log of `-e` from level error on.
#[must_use]
pub fn of_main(written: &Raw, files: &mut LogFiles, default: &Path) -> Settings {
    let logs = written.logs.0.clone().unwrap_or_else(|| {
        let mut logs = ErrorLogs::default();
        logs.add(ErrorLog {
            level: Level::Error,
            target: Target::File(files.file(file_name(default))),
        });
        logs
    });
    Settings { logs }
}

/// `stderr` is written as the empty path.
fn file_name(path: &Path) -> PathBuf {
    match path.as_os_str() == "stderr" {
        true => PathBuf::new(),
        false => path.to_owned(),
    }
}

fn error_log(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let name = directive.args[0].as_str().ok_or("invalid value")?;
    let target = if let Some(parameters) = name.strip_prefix("syslog:") {
        Some(Target::Syslog(Arc::new(syslog::Peer::parse(parameters)?)))
    } else if let Some(size) = name.strip_prefix("memory:") {
        values::parse_size(size.as_bytes())
            .filter(|&size| size >= MIN_MEMORY_LOG)
            .ok_or_else(|| format!("invalid buffer size \"{size}\""))?;
        build.warn(
            directive,
            format!("error_log \"{name}\" is ignored: no lines are kept in memory"),
        );
        None
    } else if name == "stderr" || name.is_empty() {
        Some(Target::File(build.logs.file(PathBuf::new())))
    } else {
        let path = build.paths.in_prefix(name);
        Some(Target::File(build.logs.file(path)))
    };
    let level = level(directive)?;
    let mut logs = build.location().error_log.logs.0.take().unwrap_or_default();
    if let Some(target) = target {
        logs.add(ErrorLog { level, target });
    }
    build.location().error_log.logs.0 = Some(logs);
    Ok(())
}

/// A memory log must hold a line or so; nginx asks for this much.
const MIN_MEMORY_LOG: u64 = 2048;

/// The level that the words after the target ask for.
fn level(directive: &Directive) -> Result<Level, Complaint> {
    const DEBUG_PARTS: [&str; 7] = [
        "debug_core",
        "debug_alloc",
        "debug_mutex",
        "debug_event",
        "debug_http",
        "debug_mail",
        "debug_stream",
    ];
    let (mut plain, mut parts) = (None, false);
    for word in &directive.args[1..] {
        let text = word.as_str().unwrap_or_default();
        let named = Level::ALL.iter().find(|level| level.as_str() == text);
        if let Some(&level) = named {
            if plain.is_some() || parts {
                return Err(format!("duplicate log level \"{word}\"").into());
            }
            plain = Some(level);
        } else if DEBUG_PARTS.contains(&text) && plain.is_none() {
            parts = true;
        } else {
            return Err(format!("invalid log level \"{word}\"").into());
        }
    }
    Ok(match parts {
        true => Level::Debug,
        false => plain.unwrap_or(Level::Error),
    })
}

/// Writes a line about a request, with the client, server and request as nginx adds them.
#[inline]
pub fn write_request(request: &Request, level: Level, message: fmt::Arguments<'_>) {
    let logs = &request.location().settings.error_log.logs;
    if logs.wants(level) {
        logs.write_about_request(request, level, message);
    }
}

/// Writes what a body has left to be said about its upstream.
pub fn write_late(request: &Request) {
    let Some(upstream) = &request.upstream else {
        return;
    };
    for message in upstream.late.messages.take() {
        let level = match message.severity {
            Severity::Info => Level::Info,
            Severity::Warning => Level::Warning,
            Severity::Error => Level::Error,
            Severity::Critical => Level::Critical,
        };
        write_request(request, level, format_args!("{}", message.text));
    }
}

/// Writes a line about a connection that has no request (yet).
pub fn write_connection(
    logs: &ErrorLogs,
    connection: &Connection,
    level: Level,
    message: fmt::Arguments<'_>,
) {
    if !logs.wants(level) {
        return;
    }
    let mut line = Line::begin(level, Some(connection.number), message);
    line.add(format_args!(", client: {}", Client(&connection.remote)));
    line.add(format_args!(", server: {}", connection.local));
    logs.put(level, line);
}

/// Writes that the client closed a connection that was kept for further requests.
pub fn write_closed_keepalive(logs: &ErrorLogs, connection: &Connection) {
    let client = Client(&connection.remote);
    let message = format_args!("client {client} closed keepalive connection");
    logs.put(
        Level::Info,
        Line::begin(Level::Info, Some(connection.number), message),
    );
}

/// The logs of the process: where lines go that belong to no request.
static PROCESS: Mutex<Option<ErrorLogs>> = Mutex::new(None);

/// Makes `logs` those of the process; before that its lines go to standard error in the short form.
pub fn set_process_logs(logs: ErrorLogs) {
    *PROCESS.lock().unwrap_or_else(PoisonError::into_inner) = Some(logs);
}

/// Writes a line that belongs to no request.
pub fn write(level: Level, message: fmt::Arguments<'_>) {
    let logs = PROCESS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    match logs {
        Some(logs) => logs.write(level, message),
        None => {
            let line = format!("nginx: [{}] {message}\n", level.as_str());
            // Nobody is left to tell.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }
}

impl FromIterator<ErrorLog> for ErrorLogs {
    fn from_iter<T: IntoIterator<Item = ErrorLog>>(logs: T) -> ErrorLogs {
        let mut all = ErrorLogs::default();
        logs.into_iter().for_each(|log| all.add(log));
        all
    }
}

impl ErrorLogs {
    fn add(&mut self, log: ErrorLog) {
        self.level = match self.logs.is_empty() {
            true => log.level,
            false => self.level.max(log.level),
        };
        Arc::make_mut(&mut self.logs).push(log);
    }

    /// The logs one by one, in the order of the file.
    #[must_use]
    pub fn logs(&self) -> &[ErrorLog] {
        &self.logs
    }

    /// Whether a line of this level goes anywhere.
    #[inline]
    #[must_use]
    pub fn wants(&self, level: Level) -> bool {
        level <= self.level
    }

    /// Writes a line without connection or request.
    pub fn write(&self, level: Level, message: fmt::Arguments<'_>) {
        if self.wants(level) {
            self.put(level, Line::begin(level, None, message));
        }
    }

    #[cold]
    fn write_about_request(&self, request: &Request, level: Level, message: fmt::Arguments<'_>) {
        let connection = &request.connection;
        let mut line = Line::begin(level, Some(connection.number), message);
        line.add(format_args!(", client: {}", Client(request.remote())));
        line.bytes(b", server: ");
        line.bytes(&request.server().name);
        let request_line = request.request_line();
        if !request_line.is_empty() {
            line.quoted(b", request: \"", request_line);
        }
        if let Some(upstream) = &request.upstream
            && !upstream.destination.is_empty()
        {
            line.quoted(b", upstream: \"", &upstream.destination);
        }
        for (label, known) in [
            (&b", host: \""[..], Known::Host),
            (&b", referrer: \""[..], Known::Referer),
        ] {
            if let Some(value) = request.field(known) {
                line.quoted(label, value);
            }
        }
        self.put(level, line);
    }

    fn put(&self, level: Level, mut line: Line) {
        let now = files::now();
        let length = line.bytes.len();
        line.bytes.push(b'\n');
        for log in self.logs.iter().filter(|log| level <= log.level) {
            match &log.target {
                // The error log has nowhere to complain about itself.
                Target::File(file) => drop(file.write(&line.bytes, now)),
                Target::Syslog(peer) => peer.send_error(level, &line.bytes[..length]),
            }
        }
        LINE.set(line.bytes);
    }
}

/// The client's address without its port.
struct Client<'a>(&'a SocketAddress);

impl fmt::Display for Client<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.ip() {
            Some(address) => write!(out, "{address}"),
            None => out.write_str("unix:"),
        }
    }
}

thread_local! {
    /// The memory of the last line. It is taken while a line is made, so that a line within a line does no harm.
    static LINE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A line being made; what exceeds its length is dropped.
struct Line {
    bytes: Vec<u8>,
}

impl Line {
    fn begin(level: Level, connection: Option<u64>, message: fmt::Arguments<'_>) -> Line {
        let mut line = Line { bytes: LINE.take() };
        line.bytes.clear();
        thread::append_time_error_log(&mut line.bytes);
        line.add(format_args!(
            " [{}] {}#{}: ",
            level.as_str(),
            sys::process::own_pid(),
            sys::process::thread_id()
        ));
        if let Some(number) = connection {
            line.add(format_args!("*{number} "));
        }
        line.add(message);
        line
    }

    fn add(&mut self, text: fmt::Arguments<'_>) {
        // Only a Display that fails of itself can fail here; what it gave stays.
        let _ = fmt::Write::write_fmt(self, text);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let room = (MAX_LINE - 1).saturating_sub(self.bytes.len());
        self.bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// `label`, a value as it was received, and the quotation mark that ends it.
    fn quoted(&mut self, label: &[u8], value: &[u8]) {
        self.bytes(label);
        self.bytes(value);
        self.bytes(b"\"");
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(levels: &[(Level, &Path)]) -> (LogFiles, ErrorLogs) {
        let mut files = LogFiles::default();
        let mut logs = ErrorLogs::default();
        for &(level, path) in levels {
            let target = Target::File(files.file(path.to_owned()));
            logs.add(ErrorLog { level, target });
        }
        files.open_all().unwrap();
        (files, logs)
    }

    #[test]
    fn each_log_takes_the_levels_it_wants() {
        let root = std::env::temp_dir().join(format!("gannet-error-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let (errors, notices) = (root.join("errors"), root.join("notices"));
        let (_files, logs) = logs(&[(Level::Error, &errors), (Level::Notice, &notices)]);
        assert!(logs.wants(Level::Notice) && !logs.wants(Level::Info));
        logs.write(Level::Notice, format_args!("one"));
        logs.write(Level::Alert, format_args!("two"));
        logs.write(Level::Info, format_args!("three"));
        let own = format!("{}#{}", sys::process::own_pid(), sys::process::thread_id());
        let without_time = |path| {
            let text = std::fs::read_to_string(path).unwrap();
            let lines = text.lines().map(|line| format!("{}\n", &line[20..]));
            lines.collect::<String>()
        };
        assert_eq!(without_time(&errors), format!("[alert] {own}: two\n"));
        assert_eq!(
            without_time(&notices),
            format!("[notice] {own}: one\n[alert] {own}: two\n")
        );
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn long_lines_are_cut() {
        let path = std::env::temp_dir().join(format!("gannet-long-{}", std::process::id()));
        let (_files, logs) = logs(&[(Level::Error, &path)]);
        logs.write(Level::Error, format_args!("{}", "x".repeat(5000)));
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), MAX_LINE);
        assert!(bytes.ends_with(b"xx\n"));
        std::fs::remove_file(path).unwrap();
    }
}
