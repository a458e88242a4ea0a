//! `load`: the load tester itself. What one core can send, beside wrk and Locust; whether it counts what ab, wrk and h2load
//! count on servers whose speed is given; its memory over a long run.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cases::{self, Case};
use crate::options::{Bench, Options};
use crate::report::{self, Spread, Table};
use crate::server::{self, Running};
use crate::side_by_side::{Workspace, turns};
use crate::usage;
use crate::verdict;
use slow::Slow;
use tools::{Asked, Outcome, Tool};

/// Locust in an environment of its own.
mod locust;
/// A server that waits before each answer.
mod slow;
/// The testers: how they are called, and what they say.
mod tools;

const STRENGTH: &str = "strength";
const LOCUST: &str = "locust";
const AGREEMENT: &str = "agreement";
const MEMORY: &str = "memory";

pub const BENCH: Bench = Bench {
    name: "load",
    cases: &[STRENGTH, LOCUST, AGREEMENT, MEMORY],
    servers: &[],
    seconds: 3,
    rounds: 5,
    quick: (2, 3),
};

const SIZE: usize = 1 << 10;
const CONNECTIONS: usize = 64;
/// What Gannet's tester has to reach: requests/s as multiples of wrk's and of Locust's.
const OF_WRK: f64 = 1.0;
const OF_LOCUST: f64 = 20.0;
/// How far apart testers may be on a server whose speed is given.
const APART: f64 = 0.05;
/// Locust's users take a second to begin.
const LOCUST_MIN: Duration = Duration::from_secs(8);
/// Users of the servers whose speed is given, and what these do.
const USERS: usize = 50;
const DELAY: Duration = Duration::from_millis(20);
const RATE: usize = 1000;
/// Streams on a connection of HTTP/2.
const STREAMS: usize = 10;
/// The long run lasts so many times as long as the others, but no less than this; a tenth of it is over before memory
/// counts.
const LONG: u64 = 10;
const LONG_MIN: Duration = Duration::from_secs(30);
const LOOKS: u32 = 10;
/// What memory may grow by from the first look to the last: points of the report's charts, one a second.
const GROWTH: f64 = 1.10;

/// One tester's figures, round by round.
struct Row {
    tool: Tool,
    outcomes: Vec<Outcome>,
}

impl Row {
    fn rates(&self) -> Vec<f64> {
        self.outcomes.iter().map(|outcome| outcome.rate).collect()
    }

    fn rate(&self) -> Spread {
        Spread::of(self.outcomes.iter().map(|outcome| outcome.rate))
    }

    fn cpu_us(&self) -> Spread {
        Spread::of(self.outcomes.iter().map(|outcome| outcome.cpu_us))
    }
}

pub fn run(options: &Options) -> Result<()> {
    ensure!(
        options.servers.is_empty(),
        "--servers: the testers of load are always the same"
    );
    let workspace = Workspace::create()?;
    let dir = &workspace.dir;
    cases::write_bodies(dir, [SIZE].into_iter())?;
    if options.markdown {
        report::print_machine(
            options,
            &[options.contender("nginx")?, options.contender("gannet")?],
        );
        println!(
            "- Tester on core {}, server on core {}; {} rounds of {} s, the testers alternating.\n",
            options.load_core, options.server_core, options.rounds, options.seconds
        );
    }
    if options.case(STRENGTH) {
        strength(options, dir)?;
    }
    if options.case(LOCUST) {
        beside_locust(options, dir)?;
    }
    if options.case(AGREEMENT) {
        agreement(options, dir)?;
    }
    if options.case(MEMORY) {
        memory(options, dir)?;
    }
    Ok(())
}

/// The bare loop with a body of 1 KB.
fn floor(options: &Options, dir: &Path) -> Result<Running> {
    let mut all: Vec<Case> = cases::all();
    all.retain(|case| case.size == SIZE && case.has_floor());
    let case = all.first().context("no such case")?;
    Running::start(options.contender("floor")?, case, dir, options.server_core)
}

