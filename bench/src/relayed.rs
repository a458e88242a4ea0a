//! Answers that come from behind the server: `fastcgi` (a trivial PHP script) and `proxy` (a server of prebuilt responses
//! on kept connections). What the server itself uses and what PHP uses are told apart.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cases;
use crate::check::Client;
use crate::options::{Bench, Options};
use crate::php::{self, Fpm, Pool};
use crate::report::{self, Spread, Table};
use crate::server::{self, Contender, Running};
use crate::side_by_side::{SETTLE, WARM_UP, Workspace, turns};
use crate::targets::{self, Against, SUBJECT};
use crate::usage::{self, CpuTime};
use crate::verdict::{self, Verdict};
use crate::wrk::{self, Requests};

pub const FASTCGI: Bench = Bench {
    name: "fastcgi",
    cases: &["script"],
    servers: &["nginx", "nginx-kept", "gannet", "gannet-fpm"],
    seconds: 5,
    rounds: 5,
    quick: (1, 2),
};
pub const PROXY: Bench = Bench {
    name: "proxy",
    cases: &["1k", "100k"],
    servers: &["nginx", "gannet"],
    seconds: 3,
    rounds: 5,
    quick: (1, 2),
};

/// The children of every pool, and the connections of wrk: PHP is never waited for.
const CHILDREN: usize = 8;
const SCRIPT_BODY: &[u8] = b"Hello from PHP\n";
/// As many as are kept open to the server behind.
const PROXY_CONNECTIONS: usize = 64;

/// One measurement, in microseconds of CPU per request.
pub struct Sample {
    pub server_us: f64,
    php_us: f64,
    requests_per_second: f64,
    p99_us: u64,
    others_share: f64,
}

pub struct Row {
    pub case: &'static str,
    pub server: String,
    samples: Vec<Sample>,
}

impl Row {
    pub fn values(&self, value: impl Fn(&Sample) -> f64) -> Vec<f64> {
        self.samples.iter().map(value).collect()
    }

    pub fn spread(&self, value: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples.iter().map(value))
    }
}

impl Sample {
    pub fn rate(&self) -> f64 {
        self.requests_per_second
    }

    fn total_us(&self) -> f64 {
        self.server_us + self.php_us
    }
}

/// What is asked for, and what has to come back.
pub struct Load<'a> {
    pub requests: Requests,
    pub body: &'a [u8],
}

pub fn run_fastcgi(options: &Options) -> Result<()> {
    server::pin(options.load_core)?;
    let workspace = Workspace::create()?;
    let root = workspace.dir.join("www");
    fs::create_dir_all(&root)?;
    let hello = String::from_utf8_lossy(SCRIPT_BODY).trim_end().to_owned();
    let script = format!(
        "<?php\nheader('Content-Length: {}');\necho \"{hello}\\n\";\n",
        SCRIPT_BODY.len()
    );
    fs::write(root.join("hello.php"), script)?;
    let load = Load {
        requests: Requests {
            path: "/hello.php".to_owned(),
            connections: CHILDREN,
            close: false,
        },
        body: SCRIPT_BODY,
    };
    let rows = alternate("script", options, |name| {
        measure_script(name, &load, options, &workspace.dir)
    })?;
    if options.markdown {
        circumstances(options)?;
        let text = script_configuration("DIR".as_ref(), 8080, "unix:DIR/php-fpm.sock", false, "");
        println!(
            "nginx with php-fpm, `pm static` with {CHILDREN} children:\n\n```nginx\n{text}```\n"
        );
        println!(
            "gannet has `{}` and this in its http block:\n\n```nginx\n{}```\n",
            Pool::address(),
            Pool::of_static(CHILDREN).block()
        );
    }
    print(&rows)
}

