//! The pictures through servers, one request after the other: Gannet's and nginx's image_filter at the same size, and with
//! small_light a first and a second size of a picture that was not asked for before, and a picture that was made before
//! beside a file of the same bytes. What counts is the CPU time of the server's processes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::pictures::Source;
use super::verdicts::Verdicts;
use crate::options::Options;
use crate::server::Running;
use crate::usage::{CpuTime, family};

const READ_TIMEOUT: Duration = Duration::from_secs(120);
const FIRST: &str = "dw=800,dh=800,q=95";
const SECOND: &str = "dw=250,dh=250,q=95";

pub fn run(
    options: &Options,
    sources: &[Source],
    dir: &Path,
    verdicts: &mut Verdicts,
) -> Result<()> {
    fs::create_dir_all(dir.join("www"))?;
    println!(
        "| picture | server | filter, ms | first size, ms | second size, ms | made before, µs | file, µs |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: |");
    for source in sources {
        let mut seen = Vec::new();
        for server in ["nginx", "gannet"] {
            let row = served(options, source, server, dir);
            let row = row.with_context(|| format!("{server}, {}", source.name))?;
            let ms = |time: Option<Duration>| {
                time.map_or("-".to_owned(), |time| {
                    format!("{:.1}", time.as_secs_f64() * 1e3)
                })
            };
            println!(
                "| {} | {server} | {} | {} | {} | {:.1} | {:.1} |",
                source.name,
                ms(row.filter),
                ms(row.first),
                ms(row.second),
                row.again.as_secs_f64() * 1e6,
                row.file.as_secs_f64() * 1e6
            );
            seen.push(row);
        }
        if let Some(Served { again, file, .. }) = seen.last() {
            verdicts.add_again(source, again.as_secs_f64() / file.as_secs_f64().max(1e-9));
        }
        if let Some(Served {
            first: Some(first),
            second: Some(second),
            ..
        }) = seen.last()
        {
            verdicts.add_second(source, second.as_secs_f64() / first.as_secs_f64().max(1e-9));
        }
    }
    println!();
    Ok(())
}

#[derive(Default)]
struct Served {
    filter: Option<Duration>,
    first: Option<Duration>,
    second: Option<Duration>,
    /// A request for a picture that was made before, and for a file of the same bytes.
    again: Duration,
    file: Duration,
}

fn served(options: &Options, source: &Source, server: &str, dir: &Path) -> Result<Served> {
    let contender = options.contender(server)?;
    let text = |port| configuration(dir, port, server);
    let running = Running::start_with(contender, text, dir, Some(options.server_core))?;
    let mut served = Served::default();
    let (mut filter, mut first, mut second) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.rounds {
        // Each round has a copy of its own, so that nothing is known of it.
        let name = format!("{round}-{}", source.name);
        let copy = dir.join("www").join(&name);
        fs::copy(&source.path, &copy)?;
        filter.push(cost(&running, &format!("/filter/{name}"))?);
        if server == "gannet" {
            first.push(cost(&running, &format!("/small_light({FIRST})/{name}"))?);
            second.push(cost(&running, &format!("/small_light({SECOND})/{name}"))?);
        }
        fs::remove_file(copy)?;
    }
    if server == "gannet" {
        let name = format!("again-{}", source.name);
        fs::copy(&source.path, dir.join("www").join(&name))?;
        let target = format!("/small_light({SECOND})/{name}");
        // Now and then the first answer is not kept, as long as the file is quite new.
        std::thread::sleep(Duration::from_millis(200));
        fs::write(dir.join("www/file.jpg"), fetch(running.address, &target)?)?;
        (served.again, served.file) = (Duration::MAX, Duration::MAX);
        for _ in 0..options.rounds {
            served.again = served.again.min(cost_of_many(&running, &target)?);
            served.file = served.file.min(cost_of_many(&running, "/file.jpg")?);
        }
    }
    for (times, place) in [
        (filter, &mut served.filter),
        (first, &mut served.first),
        (second, &mut served.second),
    ] {
        *place = median(times);
    }
    Ok(served)
}

fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort();
    times.get(times.len() / 2).copied()
}

/// The server's CPU time for one request, whose answer has to be a picture.
fn cost(running: &Running, target: &str) -> Result<Duration> {
    let processes = family(running.id())?;
    let before = CpuTime::of(&processes)?;
    fetch(running.address, target)?;
    CpuTime::of(&processes)?.since(&before)
}

/// Requests on one connection.
const MANY: u32 = 4000;

/// The server's CPU time for each of many requests.
fn cost_of_many(running: &Running, target: &str) -> Result<Duration> {
    let processes = family(running.id())?;
    let mut stream = TcpStream::connect(running.address)?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(64 * 1024, stream.try_clone()?);
    let request = format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", running.address);
    let before = CpuTime::of(&processes)?;
    for _ in 0..MANY {
        stream.write_all(request.as_bytes())?;
        let (mut line, mut length) = (String::new(), 0u64);
        loop {
            line.clear();
            ensure!(reader.read_line(&mut line)? > 0, "the connection ended");
            if let Some(number) = line.strip_prefix("Content-Length:") {
                length = number.trim().parse()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink())?;
    }
    Ok(CpuTime::of(&processes)?.since(&before)? / MANY)
}

/// The body of a response.
fn fetch(address: SocketAddr, target: &str) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    ensure!(
        answer.starts_with(b"HTTP/1.1 200 "),
        "{target}: {}",
        String::from_utf8_lossy(answer.get(..60).unwrap_or(&answer))
    );
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n");
    Ok(answer.split_off(head.context("a head")? + 4))
}

fn configuration(dir: &Path, port: u16, server: &str) -> String {
    let dir = dir.display();
    let (module, own) = match server {
        "nginx" => (
            "load_module /usr/lib/nginx/modules/ngx_http_image_filter_module.so;",
            String::new(),
        ),
        _ => ("", format!("image_store {dir}/store; small_light on;")),
    };
    format!(
        "{module}
daemon off;
worker_processes 1;
pid {dir}/server.pid;
error_log {dir}/error.log;
events {{ }}
http {{
    types {{ image/jpeg jpg; image/png png; image/webp webp; }}
    access_log off;
    keepalive_requests 1000000;
    server {{
        listen 127.0.0.1:{port};
        root {dir}/www;
        {own}
        location ~ small_light[^/]*/(.+)$ {{ set $file $1; rewrite ^ /$file; }}
        location /filter/ {{
            alias {dir}/www/;
            image_filter resize 250 250;
            image_filter_jpeg_quality 95;
            image_filter_buffer 64m;
        }}
    }}
}}
"
    )
}