fn alternate(what: &str, tools: &[Tool], asked: &Asked, options: &Options) -> Result<Vec<Row>> {
    let row = |tool: &Tool| Row {
        tool: tool.clone(),
        outcomes: Vec::new(),
    };
    let mut rows: Vec<Row> = tools.iter().map(row).collect();
    for round in 1..=options.rounds {
        for turn in turns(round, rows.len()) {
            let row = &mut rows[turn];
            let outcome = row
                .tool
                .run(asked)
                .with_context(|| format!("{what}, {}", row.tool.name()))?;
            eprintln!(
                "{what:10} round {round} {:14} {:9.1} requests/s {:8.2} us/request",
                row.tool.name(),
                outcome.rate,
                outcome.cpu_us
            );
            row.outcomes.push(outcome);
        }
    }
    Ok(rows)
}

fn asked<'a>(options: &Options, dir: &'a Path, url: String) -> Asked<'a> {
    Asked {
        url,
        connections: CONNECTIONS,
        streams: 1,
        duration: options.duration(),
        core: Some(options.load_core),
        dir,
    }
}

fn gannet(options: &Options) -> Result<Tool> {
    let program = options.contender("gannet")?.program_name().to_owned();
    Ok(Tool::Gannet(program))
}

/// Requests/s that one core sends, from a server that costs next to nothing.
fn strength(options: &Options, dir: &Path) -> Result<()> {
    let server = floor(options, dir)?;
    let url = format!("http://{}{}", server.address, cases::url_path(SIZE));
    let tools = [Tool::Wrk, gannet(options)?];
    let rows = alternate(STRENGTH, &tools, &asked(options, dir, url), options)?;
    print_speeds(
        "1 KB over 64 kept connections, one thread on one core",
        &rows,
        OF_WRK,
    );
    Ok(())
}

fn beside_locust(options: &Options, dir: &Path) -> Result<()> {
    let Some(locust) = locust::find(dir) else {
        println!("skipped: {LOCUST}: it is not installed, and pip does not install it\n");
        return Ok(());
    };
    let server = floor(options, dir)?;
    let url = format!("http://{}{}", server.address, cases::url_path(SIZE));
    let tools = [Tool::Locust(locust), gannet(options)?];
    let asked = Asked {
        duration: options.duration().max(LOCUST_MIN),
        ..asked(options, dir, url)
    };
    let rows = alternate(LOCUST, &tools, &asked, options)?;
    print_speeds("The same beside Locust's FastHttpUser", &rows, OF_LOCUST);
    Ok(())
}

/// The second row is Gannet's, and is compared with the first.
fn print_speeds(heading: &str, rows: &[Row], target: f64) {
    println!("{heading}:\n");
    let mut table = Table::new(&[
        "tester",
        "requests/s",
        "min–max",
        "tester's CPU µs/request",
        "min–max",
    ]);
    for row in rows {
        let (rate, cpu) = (row.rate(), row.cpu_us());
        table.0.push(vec![
            row.tool.name().to_owned(),
            format!("{:.0}", rate.median),
            rate.range(0),
            format!("{:.2}", cpu.median),
            cpu.range(2),
        ]);
    }
    table.print();
    if let [other, own] = rows {
        let ratio = verdict::ratio(&own.rates(), &other.rates());
        println!(
            "Requests/s of {}: {:.2} ({} by round); wanted: {target:.1} or more: {}\n",
            other.tool.name(),
            ratio.median,
            ratio.range(2),
            outcome(ratio.median >= target)
        );
    }
}

fn outcome(is_met: bool) -> &'static str {
    if is_met { "yes" } else { "NO" }
}

