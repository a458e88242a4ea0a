//! Where the time of one server under one load goes: hot symbols by perf, system calls per request by strace.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use crate::cases::{self, Case};
use crate::options::Options;
use crate::server::{self, Contender, Running};
use crate::side_by_side::{Workspace, warm_up};
use crate::targets::SUBJECT;
use crate::wrk;

const PERF_SECONDS: u64 = 5;
const STRACE_SECONDS: u64 = 2;
const SAMPLES_PER_SECOND: &str = "1999";
const SYMBOLS_SHOWN: usize = 60;

/// Profiles gannet, or the first of the `--servers` when it is not among them.
pub fn run(case_name: &str, options: &Options) -> Result<()> {
    let case = cases::all().into_iter().find(|case| case.name == case_name);
    let case = case.with_context(|| format!("no case named {case_name}"))?;
    let contenders = options.contenders()?;
    let contender = contenders
        .iter()
        .find(|contender| contender.name == SUBJECT)
        .or(contenders.first())
        .context("no server")?;
    server::pin(options.load_core)?;
    let workspace = Workspace::create()?;
    cases::write_bodies(&workspace.dir, [case.size].into_iter())?;
    println!("{}: {}", contender.name, case.describe());
    symbols(contender, &case, options, &workspace.dir)?;
    system_calls(contender, &case, options, &workspace.dir)
}

fn start(
    contender: &Contender,
    case: &Case,
    options: &Options,
    dir: &Path,
) -> Result<(Running, usize)> {
    let mut running = Running::start(contender, case, dir, options.server_core)?;
    let response_size = warm_up(&running, case, &cases::body(case.size))?;
    running.note_processes()?;
    Ok((running, response_size))
}

fn symbols(contender: &Contender, case: &Case, options: &Options, dir: &Path) -> Result<()> {
    let (running, response_size) = start(contender, case, options, dir)?;
    let data = dir.join("perf.data");
    let mut perf = Command::new("perf")
        .args([
            "record",
            "--quiet",
            "-e",
            "cpu-clock",
            "-F",
            SAMPLES_PER_SECOND,
            "-p",
            &list(&running),
        ])
        .arg("-o")
        .arg(&data)
        .args(["--", "sleep", &PERF_SECONDS.to_string()])
        .stdout(Stdio::null())
        .spawn()
        .context("perf is needed: apt-get install linux-perf")?;
    let load = wrk::run(
        &case.requests(),
        running.address,
        Duration::from_secs(PERF_SECONDS),
        response_size,
        dir,
    );
    perf.wait()?;
    println!(
        "\n{:.0} requests/s under perf; share of the server's time by symbol:",
        load?.responses / PERF_SECONDS as f64
    );
    let report = Command::new("perf")
        .args([
            "report",
            "--stdio",
            "--no-children",
            "--sort",
            "symbol,dso",
            "-i",
        ])
        .arg(&data)
        .stderr(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .take(SYMBOLS_SHOWN)
        .for_each(|line| println!("{}", line.trim_end()));
    Ok(())
}

fn system_calls(contender: &Contender, case: &Case, options: &Options, dir: &Path) -> Result<()> {
    let (running, response_size) = start(contender, case, options, dir)?;
    let counts = dir.join("strace.txt");
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-o"]).arg(&counts);
    for process in &running.processes {
        command.args(["-p", &process.to_string()]);
    }
    let mut strace = command
        .stderr(Stdio::piped())
        .spawn()
        .context("strace is needed: apt-get install strace")?;
    let attached = wait_until_attached(&mut strace);
    let load = wrk::run(
        &case.requests(),
        running.address,
        Duration::from_secs(STRACE_SECONDS),
        response_size,
        dir,
    );
    // Interrupted, it lets go of the server and writes its counts.
    server::signal(strace.id(), Signal::INT);
    strace.wait()?;
    attached?;
    let completed = load?.completed;
    let text = std::fs::read_to_string(&counts)?;
    println!("\nSystem calls over {completed} requests:");
    for (name, calls, errors) in strace_rows(&text) {
        println!(
            "{:8.3} per request  {name} ({calls} calls, {errors} errors)",
            calls as f64 / completed as f64
        );
    }
    Ok(())
}

fn wait_until_attached(strace: &mut Child) -> Result<()> {
    let stderr = strace.stderr.take().context("strace's stderr")?;
    let mut lines = BufReader::new(stderr).lines();
    for line in &mut lines {
        if line?.contains("attached") {
            // The pipe has to stay open and be read, or strace stops at its next message.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok(());
        }
    }
    bail!("strace could not attach")
}

fn list(running: &Running) -> String {
    running
        .processes
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

/// Name, calls and errors of each row of `strace -c`; the errors column may be empty.
fn strace_rows(text: &str) -> Vec<(String, u64, u64)> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, numbers) = words.split_last()?;
        numbers.first()?.parse::<f64>().ok()?;
        let calls = numbers.get(3)?.parse().ok()?;
        let errors = numbers.get(4).map_or(Some(0), |word| word.parse().ok())?;
        (*name != "total").then(|| ((*name).to_owned(), calls, errors))
    };
    text.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_strace_are_read_with_and_without_errors() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n \
            60.00    0.000600           6       100         7 recvfrom\n \
            40.00    0.000400           4       100           writev\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            100.00    0.001000           5       200         7 total\n";
        let rows = strace_rows(text);
        assert_eq!(
            rows,
            [
                ("recvfrom".to_owned(), 100, 7),
                ("writev".to_owned(), 100, 0)
            ]
        );
    }
}
