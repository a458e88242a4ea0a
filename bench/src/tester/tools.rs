//! The testers: the words of their commands, and the figures in what they print.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use regex::Regex;

use super::locust;
use crate::{server, usage};

/// More requests than any run has: time ends it.
const MANY: &str = "100000000";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tool {
    Wrk,
    Ab,
    H2load,
    Locust(PathBuf),
    /// The program.
    Gannet(String),
    GannetAb(String),
}

/// A load.
pub struct Asked<'a> {
    pub url: String,
    pub connections: usize,
    /// With HTTP/2 if more than one: so many on each connection, as many together as connections are asked for.
    pub streams: usize,
    pub duration: Duration,
    /// The tester's.
    pub core: Option<usize>,
    pub dir: &'a Path,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Requests a second, as the tester says.
    pub rate: f64,
    /// User and system time of the tester for each request.
    pub cpu_us: f64,
}

impl Tool {
    pub fn name(&self) -> &'static str {
        match self {
            Tool::Wrk => "wrk",
            Tool::Ab => "ab -k",
            Tool::H2load => "h2load",
            Tool::Locust(_) => "locust",
            Tool::Gannet(_) => "gannet load",
            Tool::GannetAb(_) => "gannet ab -k",
        }
    }

    pub fn run(&self, asked: &Asked) -> Result<Outcome> {
        let mut command = self.command(asked)?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let before = usage::children_cpu()?;
        let output = server::spawn(&mut command, asked.core)
            .context("cannot be started")?
            .wait_with_output()?;
        let cpu = usage::children_cpu()?.saturating_sub(before);
        let told = [output.stdout, output.stderr].concat();
        let mut told = String::from_utf8_lossy(&told).into_owned();
        ensure!(output.status.success(), "it failed:\n{told}");
        if let Tool::Locust(_) = self {
            told = std::fs::read_to_string(asked.dir.join("locust_stats.csv"))?;
        }
        let (requests, rate) = self
            .figures(&told)
            .with_context(|| format!("it said:\n{told}"))?;
        Ok(Outcome {
            rate: match self {
                // It divides by whole seconds, of which there are too few.
                Tool::Locust(_) => requests / asked.duration.as_secs_f64(),
                _ => rate,
            },
            cpu_us: cpu.as_secs_f64() * 1e6 / requests,
        })
    }

    fn command(&self, asked: &Asked) -> Result<Command> {
        let seconds = asked.duration.as_secs().max(1);
        let users = asked.connections.to_string();
        let (time, streams) = (format!("{seconds}s"), asked.streams.to_string());
        let connections = asked.connections.div_ceil(asked.streams).to_string();
        let words: Vec<&str> = match self {
            Tool::Wrk => vec!["wrk", "-t1", "-c", &users, "-d", &time, "--timeout", "10s"],
            Tool::H2load if asked.streams == 1 => {
                vec!["h2load", "--h1", "-t1", "-c", &users, "-m1", "-D", &time]
            }
            Tool::H2load => vec![
                "h2load",
                "-t1",
                "-c",
                &connections,
                "-m",
                &streams,
                "-D",
                &time,
            ],
            Tool::Gannet(program) if asked.streams == 1 => {
                vec![
                    program, "load", "-t1", "-c", &users, "-d", &time, "--format", "json",
                ]
            }
            Tool::Gannet(program) => vec![
                program,
                "load",
                "-t1",
                "-c",
                &users,
                "-d",
                &time,
                "--format",
                "json",
                "--http2-prior-knowledge",
                "--streams",
                &streams,
            ],
            Tool::Ab | Tool::GannetAb(_) => {
                let mut words = match self {
                    Tool::GannetAb(program) => vec![program.as_str(), "ab"],
                    _ => vec!["ab"],
                };
                // ab takes the number after the time as the one that counts.
                let time = time.trim_end_matches('s');
                words.extend(["-q", "-l", "-k", "-c", &users, "-t", time, "-n", MANY]);
                words
            }
            Tool::Locust(_) => return self.locust(asked, &users, &time),
        };
        let (first, rest) = words.split_first().context("no command")?;
        let mut command = Command::new(first);
        command.args(rest).arg(&asked.url);
        Ok(command)
    }

    fn locust(&self, asked: &Asked, users: &str, time: &str) -> Result<Command> {
        let Tool::Locust(program) = self else {
            bail!("it is not Locust");
        };
        let script = asked.dir.join("users.py");
        std::fs::write(&script, locust::SCRIPT)?;
        let authority = asked.url.trim_start_matches("http://");
        let (host, path) = authority.split_once('/').context("a URL without a path")?;
        let mut command = Command::new(program);
        command
            .arg("-f")
            .arg(script)
            .args([
                "--headless",
                "--only-summary",
                "-u",
                users,
                "-r",
                users,
                "-t",
                time,
            ])
            .args([
                "--stop-timeout",
                "2",
                "--host",
                &format!("http://{host}"),
                "--csv",
            ])
            .arg(asked.dir.join("locust"))
            .env("GANNET_BENCH_PATH", format!("/{path}"));
        Ok(command)
    }

    /// Requests, and requests a second.
    fn figures(&self, told: &str) -> Result<(f64, f64)> {
        let (requests, rate, failed) = match self {
            Tool::Wrk => (
                r"(\d+) requests in",
                r"Requests/sec:\s+([\d.]+)",
                Some(r"Socket errors|Non-2xx"),
            ),
            Tool::Ab | Tool::GannetAb(_) => (
                r"Complete requests:\s+(\d+)",
                r"Requests per second:\s+([\d.]+)",
                Some(r"Failed requests:\s+[1-9]|Non-2xx"),
            ),
            Tool::H2load => (
                r"(\d+) succeeded",
                r"finished in [^,]+, ([\d.]+) req/s",
                Some(r"[1-9]\d* failed|[1-9]\d* (?:3|4|5)xx"),
            ),
            Tool::Gannet(_) => (
                r#"(?s)"total": \{.*?"requests": (\d+)"#,
                r#"(?s)"total": \{.*?"requests_per_s": ([\d.]+)"#,
                Some(r#""failures": [1-9]"#),
            ),
            // Type, Name, Request Count, Failure Count, six times, Requests/s.
            Tool::Locust(_) => (
                r"(?m)^,Aggregated,(\d+),0,",
                r"(?m)^,Aggregated,(?:[^,]*,){7}([\d.]+),",
                None,
            ),
        };
        if let Some(failed) = failed {
            ensure!(!Regex::new(failed)?.is_match(told), "requests failed");
        }
        Ok((number(requests, told)?, number(rate, told)?))
    }
}

