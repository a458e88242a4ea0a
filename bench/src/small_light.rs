//! `small_light`: the published plan of 10 threads with 50 loops over one large photograph, on its five URLs and on the
//! cached form, in the columns of its tables; beside them nginx's image_filter at the same size.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::options::{Bench, Options};
use crate::server::Running;
use crate::side_by_side::Workspace;

pub const BENCH: Bench = Bench {
    name: "small_light",
    cases: &[
        "imagemagick",
        "imagemagick-hint",
        "gd",
        "imlib2",
        "imlib2-hint",
        "cached",
        "filter",
    ],
    servers: &["nginx", "gannet"],
    seconds: 0,
    // How often each thread asks.
    rounds: 50,
    quick: (0, 2),
};

const THREADS: u32 = 10;
const RAMP_UP: Duration = Duration::from_secs(1);
const READ_TIMEOUT: Duration = Duration::from_secs(120);

/// The parameters of a case; none for image_filter.
fn parameters(case: &str) -> Option<&'static str> {
    Some(match case {
        "imagemagick" => "dw=250,dh=250,da=l,q=95,e=imagemagick,jpeghint=n",
        "imagemagick-hint" | "cached" => "dw=250,dh=250,da=l,q=95,e=imagemagick,jpeghint=y",
        "gd" => "dw=250,dh=250,da=l,q=95,e=gd",
        "imlib2" => "dw=250,dh=250,da=l,q=95,e=imlib2,jpeghint=n",
        "imlib2-hint" => "dw=250,dh=250,da=l,q=95,e=imlib2,jpeghint=y",
        _ => return None,
    })
}

pub fn run(options: &Options) -> Result<()> {
    let workspace = Workspace::create()?;
    let root = workspace.dir.join("www");
    fs::create_dir_all(&root)?;
    picture(&root.join("sample.jpg"))?;
    println!(
        "| mode | server | samples | average | median | 90% line | min | max | error% | throughput/s | KB/s |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for case in &options.cases {
        for server in &options.servers {
            // nginx has no small_light.
            if server == "nginx" && parameters(case).is_some() {
                continue;
            }
            measure(case, server, options, &workspace.dir)
                .with_context(|| format!("{server}, {case}"))?;
        }
    }
    Ok(())
}

/// The photograph that `GANNET_BENCH_PICTURE` names, or 12 million drawn pixels.
fn picture(path: &Path) -> Result<()> {
    if let Some(own) = std::env::var_os("GANNET_BENCH_PICTURE") {
        fs::copy(PathBuf::from(own), path)?;
        return Ok(());
    }
    let drawn = Command::new("convert")
        .args(["-size", "4000x3000", "-seed", "7", "plasma:fractal"])
        .args(["-attenuate", "0.4", "+noise", "Gaussian", "-quality", "90"])
        .arg(path)
        .status()
        .context("GANNET_BENCH_PICTURE names no picture, and ImageMagick's convert is not there")?;
    ensure!(drawn.success(), "convert could not draw a picture");
    Ok(())
}

fn configuration(dir: &Path, port: u16, case: &str, server: &str) -> String {
    let dir = dir.display();
    let module = match server {
        "nginx" => "load_module /usr/lib/nginx/modules/ngx_http_image_filter_module.so;",
        _ => "",
    };
    // Only the cached form is to find what was made before.
    let own = match (server, case) {
        ("nginx", _) => "",
        (_, "cached") => "small_light on;",
        (_, "filter") => "image_store off;",
        _ => "small_light on; image_store off;",
    };
    let filter = match case {
        "filter" => {
            "location /filter/ { alias {dir}/www/; image_filter resize 250 250; \
             image_filter_jpeg_quality 95; image_filter_buffer 64m; }"
        }
        _ => "",
    }
    .replace("{dir}", &dir.to_string());
    format!(
        "{module}
daemon off;
worker_processes auto;
pid {dir}/server.pid;
error_log {dir}/error.log;
events {{ }}
http {{
    types {{ image/jpeg jpg; }}
    access_log off;
    server {{
        listen 127.0.0.1:{port};
        root {dir}/www;
        {own}
        location ~ small_light[^/]*/(.+)$ {{ set $file $1; rewrite ^ /$file; }}
        {filter}
    }}
}}
"
    )
}

/// What one thread saw: how long each request took, and the bytes.
#[derive(Default)]
struct Seen {
    times: Vec<Duration>,
    errors: usize,
    bytes: u64,
}

fn measure(case: &str, server: &str, options: &Options, dir: &Path) -> Result<()> {
    let contender = options.contender(server)?;
    let text = |port| configuration(dir, port, case, server);
    let running = Running::start_with(contender, text, dir, None)?;
    let target = match parameters(case) {
        Some(parameters) => format!("/small_light({parameters})/sample.jpg"),
        None => "/filter/sample.jpg".to_owned(),
    };
    let address = running.address;
    // The first picture warms the file's pages; of the cached form it is the one that is made.
    fetch(address, &target)?;
    let loops = options.rounds;
    let begun = Instant::now();
    let mut all = Seen::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let target = &target;
                scope.spawn(move || {
                    std::thread::sleep(RAMP_UP * thread / THREADS);
                    one_thread(address, target, loops)
                })
            })
            .collect();
        for thread in threads {
            let seen = thread.join().unwrap_or_default();
            all.times.extend(seen.times);
            all.errors += seen.errors;
            all.bytes += seen.bytes;
        }
    });
    print_row(case, server, all, begun.elapsed());
    Ok(())
}

fn one_thread(address: SocketAddr, target: &str, loops: usize) -> Seen {
    let mut seen = Seen::default();
    for _ in 0..loops {
        let begun = Instant::now();
        match fetch(address, target) {
            Ok(bytes) => seen.bytes += bytes,
            Err(_) => seen.errors += 1,
        }
        seen.times.push(begun.elapsed());
    }
    seen
}

/// Asks once, on a connection of its own; the bytes of the response.
fn fetch(address: SocketAddr, target: &str) -> Result<u64> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut status = String::new();
    reader.read_line(&mut status)?;
    ensure!(status.contains(" 200 "), "{}", status.trim_end());
    let mut rest = Vec::new();
    let count = reader.read_to_end(&mut rest)?;
    Ok((status.len() + count) as u64)
}

fn print_row(case: &str, server: &str, mut all: Seen, whole: Duration) {
    all.times.sort();
    let count = all.times.len().max(1);
    let ms = |at: usize| {
        all.times
            .get(at.min(count - 1))
            .map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    let sum: f64 = all.times.iter().map(Duration::as_secs_f64).sum();
    let seconds = whole.as_secs_f64();
    println!(
        "| {case} | {server} | {count} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.2} | {:.1} |",
        sum * 1e3 / count as f64,
        ms(count / 2),
        ms(count * 9 / 10),
        ms(0),
        ms(count - 1),
        all.errors as f64 * 100.0 / count as f64,
        count as f64 / seconds,
        all.bytes as f64 / 1024.0 / seconds,
    );
}
