//! `cache`: what a response costs that is kept (`proxy-1k` and kin: the server behind is stopped before the load), the
//! gallery's users before `fastcgi_cache` (`gallery`), a zone of many entries (`million`), and how well `max_size` is held
//! while entries keep coming (`limit`); each beside nginx with the same directives.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::cache_zone;
use crate::cases;
use crate::check::Client;
use crate::gallery::{self, Site};
use crate::gallery_report;
use crate::options::{Bench, Options};
use crate::php::{Fpm, Pool};
use crate::relayed::{self, Load, Sample};
use crate::report::Table;
use crate::server::{self, Running};
use crate::side_by_side::{Workspace, turns};
use crate::targets::SUBJECT;
use crate::wrk::Requests;

pub const BENCH: Bench = Bench {
    name: "cache",
    cases: &[
        "proxy-1k",
        "proxy-10k",
        "proxy-100k",
        "fastcgi-1k",
        "fastcgi-10k",
        "fastcgi-100k",
        GALLERY,
        "million",
        "limit",
    ],
    servers: &["nginx", "gannet"],
    seconds: 3,
    rounds: 5,
    quick: (1, 2),
};
const GALLERY: &str = "gallery";

/// Connections that ask for one kept response.
const CONNECTIONS: usize = 64;
const SIZES: [(&str, &str, usize); 3] = [
    ("proxy-1k", "fastcgi-1k", 1 << 10),
    ("proxy-10k", "fastcgi-10k", 10 << 10),
    ("proxy-100k", "fastcgi-100k", 100 << 10),
];
/// The directory of a zone, below the workspace.
pub const KEPT: &str = "kept";
/// As many as in the gallery's own measurement.
const CHILDREN: usize = 6;

pub fn run(options: &Options) -> Result<()> {
    hits(options)?;
    if options.case(GALLERY) {
        visited(options)?;
    }
    if options.case("million") {
        cache_zone::many(options)?;
    }
    if options.case("limit") {
        cache_zone::limited(options)?;
    }
    Ok(())
}

/// CPU per hit, by size and family.
fn hits(options: &Options) -> Result<()> {
    let mut rows = Vec::new();
    let workspace = Workspace::create()?;
    let everywhere = rustix::thread::sched_getaffinity(None)?;
    server::pin(options.load_core)?;
    for (proxy, fastcgi, size) in SIZES {
        for (case, is_proxy) in [(proxy, true), (fastcgi, false)] {
            if options.case(case) {
                let hit = Hit {
                    options,
                    dir: &workspace.dir,
                    size,
                    is_proxy,
                };
                rows.extend(relayed::alternate(case, options, |name| hit.measure(name))?);
            }
        }
    }
    rustix::thread::sched_setaffinity(None, &everywhere)?;
    if rows.is_empty() {
        return Ok(());
    }
    if options.markdown {
        relayed::circumstances(options)?;
        let text = configuration("DIR".as_ref(), 8080, &pass(Some(8081), "DIR".as_ref()));
        println!("With `proxy_cache`; `fastcgi_cache` likewise:\n\n```nginx\n{text}```\n");
    }
    relayed::print(&rows)
}

struct Hit<'a> {
    options: &'a Options,
    dir: &'a Path,
    size: usize,
    is_proxy: bool,
}

impl Hit<'_> {
    fn measure(&self, name: &str) -> Result<Sample> {
        empty(self.dir)?;
        let body = cases::body(self.size);
        let load = Load {
            requests: Requests {
                path: cases::url_path(self.size),
                connections: CONNECTIONS,
                close: false,
            },
            body: &body,
        };
        let options = self.options;
        let contender = options.contender(name)?;
        let core = Some(options.server_core);
        let start = |pass: &str| {
            let text = |port| configuration(self.dir, port, pass);
            Running::start_with(contender, text, self.dir, core)
        };
        // What comes behind is gone before the load: what is answered is kept.
        let mut running = if self.is_proxy {
            let origin = origin(options, self.dir, self.size)?;
            let running = start(&pass(Some(origin.address.port()), self.dir))?;
            fetch(&running, &load)?;
            running
        } else {
            let www = self.dir.join("www");
            fs::create_dir_all(&www)?;
            fs::write(www.join("body"), &body)?;
            let script =
                "<?php\nheader('Content-Length: ' . filesize('body'));\nreadfile('body');\n";
            fs::write(www.join("body.php"), script)?;
            let fpm = Fpm::start(&Pool::of_static(1), self.dir, core)?;
            let running = start(&pass(None, self.dir))?;
            fetch(&running, &load)?;
            drop(fpm);
            running
        };
        relayed::measure(&mut running, None, &load, options, self.dir)
    }
}

fn fetch(running: &Running, load: &Load) -> Result<()> {
    let mut client = Client::connect(running.address)?;
    for _ in 0..2 {
        client.fetch_path(&load.requests.path, load.body, false)?;
    }
    Ok(())
}

/// A server of one prebuilt response, on the core of the load.
pub fn origin(options: &Options, dir: &Path, size: usize) -> Result<Running> {
    let dir = dir.join("origin");
    fs::create_dir_all(&dir)?;
    let mut case = cases::all()
        .into_iter()
        .find(|case| case.name == "1k")
        .context("no such case")?;
    case.size = size;
    cases::write_bodies(&dir, [size].into_iter())?;
    Running::start(options.contender("floor")?, &case, &dir, options.load_core)
}

