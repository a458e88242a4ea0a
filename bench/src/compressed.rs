//! `compressed`: what compression costs where a body comes again (`repeated`), where copies are made ahead (`ahead`), and
//! what a large download that is compressed on the fly costs others on its thread (`p99`); each beside nginx.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::coded::Client;
use crate::gzip::{files, median};
use crate::options::{Bench, Options};
use crate::server::{self, Running};
use crate::side_by_side::{Workspace, turns};
use crate::usage::CpuTime;

pub const BENCH: Bench = Bench {
    name: "compressed",
    cases: &["repeated", "ahead", "p99"],
    servers: &["nginx", "gannet"],
    seconds: 4,
    rounds: 3,
    quick: (1, 1),
};

/// How long copies may take to be made.
const COPIES_MAX: Duration = Duration::from_secs(120);
/// The body that is downloaded beside small requests.
const LARGE_BYTES: usize = 200 << 20;
const SMALL_BYTES: usize = 1000;
/// Between two small requests.
const PAUSE: Duration = Duration::from_millis(1);

pub fn run(options: &Options) -> Result<()> {
    server::pin(options.load_core)?;
    let workspace = Workspace::create()?;
    let root = workspace.dir.join("www");
    fs::create_dir_all(&root)?;
    let mut names = Vec::new();
    for file in files()? {
        let name = file.file_name().context("a file has a name")?.to_owned();
        fs::copy(&file, root.join(&name))?;
        names.push(name.to_string_lossy().into_owned());
    }
    let bench = Comparison {
        options,
        dir: &workspace.dir,
        names: &names,
    };
    if options.case("repeated") {
        bench.repeated()?;
    }
    if options.case("ahead") {
        bench.ahead()?;
    }
    if options.case("p99") {
        bench.p99()?;
    }
    Ok(())
}

struct Comparison<'a> {
    options: &'a Options,
    dir: &'a Path,
    names: &'a [String],
}

fn configuration(dir: &Path, port: u16, http: &str, server: &str) -> String {
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
    {http}
    server {{
        listen 127.0.0.1:{port};
        root {dir}/www;
        {server}
    }}
}}
"
    )
}

