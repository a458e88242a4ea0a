//! `limit_rate` and `limit_rate_after`, in coarse bounds: no faster than allowed, and not much slower.

use crate::site::{Site, request};
use std::time::{Duration, Instant};

const KILOBYTE: usize = 1024;

/// How long a download of so many kilobytes takes.
fn download(site: &Site, path: &str, kilobytes: usize) -> Duration {
    let start = Instant::now();
    let reply = site.ask(path);
    assert_eq!(
        (reply.status(), reply.body.len(), reply.fault),
        (200, kilobytes * KILOBYTE, None)
    );
    start.elapsed()
}

#[test]
fn limited_responses_take_their_time() {
    let site = Site::start(
        "limit_rate 100k;
         location /after/ { alias html/; limit_rate_after 200k; }
         location /free/ { alias html/; limit_rate 0; }",
    );
    site.big_file("f300", 300 * KILOBYTE);
    let (fast, slow) = (Duration::from_millis(1500), Duration::from_secs(10));
    // 100 kB a second, one second in advance.
    let limited = download(&site, "/f300", 300);
    assert!(limited > fast && limited < slow, "{limited:?}");
    let after = download(&site, "/after/f300", 300);
    assert!(after < fast, "{after:?}");
    let free = download(&site, "/free/f300", 300);
    assert!(free < fast, "{free:?}");
}

#[test]
fn a_limited_response_holds_up_no_other() {
    let site = Site::start_with(
        "worker_processes 1;",
        "",
        "location /slow/ { alias html/; limit_rate 1k; }",
    );
    site.big_file("f9", 9 * KILOBYTE);
    let mut slow = site.connect();
    slow.send(request("/slow/f9", "close").as_bytes());
    assert!(slow.read_at_least(1) > 0);
    let start = Instant::now();
    for _ in 0..100 {
        assert_eq!(site.ask("/small.txt").status(), 200);
    }
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    assert!(slow.read_at_least(4 * KILOBYTE) < 9 * KILOBYTE);
}
