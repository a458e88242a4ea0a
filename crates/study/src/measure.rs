//! One measurement: a case on one server, under the load tester.

use crate::results::Figures;
use crate::server::Running;
use crate::study::{Case, Contender, Load};
use crate::usage;
use crate::workspace::Workspace;
use load::engine::{Control, Observer};
use load::series::Series;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};
use sys::signal::{Signal, SignalReader};

/// How often processes and memory are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Hears Ctrl-C.
pub struct Interruption {
    signals: SignalReader,
    came: bool,
}

impl Interruption {
    /// Must be made before there are threads: they inherit that the signals are read here.
    pub fn new() -> Result<Interruption, String> {
        let signals = SignalReader::new(&[Signal::Int, Signal::Term])
            .map_err(|error| format!("cannot read signals: {error}"))?;
        Ok(Interruption {
            signals,
            came: false,
        })
    }

    /// Whether it came, now or before.
    pub fn came(&mut self) -> bool {
        while let Ok(Some(_)) = self.signals.read() {
            self.came = true;
        }
        self.came
    }
}

/// Measures; `None` when it was interrupted.
pub fn measure(
    case: &Case,
    contender: Contender,
    workspace: &Workspace,
    interruption: &mut Interruption,
) -> Result<Option<Figures>, String> {
    let failed = |why: String| format!("{} on {}: {why}", case.key, contender.as_str());
    workspace.forget()?;
    let running = Running::start(case, contender, workspace).map_err(failed)?;
    if let Some(before) = &case.before {
        let mut watcher = Watcher::new(&running, interruption);
        let report = run(before, &running, case.workers, &mut watcher).map_err(failed)?;
        if report.is_none() {
            return Ok(None);
        }
    }
    let mut watcher = Watcher::new(&running, interruption);
    let began = usage::processor_time(&running.processes());
    let report = run(&case.load, &running, case.workers, &mut watcher).map_err(failed)?;
    let cpu = usage::processor_time(&running.processes()).saturating_sub(began);
    watcher.look_at_processes();
    let (children, memory) = (watcher.children, watcher.memory);
    let Some(report) = report else {
        return Ok(None);
    };
    let mut figures = figures(&report, cpu);
    if figures.requests == figures.failures {
        let why = report.failures.first();
        let why = why.map_or_else(|| "no response".to_owned(), |row| row.failure.to_string());
        return Err(failed(format!(
            "every request failed: {why}{}",
            running.errors()
        )));
    }
    figures.children = children as f64;
    figures.memory_bytes = memory as f64;
    Ok(Some(figures))
}

/// Sends a load.
fn run(
    load: &Load,
    running: &Running,
    workers: usize,
    watcher: &mut Watcher<'_>,
) -> Result<Option<load::Report>, String> {
    let words: Vec<OsString> = arguments(load, running, workers);
    let plan = load::command::planned(&words)?;
    let control = Arc::new(Control::default());
    let report = load::run(&Arc::new(plan), &control, watcher)?;
    Ok((!watcher.interruption.came()).then_some(report))
}

/// What stands after `gannet load`.
fn arguments(load: &Load, running: &Running, workers: usize) -> Vec<OsString> {
    let (scheme, address) = match load.is_secure {
        true => ("https", running.secure_address),
        false => ("http", running.address),
    };
    let urls = load
        .paths
        .iter()
        .map(|path| format!("{scheme}://{address}{path}"));
    let words = load.words.iter().cloned();
    let threads = ["-t".to_owned(), threads(workers).to_string()];
    words
        .chain(threads)
        .chain(urls)
        .map(OsString::from)
        .collect()
}

/// Threads of the tester: the processors that the workers leave, at least one.
fn threads(workers: usize) -> usize {
    sys::machine::cpu_count().saturating_sub(workers).max(1)
}

fn figures(report: &load::Report, cpu: Duration) -> Figures {
    let (total, times) = (&report.total, &report.total.total);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let requests = total.requests.max(1) as f64;
    Figures {
        requests: total.requests,
        failures: total.failures,
        requests_per_second: report.requests_per_second(),
        good_per_second: report.rate(total.requests.saturating_sub(total.failures)),
        bytes_per_second: report.rate(total.received_bytes),
        body_bytes: total.body_bytes as f64 / requests,
        mean_ms: ms(times.mean()),
        min_ms: ms(times.min()),
        median_ms: ms(times.percentile(50.0)),
        p90_ms: ms(times.percentile(90.0)),
        p95_ms: ms(times.percentile(95.0)),
        p99_ms: ms(times.percentile(99.0)),
        max_ms: ms(times.max()),
        cpu_us_per_request: cpu.as_secs_f64() * 1e6 / requests,
        cores: cpu.as_secs_f64() / report.elapsed.as_secs_f64().max(1e-9),
        ..Figures::default()
    }
}

/// Looks at the processes while a load goes on, and hears Ctrl-C.
struct Watcher<'a> {
    running: &'a Running,
    interruption: &'a mut Interruption,
    looked: Instant,
    /// The most there were.
    children: usize,
    memory: u64,
}

impl<'a> Watcher<'a> {
    fn new(running: &'a Running, interruption: &'a mut Interruption) -> Watcher<'a> {
        Watcher {
            running,
            interruption,
            looked: Instant::now(),
            children: 0,
            memory: 0,
        }
    }

    fn look_at_processes(&mut self) {
        let processes = self.running.processes();
        self.children = self.children.max(self.running.children(&processes));
        self.memory = self.memory.max(usage::memory(&processes));
        self.looked = Instant::now();
    }
}

impl Observer for Watcher<'_> {
    fn look(&mut self, _: Duration, _: &Series, control: &Control) {
        if self.interruption.came() {
            control.abort();
        } else if self.looked.elapsed() >= LOOK {
            self.look_at_processes();
        }
    }
}