impl Comparison<'_> {
    /// Runs what `text` configures, the servers taking turns; the microseconds of CPU for a response of each file, summed,
    /// by server, and the bytes of the bodies.
    fn compare(
        &self,
        coding: &str,
        ready: impl Fn(&str, &mut Client) -> Result<()>,
        text: impl Fn(&str, u16) -> String,
    ) -> Result<Vec<(String, f64, usize)>> {
        let servers = &self.options.servers;
        let mut cpu: Vec<Vec<f64>> = vec![Vec::new(); servers.len()];
        let mut bytes = vec![0; servers.len()];
        for round in 1..=self.options.rounds {
            for turn in turns(round, servers.len()) {
                let name = &servers[turn];
                let contender = self.options.contender(name)?;
                let core = Some(self.options.server_core);
                let mut running =
                    Running::start_with(contender, |port| text(name, port), self.dir, core)?;
                let mut client = Client::connect(running.address)?;
                ready(name, &mut client)?;
                // A worker that answers is there to be counted.
                for file in self.names {
                    client.fetch(file, coding)?;
                }
                running.note_processes()?;
                let (mut sum, mut all) = (0.0, 0);
                let share = self.options.duration() / u32::try_from(self.names.len())?;
                for file in self.names {
                    for _ in 0..5 {
                        client.fetch(file, coding)?;
                    }
                    let before = CpuTime::of(&running.processes)?;
                    let (start, mut count, mut length) = (Instant::now(), 0_u32, 0);
                    while start.elapsed() < share {
                        length = client.fetch(file, coding)?;
                        count += 1;
                    }
                    let used = CpuTime::of(&running.processes)?.since(&before)?;
                    sum += used.as_secs_f64() * 1e6 / f64::from(count.max(1));
                    all += length;
                }
                cpu[turn].push(sum);
                bytes[turn] = all;
            }
        }
        let rows = servers.iter().zip(cpu).zip(bytes);
        Ok(rows
            .map(|((name, cpu), bytes)| (name.clone(), median(&cpu), bytes))
            .collect())
    }

    /// Pages of an upstream that nobody keeps, each asked for again and again: at nginx's default level and at 6.
    fn repeated(&self) -> Result<()> {
        let origin_dir = self.dir.join("origin");
        fs::create_dir_all(&origin_dir)?;
        std::os::unix::fs::symlink(self.dir.join("www"), origin_dir.join("www"))?;
        let origin = Running::start_with(
            self.options.contender("nginx")?,
            |port| configuration(&origin_dir, port, "etag off;", "if_modified_since off;"),
            &origin_dir,
            Some(self.options.load_core),
        )?;
        println!("| level | server | us | ratio |\n| ---: | --- | ---: | ---: |");
        for level in [1, 6] {
            let http = format!(
                "gzip on; gzip_comp_level {level};\n    upstream pages {{ server 127.0.0.1:{}; keepalive 16; }}",
                origin.address.port()
            );
            let server = "location / { proxy_pass http://pages; proxy_http_version 1.1; proxy_set_header Connection \"\"; \
                          proxy_set_header Accept-Encoding \"\"; proxy_buffers 64 16k; }";
            let text = |_: &str, port| configuration(self.dir, port, &http, server);
            let rows = self.compare("gzip", |_, _| Ok(()), text)?;
            for (name, cpu, _) in &rows {
                println!("| {level} | {name} | {cpu:.0} | {:.2} |", cpu / rows[0].1);
            }
        }
        println!();
        Ok(())
    }

    /// Copies made ahead: nginx has those of `gzip -9`, Gannet makes its own.
    fn ahead(&self) -> Result<()> {
        let mut least = 0;
        for name in self.names {
            let path = self.dir.join("www").join(name);
            let status = Command::new("gzip")
                .args(["-9", "-k", "-f"])
                .arg(&path)
                .status()?;
            ensure!(status.success(), "gzip failed");
            least += usize::try_from(fs::metadata(format!("{}.gz", path.display()))?.len())?;
        }
        let text = |name: &str, port| {
            let own = match name {
                "nginx" => "gzip_static on;",
                _ => {
                    "precompress on; precompress_store copies; precompress_scan on; precompress_types *;"
                }
            };
            configuration(self.dir, port, "", own)
        };
        println!(
            "| coding | server | us | ratio | bytes | of gzip -9 |\n| --- | --- | ---: | ---: | ---: | ---: |"
        );
        let mut first = f64::NAN;
        for coding in ["gzip", "br"] {
            // nginx has no copies in brotli here: its gzip is what both are compared with.
            let asked = |name: &str| if name == "nginx" { "gzip" } else { coding };
            let mut rows = Vec::new();
            for server in self.options.servers.clone() {
                if coding == "br" && server == "nginx" {
                    continue;
                }
                let mut alone = self.options.clone();
                alone.servers = vec![server.clone()];
                let bench = Comparison {
                    options: &alone,
                    ..*self
                };
                rows.extend(bench.compare(
                    asked(&server),
                    |name, client| self.await_copies(name, client),
                    text,
                )?);
            }
            for (name, cpu, bytes) in &rows {
                if first.is_nan() {
                    first = *cpu;
                }
                let (ratio, share) = (cpu / first, *bytes as f64 / least as f64);
                println!("| {coding} | {name} | {cpu:.1} | {ratio:.2} | {bytes} | {share:.3} |");
            }
        }
        println!();
        Ok(())
    }

    /// Until there are copies of all files in all codings, so that nothing is made while it is measured.
    fn await_copies(&self, server: &str, client: &mut Client) -> Result<()> {
        if server == "nginx" {
            return Ok(());
        }
        let deadline = Instant::now() + COPIES_MAX;
        let each = |coding| self.names.iter().map(move |name| (name, coding));
        for (name, coding) in ["gzip", "br", "zstd"].into_iter().flat_map(each) {
            loop {
                // Until there is a copy, it may come in no coding at all.
                let came = client.fetch(name, coding);
                if came.is_ok() && client.is_copy {
                    break;
                }
                if came.is_err() {
                    *client = Client::connect(client.address)?;
                }
                ensure!(Instant::now() < deadline, "no copy of {name} in {coding}");
                sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Small requests, alone and beside a download that is compressed at level 9.
    fn p99(&self) -> Result<()> {
        self.write_large()?;
        println!(
            "| server | p99 alone ms | p99 beside ms | more ms |\n| --- | ---: | ---: | ---: |"
        );
        for name in &self.options.servers {
            let text = |port| configuration(self.dir, port, "gzip on; gzip_comp_level 9;", "");
            let contender = self.options.contender(name)?;
            let running =
                Running::start_with(contender, text, self.dir, Some(self.options.server_core))?;
            let alone = small(&running, self.options.duration(), &AtomicBool::new(true))?;
            let (under_way, address) = (AtomicBool::new(true), running.address);
            let beside = std::thread::scope(|scope| {
                let large = scope.spawn(|| {
                    let mut client = Client::connect(address)?;
                    let came = client.fetch("large", "gzip");
                    under_way.store(false, Ordering::Relaxed);
                    came
                });
                let beside = small(&running, self.options.duration() * 5, &under_way);
                drop(running);
                let ended = large.join();
                ensure!(ended.is_ok(), "the download failed");
                beside
            })?;
            println!(
                "| {name} | {alone:.2} | {beside:.2} | {:.2} |",
                beside - alone
            );
        }
        Ok(())
    }

    fn write_large(&self) -> Result<PathBuf> {
        let path = self.dir.join("www/large");
        let mut text = Vec::new();
        for name in self.names {
            text.extend(fs::read(self.dir.join("www").join(name))?);
        }
        let mut all = text.repeat(LARGE_BYTES / text.len() + 1);
        all.truncate(LARGE_BYTES);
        fs::write(&path, all)?;
        fs::write(self.dir.join("www/small"), vec![b'x'; SMALL_BYTES])?;
        Ok(path)
    }
}

/// The 99th percentile of small requests in milliseconds, as long as something is under way, at most for a time.
fn small(running: &Running, time: Duration, under_way: &AtomicBool) -> Result<f64> {
    let mut client = Client::connect(running.address)?;
    let (start, mut samples) = (Instant::now(), Vec::new());
    while start.elapsed() < time && under_way.load(Ordering::Relaxed) {
        let asked = Instant::now();
        client.fetch("small", "identity")?;
        samples.push(asked.elapsed().as_secs_f64() * 1e3);
        sleep(PAUSE);
    }
    samples.sort_by(f64::total_cmp);
    let place = samples.len() * 99 / 100;
    samples
        .get(place)
        .copied()
        .context("no request was answered")
}