pub fn run_proxy(options: &Options) -> Result<()> {
    server::pin(options.load_core)?;
    let workspace = Workspace::create()?;
    let origin_dir = workspace.dir.join("origin");
    fs::create_dir(&origin_dir)?;
    let mut rows = Vec::new();
    for (case, size) in [("1k", 1 << 10), ("100k", 100 << 10)] {
        if !options.case(case) {
            continue;
        }
        let mut origin_case = cases::all()
            .into_iter()
            .find(|other| other.name == case)
            .context("no such case")?;
        origin_case.connections = PROXY_CONNECTIONS;
        cases::write_bodies(&origin_dir, [size].into_iter())?;
        // The server behind shares the core of the load: its time is not counted.
        let origin = Running::start(
            options.contender("floor")?,
            &origin_case,
            &origin_dir,
            options.load_core,
        )?;
        let load = Load {
            requests: origin_case.requests(),
            body: &cases::body(size),
        };
        let port = origin.address.port();
        rows.extend(alternate(case, options, |name| {
            let contender = options.contender(name)?;
            measure_proxy(contender, &load, port, options, &workspace.dir)
        })?);
    }
    if options.markdown {
        circumstances(options)?;
        let text = proxy_configuration("DIR".as_ref(), 8080, 8081);
        println!(
            "The server behind is the bare loop of bench/src/floor.rs.\n\n```nginx\n{text}```\n"
        );
    }
    print(&rows)
}

pub fn circumstances(options: &Options) -> Result<()> {
    let programs = ["nginx", SUBJECT].map(|name| options.contender(name));
    let programs: Vec<&Contender> = programs.into_iter().collect::<Result<_>>()?;
    report::print_machine(options, &programs);
    report::print_cores(options);
    println!();
    Ok(())
}

/// Each server in turn, every other round backwards.
pub fn alternate(
    case: &'static str,
    options: &Options,
    measure: impl Fn(&str) -> Result<Sample>,
) -> Result<Vec<Row>> {
    let row = |name: &String| Row {
        case,
        server: name.clone(),
        samples: Vec::new(),
    };
    let mut rows: Vec<Row> = options.servers.iter().map(row).collect();
    for round in 1..=options.rounds {
        for turn in turns(round, rows.len()) {
            let row = &mut rows[turn];
            let sample = measure(&row.server).with_context(|| format!("{}, {case}", row.server))?;
            eprintln!(
                "{case:8} round {round} {:10} {:8.2} us/request in the server, {:8.2} in PHP, {:7.0} requests/s, others {:.0} %",
                row.server,
                sample.server_us,
                sample.php_us,
                sample.requests_per_second,
                sample.others_share * 100.0
            );
            row.samples.push(sample);
        }
    }
    Ok(rows)
}

/// `nginx`, `nginx-kept` (connections to php-fpm are kept), `gannet` (its own pool) or `gannet-fpm`.
fn measure_script(name: &str, load: &Load, options: &Options, dir: &Path) -> Result<Sample> {
    let core = Some(options.server_core);
    let pool = Pool::of_static(CHILDREN);
    let program = name.split('-').next().unwrap_or(name);
    let contender = options.contender(program)?;
    let own_pool = name == SUBJECT;
    let fpm = if own_pool {
        None
    } else {
        Some(Fpm::start(&pool, dir, core)?)
    };
    let (address, block) = match &fpm {
        Some(fpm) => (fpm.address(), String::new()),
        None => (Pool::address(), pool.block()),
    };
    let kept = name.ends_with("-kept");
    let text = |port| script_configuration(dir, port, &address, kept, &block);
    let mut running = Running::start_with(contender, text, dir, core)?;
    measure(&mut running, fpm.as_ref().map(Fpm::id), load, options, dir)
}

fn measure_proxy(
    contender: &Contender,
    load: &Load,
    origin_port: u16,
    options: &Options,
    dir: &Path,
) -> Result<Sample> {
    let text = |port| proxy_configuration(dir, port, origin_port);
    let mut running = Running::start_with(contender, text, dir, Some(options.server_core))?;
    measure(&mut running, None, load, options, dir)
}

