//! Twenty thousand requests that are none, or nearly none: each is refused or ends its connection, nothing is smuggled,
//! and the worker is afterwards as it was before.

#[path = "hostile_requests.rs"]
mod requests;

use crate::site::{Site, descriptors, resident_kb, wait_for};
use requests::{Hostile, Verdict};
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::client::{Client, End};

const REQUESTS: usize = 20_000;
/// Sent before the worker is measured, so that its buffers are warm.
const WARM_UP: usize = 2_000;
const CLIENTS: usize = 4;
/// What the allocator may keep.
const GROWTH_KB: usize = 16 * 1024;
const GROWTH_DESCRIPTORS: usize = 4;

#[test]
fn hostile_requests_are_refused_and_leave_nothing_behind() {
    let site = Site::start("");
    std::fs::write(site.file("html/smuggled"), requests::SMUGGLED).expect("our directory");
    let worker = site.worker();
    send_all(site.port, 0..WARM_UP);
    let (open, resident) = (descriptors(worker), resident_kb(worker));
    send_all(site.port, WARM_UP..REQUESTS);
    assert_eq!(site.worker(), worker);
    assert_eq!(site.ask("/small.txt").status(), 200);
    assert!(!site.log().contains("panic"), "{}", site.log());
    wait_for("the descriptors", || {
        (descriptors(worker) <= open + GROWTH_DESCRIPTORS).then_some(())
    });
    let grown = resident_kb(worker).saturating_sub(resident);
    assert!(grown < GROWTH_KB, "{grown} kB more");
}

fn send_all(port: u16, numbers: std::ops::Range<usize>) {
    let next = AtomicUsize::new(numbers.start);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return;
                    }
                    send(port, &Hostile::generate(number as u64), number);
                }
            });
        }
    });
}

fn send(port: u16, hostile: &Hostile, number: usize) {
    let mut client = Client::connect(port).expect("it listens").forgotten();
    for piece in &hostile.pieces {
        client.send(piece);
    }
    // What must be refused ends without our doing.
    if hostile.verdict == Verdict::Ends {
        client.finish();
    }
    let (answer, end) = client.read_to_end();
    let shown = || {
        let sent: Vec<_> = hostile
            .pieces
            .concat()
            .escape_ascii()
            .map(char::from)
            .take(600)
            .collect();
        let answer = String::from_utf8_lossy(&answer);
        format!(
            "request {number}: {}\nanswer: {answer}\n{end:?}",
            sent.iter().collect::<String>()
        )
    };
    assert_ne!(end, End::Silent, "{}", shown());
    let headless =
        answer.starts_with(b"<html>") || answer == b"small\n" || hostile.verdict == Verdict::Ends;
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 ") || headless,
        "{}",
        shown()
    );
    if hostile.verdict == Verdict::Ends {
        return;
    }
    assert!(!contains(&answer, requests::SMUGGLED), "{}", shown());
    if hostile.verdict == Verdict::Refused && !answer.is_empty() {
        let refused = match answer.strip_prefix(b"HTTP/1.1 ") {
            Some(rest) => {
                matches!(rest[0], b'4' | b'5') && contains(&answer, b"\r\nConnection: close\r\n")
            }
            None => contains(&answer, b"<title>4") || contains(&answer, b"<title>5"),
        };
        assert!(refused, "{}", shown());
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    testkit::reply::find(text, part).is_some()
}
