//! Upstreams of HTTP/2 that do what they should not, or say farewell; frame by frame. What a good one gets is in
//! `cases/proxy/http2`.

use crate::frames::{DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, SETTINGS, frame};
use crate::{Running, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::acceptor::Acceptor;
use testkit::client::Client;

const REFUSED_STREAM: u32 = 7;
const PREFACE: usize = 24;

/// The next frame's kind and stream; what is in it is dropped.
fn next(stream: &mut TcpStream) -> Option<(u8, u8, u32)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    stream.read_exact(&mut vec![0; length]).ok()?;
    let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Some((head[3], head[4], id))
}

/// An origin that sends `reply` for each request that is whole, made with the number of its stream.
fn origin(reply: impl Fn(usize, u32) -> Vec<u8> + Send + Sync + 'static) -> Acceptor {
    let count = AtomicUsize::new(0);
    let served = Acceptor::start(move |mut stream| {
        // Whatever fails, the other side has gone.
        let _gone = stream.set_read_timeout(Some(Duration::from_secs(20)));
        if stream.read_exact(&mut [0; PREFACE]).is_err() {
            return;
        }
        let _gone = stream.write_all(&frame(SETTINGS, 0, 0, &[]));
        while let Some((kind, flags, id)) = next(&mut stream) {
            if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let reply = reply(number, id);
                if reply.is_empty() || stream.write_all(&reply).is_err() {
                    return;
                }
            }
        }
    });
    served.expect("a free port")
}

/// Status 200 and a body.
fn answer(id: u32, body: &str) -> Vec<u8> {
    [
        frame(HEADERS, END_HEADERS, id, &[0x88]),
        frame(DATA, END_STREAM, id, body.as_bytes()),
    ]
    .concat()
}

fn good() -> Acceptor {
    origin(|_, id| answer(id, "good"))
}

fn goaway(last: u32, code: u32) -> Vec<u8> {
    frame(
        GOAWAY,
        0,
        0,
        &[last.to_be_bytes(), code.to_be_bytes()].concat(),
    )
}

fn ask(running: &Running, request: &str) -> (u16, String) {
    let mut client = Client::connect(running.lease.port).unwrap();
    client.send(request.as_bytes());
    let reply = client.read_reply("GET").unwrap();
    (reply.status(), reply.text())
}

const GET: &str = "GET /up HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
const POST: &str =
    "POST /up HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc";

fn passing(upstream: &str, inside: &str) -> Running {
    Running::start_with(
        upstream,
        &format!("proxy_http_version 2; {inside} location /up {{ proxy_pass http://up; }}"),
    )
}

#[test]
fn what_an_upstream_refuses_is_asked_of_another() {
    for refusal in [
        frame(RST_STREAM, 0, 1, &REFUSED_STREAM.to_be_bytes()),
        goaway(0, 0),
    ] {
        let (refusing, good) = (origin(move |_, _| refusal.clone()), good());
        let (first, second) = (refusing.port(), good.port());
        let running = passing(
            &format!("upstream up {{ server 127.0.0.1:{first}; server 127.0.0.1:{second}; }}"),
            "",
        );
        // It has not begun with the request, so that even this one may be sent again.
        assert_eq!(ask(&running, POST), (200, "good".to_owned()));
        assert!(running.error_log().contains("upstream refused the request"));
    }
}

#[test]
fn a_kept_connection_that_said_farewell_is_replaced() {
    let origin = origin(|number, id| match number {
        0 => [answer(id, "first"), goaway(id, 0)].concat(),
        _ => answer(id, "second"),
    });
    let port = origin.port();
    let running = passing(
        &format!("upstream up {{ server 127.0.0.1:{port}; keepalive 2; }}"),
        "",
    );
    assert_eq!(ask(&running, GET), (200, "first".to_owned()));
    assert_eq!(ask(&running, POST), (200, "second".to_owned()));
    assert_eq!(ask(&running, POST), (200, "second".to_owned()));
}

#[test]
fn an_upstream_that_breaks_the_rules_is_a_bad_one() {
    for (reply, words) in [
        // A stream that was not opened.
        (answer(8, "x"), "upstream sent invalid HTTP/2"),
        (
            b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
            "upstream sent invalid HTTP/2",
        ),
        (
            frame(RST_STREAM, 0, 1, &2u32.to_be_bytes()),
            "upstream rejected the request",
        ),
        // No status.
        (
            frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0x84]),
            "while reading response header from upstream",
        ),
        (
            Vec::new(),
            "upstream prematurely closed connection while reading response header",
        ),
    ] {
        let origin = origin(move |_, _| reply.clone());
        let port = origin.port();
        let running = passing(&format!("upstream up {{ server 127.0.0.1:{port}; }}"), "");
        assert_eq!(ask(&running, GET).0, 502, "{words}");
        wait_until(words, || running.error_log().contains(words));
    }
}

#[test]
fn a_silent_upstream_is_waited_for_no_longer_than_said() {
    let origin = origin(|_, _| frame(SETTINGS, 1, 0, &[]));
    let port = origin.port();
    let running = passing(
        &format!("upstream up {{ server 127.0.0.1:{port}; }}"),
        "proxy_read_timeout 200ms;",
    );
    assert_eq!(ask(&running, GET).0, 504);
}

#[test]
fn a_body_that_breaks_off_ends_the_response() {
    let origin = origin(|_, id| {
        [
            frame(HEADERS, END_HEADERS, id, &[0x88]),
            frame(DATA, 0, id, b"half"),
            frame(RST_STREAM, 0, id, &2u32.to_be_bytes()),
        ]
        .concat()
    });
    let port = origin.port();
    let running = passing(
        &format!("upstream up {{ server 127.0.0.1:{port}; }}"),
        "proxy_buffering off;",
    );
    let mut client = Client::connect(running.lease.port).unwrap();
    client.send(GET.as_bytes());
    let (received, _) = client.read_to_end();
    let text = String::from_utf8_lossy(&received);
    assert!(!text.ends_with("0\r\n\r\n"), "{text}");
    wait_until("told", || {
        running.error_log().contains("while reading upstream")
    });
}