pub fn measure(
    running: &mut Running,
    fpm: Option<u32>,
    load: &Load,
    options: &Options,
    dir: &Path,
) -> Result<Sample> {
    let size = warm_up(running, load)?;
    running.note_processes()?;
    let mut all = running.processes.clone();
    if let Some(fpm) = fpm {
        all.extend(usage::family(fpm)?);
    }
    let (php, own): (Vec<u32>, Vec<u32>) = all
        .into_iter()
        .partition(|process| usage::is_named(*process, php::NAME));
    let read = || Ok::<_, anyhow::Error>((CpuTime::of(&own)?, CpuTime::of(&php)?));
    let before = read()?;
    let (core_before, clock) = (usage::core_busy(options.server_core)?, Instant::now());
    let done = wrk::run(
        &load.requests,
        running.address,
        options.duration(),
        size,
        dir,
    )?;
    sleep(SETTLE);
    let after = read()?;
    let core = usage::core_busy(options.server_core)?.saturating_sub(core_before);
    let elapsed = clock.elapsed().as_secs_f64();
    let server = after.0.since(&before.0)?;
    let in_php = after.1.since(&before.1)?;
    Client::connect(running.address)?
        .fetch_path(&load.requests.path, load.body, false)
        .context("after the load")?;
    let errors = running.errors();
    ensure!(errors.is_empty(), "the error log says:\n{errors}");
    let per_request = |time: Duration| time.as_secs_f64() * 1e6 / done.responses;
    let others = core.saturating_sub(server + in_php).as_secs_f64();
    Ok(Sample {
        server_us: per_request(server),
        php_us: per_request(in_php),
        requests_per_second: done.responses / done.elapsed.as_secs_f64(),
        p99_us: done.p99_us,
        others_share: others / elapsed,
    })
}

/// Gives the bytes of one response, every one of which has been checked.
fn warm_up(running: &Running, load: &Load) -> Result<usize> {
    let clock = Instant::now();
    let mut client = Client::connect(running.address)?;
    loop {
        let size = client.fetch_path(&load.requests.path, load.body, false)?;
        if clock.elapsed() >= WARM_UP {
            return Ok(size);
        }
    }
}

/// What both configurations begin with, up to the server's directives.
pub fn head(dir: &Path, port: u16, http: &str) -> String {
    let dir = dir.display();
    format!(
        "daemon off;
worker_processes 1;
pid {dir}/server.pid;
error_log {dir}/error.log;
events {{
    worker_connections 1024;
}}
http {{
    default_type application/octet-stream;
    keepalive_timeout 300s;
    keepalive_requests 1000000000;
    access_log off;
{http}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
"
    )
}

/// The parameters are those of Debian's fastcgi_params.
fn script_configuration(dir: &Path, port: u16, address: &str, kept: bool, pool: &str) -> String {
    let (upstream, pass, keep) = if kept {
        (
            format!(
                "    upstream php {{\n        server {address};\n        keepalive {CHILDREN};\n        keepalive_requests 1000000000;\n    }}\n"
            ),
            "php",
            "            fastcgi_keep_conn on;\n",
        )
    } else {
        (String::new(), address, "")
    };
    let mut text = head(dir, port, &format!("{pool}{upstream}"));
    text.push_str(&format!(
        "        root {}/www;\n        location ~ \\.php$ {{\n            fastcgi_pass {pass};\n{keep}",
        dir.display()
    ));
    for (name, value) in PARAMETERS {
        text.push_str(&format!("            fastcgi_param {name} {value};\n"));
    }
    text.push_str("        }\n    }\n}\n");
    text
}

const PARAMETERS: [(&str, &str); 21] = [
    ("QUERY_STRING", "$query_string"),
    ("REQUEST_METHOD", "$request_method"),
    ("CONTENT_TYPE", "$content_type"),
    ("CONTENT_LENGTH", "$content_length"),
    ("SCRIPT_FILENAME", "$document_root$fastcgi_script_name"),
    ("SCRIPT_NAME", "$fastcgi_script_name"),
    ("REQUEST_URI", "$request_uri"),
    ("DOCUMENT_URI", "$document_uri"),
    ("DOCUMENT_ROOT", "$document_root"),
    ("SERVER_PROTOCOL", "$server_protocol"),
    ("REQUEST_SCHEME", "$scheme"),
    ("HTTPS", "$https if_not_empty"),
    ("GATEWAY_INTERFACE", "CGI/1.1"),
    ("SERVER_SOFTWARE", "nginx/$nginx_version"),
    ("REMOTE_ADDR", "$remote_addr"),
    ("REMOTE_PORT", "$remote_port"),
    ("REMOTE_USER", "$remote_user"),
    ("SERVER_ADDR", "$server_addr"),
    ("SERVER_PORT", "$server_port"),
    ("SERVER_NAME", "$server_name"),
    ("REDIRECT_STATUS", "200"),
];

fn proxy_configuration(dir: &Path, port: u16, origin_port: u16) -> String {
    let upstream = format!(
        "    upstream origin {{
        server 127.0.0.1:{origin_port};
        keepalive {PROXY_CONNECTIONS};
        keepalive_requests 1000000000;
    }}"
    );
    head(dir, port, &upstream)
        + "        location / {
            proxy_pass http://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
        }
    }
}
"
}

