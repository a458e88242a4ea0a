//! Runs wrk and reads the exact counts its summary holds; anything but clean answers fails the run.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Only called once, after the load: the hot loop of wrk stays in C.
const SUMMARY_SCRIPT: &str = r#"
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("summary %d %d %d %d %d\n", summary.requests, summary.bytes, summary.duration,
    e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(99)))
end
"#;
/// A response slower than this is an error, not a slow response.
const RESPONSE_TIMEOUT_S: u64 = 10;

/// What wrk asks for, and how.
pub struct Requests {
    pub path: String,
    pub connections: usize,
    /// A connection per request.
    pub close: bool,
}

/// What one load came to.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Completed requests, as wrk counts them.
    pub completed: u64,
    /// Responses by bytes received, which also counts the parts of those cut off by the end.
    pub responses: f64,
    pub elapsed: Duration,
    /// 99th percentile of the latency in microseconds.
    pub p99_us: u64,
}

/// Loads the server for `duration`; `response_size` are the bytes of one whole response.
pub fn run(
    requests: &Requests,
    address: SocketAddr,
    duration: Duration,
    response_size: usize,
    dir: &Path,
) -> Result<Load> {
    let words = arguments(requests, address, duration);
    run_with(words, requests, response_size, dir)
}

/// The same over TLS.
pub fn run_secure(
    requests: &Requests,
    address: SocketAddr,
    duration: Duration,
    response_size: usize,
    dir: &Path,
) -> Result<Load> {
    let mut words = arguments(requests, address, duration);
    if let Some(url) = words.last_mut() {
        *url = url.replacen("http:", "https:", 1);
    }
    run_with(words, requests, response_size, dir)
}

fn run_with(
    words: Vec<String>,
    requests: &Requests,
    response_size: usize,
    dir: &Path,
) -> Result<Load> {
    let script = dir.join("summary.lua");
    fs::write(&script, SUMMARY_SCRIPT)?;
    let mut command = Command::new("wrk");
    command.args(words).arg("-s").arg(&script);
    let output = command
        .output()
        .context("wrk is needed: apt-get install wrk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!(
            "wrk failed: {}{text}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    parse(&text, requests.connections, response_size).with_context(|| format!("wrk said:\n{text}"))
}

/// The arguments of wrk but for the script, which only prints the counts.
pub fn arguments(
    requests: &Requests,
    address: impl std::fmt::Display,
    duration: Duration,
) -> Vec<String> {
    let mut arguments = vec![
        "-t1".to_owned(),
        format!("-c{}", requests.connections),
        format!("-d{}s", duration.as_secs().max(1)),
        format!("--timeout={RESPONSE_TIMEOUT_S}s"),
    ];
    if requests.close {
        arguments.extend(["-H".to_owned(), "Connection: close".to_owned()]);
    }
    arguments.push(format!("http://{address}{}", requests.path));
    arguments
}

fn parse(text: &str, connections: usize, response_size: usize) -> Result<Load> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("summary "))
        .context("no summary")?;
    let numbers: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
    let &[completed, bytes, duration_us, errors, p99_us] = numbers.as_slice() else {
        bail!("the summary is not five numbers");
    };
    ensure!(errors == 0, "{errors} requests failed");
    ensure!(completed > 0, "no request was completed");
    let size = response_size as u64;
    let (least, most) = (completed * size, (completed + connections as u64) * size);
    ensure!(
        (least..=most).contains(&bytes),
        "{bytes} bytes for {completed} responses of {size}: some were not the right ones"
    );
    Ok(Load {
        completed,
        responses: bytes as f64 / size as f64,
        elapsed: Duration::from_micros(duration_us),
        p99_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_summary_is_read() -> Result<()> {
        let load = parse("noise\nsummary 100 100500 2000000 0 77\n", 64, 1000)?;
        assert_eq!((load.completed, load.p99_us), (100, 77));
        assert_eq!(load.elapsed, Duration::from_secs(2));
        assert!((load.responses - 100.5).abs() < 1e-9);
        Ok(())
    }

    #[test]
    fn failed_or_wrong_responses_fail_the_run() {
        for bad in [
            "summary 100 100000 1 3 0",
            "summary 100 99999 1 0 0",
            "summary 100 165000 1 0 0",
            "summary 0 0 1 0 0",
            "",
        ] {
            assert!(parse(bad, 64, 1000).is_err(), "{bad}");
        }
    }
}
