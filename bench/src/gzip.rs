//! `gzip`: files compressed on the fly, level by level: CPU per response and bytes, beside nginx. Gannet is measured twice:
//! without its memory of bodies seen before (`each`), and as it is configured by default (`again`).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::coded::Client;
use crate::options::{Bench, Options};
use crate::server::{self, Contender, Running};
use crate::side_by_side::{Workspace, turns};
use crate::usage::CpuTime;

pub const BENCH: Bench = Bench {
    name: "gzip",
    cases: &["1", "2", "3", "4", "5", "6", "7", "8", "9"],
    servers: &["nginx", "each", "again"],
    seconds: 2,
    rounds: 5,
    quick: (1, 1),
};

/// Files that are compressed where `GANNET_BENCH_FILES` names no directory: texts of this repository.
const OWN_FILES: &[&str] = &[
    "docs/directives.md",
    "crates/server/src/config/inventory.tsv",
    "Cargo.lock",
    "ARCHITECTURE.md",
];
const FILES_MAX: usize = 8;

/// What one server made of one file at one level.
struct Row {
    level: String,
    file: String,
    server: String,
    bytes: usize,
    cpu_us: Vec<f64>,
}

pub fn run(options: &Options) -> Result<()> {
    server::pin(options.load_core)?;
    let workspace = Workspace::create()?;
    let files = files()?;
    fs::create_dir_all(workspace.dir.join("www"))?;
    for file in &files {
        let name = file.file_name().context("a file has a name")?;
        fs::copy(file, workspace.dir.join("www").join(name))?;
    }
    let mut rows: Vec<Row> = Vec::new();
    for level in &options.cases {
        for round in 1..=options.rounds {
            for turn in turns(round, options.servers.len()) {
                let name = &options.servers[turn];
                measure(name, level, options, &workspace.dir, &files, &mut rows)
                    .with_context(|| format!("{name}, level {level}"))?;
            }
        }
    }
    print!("{}", table(options, &rows));
    Ok(())
}

pub fn files() -> Result<Vec<PathBuf>> {
    if let Some(directory) = std::env::var_os("GANNET_BENCH_FILES") {
        let mut files = Vec::new();
        for entry in fs::read_dir(directory)? {
            files.push(entry?.path());
        }
        files.sort();
        files.truncate(FILES_MAX);
        return Ok(files);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    Ok(OWN_FILES.iter().map(|file| root.join(file)).collect())
}

fn configuration(dir: &Path, port: u16, level: &str, own: &str) -> String {
    let dir = dir.display();
    format!(
        "daemon off;
worker_processes 1;
pid {dir}/server.pid;
error_log {dir}/error.log;
events {{ }}
http {{
    types {{ }}
    default_type text/html;
    access_log off;
    sendfile on;
    keepalive_requests 1000000000;
    gzip on;
    gzip_comp_level {level};
    {own}
    server {{
        listen 127.0.0.1:{port};
        root {dir}/www;
    }}
}}
"
    )
}

fn measure(
    name: &str,
    level: &str,
    options: &Options,
    dir: &Path,
    files: &[PathBuf],
    rows: &mut Vec<Row>,
) -> Result<()> {
    let (contender, own): (&Contender, &str) = match name {
        "each" => (options.contender("gannet")?, "compression_cache off;"),
        "again" => (options.contender("gannet")?, ""),
        name => (options.contender(name)?, ""),
    };
    let text = |port| configuration(dir, port, level, own);
    let mut running = Running::start_with(contender, text, dir, Some(options.server_core))?;
    let share = options.duration() / u32::try_from(files.len())?;
    for file in files {
        let path = file.file_name().unwrap_or_default().to_string_lossy();
        let mut client = Client::connect(running.address)?;
        for _ in 0..5 {
            client.fetch(&path, "gzip")?;
        }
        running.note_processes()?;
        let before = CpuTime::of(&running.processes)?;
        let (start, mut count, mut bytes) = (Instant::now(), 0_u32, 0);
        while start.elapsed() < share {
            bytes = client.fetch(&path, "gzip")?;
            count += 1;
        }
        let cpu = CpuTime::of(&running.processes)?.since(&before)?;
        let cpu_us = cpu.as_secs_f64() * 1e6 / f64::from(count.max(1));
        let same = |row: &&mut Row| row.level == level && row.file == path && row.server == name;
        match rows.iter_mut().find(same) {
            Some(row) => row.cpu_us.push(cpu_us),
            None => rows.push(Row {
                level: level.to_owned(),
                file: path.to_string(),
                server: name.to_owned(),
                bytes,
                cpu_us: vec![cpu_us],
            }),
        }
    }
    ensure!(running.errors().is_empty(), "{}", running.errors());
    Ok(())
}

pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A line a level: for each server the CPU of all files together and the bytes, each beside the first server's.
fn table(options: &Options, rows: &[Row]) -> String {
    let mut text = String::from("| level |");
    for server in &options.servers {
        // Writing to a string does not fail.
        let _ = write!(text, " {server}: us | ratio | bytes | ratio | worst file |");
    }
    text.push_str("\n| ---: |");
    text.push_str(&" ---: | ---: | ---: | ---: | ---: |".repeat(options.servers.len()));
    for level in &options.cases {
        let _ = write!(text, "\n| {level} |");
        let of = |server: &str| -> Vec<&Row> {
            let mine = |row: &&Row| row.level == *level && row.server == server;
            rows.iter().filter(mine).collect()
        };
        let first = of(&options.servers[0]);
        for server in &options.servers {
            let mine = of(server);
            let cpu = |rows: &[&Row]| rows.iter().map(|row| median(&row.cpu_us)).sum::<f64>();
            let bytes = |rows: &[&Row]| rows.iter().map(|row| row.bytes).sum::<usize>() as f64;
            let pairs = mine.iter().zip(&first);
            let worst = pairs
                .map(|(row, first)| row.bytes as f64 / first.bytes as f64)
                .fold(0.0, f64::max);
            let _ = write!(
                text,
                " {:.0} | {:.2} | {:.0} | {:.3} | {worst:.3} |",
                cpu(&mine),
                cpu(&mine) / cpu(&first),
                bytes(&mine),
                bytes(&mine) / bytes(&first),
            );
        }
    }
    text.push('\n');
    text
}
