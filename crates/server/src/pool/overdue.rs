//! Requests that take too long: `request_slowlog_timeout` tells of them, `request_terminate_timeout` ends them.

use super::Pool;
use super::child::{Child, Doing};
use super::settings::Settings;
use super::slow_log::{Entry, url};
use super::state::State;
use crate::log::error::{self, Level};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The least and the most between two looks.
const HEARTBEAT: (Duration, Duration) = (Duration::from_millis(130), Duration::from_secs(1));

/// How often to look, as php-fpm has it: a third of the shortest limit.
pub fn heartbeat(settings: &Settings) -> Duration {
    let limits = [
        settings.request_terminate_timeout,
        settings.request_slowlog_timeout,
    ];
    let shortest = limits.into_iter().filter(|limit| *limit > 0).min();
    match shortest {
        None => HEARTBEAT.1,
        Some(seconds) => Duration::from_secs(seconds)
            .div_f64(3.0)
            .clamp(HEARTBEAT.0, HEARTBEAT.1),
    }
}

/// Tells of slow requests.
pub fn look(pool: &Arc<Pool>, now: Instant) -> Found {
    let mut found = Found::default();
    {
        let mut state = pool.state();
        find(&mut state, now, &mut found);
        state.counts.slow += found.slow;
    }
    // Disks are waited for without the lock.
    for line in &found.lines {
        error::write(Level::Warning, format_args!("{line}"));
    }
    found
}

/// What a look has found.
#[derive(Default)]
pub struct Found {
    /// For the error log.
    lines: Vec<String>,
    /// How many requests are slow that were not before.
    slow: u64,
    /// For the slow log.
    pub entries: Vec<Entry>,
    /// The processes to kill.
    pub late: Vec<i32>,
}

fn find(state: &mut State, now: Instant, found: &mut Found) {
    let settings = Arc::clone(&state.defined.settings);
    let (terminate, slow) = (
        settings.request_terminate_timeout,
        settings.request_slowlog_timeout,
    );
    if terminate == 0 && slow == 0 {
        return;
    }
    let slowlog = state.defined.slowlog.clone();
    for child in state.children.values_mut() {
        if child.doing == Doing::Idle {
            continue;
        }
        let age = now.saturating_duration_since(child.since);
        let seconds = age.as_secs_f64();
        if terminate > 0 && age >= Duration::from_secs(terminate) {
            if !child.terminated.swap(true, Ordering::AcqRel) {
                let what = describe(&settings.name, child);
                found.lines.push(format!(
                    "{what} execution timed out ({seconds:.6} sec), terminating"
                ));
            }
            found.late.push(child.pid);
        } else if slow > 0 && age >= Duration::from_secs(slow) && !child.slow_told {
            child.slow_told = true;
            let what = describe(&settings.name, child);
            found.lines.push(format!(
                "{what} executing too slow ({seconds:.6} sec), logging"
            ));
            found.slow += 1;
            if let Some(log) = &slowlog {
                let depth = settings.slowlog_trace_depth;
                let entry = Entry::new(log, &settings.name, child, depth, now);
                found.entries.push(entry);
            }
        }
    }
}

/// As php-fpm names a request in its log.
fn describe(pool: &str, child: &Child) -> String {
    let facts = &child.facts;
    let (script, method) = (
        String::from_utf8_lossy(&facts.script_filename),
        String::from_utf8_lossy(&facts.method),
    );
    format!(
        "[pool {pool}] child {}, script '{script}' (request: \"{method} {}\")",
        child.pid,
        String::from_utf8_lossy(&url(facts))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::settings::{Pm, Reading};

    #[test]
    fn looks_are_a_third_of_the_shortest_limit_apart() {
        for (terminate, slow, expected) in [
            ("0", "0", 1000),
            ("1", "0", 333),
            ("60", "2", 666),
            ("60", "0", 1000),
        ] {
            let mut reading = Reading::new("www");
            reading
                .entry("request_terminate_timeout", terminate)
                .unwrap();
            reading.entry("request_slowlog_timeout", slow).unwrap();
            reading.entry("slowlog", "/dev/null").unwrap();
            let settings = reading.finish(Some(Pm::Auto)).unwrap();
            assert_eq!(heartbeat(&settings).as_millis(), expected);
        }
    }
}
