//! The bench: Gannet, nginx and a bare epoll loop under the same load, one after the other, on one core: `static`,
//! `fastcgi`, `proxy`. `gallery` sends users to a PHP application, `profile` says where the time goes, `floor` is the bare
//! loop itself.

mod cache;
mod cache_zone;
mod cases;
mod check;
mod coded;
mod compressed;
mod floor;
mod gallery;
mod gallery_report;
mod gzip;
mod idle;
mod images;
mod json;
mod machine;
mod options;
mod php;
mod profile;
mod relayed;
mod report;
mod rules;
mod server;
mod side_by_side;
mod small_light;
mod targets;
mod tester;
mod tls;
mod tls_client;
mod usage;
mod users;
mod verdict;
mod wrk;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: gannet-bench static  [OPTIONS]        files
       gannet-bench fastcgi [OPTIONS]        a trivial PHP script
       gannet-bench proxy   [OPTIONS]        a server behind, on kept connections
       gannet-bench rules   [OPTIONS]        limits, access and maps around a file; geo tables, zones (GANNET_BENCH_KEYS=NUMBER)
       gannet-bench cache   [OPTIONS]        what a cache keeps: hits, the gallery, a million entries (GANNET_BENCH_ENTRIES=N)
       gannet-bench gzip    [OPTIONS]        files compressed on the fly, level by level (GANNET_BENCH_FILES=DIRECTORY)
       gannet-bench small_light [OPTIONS]    pictures resized, as a published plan asks for them (GANNET_BENCH_PICTURE=FILE)
       gannet-bench images  [OPTIONS]        pictures one by one beside other libraries (GANNET_BENCH_PICTURES=DIRECTORY)
       gannet-bench compressed [OPTIONS]     pages that come again, copies made ahead, p99 beside a compressed download
       gannet-bench tls     [OPTIONS]        HTTPS and HTTP/2: requests, handshakes, idle connections
       gannet-bench load    [OPTIONS]        the load tester beside wrk, Locust, ab, h2load; its memory
       gannet-bench gallery [OPTIONS]        100 users of a PHP application, by the pool's `pm`
       gannet-bench profile CASE [OPTIONS]   hot symbols (perf) and system calls per request (strace), of a case of static
       gannet-bench floor PORT FILE [close]  the bare loop, for use by hand

  --only CASES          static: 0b,1k,10k,100k,1m,10m,close,log,log-buffered,idle; proxy: 1k,100k;
                        cache: proxy-1k,proxy-10k,proxy-100k, fastcgi-1k ... 100k, gallery,million,limit; rules: rules,filters,geo,keys;
                        fastcgi: script; tls: 0b ... 1m,full-rsa-1.2 ... resumed-1.3,h2-1k,h2-100k,idle; gzip: 1,2 ... 9; compressed: repeated,ahead,p99; images: 250,1000,served,busy; gallery: static,dynamic,ondemand,auto,sweep
                        load: strength,locust,agreement,memory
  --servers NAMES       static: nginx,gannet,floor and those given by --server; proxy, gallery: nginx,gannet;
                        gzip: nginx,each,again (Gannet without and with its memory of bodies);
                        images: gannet,vips,magick-hint,magick,gd,imlib2;
                        fastcgi: nginx,nginx-kept,gannet,gannet-fpm
  --server NAME=COMMAND another server, or another command for a known one; {conf} and {dir} are filled in
  --quick               a short run, to see that it works
  --seconds N           seconds per measurement
  --rounds N            rounds, the servers alternating within each
  --cores S,L           core of the server, core of the load (default 0,1); not for gallery, which has all cores
  --idle N              idle connections for the memory figure (default 10000)
  --markdown            the machine, the commands and the configuration around the table
  --json FILE           static: every sample, for machines";

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("static") => side_by_side::run(&options::parse(&side_by_side::BENCH, arguments)?),
        Some("fastcgi") => relayed::run_fastcgi(&options::parse(&relayed::FASTCGI, arguments)?),
        Some("proxy") => relayed::run_proxy(&options::parse(&relayed::PROXY, arguments)?),
        Some("cache") => cache::run(&options::parse(&cache::BENCH, arguments)?),
        Some("gzip") => gzip::run(&options::parse(&gzip::BENCH, arguments)?),
        Some("rules") => rules::run(&options::parse(&rules::BENCH, arguments)?),
        Some("small_light") => small_light::run(&options::parse(&small_light::BENCH, arguments)?),
        Some("images") => images::run(&options::parse(&images::BENCH, arguments)?),
        // What `images` starts for each picture.
        Some("picture") => images::picture(arguments),
        Some("compressed") => compressed::run(&options::parse(&compressed::BENCH, arguments)?),
        Some("tls") => tls::run(&options::parse(&tls::BENCH, arguments)?),
        Some("load") => tester::run(&options::parse(&tester::BENCH, arguments)?),
        Some("gallery") => gallery::run(&options::parse(&gallery::BENCH, arguments)?),
        Some("profile") => {
            let Some(case) = arguments.next() else {
                bail!("profile: which case?\n{USAGE}")
            };
            profile::run(&case, &options::parse(&side_by_side::BENCH, arguments)?)
        }
        Some("floor") => floor::run(arguments),
        _ => bail!("{USAGE}"),
    }
}
