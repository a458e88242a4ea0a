//! Clients that take their time are cut off by their timeouts, and nobody else waits for them.

use crate::site::{Site, request};
use std::time::{Duration, Instant};
use testkit::client::{Client, End};

/// The timeouts are of a second. Cut means: not much earlier, and not much later even on a busy machine.
const EARLIEST: Duration = Duration::from_millis(900);
const LATEST: Duration = Duration::from_secs(5);
/// More than the sockets' buffers hold.
const BIG: usize = 32 * 1024 * 1024;

/// Waits for the end of a connection, with others served all the time; gives what came and how it ended.
fn cut(site: &Site, mut client: Client, since: Instant) -> (Vec<u8>, End) {
    let waiter = std::thread::spawn(move || (client.read_to_end(), Instant::now()));
    while !waiter.is_finished() {
        assert_eq!(site.ask("/small.txt").status(), 200);
    }
    let (received, ended) = waiter.join().expect("a client");
    let took = ended - since;
    assert!(took > EARLIEST && took < LATEST, "cut after {took:?}");
    received
}

#[test]
fn a_client_that_says_nothing_is_cut() {
    let site = Site::start_with("worker_processes 1;", "client_header_timeout 1s;", "");
    let start = Instant::now();
    assert_eq!(cut(&site, site.connect(), start), (Vec::new(), End::Closed));
    site.wait_for_log(
        "client timed out (110: Connection timed out) while waiting for request",
        1,
    );
}

#[test]
fn a_head_must_be_whole_in_time_however_it_drips() {
    let site = Site::start_with("worker_processes 1;", "client_header_timeout 1s;", "");
    let start = Instant::now();
    let mut stalled = site.connect();
    stalled.send(b"GET /small.txt HTTP/1.1\r\nHost: loc");
    assert_eq!(cut(&site, stalled, start), (Vec::new(), End::Closed));
    site.wait_for_log("while reading client request headers", 1);
    // A byte now and then wins no time: the whole head counts.
    let start = Instant::now();
    let mut dripping = site.connect();
    let head = b"GET /small.txt HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
    dripping.send(head);
    while start.elapsed() < LATEST && dripping.is_open() {
        dripping.send(b"x");
        assert_eq!(site.ask("/small.txt").status(), 200);
    }
    let took = start.elapsed();
    assert!(took > EARLIEST && took < LATEST, "cut after {took:?}");
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let limits = "lingering_timeout 1s; lingering_time 2s; client_body_timeout 1s;";
    let site = Site::start_with(
        "worker_processes 1;",
        limits,
        "error_page 405 =200 /small.txt;",
    );
    let start = Instant::now();
    let mut client = site.connect();
    client.send(b"POST /small.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n12345");
    let (received, end) = cut(&site, client, start);
    assert!(
        received.starts_with(b"HTTP/1.1 "),
        "{}",
        String::from_utf8_lossy(&received)
    );
    assert_eq!(end, End::Closed);
}

/// Asks for much and reads nothing until the server has given up.
fn slow_reader(site: &Site) -> (Vec<u8>, End) {
    site.big_file("big", BIG);
    let start = Instant::now();
    let mut client = site.connect();
    client.send(request("/big", "keep-alive").as_bytes());
    while site
        .log()
        .matches("while sending response to client")
        .count()
        == 0
    {
        assert_eq!(site.ask("/small.txt").status(), 200);
        assert!(start.elapsed() < LATEST, "{}", site.log());
    }
    assert!(
        start.elapsed() > EARLIEST,
        "cut after {:?}",
        start.elapsed()
    );
    site.wait_for_log(
        "client timed out (110: Connection timed out) while sending response to client",
        1,
    );
    client.read_to_end()
}

#[test]
fn a_slow_reader_is_cut() {
    let site = Site::start_with("worker_processes 1;", "send_timeout 1s;", "");
    let (received, end) = slow_reader(&site);
    // What the kernel had taken still arrives.
    assert!(!received.is_empty() && received.len() < BIG);
    assert_eq!(end, End::Closed);
}

#[test]
fn a_slow_reader_is_reset_where_that_is_wanted() {
    let http = "send_timeout 1s; reset_timedout_connection on;";
    let site = Site::start_with("worker_processes 1;", http, "");
    let (received, end) = slow_reader(&site);
    assert!(received.len() < BIG);
    assert_eq!(end, End::Reset);
}

/// A reader that is slow, but takes something before each timeout, gets everything.
#[test]
fn a_steady_slow_reader_gets_everything() {
    let site = Site::start_with("worker_processes 1;", "send_timeout 1s;", "");
    site.big_file("big", BIG);
    let mut client = site.connect();
    client.send(request("/big", "close").as_bytes());
    let mut had = 0;
    while had < BIG {
        // As much as makes the socket writable again, with a pause well below the timeout.
        let now = client.read_at_least(had + 4 * 1024 * 1024);
        assert!(now > had, "only {now} bytes");
        had = now;
        std::thread::sleep(Duration::from_millis(250));
    }
    let reply = client.read_reply("GET").expect("everything");
    assert_eq!((reply.body.len(), reply.fault), (BIG, None));
}
