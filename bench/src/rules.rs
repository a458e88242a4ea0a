//! `rules`: what it costs to ask rules about a request (`rules`), what filters cost that do not apply (`filters`), both beside
//! the same file without them; how long a `geo` of a million ranges takes to read (`geo`), and what a zone of `limit_req`
//! takes of memory while millions of keys come (`keys`).

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cases;
use crate::options::{Bench, Options};
use crate::relayed::{self, Load, Row, Sample};
use crate::report::{self, Table};
use crate::server::{self, Running};
use crate::side_by_side::Workspace;
use crate::targets::{self, Against, SUBJECT};
use crate::usage;
use crate::verdict::{self, Verdict};
use crate::wrk::Requests;

pub const BENCH: Bench = Bench {
    name: "rules",
    cases: &["rules", "filters", "geo", "keys"],
    servers: &["nginx", "gannet", "nginx-bare", "gannet-bare"],
    seconds: 3,
    rounds: 5,
    quick: (1, 2),
};

const SIZE: usize = 1 << 10;
const CONNECTIONS: usize = 64;
/// Networks of `allow` and `deny`; the client matches the last one.
const NETWORKS: usize = 50;
/// Ranges of the table of addresses.
const RANGES: u32 = 1_000_000;
/// The size of the zone in megabytes, and the keys that come.
const ZONE_MB: usize = 10;
const KEYS: u64 = 10_000_000;
/// Requests that are written before their responses are read.
const BATCH: u64 = 128;

/// Maps and zones, which stand outside the server.
const TABLES: &str = "
    limit_req_zone $binary_remote_addr zone=rate:10m rate=1000000r/s;
    limit_conn_zone $binary_remote_addr zone=connections:10m;
    map $http_user_agent $is_robot { default 0; ~*(bot|crawl|spider) 1; }
    map $uri $kind { default other; /index.html page; ~\\.bin$ binary; ~\\.css$ style; }
";
/// Filters for what the file is not.
const FILTERS: &str = "
        gzip on;
        gzip_types text/css application/javascript;
        gunzip on;
        ssi on;
        sub_filter needle thread;
        sub_filter hay straw;
        charset utf-8;
        addition_types text/xml;
        add_before_body /before;
        add_after_body /after;
";

/// What is around the file.
fn directives(case: &str) -> String {
    if case != "rules" {
        return FILTERS.to_owned();
    }
    let mut text = String::from(
        "
        limit_req zone=rate burst=1000000 nodelay;
        limit_conn connections 65535;
        add_header X-Kind $kind;
        add_header X-Robot $is_robot;
        add_header X-Frame-Options DENY;
",
    );
    for network in 1..NETWORKS {
        let rule = if network % 2 == 0 { "allow" } else { "deny" };
        let _ = writeln!(text, "        {rule} 10.{network}.0.0/16;");
    }
    text + "        allow 127.0.0.0/8;\n        deny all;\n"
}

fn configuration(dir: &Path, port: u16, case: &str, is_bare: bool) -> String {
    let tables = if case == "rules" && !is_bare {
        TABLES
    } else {
        ""
    };
    let own = if is_bare {
        String::new()
    } else {
        directives(case)
    };
    relayed::head(dir, port, tables)
        + &format!("        root {}/www;\n{own}    }}\n}}\n", dir.display())
}

pub fn run(options: &Options) -> Result<()> {
    let workspace = Workspace::create()?;
    cases::write_bodies(&workspace.dir, [SIZE].into_iter())?;
    let everywhere = rustix::thread::sched_getaffinity(None)?;
    server::pin(options.load_core)?;
    let mut rows = Vec::new();
    for case in ["rules", "filters"] {
        if options.case(case) {
            let measured = relayed::alternate(case, options, |name| {
                measure(name, case, options, &workspace.dir)
            })?;
            rows.extend(measured);
        }
    }
    if !rows.is_empty() {
        print(options, &rows)?;
    }
    if options.case("geo") {
        geo(options, &workspace.dir)?;
    }
    if options.case("keys") {
        keys(options, &workspace.dir)?;
    }
    rustix::thread::sched_setaffinity(None, &everywhere)?;
    Ok(())
}