/// Testers on servers that set the pace themselves: each must count the same.
fn agreement(options: &Options, dir: &Path) -> Result<()> {
    let own = gannet(options)?;
    let ab = Tool::GannetAb(options.contender("gannet")?.program_name().to_owned());
    let all = [Tool::Ab, ab, Tool::Wrk, Tool::H2load, own];
    let slow = Slow::start(DELAY)?;
    let url = format!("http://{}/", slow.address);
    let users = |url: String| Asked {
        connections: USERS,
        ..asked(options, dir, url)
    };
    let rows = alternate("delay", &all, &users(url), options)?;
    let heading = format!(
        "A server that answers after {} ms, {USERS} users",
        DELAY.as_millis()
    );
    print_agreement(&heading, &rows);
    drop(slow);

    let nginx = options.contender("nginx")?;
    let text = |port| limited(dir, port);
    let server = Running::start_with(nginx, text, dir, Some(options.server_core))?;
    let url = format!("http://{}/", server.address);
    let rows = alternate("rate", &all, &users(url.clone()), options)?;
    let heading = format!("nginx with limit_req rate={RATE}r/s, {USERS} users");
    print_agreement(&heading, &rows);
    drop(server);

    let over_http2 = |port| limited(dir, port).replace("default_server", "http2");
    let server = Running::start_with(nginx, over_http2, dir, Some(options.server_core))?;
    let asked = Asked {
        streams: STREAMS,
        ..users(format!("http://{}/", server.address))
    };
    let few = [Tool::H2load, gannet(options)?];
    let rows = alternate("rate, h2", &few, &asked, options)?;
    print_agreement(
        &format!("The same over HTTP/2, {STREAMS} streams a connection"),
        &rows,
    );
    Ok(())
}

fn print_agreement(heading: &str, rows: &[Row]) {
    println!("{heading}:\n");
    let medians: Vec<f64> = rows.iter().map(|row| row.rate().median).collect();
    let middle = Spread::of(medians.iter().copied()).median;
    let mut table = Table::new(&[
        "tester",
        "requests/s",
        "min–max",
        "beside the median of all",
    ]);
    for (row, median) in rows.iter().zip(&medians) {
        table.0.push(vec![
            row.tool.name().to_owned(),
            format!("{median:.1}"),
            row.rate().range(1),
            format!("{:+.1} %", (median / middle - 1.0) * 100.0),
        ]);
    }
    table.print();
    let spread = Spread::of(medians.into_iter());
    let apart = spread.greatest / spread.least - 1.0;
    println!(
        "Apart by {:.1} %; wanted: {:.0} % at most: {}\n",
        apart * 100.0,
        APART * 100.0,
        outcome(apart <= APART)
    );
}

/// A server that lets so many requests through a second and has the others wait.
fn limited(dir: &Path, port: u16) -> String {
    let dir = dir.display();
    format!(
        "daemon off;\npid {dir}/pid;\nworker_processes 1;\nerror_log {dir}/error.log crit;\nevents {{ }}\nhttp {{\n\
         access_log off;\nkeepalive_requests 1000000;\nlimit_req_zone $server_name zone=all:1m rate={RATE}r/s;\n\
         server {{ listen 127.0.0.1:{port} default_server; server_name limited;\n\
         location / {{ limit_req zone=all burst={RATE}; root {dir}/www; try_files /{SIZE}.bin =404; }}\n}}\n}}\n"
    )
}

/// Memory of the tester over a long run at full speed.
fn memory(options: &Options, dir: &Path) -> Result<()> {
    let server = floor(options, dir)?;
    let time = LONG_MIN.max(options.duration() * LONG as u32);
    let url = format!("http://{}{}", server.address, cases::url_path(SIZE));
    let seconds = time.as_secs();
    let mut command = Command::new(options.contender("gannet")?.program_name());
    command
        .args(["load", "-q", "-t", "1", "-c", &CONNECTIONS.to_string()])
        .args(["-d", &format!("{seconds}s"), &url])
        .stdout(Stdio::null());
    let mut child = server::spawn(&mut command, Some(options.load_core))?;
    let begin = Instant::now();
    let mut table = Table::new(&["after s", "memory KB (PSS, its own pages)"]);
    let mut seen = Vec::new();
    for look in 1..LOOKS {
        let at = time / LOOKS * look;
        sleep(at.saturating_sub(begin.elapsed()));
        let bytes = usage::memory(&[child.id()])?;
        seen.push(bytes as f64);
        table
            .0
            .push(vec![at.as_secs().to_string(), (bytes / 1024).to_string()]);
    }
    ensure!(child.wait()?.success(), "the run failed");
    println!("A run of {seconds} s at full speed:\n");
    table.print();
    if let (Some(first), Some(last)) = (seen.first(), seen.last()) {
        let growth = last / first;
        println!(
            "From a tenth to nine tenths of the run: {growth:.3}; wanted: {GROWTH:.2} at most: {}\n",
            outcome(growth <= GROWTH)
        );
    }
    Ok(())
}
