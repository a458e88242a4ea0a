//! A zone of the cache that is full: of a million entries (`million`; GANNET_BENCH_ENTRIES=N for others), or of all that
//! `max_size` lets in while more comes (`limit`). The clients compare every byte.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use crate::cache::{KEPT, empty, origin};
use crate::cases;
use crate::check::Client;
use crate::options::Options;
use crate::relayed;
use crate::report::Table;
use crate::server::{self, Running};
use crate::side_by_side::Workspace;
use crate::usage::{self, CpuTime};

const ENTRIES: u64 = 1_000_000;
const BODY_BYTES: usize = 1 << 10;
/// Clients with a connection each.
const CLIENTS: usize = 32;
/// A clean stop may take as long as the server lets it.
const FIRST_HIT_MAX: Duration = Duration::from_secs(2);

/// What `limit` is told to keep, and the bodies that come.
const LIMIT_BYTES: u64 = 64 << 20;
const LIMIT_BODY: usize = 10 << 10;
const LOOK_EVERY: Duration = Duration::from_millis(200);
const LIMIT_EXCESS: f64 = 0.05;

fn entries() -> u64 {
    let told = std::env::var("GANNET_BENCH_ENTRIES").ok();
    told.and_then(|text| text.parse().ok()).unwrap_or(ENTRIES)
}

fn configuration(dir: &Path, port: u16, origin: u16, limits: &str) -> String {
    let zone = format!(
        "    sendfile on;
    proxy_cache_path {}/{KEPT} levels=1:2 keys_zone=kept:256m inactive=1d use_temp_path=off {limits};",
        dir.display()
    );
    relayed::head(dir, port, &zone)
        + &format!(
            "        location / {{
            proxy_pass http://127.0.0.1:{origin};
            proxy_cache kept;
            proxy_cache_valid 200 1d;
        }}
    }}
}}
"
        )
}

/// Has clients ask for paths until `next` has no more, and checks what they get; how many there were.
fn ask(address: SocketAddr, body: &[u8], next: impl Fn() -> Option<u64> + Sync) -> Result<u64> {
    let count = AtomicU64::new(0);
    let client = || -> Result<()> {
        let mut client = Client::connect(address)?;
        while let Some(number) = next() {
            client.fetch_path(&format!("/k/{number}"), body, false)?;
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    scope(|threads| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| threads.spawn(client)).collect();
        clients.into_iter().try_for_each(|client| {
            client
                .join()
                .map_err(|_| anyhow!("a client has panicked"))?
        })
    })?;
    Ok(count.into_inner())
}

/// Asks once for each number below `count`.
fn ask_all(address: SocketAddr, body: &[u8], count: u64) -> Result<u64> {
    let next = AtomicU64::new(0);
    ask(address, body, || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        (number < count).then_some(number)
    })
}

/// Asks for one of the numbers below `count`, again and again, spread over all of them.
fn ask_for(address: SocketAddr, body: &[u8], count: u64, duration: Duration) -> Result<u64> {
    let (start, turn) = (Instant::now(), AtomicU64::new(1));
    ask(address, body, || {
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        // The golden ratio's multiples come near every number once before they come near one twice.
        let number = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (start.elapsed() < duration).then_some((number * count) >> 32)
    })
}

struct Many {
    server: String,
    stored_us: f64,
    stored_per_second: f64,
    bytes_per_entry: f64,
    first_hit: Duration,
    hit_us: f64,
    bytes_after_start: u64,
}

pub fn many(options: &Options) -> Result<()> {
    let count = entries();
    server::pin(options.load_core)?;
    let mut rows = Vec::new();
    for name in &options.servers {
        rows.push(fill(name, count, options).with_context(|| name.clone())?);
    }
    println!("{count} entries of {BODY_BYTES} bytes in one zone:\n");
    let mut table = Table::new(&[
        "server",
        "CPU µs/entry stored",
        "stored/s",
        "memory: bytes/entry",
        "start to first hit",
        "CPU µs/hit",
        "memory after that, MB",
    ]);
    for row in &rows {
        table.0.push(vec![
            row.server.clone(),
            format!("{:.1}", row.stored_us),
            format!("{:.0}", row.stored_per_second),
            format!("{:.0}", row.bytes_per_entry),
            format!("{:.0} ms", row.first_hit.as_secs_f64() * 1e3),
            format!("{:.2}", row.hit_us),
            format!("{:.0}", row.bytes_after_start as f64 / 1e6),
        ]);
    }
    table.print();
    let late = rows.iter().any(|row| row.first_hit > FIRST_HIT_MAX);
    let outcome = if late { "NO" } else { "yes" };
    println!(
        "First hit within {} s: {outcome}\n",
        FIRST_HIT_MAX.as_secs()
    );
    Ok(())
}

