//! `tls`: what HTTPS and HTTP/2 cost beside nginx: responses on kept connections, handshakes, streams, idle connections.

use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::cases;
use crate::idle;
use crate::options::{Bench, Options};
use crate::report::{self, Spread, Table};
use crate::server::{self, Contender, Running};
use crate::side_by_side::{SETTLE, Workspace, turns};
use crate::targets::{self, Against, SUBJECT};
use crate::tls_client::{self, Dialer, Key, Offer};
use crate::usage::{self, CpuTime};
use crate::verdict::{self, Verdict};
use crate::wrk::{self, Requests};

pub const BENCH: Bench = Bench {
    name: "tls",
    cases: &[
        "0b",
        "1k",
        "10k",
        "100k",
        "1m",
        "full-rsa-1.2",
        "full-rsa-1.3",
        "full-ecdsa-1.2",
        "full-ecdsa-1.3",
        "resumed-1.2",
        "resumed-1.3",
        "h2-1k",
        "h2-100k",
        cases::IDLE,
    ],
    servers: &["nginx", "gannet"],
    seconds: 3,
    rounds: 5,
    quick: (1, 2),
};

const CONNECTIONS: usize = 64;
/// As many clients shake hands at a time; they share the core of the load.
const CLIENTS: usize = 8;
/// HTTP/2: connections, and streams open at a time on each.
const H2_CONNECTIONS: usize = 8;
const H2_STREAMS: usize = 32;
const IDLE_CONNECTIONS: usize = 5_000;
/// Time for the server to put its buffers away.
const IDLE_SETTLE: Duration = Duration::from_millis(300);

/// What a case does.
enum Load {
    Kept { size: usize },
    Handshakes { key: Key, offer: Offer },
    Streams { size: usize },
    Idle,
}

impl Load {
    fn of(case: &str) -> Option<Load> {
        let handshakes = |key, offer| Load::Handshakes { key, offer };
        Some(match case {
            "0b" => Load::Kept { size: 0 },
            "1k" => Load::Kept { size: 1 << 10 },
            "10k" => Load::Kept { size: 10 << 10 },
            "100k" => Load::Kept { size: 100 << 10 },
            "1m" => Load::Kept { size: 1 << 20 },
            "full-rsa-1.2" => handshakes(Key::Rsa2048, Offer::TLS12),
            "full-rsa-1.3" => handshakes(Key::Rsa2048, Offer::TLS13),
            "full-ecdsa-1.2" => handshakes(Key::EcdsaP256, Offer::TLS12),
            "full-ecdsa-1.3" => handshakes(Key::EcdsaP256, Offer::TLS13),
            "resumed-1.2" => handshakes(Key::EcdsaP256, Offer::TLS12.resuming()),
            "resumed-1.3" => handshakes(Key::EcdsaP256, Offer::TLS13.resuming()),
            "h2-1k" => Load::Streams { size: 1 << 10 },
            "h2-100k" => Load::Streams { size: 100 << 10 },
            cases::IDLE => Load::Idle,
            _ => return None,
        })
    }

    fn size(&self) -> usize {
        match self {
            Load::Kept { size } | Load::Streams { size } => *size,
            Load::Handshakes { .. } => 0,
            Load::Idle => cases::IDLE_SIZE,
        }
    }

    fn key(&self) -> Key {
        match self {
            Load::Handshakes { key, .. } => *key,
            _ => Key::EcdsaP256,
        }
    }

    fn unit(&self) -> &'static str {
        match self {
            Load::Kept { .. } | Load::Streams { .. } => "µs/request",
            Load::Handshakes { .. } => "µs/connection",
            Load::Idle => "bytes/connection",
        }
    }
}

/// One measurement: CPU in microseconds (or memory in bytes) for each of what was counted.
struct Sample {
    cost: f64,
    per_second: f64,
}

struct Row {
    case: String,
    unit: &'static str,
    server: String,
    samples: Vec<Sample>,
}

impl Row {
    fn costs(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.cost).collect()
    }
}

