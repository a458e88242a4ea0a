//! How many requests a connection carries, for how long, and for whom.

use crate::site::{Site, request};
use std::time::{Duration, Instant};
use testkit::client::{Client, End};
use testkit::reply::Reply;

const EARLIEST: Duration = Duration::from_millis(900);
const LATEST: Duration = Duration::from_secs(5);

fn ask(client: &mut Client) -> Reply {
    client.send(request("/small.txt", "keep-alive").as_bytes());
    client.read_reply("GET").expect("a reply")
}

fn closed(client: &mut Client) {
    assert_eq!(client.read_to_end(), (Vec::new(), End::Closed));
}

#[test]
fn a_connection_carries_so_many_requests() {
    let site = Site::start("keepalive_requests 3;");
    let mut client = site.connect();
    for expected in ["keep-alive", "keep-alive", "close"] {
        assert_eq!(ask(&mut client).field("Connection"), Some(expected));
    }
    closed(&mut client);
}

#[test]
fn a_connection_carries_requests_for_so_long() {
    let site = Site::start("keepalive_time 1s; keepalive_requests 1000000;");
    let mut client = site.connect();
    let start = Instant::now();
    while ask(&mut client).field("Connection") == Some("keep-alive") {
        assert!(start.elapsed() < LATEST);
    }
    assert!(start.elapsed() > EARLIEST, "{:?}", start.elapsed());
    closed(&mut client);
}

#[test]
fn an_idle_connection_is_kept_for_so_long() {
    let site = Site::start("keepalive_timeout 1s 7s;");
    let mut client = site.connect();
    assert_eq!(ask(&mut client).field("Keep-Alive"), Some("timeout=7"));
    let start = Instant::now();
    closed(&mut client);
    assert!(
        start.elapsed() > EARLIEST && start.elapsed() < LATEST,
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn some_clients_are_not_offered_keep_alive() {
    let site = Site::start(
        "error_page 405 =200 /small.txt; location /both { keepalive_disable msie6 safari; } location /none { keepalive_disable none; }
         location /never { keepalive_timeout 0; }",
    );
    const OLD: &str = "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)";
    const SAFARI: &str = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_6) Version/5.0 Safari/533";
    for (method, path, browser, expected) in [
        ("GET", "/", OLD, "keep-alive"),
        ("POST", "/", OLD, "close"),
        ("POST", "/none", OLD, "keep-alive"),
        ("GET", "/", SAFARI, "keep-alive"),
        ("GET", "/both", SAFARI, "close"),
        ("GET", "/both", "Mozilla/5.0", "keep-alive"),
        ("GET", "/never", "Mozilla/5.0", "close"),
    ] {
        let mut client = site.connect();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {browser}\r\n\r\n");
        client.send(head.as_bytes());
        let reply = client.read_reply(method).expect("a reply");
        assert_eq!(
            reply.field("Connection"),
            Some(expected),
            "{method} {path} {browser}"
        );
    }
}

#[test]
fn a_shutdown_leaves_idle_connections_their_least_time() {
    let mut site = Site::start("keepalive_min_timeout 1s;");
    let mut client = site.connect();
    assert_eq!(ask(&mut client).field("Connection"), Some("keep-alive"));
    let start = Instant::now();
    site.signal("QUIT");
    site.wait_for_log("gracefully shutting down", 1);
    // A request in that time is served, and is the last one.
    assert_eq!(ask(&mut client).field("Connection"), Some("close"));
    closed(&mut client);
    let mut other = Some(site.port).and_then(|port| Client::connect(port).ok());
    assert!(
        other
            .as_mut()
            .is_none_or(|client| client.read_reply("GET").is_none())
    );
    assert_eq!(site.ended(), Some(0));
    assert!(start.elapsed() < LATEST);
}

#[test]
fn a_shutdown_ends_an_idle_connection_after_its_least_time() {
    let mut site = Site::start("keepalive_min_timeout 1s;");
    let mut client = site.connect();
    let start = Instant::now();
    assert_eq!(ask(&mut client).field("Connection"), Some("keep-alive"));
    site.signal("QUIT");
    closed(&mut client);
    assert!(
        start.elapsed() > EARLIEST && start.elapsed() < LATEST,
        "{:?}",
        start.elapsed()
    );
    assert_eq!(site.ended(), Some(0));
}

const PIPELINED: usize = 100;

/// A hundred requests, each answered in its place, whether they come at once or byte by byte.
#[test]
fn pipelined_requests_may_be_cut_anywhere() {
    let site = Site::start("");
    let mut bytes = Vec::new();
    for number in 0..PIPELINED {
        let (path, status) = if number % 3 == 0 {
            ("/none", 404)
        } else {
            ("/small.txt", 200)
        };
        let method = if number % 7 == 0 { "HEAD" } else { "GET" };
        let body = if number % 5 == 0 {
            "Content-Length: 5\r\n\r\nG /\r\n"
        } else {
            "\r\n"
        };
        bytes.push((
            method,
            status,
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{body}"),
        ));
    }
    let stream: String = bytes.iter().map(|(_, _, text)| text.as_str()).collect();
    for size in [1, 7, 64, stream.len()] {
        let mut client = site.connect();
        for piece in stream.as_bytes().chunks(size) {
            client.send(piece);
        }
        for (number, (method, status, _)) in bytes.iter().enumerate() {
            let reply = client
                .read_reply(method)
                .unwrap_or_else(|| panic!("no reply {number}"));
            assert_eq!(
                (reply.status(), reply.fault),
                (*status, None),
                "reply {number}"
            );
        }
    }
}
