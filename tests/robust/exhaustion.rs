//! More connections than there is room for, descriptors that run out, files that shrink while they are sent.

use crate::site::{DEADLINE, Site, descriptors, request, wait_for};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testkit::client::{Client, End};

const ONE_THREAD: &str = "worker_processes 1;";

/// Idle connections that a client keeps, where this process may open so many descriptors and some more.
const IDLE: usize = 10_000;
const SPARE_DESCRIPTORS: usize = 2_000;

/// Raises the limit of descriptors, of this process and of those it starts, as far as that goes without root.
fn raise_descriptors() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("a soft limit may be raised to the hard one");
    maximum.map_or(usize::MAX, |maximum| maximum as usize)
}

/// A connection that has had its answer and waits.
fn idle(site: &Site) -> Client {
    let mut client = site.connect().forgotten();
    client.send(request("/small.txt", "keep-alive").as_bytes());
    assert_eq!(
        client.read_reply("GET").map(|reply| reply.status()),
        Some(200)
    );
    client
}

#[test]
fn idle_connections_make_room_for_new_ones() {
    let main = format!("{ONE_THREAD} events {{ worker_connections 64; }}");
    let site = Site::start_with(&main, "", "");
    let worker = site.worker();
    // Each of so many more than there is room for is served.
    let clients: Vec<Client> = (0..300).map(|_| idle(&site)).collect();
    site.wait_for_log(
        "64 worker_connections are not enough, reusing connections",
        1,
    );
    assert!(!site.log().contains("[alert]"), "{}", site.log());
    drop(clients);
    assert_eq!(site.worker(), worker);
}

#[test]
fn busy_connections_keep_their_room() {
    let main = format!("{ONE_THREAD} events {{ worker_connections 64; }}");
    let site = Site::start_with(&main, "", "");
    site.big_file("big", 16 * 1024 * 1024);
    let busy: Vec<Client> = (0..64)
        .map(|_| {
            let mut client = site.connect();
            client.send(request("/big", "close").as_bytes());
            client
        })
        .collect();
    wait_for("the room to be taken", || {
        let refused = site.try_ask("/small.txt").is_none();
        (refused && site.log().contains("[alert]")).then_some(())
    });
    for mut client in busy {
        let reply = client.read_reply("GET").expect("the download");
        assert_eq!((reply.body.len(), reply.fault), (16 * 1024 * 1024, None));
    }
    wait_for("room again", || site.try_ask("/small.txt"));
}

#[test]
fn thousands_of_idle_connections_cost_little() {
    let count = IDLE.min(raise_descriptors().saturating_sub(SPARE_DESCRIPTORS));
    assert!(count > 1000, "the limit of open files leaves {count}");
    let site = Site::start_with("events { worker_connections 20000; }", "", "");
    let worker = site.worker();
    let _first = idle(&site);
    let before = descriptors(worker);
    let mut clients: Vec<Client> = (0..count).map(|_| idle(&site)).collect();
    let open = descriptors(worker);
    assert!(open + 10 > before + count, "{open} open, {before} before");
    let asked = Instant::now();
    for client in clients.iter_mut().step_by(100) {
        client.send(request("/small.txt", "keep-alive").as_bytes());
        assert_eq!(
            client.read_reply("GET").map(|reply| reply.text()),
            Some("small\n".to_owned())
        );
    }
    assert!(asked.elapsed() < DEADLINE);
    drop(clients);
    wait_for("their descriptors", || {
        (descriptors(worker) <= before + 8).then_some(())
    });
    assert_eq!(site.worker(), worker);
}

#[test]
fn a_worker_without_descriptors_serves_on() {
    let main =
        format!("{ONE_THREAD} worker_rlimit_nofile 128; events {{ worker_connections 1000; }}");
    let site = Site::start_with(&main, "", "");
    let worker = site.worker();
    let mut first = idle(&site);
    // The kernel completes these connections; the worker cannot accept all of them.
    let waiting: Vec<TcpStream> = (0..200)
        .filter_map(|_| TcpStream::connect(("127.0.0.1", site.port)).ok())
        .collect();
    site.wait_for_log("accept4() failed (24: Too many open files)", 1);
    first.send(request("/no-such-file", "keep-alive").as_bytes());
    assert_eq!(
        first
            .read_reply("GET")
            .map(|reply| reply.status() / 100 > 3),
        Some(true)
    );
    drop(waiting);
    wait_for("descriptors again", || site.try_ask("/small.txt"));
    assert_eq!(site.worker(), worker);
}

#[test]
fn a_file_that_shrinks_ends_its_response_only() {
    const SIZE: usize = 32 * 1024 * 1024;
    for sendfile in ["on", "off"] {
        let site = Site::start(&format!("sendfile {sendfile};"));
        site.big_file("big", SIZE);
        let worker = site.worker();
        let mut client = site.connect();
        client.send(request("/big", "keep-alive").as_bytes());
        assert!(client.read_at_least(1) > 0);
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(site.file("html/big"));
        file.expect("we made it").set_len(1000).expect("our file");
        let (received, end) = client.read_to_end();
        assert_ne!(end, End::Silent);
        assert!(received.len() < SIZE, "{} bytes", received.len());
        site.wait_for_log("sendfile() reported that \"", 1);
        assert_eq!(site.ask("/small.txt").status(), 200);
        assert_eq!(site.worker(), worker);
    }
}

/// Clients that ask for much do not hold up the thread, nor do those that ask for little hold up them.
#[test]
fn large_downloads_leave_room_for_small_requests() {
    const DOWNLOADS: usize = 4;
    let site = Site::start_with(ONE_THREAD, "", "");
    site.big_file("big", 64 * 1024 * 1024);
    let received: Vec<AtomicUsize> = (0..DOWNLOADS).map(|_| AtomicUsize::new(0)).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Also when an assertion fails: the scope waits for the downloads.
        let _stop = Stop(&stop);
        for count in &received {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    download(site.port, count, &stop);
                }
            });
        }
        let under_way = |more: usize| {
            let before: Vec<usize> = received.iter().map(|n| n.load(Ordering::Relaxed)).collect();
            wait_for("all downloads", || {
                let grown = |(n, before): (&AtomicUsize, &usize)| {
                    n.load(Ordering::Relaxed) >= before + more
                };
                received.iter().zip(&before).all(grown).then_some(())
            });
        };
        under_way(1);
        let mut slowest = Duration::ZERO;
        for _ in 0..50 {
            let start = Instant::now();
            assert_eq!(site.ask("/small.txt").status(), 200);
            slowest = slowest.max(start.elapsed());
        }
        under_way(1024 * 1024);
        assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    });
}

/// Sets its flag when it goes.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks for the big file and counts what comes, until all came or it is told to stop.
fn download(port: u16, count: &AtomicUsize, stop: &AtomicBool) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream
        .write_all(request("/big", "close").as_bytes())
        .expect("it reads");
    let mut buffer = [0; 64 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        count.fetch_add(read, Ordering::Relaxed);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
}