pub fn run(options: &Options) -> Result<()> {
    server::pin(options.load_core)?;
    idle::raise_descriptor_limit(IDLE_CONNECTIONS)?;
    let workspace = Workspace::create()?;
    let dir = &workspace.dir;
    for key in [Key::Rsa2048, Key::EcdsaP256] {
        key.write(dir)?;
    }
    let mut rows = Vec::new();
    for case in BENCH.cases.iter().filter(|case| options.case(case)) {
        let load = Load::of(case).context("no such case")?;
        cases::write_bodies(dir, [load.size()].into_iter())?;
        rows.extend(alternate(case, &load, options, dir)?);
    }
    if options.markdown {
        report::print_machine(options, &options.contenders()?);
        report::print_cores(options);
        println!(
            "- HTTP/2: `h2load -t1 -c{H2_CONNECTIONS} -m{H2_STREAMS}`; handshakes: {CLIENTS} clients of rustls, one request on each connection.\n"
        );
        println!(
            "```nginx\n{}```\n",
            configuration("DIR".as_ref(), 8443, Key::EcdsaP256)
        );
    }
    print(&rows);
    Ok(())
}

fn alternate(case: &str, load: &Load, options: &Options, dir: &Path) -> Result<Vec<Row>> {
    let row = |name: &String| Row {
        case: case.to_owned(),
        unit: load.unit(),
        server: name.clone(),
        samples: Vec::new(),
    };
    let mut rows: Vec<Row> = options.servers.iter().map(row).collect();
    for round in 1..=options.rounds {
        for turn in turns(round, rows.len()) {
            let row = &mut rows[turn];
            let contender = options.contender(&row.server)?;
            let sample = measure(contender, load, options, dir)
                .with_context(|| format!("{}, {case}", row.server))?;
            eprintln!(
                "{case:14} round {round} {:8} {:9.2} {} {:9.0} a second",
                row.server, sample.cost, row.unit, sample.per_second
            );
            row.samples.push(sample);
        }
    }
    Ok(rows)
}

fn measure(contender: &Contender, load: &Load, options: &Options, dir: &Path) -> Result<Sample> {
    let text = |port| configuration(dir, port, load.key());
    let mut running = Running::start_with(contender, text, dir, Some(options.server_core))?;
    let certificate = dir.join(format!("{}.pem", load.key().file_stem()));
    let dialer = Dialer::new(Offer::TLS13, &certificate, running.address)?;
    let body = cases::body(load.size());
    let response = dialer.connect()?.fetch(&body, false)?;
    running.note_processes()?;
    if matches!(load, Load::Idle) {
        return measure_idle(&running, &dialer, &body);
    }
    let before = CpuTime::of(&running.processes)?;
    let count = match load {
        Load::Kept { size } => {
            let requests = Requests {
                path: cases::url_path(*size),
                connections: CONNECTIONS,
                close: false,
            };
            let duration = options.duration();
            wrk::run_secure(&requests, running.address, duration, response, dir)?.responses
        }
        Load::Handshakes { offer, .. } => {
            let duration = options.duration();
            let address = running.address;
            tls_client::handshakes(*offer, &certificate, address, CLIENTS, duration)? as f64
        }
        Load::Streams { size } => h2load(*size, &running, options)?,
        Load::Idle => unreachable!("measured above"),
    };
    sleep(SETTLE);
    let cpu = CpuTime::of(&running.processes)?.since(&before)?;
    dialer
        .connect()?
        .fetch(&body, false)
        .context("after the load")?;
    // nginx 1.22 knows no other way to say `http2` than the one that newer ones, and Gannet, warn of.
    let errors = running.errors();
    let is_clean = errors.lines().all(|line| line.contains("[warn]"));
    ensure!(is_clean, "the error log says:\n{errors}");
    Ok(Sample {
        cost: cpu.as_secs_f64() * 1e6 / count,
        per_second: count / options.duration().as_secs_f64(),
    })
}