fn number(pattern: &str, told: &str) -> Result<f64> {
    let captures = Regex::new(pattern)?.captures(told);
    let found = captures.and_then(|captures| captures.get(1)?.as_str().parse().ok());
    found.with_context(|| format!("no {pattern}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_in_what_testers_say() {
        let locust = Tool::Locust(PathBuf::new());
        for (tool, told, figures) in [
            (
                Tool::Wrk,
                "  2500 requests in 1.00s, 1MB read\nRequests/sec:   2499.5\n",
                Some((2500.0, 2499.5)),
            ),
            (
                Tool::Wrk,
                "  9 requests in 1.00s\n  Non-2xx or 3xx responses: 9\nRequests/sec:   9\n",
                None,
            ),
            (
                Tool::Ab,
                "Complete requests:      77\nFailed requests:        0\nRequests per second:    7.70 [#/sec] (mean)\n",
                Some((77.0, 7.7)),
            ),
            (
                Tool::H2load,
                "finished in 2.00s, 1000.50 req/s, 1MB/s\nrequests: 2001 total, 2001 started, 2001 done, 2001 succeeded, 0 failed\n\
                 status codes: 2001 2xx, 0 3xx, 0 4xx, 0 5xx\n",
                Some((2001.0, 1000.5)),
            ),
            (
                Tool::Gannet(String::new()),
                "{\n \"rows\": [{\"requests\": 1}],\n \"total\": {\n  \"failures\": 0,\n  \"requests\": 5,\n  \"requests_per_s\": 2.5\n}}",
                Some((5.0, 2.5)),
            ),
            (
                locust,
                "Type,Name\nGET,/x,10,0,1,1,1,1,9.0,5.0,0.0\n,Aggregated,10,0,1.5,1.6,1.7,1.8,9.0,5.0,0.0,1\n",
                Some((10.0, 5.0)),
            ),
        ] {
            assert_eq!(tool.figures(told).ok(), figures, "{}", tool.name());
        }
    }
}
