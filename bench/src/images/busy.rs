//! Static requests while pictures are made: one client asks for a small file, by itself and then beside sixteen that ask for
//! sizes that nobody asked for before.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::pictures::Source;
use super::verdicts::Verdicts;
use crate::options::Options;
use crate::server::Running;

const MAKERS: u32 = 16;
/// Between two static requests, so that they are spread over the time.
const PAUSE: Duration = Duration::from_millis(2);
const READ_TIMEOUT: Duration = Duration::from_secs(120);

pub fn run(
    options: &Options,
    sources: &[Source],
    dir: &Path,
    verdicts: &mut Verdicts,
) -> Result<()> {
    let root = dir.join("www");
    fs::create_dir_all(&root)?;
    fs::write(root.join("small.txt"), vec![b'a'; 1024])?;
    let source = sources
        .iter()
        .find(|source| source.name.starts_with("12mp-baseline"));
    let source = source.or(sources.first()).context("a picture")?;
    fs::copy(&source.path, root.join("large.jpg"))?;
    let text = |port| configuration(dir, port);
    let running = Running::start_with(options.contender("gannet")?, text, dir, None)?;
    let address = running.address;
    let seconds = Duration::from_secs(options.seconds.max(4));
    let idle = asked(address, seconds / 4)?;
    let (done, made, next) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let busy = std::thread::scope(|scope| {
        for _ in 0..MAKERS {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let (width, quality) = (50 + number % 950, 40 + number / 950 % 60);
                    let target = format!("/small_light(dw={width},q={quality})/large.jpg");
                    // 429 is an answer, too; it is asked again later.
                    match fetch(address, &target) {
                        Ok(200) => drop(made.fetch_add(1, Ordering::Relaxed)),
                        _ => std::thread::sleep(Duration::from_millis(50)),
                    }
                }
            });
        }
        let busy = asked(address, seconds);
        done.store(true, Ordering::Relaxed);
        busy
    })?;
    println!("| static requests | number | p50 ms | p99 ms | max ms | pictures made |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for (name, times, made) in [("alone", &idle, 0), ("beside", &busy, made.into_inner())] {
        println!(
            "| {name} | {} | {:.2} | {:.2} | {:.2} | {made} |",
            times.len(),
            part(times, 0.5),
            part(times, 0.99),
            part(times, 1.0)
        );
    }
    println!();
    verdicts.add_busy(source, part(&busy, 0.99) - part(&idle, 0.99));
    Ok(())
}

/// The time below which this part of all lies, in milliseconds.
fn part(times: &[Duration], part: f64) -> f64 {
    let at = (times.len() as f64 * part) as usize;
    let time = times.get(at.min(times.len().saturating_sub(1)));
    time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}

/// How long each request for the small file took, sorted.
fn asked(address: SocketAddr, how_long: Duration) -> Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let request = format!("GET /small.txt HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let (begun, mut times, mut answer) = (Instant::now(), Vec::new(), vec![0; 4096]);
    while begun.elapsed() < how_long {
        let asked = Instant::now();
        stream.write_all(request.as_bytes())?;
        let mut length = 0;
        while !answer[..length].ends_with(b"aaaa") {
            let read = stream.read(&mut answer[length..])?;
            ensure!(read > 0, "the connection ended");
            length += read;
        }
        times.push(asked.elapsed());
        std::thread::sleep(PAUSE);
    }
    times.sort();
    Ok(times)
}

/// The status of one request.
fn fetch(address: SocketAddr, target: &str) -> Result<u16> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let status = answer.get(9..12).context("a status")?;
    Ok(std::str::from_utf8(status)?.parse()?)
}

fn configuration(dir: &Path, port: u16) -> String {
    let dir = dir.display();
    format!(
        "daemon off;
worker_processes auto;
pid {dir}/server.pid;
error_log {dir}/error.log;
events {{ }}
http {{
    types {{ image/jpeg jpg; text/plain txt; }}
    access_log off;
    keepalive_requests 100000000;
    server {{
        listen 127.0.0.1:{port};
        root {dir}/www;
        small_light on;
        image_store {dir}/store;
        location ~ small_light[^/]*/(.+)$ {{ set $file $1; rewrite ^ /$file; }}
    }}
}}
"
    )
}