pub fn print(rows: &[Row]) -> Result<()> {
    let mut table = Table::new(&[
        "case",
        "server",
        "CPU µs/request: server",
        "PHP",
        "both",
        "min–max",
        "requests/s",
        "p99 µs",
        "by others",
        "server × nginx",
        "both × nginx",
    ]);
    for row in rows {
        let total = row.spread(Sample::total_us);
        let of_nginx = |value: fn(&Sample) -> f64| report::ratio_text(ratio(rows, row, value));
        table.0.push(vec![
            row.case.to_owned(),
            row.server.clone(),
            format!("{:.2}", row.spread(|sample| sample.server_us).median),
            format!("{:.2}", row.spread(|sample| sample.php_us).median),
            format!("{:.2}", total.median),
            total.range(2),
            format!(
                "{:.0}",
                row.spread(|sample| sample.requests_per_second).median
            ),
            format!("{:.0}", row.spread(|sample| sample.p99_us as f64).median),
            format!(
                "{:.0} %",
                row.spread(|sample| sample.others_share).median * 100.0
            ),
            of_nginx(|sample| sample.server_us),
            of_nginx(Sample::total_us),
        ]);
    }
    if rows
        .iter()
        .all(|row| row.spread(|sample| sample.php_us).greatest <= 0.0)
    {
        table.0.iter_mut().for_each(without_php);
    }
    table.print();
    let verdicts = verdicts(rows);
    if !verdicts.is_empty() {
        report::verdict_table(&verdicts).print();
    }
    Ok(())
}

/// Takes PHP's columns out of a line.
fn without_php(line: &mut Vec<String>) {
    for column in [10, 4, 3] {
        line.remove(column);
    }
}

fn ratio(rows: &[Row], row: &Row, value: fn(&Sample) -> f64) -> Option<Spread> {
    let reference = |other: &&Row| other.case == row.case && other.server == "nginx";
    let reference = rows.iter().find(reference)?;
    Some(verdict::ratio(&row.values(value), &reference.values(value)))
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for row in rows.iter().filter(|row| row.server == SUBJECT) {
        for &(case, what, at_most) in targets::RELAYED {
            let value = match what {
                targets::SERVER_CPU => |sample: &Sample| sample.server_us,
                _ => Sample::total_us,
            };
            if let Some(ratio) = ratio(rows, row, value).filter(|_| case == row.case) {
                verdicts.push(Verdict {
                    case: case.to_owned(),
                    what,
                    against: Against::Nginx,
                    at_most,
                    ratio,
                });
            }
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kept_connections_have_an_upstream_block() {
        let dir = Path::new("/d");
        let plain = script_configuration(dir, 80, "unix:/s", false, "");
        assert!(plain.contains("fastcgi_pass unix:/s;") && !plain.contains("upstream"));
        let kept = script_configuration(dir, 80, "unix:/s", true, "");
        assert!(kept.contains("server unix:/s;") && kept.contains("fastcgi_keep_conn on;"));
    }

    #[test]
    fn both_shares_of_a_request_are_judged() {
        let row = |server: &str, server_us, php_us| Row {
            case: "script",
            server: server.to_owned(),
            samples: vec![Sample {
                server_us,
                php_us,
                requests_per_second: 1.0,
                p99_us: 1,
                others_share: 0.0,
            }],
        };
        let rows = [row("nginx", 40.0, 60.0), row(SUBJECT, 20.0, 60.0)];
        let outcomes: Vec<&str> = verdicts(&rows).iter().map(Verdict::outcome).collect();
        assert_eq!(outcomes, ["NO", "yes"]);
    }
}
