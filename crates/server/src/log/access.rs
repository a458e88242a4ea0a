//! The access log: `access_log`, `open_log_file_cache`, and one line per request written to each log that applies.

use super::buffer::{Buffered, Parameters};
use super::error::{self, Level};
use super::files::{LogFile, LogFiles};
use super::format::{Format, RawFormats};
use super::syslog;
use super::variable_path::{self, OpenFileCache};
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, HSLI, Outcome, Set, flag, row};
use crate::config::setting::Complaint;
use crate::http::{Request, thread};
use crate::variables::Template;
use crate::variables::registry::Registry;
use conf::table::{Contexts, Row};
use conf::{Directive, values};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "access_log",
        HSLI.or(Contexts::LIMIT_EXCEPT),
        Arity::AtLeast(1),
        access_log,
        "Where requests are logged, in which format.",
    ),
    row(
        "open_log_file_cache",
        HSL,
        Arity::Between(1, 4),
        open_log_file_cache,
        "Keeps log files open whose paths have variables.",
    ),
    row(
        "log_subrequest",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().access_log.subrequests, d),
        "Whether requests inside a request have lines of their own.",
    ),
];

crate::config::setting::settings! {
    logs: AccessLogs = AccessLogs::default(),
    file_cache: Option<OpenFileCache> = None,
    subrequests: bool = false,
}

/// `gzip` without a `buffer=` collects this much.
const GZIP_BUFFER: usize = 64 * 1024;
/// `gzip` without a level: the fastest.
const GZIP_LEVEL: u32 = 1;

/// One `access_log`.
#[derive(Debug)]
pub struct AccessLog {
    target: Target,
    format: Arc<Format>,
    /// `if=`: nothing is logged where this is empty or `0`.
    condition: Option<Template>,
}

#[derive(Debug)]
enum Target {
    File(Arc<LogFile>),
    /// A path with variables, opened for each line.
    Path(Template),
    Syslog(Arc<syslog::Peer>),
}

/// The access logs that hold in one block.
#[derive(Debug, Clone, Default)]
pub struct AccessLogs {
    /// Empty with `off`, which wins over other logs of the same block.
    logs: Arc<Vec<Arc<AccessLog>>>,
    off: bool,
}

impl AccessLogs {
    /// Whether no block has said anything, so that the built-in log holds.
    #[must_use]
    pub fn is_unset(&self) -> bool {
        self.logs.is_empty() && !self.off
    }

    /// The log of servers for which none is written: `path` in the format `combined`.
    pub fn built_in(
        path: PathBuf,
        files: &mut LogFiles,
        formats: &mut RawFormats,
        registry: &mut Registry,
    ) -> AccessLogs {
        let log = AccessLog {
            target: Target::File(files.file(path)),
            format: formats.combined(registry),
            condition: None,
        };
        AccessLogs {
            logs: Arc::new(vec![Arc::new(log)]),
            off: false,
        }
    }
}

fn access_log(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let mut logs = build
        .location()
        .access_log
        .logs
        .0
        .take()
        .unwrap_or_default();
    if *directive.args[0] == *b"off" {
        if let Some(word) = directive.args.get(1) {
            return Err(format!("invalid parameter \"{word}\"").into());
        }
        logs = AccessLogs {
            logs: Arc::default(),
            off: true,
        };
    } else {
        let log = one_log(build, directive)?;
        if !logs.off {
            Arc::make_mut(&mut logs.logs).push(Arc::new(log));
        }
    }
    build.location().access_log.logs.0 = Some(logs);
    Ok(())
}

fn one_log(build: &mut Build<'_>, directive: &Directive) -> Result<AccessLog, Complaint> {
    let name = directive.args[0].as_str().ok_or("invalid value")?;
    let target = if let Some(parameters) = name.strip_prefix("syslog:") {
        Target::Syslog(Arc::new(syslog::Peer::parse(parameters)?))
    } else if name.is_empty() {
        Target::File(build.logs.file(PathBuf::new()))
    } else if name.contains('$') {
        let path = build.paths.in_prefix(name).into_os_string();
        let path = path.into_encoded_bytes();
        let path = Template::compile(&path, &mut build.variables)?;
        build.variables.note_logged(&path);
        Target::Path(path)
    } else {
        let path = build.paths.in_prefix(name);
        Target::File(build.logs.file(path))
    };
    let format = match directive.args.get(1) {
        None => build.http.log_formats.combined(&mut build.variables),
        Some(word) => build
            .http
            .log_formats
            .find(word, &mut build.variables)
            .ok_or_else(|| format!("unknown log format \"{word}\""))?,
    };
    let mut options = Options::default();
    for word in directive.args.iter().skip(2) {
        options.read(word, &mut build.variables)?;
    }
    options.buffer(&target, name)?;
    Ok(AccessLog {
        target,
        format,
        condition: options.condition,
    })
}

