//! Entries of the slow log, in php-fpm's form: written when the calls of the script are known, or why they are not.

use super::child::Child;
use super::facts::Facts;
use super::keeper::Keeper;
use crate::log::error::{self, Level};
use crate::log::files::LogFile;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a process may take to stop for a look: one that the kernel holds does not.
const STOP_MAX: Duration = Duration::from_secs(3);

/// An entry that waits for its calls.
pub struct Entry {
    log: Arc<LogFile>,
    pub pid: i32,
    pub depth: u32,
    until: Instant,
    /// As php-fpm begins it.
    head: String,
    /// What stands in the place of the calls where there are none.
    instead: String,
}

impl Entry {
    pub fn new(log: &Arc<LogFile>, pool: &str, child: &Child, depth: u64, now: Instant) -> Entry {
        let (pid, facts) = (child.pid, &child.facts);
        let mut time = String::new();
        let seconds = crate::log::files::now() as i64;
        // Writing to a string cannot fail.
        let _ = super::access_log::write_time(seconds, Some("%d-%b-%Y %H:%M:%S"), &mut time);
        let line = |text: &[u8]| String::from_utf8_lossy(text).replace(char::is_control, "?");
        let script = line(&facts.script_filename);
        let running = now.saturating_duration_since(child.since).as_secs_f64();
        let (method, url) = (line(&facts.method), line(&url(facts)));
        Entry {
            log: Arc::clone(log),
            pid,
            depth: u32::try_from(depth).unwrap_or(u32::MAX),
            until: now + STOP_MAX,
            head: format!("\n[{time}]  [pool {pool}] pid {pid}\nscript_filename = {script}\n"),
            instead: format!("request = {method} {url}\nrunning = {running:.3} sec\n"),
        }
    }

    fn write(&self, calls: Result<String, String>) {
        let text = self.text(calls);
        if let Err(reason) = self.log.write(text.as_bytes(), crate::log::files::now()) {
            error::write(Level::Alert, format_args!("{reason}"));
        }
    }

    fn text(&self, calls: Result<String, String>) -> String {
        let head = &self.head;
        match calls {
            Ok(calls) => format!("{head}{calls}"),
            Err(why) => format!("{head}{}(no backtrace: {why})\n", self.instead),
        }
    }
}

/// The request as it was written, with its arguments.
pub fn url(facts: &Facts) -> Vec<u8> {
    let mut url = facts.script_name.clone();
    if !facts.query.is_empty() {
        url.push(b'?');
        url.extend_from_slice(&facts.query);
    }
    url
}

impl Keeper {
    pub(super) fn begin_slow(&mut self, entry: Entry) {
        self.nursery.trace(entry.pid, entry.depth);
        self.slow.push(entry);
    }

    /// The calls of a child are known, or there are none.
    pub(super) fn finish_slow(&mut self, pid: i32, calls: Result<String, String>) {
        if let Some(index) = self.slow.iter().position(|entry| entry.pid == pid) {
            self.slow.swap_remove(index).write(calls);
        }
    }

    pub(super) fn slow_deadline(&self) -> Option<Instant> {
        self.slow.iter().map(|entry| entry.until).min()
    }

    pub(super) fn give_up_slow(&mut self, now: Instant) {
        let late = self.slow.extract_if(.., |entry| entry.until <= now);
        for entry in late {
            entry.write(Err("the process did not stop".to_owned()));
        }
    }
}
