//! The comparison: every case, the servers taking turns, so that what disturbs the machine disturbs all of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cases::{self, AccessLog, Case};
use crate::check::Client;
use crate::idle::{self, Idle};
use crate::json;
use crate::options::{Bench, Options};
use crate::report;
use crate::server::{self, Contender, Running};
use crate::usage::{self, CpuTime};
use crate::wrk;

/// The cases of `cases::all` and the memory of idle connections.
pub const BENCH: Bench = Bench {
    name: "static",
    cases: &[
        "0b",
        "1k",
        "10k",
        "100k",
        "1m",
        "10m",
        "close",
        "log",
        "log-buffered",
        cases::IDLE,
    ],
    servers: &["nginx", "gannet", "floor"],
    seconds: 3,
    rounds: 5,
    quick: (1, 3),
};

/// Requests for this long before the clock starts: caches fill, memory is mapped.
pub const WARM_UP: Duration = Duration::from_millis(200);
/// After wrk has gone: the server notices the closed connections.
pub const SETTLE: Duration = Duration::from_millis(20);

/// One measurement of one server under one load.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub cpu_us_per_request: f64,
    pub requests_per_second: f64,
    pub p99_us: u64,
    /// Share of the server's core the server used.
    pub server_share: f64,
    /// Share of the server's core that others used: the noise.
    pub others_share: f64,
}

/// All samples of one server in one case.
pub struct Row {
    pub case: Case,
    pub contender: String,
    pub samples: Vec<Sample>,
}

/// All memory readings of one server.
pub struct IdleRow {
    pub contender: String,
    pub samples: Vec<Idle>,
}

/// Measures what was asked for and prints it.
pub fn run(options: &Options) -> Result<()> {
    server::pin(options.load_core)?;
    let workspace = Workspace::create()?;
    let mut chosen = cases::all();
    chosen.retain(|case| options.case(case.name));
    let sizes = chosen.iter().map(|case| case.size);
    cases::write_bodies(&workspace.dir, sizes.chain([cases::IDLE_SIZE]))?;
    let mut rows = Vec::new();
    for case in &chosen {
        rows.extend(measure_case(case, options, &workspace.dir)?);
    }
    let idle = if options.case(cases::IDLE) {
        measure_idle(options, &workspace.dir)?
    } else {
        Vec::new()
    };
    report::print(options, &rows, &idle)?;
    if let Some(file) = &options.json {
        fs::write(file, json::write(options, &rows, &idle)?)
            .with_context(|| file.display().to_string())?;
    }
    Ok(())
}

fn measure_case(case: &Case, options: &Options, dir: &Path) -> Result<Vec<Row>> {
    let takes_part = |contender: &&Contender| case.has_floor() || !contender.is_floor();
    let mut contenders = options.contenders()?;
    contenders.retain(takes_part);
    let row = |contender: &&Contender| Row {
        case: case.clone(),
        contender: contender.name.clone(),
        samples: Vec::new(),
    };
    let mut rows: Vec<Row> = contenders.iter().map(row).collect();
    for round in 1..=options.rounds {
        for turn in turns(round, contenders.len()) {
            let (contender, row) = (contenders[turn], &mut rows[turn]);
            let sample = measure(contender, case, options, dir)
                .with_context(|| format!("{}, {}", contender.name, case.name))?;
            eprintln!(
                "{:12} round {round} {:8} {:9.2} us/request {:9.0} requests/s, others {:.0} %",
                case.name,
                contender.name,
                sample.cpu_us_per_request,
                sample.requests_per_second,
                sample.others_share * 100.0
            );
            row.samples.push(sample);
        }
    }
    Ok(rows)
}

/// Who comes when: every other round backwards, so that nobody always follows the same one.
pub fn turns(round: usize, contenders: usize) -> Vec<usize> {
    let forwards = 0..contenders;
    if round % 2 == 1 {
        forwards.collect()
    } else {
        forwards.rev().collect()
    }
}

fn measure(contender: &Contender, case: &Case, options: &Options, dir: &Path) -> Result<Sample> {
    let mut running = Running::start(contender, case, dir, options.server_core)?;
    let body = cases::body(case.size);
    let response_size = warm_up(&running, case, &body)?;
    running.note_processes()?;
    let cpu_before = CpuTime::of(&running.processes)?;
    let (core_before, clock) = (usage::core_busy(options.server_core)?, Instant::now());
    let load = wrk::run(
        &case.requests(),
        running.address,
        options.duration(),
        response_size,
        dir,
    )?;
    sleep(SETTLE);
    let cpu = CpuTime::of(&running.processes)?
        .since(&cpu_before)?
        .as_secs_f64();
    let core = (usage::core_busy(options.server_core)? - core_before).as_secs_f64();
    let elapsed = clock.elapsed().as_secs_f64();
    Client::connect(running.address)?
        .fetch(&body, case.close)
        .context("after the load")?;
    let errors = running.errors();
    ensure!(errors.is_empty(), "the error log says:\n{errors}");
    drop(running);
    check_log(case, dir, load.completed)?;
    Ok(Sample {
        cpu_us_per_request: cpu * 1e6 / load.responses,
        requests_per_second: load.responses / load.elapsed.as_secs_f64(),
        p99_us: load.p99_us,
        server_share: cpu / elapsed,
        others_share: (core - cpu).max(0.0) / elapsed,
    })
}

/// Returns the bytes of one response, every byte of which has been checked.
pub fn warm_up(running: &Running, case: &Case, body: &[u8]) -> Result<usize> {
    let clock = Instant::now();
    let mut client = Client::connect(running.address)?;
    let mut size = client.fetch(body, case.close)?;
    while clock.elapsed() < WARM_UP {
        if case.close {
            client = Client::connect(running.address)?;
        }
        size = client.fetch(body, case.close)?;
    }
    Ok(size)
}

/// A server that logs less than it answers has not done the work it was measured at.
fn check_log(case: &Case, dir: &Path, completed: u64) -> Result<()> {
    let log = fs::read(cases::log_file(dir))?;
    let lines = log.iter().filter(|byte| **byte == b'\n').count() as u64;
    if case.access_log == AccessLog::Off {
        ensure!(lines == 0, "{lines} lines were logged with access_log off");
    } else {
        ensure!(
            lines >= completed,
            "{lines} lines logged for {completed} requests"
        );
    }
    Ok(())
}

fn measure_idle(options: &Options, dir: &Path) -> Result<Vec<IdleRow>> {
    let contenders = options.contenders()?;
    let row = |contender: &&Contender| IdleRow {
        contender: contender.name.clone(),
        samples: Vec::new(),
    };
    let mut rows: Vec<IdleRow> = contenders.iter().map(row).collect();
    for round in 1..=options.rounds {
        for turn in turns(round, contenders.len()) {
            let (contender, row) = (contenders[turn], &mut rows[turn]);
            let sample =
                idle::measure(contender, options, dir).with_context(|| contender.name.clone())?;
            eprintln!(
                "{:12} round {round} {:8} {:9.0} bytes per connection",
                cases::IDLE,
                contender.name,
                sample.per_connection()
            );
            row.samples.push(sample);
        }
    }
    Ok(rows)
}

/// A directory that workers under another user can read; removed when dropped.
pub struct Workspace {
    pub dir: PathBuf,
}

impl Workspace {
    pub fn create() -> Result<Workspace> {
        let dir = std::env::temp_dir().join(format!("gannet-bench-{}", std::process::id()));
        fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755))?;
        Ok(Workspace { dir })
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("{}: {error}", self.dir.display());
        }
    }
}