fn fill(name: &str, count: u64, options: &Options) -> Result<Many> {
    let workspace = Workspace::create()?;
    let dir = &workspace.dir;
    empty(dir)?;
    let contender = options.contender(name)?;
    let core = Some(options.server_core);
    let body = cases::body(BODY_BYTES);
    let origin = origin(options, dir, BODY_BYTES)?;
    let origin_port = origin.address.port();
    let start = || {
        let text = |port| configuration(dir, port, origin_port, "memory=64m");
        let plain = |port| text(port).replace(" memory=64m", "");
        match name {
            "nginx" => Running::start_with(contender, plain, dir, core),
            _ => Running::start_with(contender, text, dir, core),
        }
    };
    let mut running = start()?;
    ask_all(running.address, &body, 1)?;
    running.note_processes()?;
    let memory_before = usage::memory(&running.processes)?;
    let (before, clock) = (CpuTime::of(&running.processes)?, Instant::now());
    let stored = ask_all(running.address, &body, count)?;
    let elapsed = clock.elapsed().as_secs_f64();
    let stored_cpu = CpuTime::of(&running.processes)?.since(&before)?;
    let grown = usage::memory(&running.processes)?.saturating_sub(memory_before);
    eprintln!("{name}: {stored} stored in {elapsed:.0} s");
    drop(running);
    // From here on there is only what is kept.
    drop(origin);
    let clock = Instant::now();
    let mut running = start()?;
    Client::connect(running.address)?.fetch_path(&format!("/k/{}", count / 2), &body, false)?;
    let first_hit = clock.elapsed();
    eprintln!("{name}: first hit after {} ms", first_hit.as_millis());
    ask_for(running.address, &body, count, options.duration())?;
    running.note_processes()?;
    let before = CpuTime::of(&running.processes)?;
    let hits = ask_for(running.address, &body, count, options.duration())?;
    let hit_cpu = CpuTime::of(&running.processes)?.since(&before)?;
    Ok(Many {
        server: name.to_owned(),
        stored_us: stored_cpu.as_secs_f64() * 1e6 / stored as f64,
        stored_per_second: stored as f64 / elapsed,
        bytes_per_entry: grown as f64 / count as f64,
        first_hit,
        hit_us: hit_cpu.as_secs_f64() * 1e6 / hits.max(1) as f64,
        bytes_after_start: usage::memory(&running.processes)?,
    })
}

pub fn limited(options: &Options) -> Result<()> {
    server::pin(options.load_core)?;
    let mut table = Table::new(&[
        "server",
        "entries stored/s",
        "of max_size: least",
        "most",
        "at the end",
        "within 5 %",
    ]);
    for name in &options.servers {
        let workspace = Workspace::create()?;
        let (rate, looks) = overfill(name, options, &workspace.dir)?;
        let share = |bytes: u64| bytes as f64 / LIMIT_BYTES as f64;
        // Before the limit is near, nothing has to go.
        let reached = looks.iter().position(|bytes| share(*bytes) >= 0.95);
        let reached = reached
            .with_context(|| format!("{name} never reached its max_size: give more --seconds"))?;
        let after: Vec<f64> = looks[reached..].iter().map(|bytes| share(*bytes)).collect();
        let most = after.iter().copied().fold(0.0, f64::max);
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        table.0.push(vec![
            name.clone(),
            format!("{rate:.0}"),
            percent(after.iter().copied().fold(f64::INFINITY, f64::min)),
            percent(most),
            percent(after.last().copied().unwrap_or_default()),
            if most <= 1.0 + LIMIT_EXCESS {
                "yes"
            } else {
                "NO"
            }
            .to_owned(),
        ]);
    }
    table.print();
    Ok(())
}

/// Stores more than there is room for; entries a second, and the bytes on the disk at each look.
fn overfill(name: &str, options: &Options, dir: &Path) -> Result<(f64, Vec<u64>)> {
    empty(dir)?;
    let body = cases::body(LIMIT_BODY);
    let origin = origin(options, dir, LIMIT_BODY)?;
    let limits = format!("max_size={LIMIT_BYTES}");
    let text = |port| configuration(dir, port, origin.address.port(), &limits);
    let core = Some(options.server_core);
    let running = Running::start_with(options.contender(name)?, text, dir, core)?;
    let (start, next) = (Instant::now(), AtomicU64::new(0));
    // Three times what there is room for, however short a measurement is asked for.
    let least = 3 * LIMIT_BYTES / LIMIT_BODY as u64;
    let more = |number| start.elapsed() < options.duration() || number < least;
    let mut looks = Vec::new();
    let stored = scope(|threads| {
        let asking = threads.spawn(|| {
            ask(running.address, &body, || {
                let number = next.fetch_add(1, Ordering::Relaxed);
                more(number).then_some(number)
            })
        });
        while !asking.is_finished() {
            sleep(LOOK_EVERY);
            looks.push(disk_bytes(&dir.join(KEPT)));
        }
        asking.join().map_err(|_| anyhow!("the clients panicked"))?
    })?;
    let errors = running.errors();
    ensure!(errors.is_empty(), "the error log says:\n{errors}");
    Ok((stored as f64 / start.elapsed().as_secs_f64(), looks))
}

/// What the files below a directory take up; what goes meanwhile counts for nothing.
fn disk_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => disk_bytes(&entry.path()),
        Ok(data) => data.blocks() * 512,
        Err(_) => 0,
    });
    sizes.sum()
}