fn measure(name: &str, case: &str, options: &Options, dir: &Path) -> Result<Sample> {
    let (program, is_bare) = match name.strip_suffix("-bare") {
        Some(program) => (program, true),
        None => (name, false),
    };
    let text = |port| configuration(dir, port, case, is_bare);
    let contender = options.contender(program)?;
    let mut running = Running::start_with(contender, text, dir, Some(options.server_core))?;
    let load = Load {
        requests: Requests {
            path: cases::url_path(SIZE),
            connections: CONNECTIONS,
            close: false,
        },
        body: &cases::body(SIZE),
    };
    relayed::measure(&mut running, None, &load, options, dir)
}

fn print(options: &Options, rows: &[Row]) -> Result<()> {
    if options.markdown {
        relayed::circumstances(options)?;
        for case in ["rules", "filters"] {
            let text = configuration("DIR".as_ref(), 8080, case, false);
            println!("`{case}`:\n\n```nginx\n{text}```\n");
        }
    }
    let mut table = Table::new(&[
        "case",
        "server",
        "CPU µs/request",
        "min–max",
        "requests/s",
        "× nginx",
        "× bare",
    ]);
    let mut verdicts = Vec::new();
    for row in rows {
        let cpu = row.spread(|sample| sample.server_us);
        let to = |server: &str| {
            let other = rows
                .iter()
                .find(|other| other.case == row.case && other.server == server)?;
            let value = |sample: &Sample| sample.server_us;
            Some(verdict::ratio(&row.values(value), &other.values(value)))
        };
        let bare = row.server.ends_with("-bare");
        let nginx = to(if bare { "nginx-bare" } else { "nginx" });
        let same = to(&format!("{}-bare", row.server.trim_end_matches("-bare")));
        table.0.push(vec![
            row.case.to_owned(),
            row.server.clone(),
            format!("{:.2}", cpu.median),
            cpu.range(2),
            format!("{:.0}", row.spread(Sample::rate).median),
            report::ratio_text(nginx),
            report::ratio_text(same),
        ]);
        if row.server != SUBJECT {
            continue;
        }
        let (ratio, what, at_most) = match row.case {
            "rules" => (nginx, targets::SERVER_CPU, targets::OF_RULES),
            _ => (
                same,
                "CPU per request, to the bare case,",
                targets::OF_FILTERS,
            ),
        };
        if let Some(ratio) = ratio {
            verdicts.push(Verdict {
                case: row.case.to_owned(),
                what,
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
    Ok(())
}

/// The processor time of `-t` with a table of a million ranges.
fn geo(options: &Options, dir: &Path) -> Result<()> {
    let mut text = String::new();
    for range in 0..RANGES {
        // Ranges of four addresses, in the order in which such files come.
        let first = 0x0100_0000 + range * 8;
        let (from, to) = (first.to_be_bytes(), (first + 3).to_be_bytes());
        let dotted = |bytes: [u8; 4]| bytes.map(|byte| byte.to_string()).join(".");
        let _ = writeln!(text, "{}-{} v{};", dotted(from), dotted(to), range % 200);
    }
    fs::write(dir.join("ranges.conf"), text)?;
    let block = format!(
        "    geo $value {{ ranges; default none; include {}/ranges.conf; }}\n",
        dir.display()
    );
    let file = dir.join("geo.conf");
    fs::write(&file, relayed::head(dir, 8080, &block) + "    }\n}\n")?;
    let mut table = Table::new(&["geo", "server", "seconds to read a million ranges"]);
    for name in options
        .servers
        .iter()
        .filter(|name| !name.ends_with("-bare"))
    {
        let contender = options.contender(name)?;
        let command = contender.command_text();
        let program = command.split_whitespace().next().context("a command")?;
        let mut seconds = Vec::new();
        for _ in 0..options.rounds {
            let clock = Instant::now();
            let done = Command::new(program)
                .args(["-t", "-q", "-c"])
                .arg(&file)
                .output()?;
            ensure!(
                done.status.success(),
                "{name}: {}",
                String::from_utf8_lossy(&done.stderr)
            );
            seconds.push(clock.elapsed().as_secs_f64());
        }
        let spread = report::Spread::of(seconds.into_iter());
        let seconds = format!("{:.2} ({})", spread.median, spread.range(2));
        table.0.push(vec!["geo".to_owned(), name.clone(), seconds]);
    }
    table.print();
    Ok(())
}

/// Memory of the server before and after every request brought a key of its own.
fn keys(options: &Options, dir: &Path) -> Result<()> {
    let keys = std::env::var("GANNET_BENCH_KEYS").ok();
    let keys = keys.and_then(|keys| keys.parse().ok()).unwrap_or(KEYS);
    let mut table = Table::new(&["keys", "server", "zone", "MB before", "MB after", "seconds"]);
    for name in options
        .servers
        .iter()
        .filter(|name| !name.ends_with("-bare"))
    {
        let zone = format!("    limit_req_zone $arg_k zone=keys:{ZONE_MB}m rate=1r/s;\n");
        let text = |port| {
            relayed::head(dir, port, &zone)
                + "        location / { empty_gif; limit_req zone=keys; }\n    }\n}\n"
        };
        let contender = options.contender(name)?;
        let mut running = Running::start_with(contender, text, dir, Some(options.server_core))?;
        running.note_processes()?;
        let before = usage::memory(&running.processes)?;
        let clock = Instant::now();
        send_keys(&running, keys)?;
        let after = usage::memory(&running.processes)?;
        let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
        table.0.push(vec![
            keys.to_string(),
            name.clone(),
            format!("{ZONE_MB} MB"),
            megabytes(before),
            megabytes(after),
            format!("{:.0}", clock.elapsed().as_secs_f64()),
        ]);
    }
    table.print();
    Ok(())
}

/// Requests on one connection, each with another key; every response must be a good one.
fn send_keys(running: &Running, keys: u64) -> Result<()> {
    let mut stream = TcpStream::connect(running.address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let (mut requests, mut buffer) = (String::new(), vec![0; 1 << 17]);
    let mut sent = 0;
    while sent < keys {
        requests.clear();
        let until = (sent + BATCH).min(keys);
        for key in sent..until {
            // Numbers in no order, all of the same length.
            let key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let _ = write!(requests, "GET /?k={key:016x} HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        stream.write_all(requests.as_bytes())?;
        let mut answered = 0;
        let mut kept = 0;
        while answered < until - sent {
            let read = stream.read(&mut buffer[kept..])?;
            ensure!(read > 0, "the connection was closed after {sent} requests");
            let bytes = &buffer[..kept + read];
            answered += count(bytes, b"HTTP/1.1 200 ");
            ensure!(count(bytes, b"HTTP/1.1 503 ") == 0, "a new key was refused");
            // The beginning of a status line may be at the end.
            let tail = bytes.len().saturating_sub(b"HTTP/1.1 200".len());
            let rest = bytes[tail..].to_vec();
            kept = rest.len();
            buffer[..kept].copy_from_slice(&rest);
        }
        sent = until;
    }
    Ok(())
}

fn count(bytes: &[u8], text: &[u8]) -> u64 {
    let places = bytes.windows(text.len()).filter(|window| *window == text);
    places.count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bare_case_has_no_rules() {
        let text = |case, is_bare| configuration(Path::new("/d"), 80, case, is_bare);
        assert!(text("rules", false).matches("allow ").count() >= NETWORKS / 2);
        assert!(!text("rules", true).contains("limit_req"));
        assert_eq!(text("rules", true), text("filters", true));
        assert!(text("filters", false).contains("sub_filter"));
    }
}