/// Growth of the server's memory over connections that have made one request each.
fn measure_idle(running: &Running, dialer: &Dialer, body: &[u8]) -> Result<Sample> {
    sleep(IDLE_SETTLE);
    let before = usage::memory(&running.processes)?;
    let mut clients = Vec::with_capacity(IDLE_CONNECTIONS);
    for _ in 0..IDLE_CONNECTIONS {
        let mut client = dialer.connect()?;
        client.fetch(body, false)?;
        clients.push(client);
    }
    sleep(IDLE_SETTLE);
    let during = usage::memory(&running.processes)?;
    for client in clients.iter_mut().step_by(10) {
        client
            .fetch(body, false)
            .context("an idle connection was closed")?;
    }
    Ok(Sample {
        cost: during.saturating_sub(before) as f64 / IDLE_CONNECTIONS as f64,
        per_second: 0.0,
    })
}

/// Requests that h2load saw succeed.
fn h2load(size: usize, running: &Running, options: &Options) -> Result<f64> {
    let output = Command::new("h2load")
        .args([
            "-t1",
            &format!("-c{H2_CONNECTIONS}"),
            &format!("-m{H2_STREAMS}"),
        ])
        .arg(format!("-D{}", options.seconds))
        .arg(format!(
            "https://{}{}",
            running.address,
            cases::url_path(size)
        ))
        .output()
        .context("h2load is needed: apt-get install nghttp2-client")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("requests: "))
        .with_context(|| format!("h2load said:\n{text}"))?;
    let number = |name: &str| {
        let before = line.split(", ").find_map(|part| part.strip_suffix(name))?;
        before.trim().parse::<f64>().ok()
    };
    let (done, failed) = (number("succeeded"), number("failed"));
    ensure!(failed == Some(0.0), "requests failed: {line}");
    ensure!(
        text.contains("Application protocol: h2"),
        "no HTTP/2:\n{text}"
    );
    done.filter(|done| *done > 0.0)
        .context("no request succeeded")
}

fn configuration(dir: &Path, port: u16, key: Key) -> String {
    let (dir, stem) = (dir.display(), key.file_stem());
    format!(
        "daemon off;
worker_processes 1;
pid {dir}/server.pid;
error_log {dir}/error.log;
events {{
    worker_connections 16384;
}}
http {{
    types {{ }}
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    open_file_cache max=1000 inactive=60s;
    open_file_cache_valid 60s;
    keepalive_timeout 300s;
    keepalive_requests 1000000000;
    access_log off;
    ssl_certificate {dir}/{stem}.pem;
    ssl_certificate_key {dir}/{stem}.key;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_session_cache shared:SSL:10m;
    server {{
        listen 127.0.0.1:{port} ssl http2 backlog=4096;
        root {dir}/www;
    }}
}}
"
    )
}

fn print(rows: &[Row]) {
    let mut table = Table::new(&[
        "case",
        "server",
        "cost",
        "min–max",
        "unit",
        "a second",
        "× nginx",
    ]);
    let mut verdicts = Vec::new();
    for row in rows {
        let cost = Spread::of(row.costs().into_iter());
        let rate = Spread::of(row.samples.iter().map(|sample| sample.per_second));
        let reference = rows
            .iter()
            .find(|other| other.case == row.case && other.server == "nginx");
        let ratio = reference.map(|other| verdict::ratio(&row.costs(), &other.costs()));
        table.0.push(vec![
            row.case.clone(),
            row.server.clone(),
            format!("{:.2}", cost.median),
            cost.range(2),
            row.unit.to_owned(),
            format!("{:.0}", rate.median),
            report::ratio_text(ratio),
        ]);
        let target = targets::TLS.iter().find(|(case, _)| *case == row.case);
        if let (Some(ratio), Some(&(_, at_most)), SUBJECT) = (ratio, target, row.server.as_str()) {
            verdicts.push(Verdict {
                case: row.case.clone(),
                what: "cost",
                against: Against::Nginx,
                at_most,
                ratio,
            });
        }
    }
    table.print();
    if !verdicts.is_empty() {
        report::verdict_table(&verdicts).print();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_load_and_a_target() {
        for case in BENCH.cases {
            assert!(Load::of(case).is_some(), "{case}");
            assert!(targets::TLS.iter().any(|(name, _)| name == case), "{case}");
        }
    }
}
