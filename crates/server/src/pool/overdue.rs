//! Requests that take too long: `request_slowlog_timeout` tells of them, `request_terminate_timeout` ends them.

use super::Pool;
use super::access_log::write_time;
use super::child::{Child, Doing};
use super::settings::Settings;
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

/// Tells of slow requests; gives the processes to kill.
pub fn look(pool: &Arc<Pool>, now: Instant) -> Vec<i32> {
    let mut found = Found::default();
    let slowlog = {
        let mut state = pool.state();
        find(&mut state, now, &mut found);
        state.counts.slow += found.entries.len() as u64;
        state.defined.slowlog.clone()
    };
    // Disks are waited for without the lock.
    for line in found.lines {
        error::write(Level::Warning, format_args!("{line}"));
    }
    for entry in found.entries {
        if let Some(log) = &slowlog
            && let Err(reason) = log.write(entry.as_bytes(), crate::log::files::now())
        {
            error::write(Level::Alert, format_args!("{reason}"));
        }
    }
    found.late
}

/// What a look has found.
#[derive(Default)]
struct Found {
    /// For the error log.
    lines: Vec<String>,
    /// For the slow log.
    entries: Vec<String>,
    /// To be killed.
    late: Vec<i32>,
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
            found.entries.push(entry(&settings.name, child, age));
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
        url(child)
    )
}

fn url(child: &Child) -> String {
    let name = String::from_utf8_lossy(&child.facts.script_name);
    match child.facts.query.is_empty() {
        true => name.into_owned(),
        false => format!("{name}?{}", String::from_utf8_lossy(&child.facts.query)),
    }
}

/// An entry of the slow log. Where php-fpm has the calls of the script, which it can read because it is the same program,
/// stands what is known here.
fn entry(pool: &str, child: &Child, age: Duration) -> String {
    let seconds = crate::log::files::now();
    let mut time = String::new();
    let _ = write_time(seconds as i64, Some("%d-%b-%Y %H:%M:%S"), &mut time);
    let control = |letter: char| letter.is_control();
    let script = String::from_utf8_lossy(&child.facts.script_filename).replace(control, "?");
    let request = url(child).replace(control, "?");
    format!(
        "\n[{time}]  [pool {pool}] pid {}\nscript_filename = {script}\nrequest = {} {request}\nrunning = {:.3} sec\n(no backtrace: it cannot be read from outside of PHP)\n",
        child.pid,
        String::from_utf8_lossy(&child.facts.method),
        age.as_secs_f64()
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