/// The words after the format.
#[derive(Default)]
struct Options {
    size: usize,
    flush_ms: Option<u64>,
    gzip_level: Option<u32>,
    condition: Option<Template>,
}

impl Options {
    fn read(&mut self, word: &[u8], registry: &mut Registry) -> Result<(), Complaint> {
        let show = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        if let Some(text) = word.strip_prefix(b"buffer=") {
            self.size = values::parse_size(text)
                .filter(|&size| size > 0)
                .ok_or_else(|| format!("invalid buffer size \"{}\"", show(text)))?
                as usize;
        } else if let Some(text) = word.strip_prefix(b"flush=") {
            let flush_ms = values::parse_msec(text)
                .filter(|&time| time > 0)
                .ok_or_else(|| format!("invalid flush time \"{}\"", show(text)))?;
            self.flush_ms = Some(flush_ms);
        } else if word == b"gzip" {
            self.set_gzip(GZIP_LEVEL);
        } else if let Some(text) = word.strip_prefix(b"gzip=") {
            let level = values::parse_number(text)
                .filter(|level| (1..=9).contains(level))
                .ok_or_else(|| format!("invalid compression level \"{}\"", show(text)))?;
            self.set_gzip(level as u32);
        } else if let Some(text) = word.strip_prefix(b"if=") {
            let condition = Template::compile(text, registry)?;
            registry.note_logged(&condition);
            self.condition = Some(condition);
        } else {
            return Err(format!("invalid parameter \"{}\"", show(word)).into());
        }
        Ok(())
    }

    fn set_gzip(&mut self, level: u32) {
        self.gzip_level = Some(level);
        if self.size == 0 {
            self.size = GZIP_BUFFER;
        }
    }

    /// Gives the file its buffers; all directives that ask for them must ask for the same.
    fn buffer(&self, target: &Target, name: &str) -> Result<(), Complaint> {
        if self.size == 0 {
            return match self.flush_ms {
                None => Ok(()),
                Some(_) => Err(format!("no buffer is defined for access_log \"{name}\"").into()),
            };
        }
        let file = match target {
            Target::File(file) => file,
            Target::Path(_) => return Err("buffered logs cannot have variables in name".into()),
            Target::Syslog(_) => return Err("logs to syslog cannot be buffered".into()),
        };
        let parameters = Parameters {
            size: self.size,
            flush_ms: self.flush_ms,
            gzip_level: self.gzip_level,
        };
        let buffered = file.buffered.get_or_init(|| Buffered::new(parameters));
        if buffered.parameters != parameters {
            return Err(format!(
                "access_log \"{name}\" already defined with conflicting parameters"
            )
            .into());
        }
        Ok(())
    }
}

fn open_log_file_cache(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let cache = variable_path::parse_cache(directive)?;
    build.location().access_log.file_cache.set(cache)
}

thread_local! {
    /// The memory of the last line; taken while a line is made.
    static LINE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Writes the request's line to each log that applies.
#[inline]
pub fn write(request: &Request) {
    let logs = &request.location().settings.access_log.logs.logs;
    if !logs.is_empty() {
        write_each(request, logs);
    }
}

fn write_each(request: &Request, logs: &[Arc<AccessLog>]) {
    let mut line = LINE.take();
    for log in logs {
        line.clear();
        if let Some(condition) = &log.condition {
            condition.append(request, &mut line);
            if matches!(line.as_slice(), b"" | b"0") {
                continue;
            }
            line.clear();
        }
        log.write(request, &mut line);
    }
    LINE.set(line);
}

impl AccessLog {
    fn write(&self, request: &Request, line: &mut Vec<u8>) {
        let now = thread::unix_ms() / 1000;
        let written = match &self.target {
            Target::File(file) => {
                self.format.append(request, line);
                line.push(b'\n');
                match file.buffered.get() {
                    None => file.write(line, now),
                    Some(buffered) => buffered.append(file, line, now),
                }
            }
            Target::Path(path) => {
                self.format.append(request, line);
                line.push(b'\n');
                variable_path::write(request, path, line);
                Ok(())
            }
            Target::Syslog(peer) => {
                peer.append_head(None, line);
                self.format.append(request, line);
                peer.send(line);
                Ok(())
            }
        };
        if let Err(complaint) = written {
            error::write_request(
                request,
                Level::Alert,
                format_args!("{complaint} while logging request"),
            );
        }
    }
}
