//! People at a site: each asks, reads the answer, thinks, and asks again. So a slow server is asked less, as in life.
//! `load` sends them; every answer is checked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use load::engine::{Control, Observer};
use load::plan::{Checks, ClientOptions, Pace, Stage, Step, Task, Think};
use load::request::Request;
use load::series::Series;
use load::target::Target;
use load::template::Template;
use regex::bytes::Regex;

/// An answer that takes longer is an error.
const TIMEOUT: Duration = Duration::from_secs(30);
/// All users have come when this is over.
const ARRIVAL: Duration = Duration::from_secs(1);
const SEED: u64 = 1;

/// A kind of request: one of its paths is asked for, each with the same chance.
pub struct Kind {
    pub name: &'static str,
    pub paths: Vec<String>,
    /// What a whole body of this kind looks like.
    pub whole: &'static str,
}

pub struct Visit<'a> {
    pub address: SocketAddr,
    pub users: usize,
    pub think: Range<Duration>,
    pub duration: Duration,
    /// Each request is of one of these, all with the same chance.
    pub kinds: &'a [Kind],
}

/// What all users saw together.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub requests: u64,
    /// What went wrong, and how often.
    pub errors: BTreeMap<String, u64>,
    /// Requests that were answered well, per second.
    pub rate: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
}

impl Seen {
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// Sends the users; `watch` is called some ten times a second until they have gone.
pub fn run(visit: &Visit, watch: impl FnMut(Duration)) -> Result<Seen> {
    let plan = Arc::new(plan(visit)?);
    let mut watcher = Watcher(watch);
    let report = load::run(&plan, &Arc::new(Control::default()), &mut watcher)
        .map_err(|error| anyhow!(error))?;
    let mut errors = BTreeMap::new();
    for row in &report.failures {
        *errors
            .entry(format!("{}: {}", row.label, row.failure))
            .or_default() += row.count;
    }
    let percentile_ms = |percent| report.total.total.percentile(percent).as_secs_f64() * 1e3;
    Ok(Seen {
        requests: report.total.requests,
        errors,
        rate: report.rate(report.total.requests - report.total.failures),
        p50_ms: percentile_ms(50.0),
        p95_ms: percentile_ms(95.0),
    })
}

struct Watcher<F>(F);

impl<F: FnMut(Duration)> Observer for Watcher<F> {
    fn look(&mut self, elapsed: Duration, _: &Series, _: &Control) {
        (self.0)(elapsed);
    }
}

fn plan(visit: &Visit) -> Result<load::Plan> {
    let mut target = Target::parse(&format!("http://{}/", visit.address))
        .map_err(|error| anyhow!(error))?
        .endpoint;
    target.addresses = vec![visit.address];
    // A kind of few paths has as many requests as one of many.
    let most = visit
        .kinds
        .iter()
        .map(|kind| kind.paths.len())
        .max()
        .unwrap_or(1);
    let mut tasks = Vec::new();
    for (label, kind) in visit.kinds.iter().enumerate() {
        let whole = Regex::new(kind.whole)?;
        for path in &kind.paths {
            let path = Template::fixed(path.as_str());
            let mut request = Request::new(0, &target.authority, "GET", path, &[], None);
            request.prepare(false);
            let checks = Checks {
                statuses: vec![(200, 200)],
                body: Some(whole.clone()),
                length: None,
            };
            tasks.push(Task {
                weight: u32::try_from(most / kind.paths.len())?,
                steps: vec![Step {
                    label,
                    request,
                    checks,
                    takes: Vec::new(),
                    think: None,
                }],
            });
        }
    }
    let users = visit.users as f64;
    let stage = |duration, from, to| Stage { duration, from, to };
    let stages = vec![
        stage(ARRIVAL, 1.0, users),
        stage(visit.duration.saturating_sub(ARRIVAL), users, users),
    ];
    Ok(load::Plan {
        endpoints: vec![target],
        tasks,
        labels: visit
            .kinds
            .iter()
            .map(|kind| kind.name.to_owned())
            .collect(),
        users: visit.users,
        threads: 1,
        pace: Pace::Closed(stages),
        think: Some(Think {
            from: visit.think.start,
            to: visit.think.end,
        }),
        duration: Some(visit.duration),
        client: ClientOptions {
            timeout: TIMEOUT,
            ..ClientOptions::default()
        },
        seed: SEED,
        ..load::Plan::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn kinds_are_asked_for_alike_and_answers_are_checked() -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut chunk = [0; 1024];
                    while let Ok(count @ 1..) = stream.read(&mut chunk) {
                        let body = if chunk[..count].starts_with(b"GET /good") {
                            "whole"
                        } else {
                            "half"
                        };
                        let reply = format!(
                            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
                            body.len()
                        );
                        let _ = stream.write_all(reply.as_bytes());
                    }
                });
            }
        });
        let kind = |name, paths: &[&str]| Kind {
            name,
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            whole: "^whole$",
        };
        let kinds = [
            kind("good", &["/good1", "/good2", "/good3"]),
            kind("bad", &["/bad"]),
        ];
        let visit = Visit {
            address,
            users: 20,
            think: Duration::from_millis(1)..Duration::from_millis(3),
            duration: Duration::from_millis(1500),
            kinds: &kinds,
        };
        let seen = run(&visit, |_| ())?;
        let share = seen.failed() as f64 / seen.requests as f64;
        assert!(
            seen.requests > 200 && (0.3..0.7).contains(&share),
            "{seen:?}"
        );
        assert_eq!(seen.errors.len(), 1, "{:?}", seen.errors);
        Ok(())
    }
}