/// Nothing is kept any more.
pub fn empty(dir: &Path) -> Result<()> {
    let kept = dir.join(KEPT);
    if kept.exists() {
        fs::remove_dir_all(kept)?;
    }
    Ok(())
}

/// A location that keeps what a port answers; or a script.
fn pass(port: Option<u16>, dir: &Path) -> String {
    let dir = dir.display();
    match port {
        Some(port) => format!(
            "            proxy_pass http://127.0.0.1:{port};
            proxy_cache kept;
            proxy_cache_valid 200 1h;
"
        ),
        None => format!(
            "            fastcgi_pass unix:{dir}/php-fpm.sock;
            fastcgi_param SCRIPT_FILENAME {dir}/www/body.php;
            fastcgi_param REQUEST_METHOD GET;
            fastcgi_cache kept;
            fastcgi_cache_key $request_uri;
            fastcgi_cache_valid 200 1h;
"
        ),
    }
}

fn configuration(dir: &Path, port: u16, pass: &str) -> String {
    let family = if pass.contains("proxy_pass") {
        "proxy"
    } else {
        "fastcgi"
    };
    let zone = format!(
        "    sendfile on;
    tcp_nopush on;
    {family}_cache_path {}/{KEPT} levels=1:2 keys_zone=kept:10m use_temp_path=off;",
        dir.display()
    );
    relayed::head(dir, port, &zone) + "        location / {\n" + pass + "        }\n    }\n}\n"
}

/// The gallery's users, who find what PHP made for those before them.
fn visited(options: &Options) -> Result<()> {
    let workspace = Workspace::create()?;
    let mut site = Site::create(&workspace.dir)?;
    site.configuration = with_cache(&site.configuration, &workspace.dir);
    let row = |server: &String| gallery::Row {
        case: GALLERY,
        pool: Pool::of_static(CHILDREN),
        server: server.clone(),
        samples: Vec::new(),
    };
    let mut rows: Vec<gallery::Row> = options.servers.iter().map(row).collect();
    for round in 1..=options.rounds {
        for turn in turns(round, rows.len()) {
            empty(&workspace.dir)?;
            let row = &mut rows[turn];
            let sample = site
                .measure(row, options)
                .with_context(|| row.server.clone())?;
            let line = gallery_report::line(&sample);
            eprintln!("{GALLERY} round {round} {}: {line}", row.server);
            row.samples.push(sample);
        }
    }
    let mut table = Table::new(&["server", "requests/s", "failed", "p50 ms", "p95 ms"]);
    for row in &rows {
        let median = |value: fn(&gallery::Sample) -> f64| {
            crate::report::Spread::of(row.samples.iter().map(value)).median
        };
        let failed: u64 = row.samples.iter().map(|sample| sample.seen.failed()).sum();
        table.0.push(vec![
            row.server.clone(),
            format!("{:.1}", median(|sample| sample.seen.rate)),
            failed.to_string(),
            format!("{:.2}", median(|sample| sample.seen.p50_ms)),
            format!("{:.2}", median(|sample| sample.seen.p95_ms)),
        ]);
    }
    table.print();
    let p50 = |name: &str| {
        let row = rows.iter().find(|row| row.server == name)?;
        let values = row.samples.iter().map(|sample| sample.seen.p50_ms);
        Some(crate::report::Spread::of(values).median)
    };
    if let (Some(own), Some(nginx)) = (p50(SUBJECT), p50("nginx")) {
        let outcome = if own <= nginx { "yes" } else { "NO" };
        println!("p50 at most nginx's ({own:.2} ms, {nginx:.2} ms): {outcome}\n");
    }
    Ok(())
}

/// The gallery's configuration with the directives that published guides add.
fn with_cache(text: &str, dir: &Path) -> String {
    let path = format!(
        "http {{\n    fastcgi_cache_path {}/{KEPT} levels=1:2 keys_zone=pages:10m inactive=60m use_temp_path=off;\n",
        dir.display()
    );
    text.replace("http {\n", &path).replace(
        "            fastcgi_intercept_errors off;\n",
        "            fastcgi_intercept_errors off;
            fastcgi_cache pages;
            fastcgi_cache_key \"$scheme$request_method$host$request_uri\";
            fastcgi_cache_valid 200 60m;
            fastcgi_cache_lock on;
            fastcgi_ignore_headers Cache-Control Expires Set-Cookie;
",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gallery_is_kept() {
        let text = include_str!("../../examples/gallery/nginx.conf");
        let kept = with_cache(text, Path::new("/d"));
        for part in ["fastcgi_cache_path /d/kept ", "fastcgi_cache pages;"] {
            assert!(kept.contains(part), "{part} is not in\n{kept}");
        }
    }

    #[test]
    fn families_have_their_own_directives() {
        let dir = Path::new("/d");
        let proxy = configuration(dir, 80, &pass(Some(81), dir));
        assert!(proxy.contains("proxy_cache_path /d/kept") && !proxy.contains("fastcgi"));
        let fastcgi = configuration(dir, 80, &pass(None, dir));
        assert!(fastcgi.contains("fastcgi_cache_path /d/kept") && !fastcgi.contains("proxy"));
    }
}
