//! Responses that come bit by bit: what an upstream has sent reaches the client, compressed, before more comes. Also what
//! an upstream says of compression, and what other programs make of gzip.

use crate::site::{Site, decoded, head};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use testkit::origin::Origin;

/// An upstream that sends the next event when it is told to.
fn events(receiver: Receiver<String>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _count = stream.read(&mut request).unwrap();
        let fields =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
        stream.write_all(fields.as_bytes()).unwrap();
        for event in receiver {
            stream.write_all(event.as_bytes()).unwrap();
        }
    });
    port
}

#[test]
fn events_are_not_held_back() {
    for coding in ["gzip", "br", "zstd"] {
        for buffering in ["on", "off"] {
            let (sender, receiver) = channel();
            let inside = format!(
                "gzip on; brotli on; zstd on; gzip_types *; brotli_types *; zstd_types *;\n\
                 location / {{ proxy_pass http://127.0.0.1:{}; proxy_buffering {buffering}; }}",
                events(receiver)
            );
            let site = Site::start("", &inside, &[]);
            let mut client = TcpStream::connect(("127.0.0.1", site.port)).unwrap();
            client
                .set_read_timeout(Some(Duration::from_secs(30)))
                .unwrap();
            let request = head("GET", "/", &[("Accept-Encoding", coding)]);
            client.write_all(request.as_bytes()).unwrap();
            let mut sent = String::new();
            let mut received = Vec::new();
            for number in 0..5 {
                let event = format!("data: event {number}\n\n");
                sent.push_str(&event);
                sender.send(event).unwrap();
                // Nothing more is sent until the client has read this one.
                loop {
                    let mut piece = [0; 4096];
                    let count = client.read(&mut piece).expect("the event");
                    assert!(count > 0, "{coding}: ended after {sent:?}");
                    received.extend_from_slice(&piece[..count]);
                    let body = dechunked(&received);
                    if decoded(Some(coding), &body) == sent.as_bytes() {
                        break;
                    }
                }
            }
            let text = String::from_utf8_lossy(&received).into_owned();
            assert!(
                text.contains(&format!("Content-Encoding: {coding}\r\n")),
                "{text}"
            );
        }
    }
}

/// The body so far.
fn dechunked(reply: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    let Some(end) = testkit::reply::find(reply, b"\r\n\r\n") else {
        return body;
    };
    let mut rest = &reply[end + 4..];
    while let Some(end) = testkit::reply::find(rest, b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        let Some(piece) = rest.get(end + 2..end + 2 + size) else {
            break;
        };
        body.extend_from_slice(piece);
        rest = rest.get(end + 4 + size..).unwrap_or_default();
    }
    body
}

#[test]
fn an_upstream_says_how_and_other_programs_read_it() {
    let page = "<li>one line of many</li>\n".repeat(2000);
    let reply = |wish: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{wish}Content-Length: {}\r\n\r\n{page}",
            page.len()
        )
    };
    let wishes = [
        ("/none", ""),
        ("/off", "X-Accel-Compression: off\r\n"),
        ("/nine", "X-Accel-Compression: 9\r\n"),
        ("/wrong", "X-Accel-Compression: much\r\n"),
    ];
    let replies = wishes.map(|(path, wish)| (path.to_owned(), reply(wish).into_bytes()));
    let origin = Origin::start(replies.into()).unwrap();
    let inside = format!(
        "gzip on; location / {{ proxy_pass http://127.0.0.1:{}; }}",
        origin.port()
    );
    let site = Site::start("", &inside, &[]);
    for (path, coding) in [
        ("/none", Some("gzip")),
        ("/off", None),
        ("/nine", Some("gzip")),
        ("/wrong", Some("gzip")),
    ] {
        let reply = site.ask("GET", path, &[("Accept-Encoding", "gzip")]);
        assert_eq!(reply.field("Content-Encoding"), coding, "{path}");
        assert_eq!(reply.field("X-Accel-Compression"), None, "{path}");
        assert!(decoded(coding, &reply.body) == page.as_bytes(), "{path}");
        if coding.is_none() {
            continue;
        }
        for program in [["gunzip", "-c"], ["zcat", "-"]] {
            let mut child = Command::new(program[0])
                .arg(program[1])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(&reply.body).unwrap();
            let output = child.wait_with_output().unwrap();
            assert!(
                output.status.success() && output.stdout == page.as_bytes(),
                "{program:?}"
            );
        }
    }
}
