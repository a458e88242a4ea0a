//! HTTP/2 as a connection: its end, its limits, floods, slow readers, priorities, and a suite of conformance tests. What
//! single requests get is in `cases/http2`.

mod frames;
mod upstreams;

use frames::{
    CONTINUATION, DATA, END_STREAM, Frames, GOAWAY, HEADERS, PING, PRIORITY_UPDATE, RST_STREAM,
    SETTINGS, error, frame, get, head,
};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::client::Client;
use testkit::directory::Directory;
use testkit::ports;
use testkit::server::{Program, Server};

const NO_ERROR: u32 = 0;
const ENHANCE_YOUR_CALM: u32 = 11;

struct Running {
    server: Server,
    lease: ports::Lease,
    directory: Directory,
}

impl Running {
    fn start(inside: &str) -> Running {
        Running::start_with("", inside)
    }

    fn start_with(around: &str, inside: &str) -> Running {
        let directory = Directory::create();
        let lease = ports::lease();
        let program = Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))).unwrap();
        fs::create_dir(directory.path().join("html")).unwrap();
        fs::write(directory.path().join("html/a.txt"), "a\n").unwrap();
        fs::write(directory.path().join("html/1k"), vec![b'x'; 1000]).unwrap();
        fs::write(directory.path().join("html/big"), vec![b'x'; 8 << 20]).unwrap();
        let port = lease.port;
        write_configuration(&directory, port, around, inside);
        let server = Server::start(&program, directory.path()).unwrap();
        Running {
            server,
            lease,
            directory,
        }
    }

    /// Another configuration comes into force.
    fn reload(&self, port: u16, inside: &str) {
        write_configuration(&self.directory, port, "", inside);
        let told = || self.error_log().matches("reconfiguring").count();
        let before = told();
        self.server.signal("HUP");
        wait_until("the reload", || told() > before);
    }

    fn connect(&self) -> Frames {
        Frames::connect(self.lease.port)
    }

    fn error_log(&self) -> String {
        fs::read_to_string(self.directory.path().join("error.log")).unwrap()
    }

    /// Whether others are still served, by either protocol.
    fn serves(&self) {
        let mut client = Client::connect(self.lease.port).unwrap();
        client.send(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(client.read_reply("GET").unwrap().text(), "a\n");
        let mut client = self.connect();
        client.send(&get(1, "/a.txt", &[]));
        assert_eq!(client.body(1), Some(2));
    }

    /// The resident memory of the worker in bytes.
    fn memory(&self) -> u64 {
        let children = format!("/proc/{0}/task/{0}/children", self.server.pid());
        let worker = fs::read_to_string(children).unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", worker.trim())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let words = line.unwrap().split_whitespace().nth(1).unwrap();
        words.parse::<u64>().unwrap() * 1024
    }
}

fn write_configuration(directory: &Directory, port: u16, around: &str, inside: &str) {
    let path = directory.path().display();
    let text = format!(
        "daemon off;\npid {path}/pid;\nworker_processes 1;\nerror_log {path}/error.log info;\nevents {{ }}\n\
         http {{\n access_log off; http2 on; {around}\n\
         server {{ listen 127.0.0.1:{port}; root {path}/html; {inside} }}\n}}\n"
    );
    fs::write(directory.path().join("nginx.conf"), text).unwrap();
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_request_under_way_is_answered_after_the_farewell() {
    let mut running = Running::start("location = /big { limit_rate 8m; limit_rate_after 1; }");
    let (mut busy, mut idle) = (running.connect(), running.connect());
    idle.send(&get(1, "/a.txt", &[]));
    assert_eq!(idle.body(1), Some(2));
    busy.send(&get(1, "/big", &[]));
    busy.until(DATA).unwrap();
    running.server.signal("QUIT");
    assert_eq!(error(&idle.until(GOAWAY).unwrap()), NO_ERROR);
    assert!(idle.next().is_none(), "the idle connection ends");
    let mut told = false;
    let mut length = 0;
    while let Some(frame) = busy.next() {
        match frame.kind {
            GOAWAY => told = true,
            // The library asks whether the farewell has come.
            PING if frame.flags == 0 => {
                assert!(busy.send(&frames::frame(PING, 1, 0, &frame.payload)))
            }
            DATA => length += frame.payload.len(),
            _ => {}
        }
    }
    assert!(told && length > 4 << 20, "{told} {length}");
    assert!(running.server.stop().unwrap().success());
}

#[test]
fn a_reload_leaves_streams_and_connections() {
    let slow = "location = /big { limit_rate 8m; limit_rate_after 1; }";
    let running = Running::start(&format!("{slow} location = /which {{ return 200 old; }}"));
    let mut client = running.connect();
    client.send(&get(1, "/big", &[]));
    let mut length = client.until(DATA).unwrap().payload.len();
    running.reload(
        running.lease.port,
        "location = /which { return 200 newer; }",
    );
    // The stream goes on as it began, and the next one is answered by what holds now.
    wait_until("the new configuration", || {
        let mut other = running.connect();
        other.send(&get(1, "/which", &[]));
        other.body(1) == Some(5)
    });
    client.send(&get(3, "/which", &[]));
    let (mut next, mut ended) = (0, 0);
    while ended < 2 {
        let frame = client.next().expect("no end, and no farewell");
        assert_ne!(frame.kind, GOAWAY);
        match (frame.kind, frame.stream) {
            (DATA, 1) => length += frame.payload.len(),
            (DATA, 3) => next += frame.payload.len(),
            _ => {}
        }
        ended += usize::from(frame.kind == DATA && frame.flags & END_STREAM != 0);
    }
    assert_eq!((length, next), (8 << 20, 5));
}

#[test]
fn an_address_that_goes_says_farewell() {
    let running = Running::start("location = /big { limit_rate 8m; limit_rate_after 1; }");
    let other = ports::lease();
    let (mut busy, mut idle) = (running.connect(), running.connect());
    idle.send(&get(1, "/a.txt", &[]));
    assert_eq!(idle.body(1), Some(2));
    busy.send(&get(1, "/big", &[]));
    busy.until(DATA).unwrap();
    running.reload(other.port, "");
    assert_eq!(error(&idle.until(GOAWAY).unwrap()), NO_ERROR);
    assert!(idle.next().is_none(), "the idle connection ends");
    let (mut told, mut length) = (false, 0);
    while let Some(frame) = busy.next() {
        match frame.kind {
            GOAWAY => told = true,
            PING if frame.flags == 0 => {
                assert!(busy.send(&frames::frame(PING, 1, 0, &frame.payload)))
            }
            DATA => length += frame.payload.len(),
            _ => {}
        }
    }
    assert!(told && length > 4 << 20, "{told} {length}");
}

#[test]
fn a_connection_has_its_share_of_requests_and_time() {
    let running = Running::start("keepalive_requests 2; keepalive_timeout 300ms;");
    let mut client = running.connect();
    client.send(&[get(1, "/a.txt", &[]), get(3, "/a.txt", &[])].concat());
    assert_eq!(error(&client.until(GOAWAY).unwrap()), NO_ERROR);
    let mut idle = running.connect();
    idle.send(&get(1, "/a.txt", &[]));
    assert_eq!(idle.body(1), Some(2));
    let begun = Instant::now();
    assert_eq!(error(&idle.until(GOAWAY).unwrap()), NO_ERROR);
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert!(idle.next().is_none());
}

#[test]
fn a_preface_that_does_not_come_is_not_waited_for() {
    let running = Running::start("client_header_timeout 200ms;");
    let mut client = Client::connect(running.lease.port).unwrap();
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM");
    let (_, end) = client.read_to_end();
    assert_eq!(end, testkit::client::End::Closed);
}

#[test]
fn floods_end_their_connection_and_nothing_else() {
    let running = Running::start("");
    let ping = frame(PING, 0, 0, b"12345678").repeat(4096);
    let settings = frame(SETTINGS, 0, 0, &[]).repeat(4096);
    let reset: Vec<u8> = (0..4096)
        .flat_map(|number| {
            let stream = 2 * number + 1;
            let cancel = frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]);
            [get(stream, "/big", &[]), cancel].concat()
        })
        .collect();
    let field = [&[0, 1, b'a', 100][..], &[b'v'; 100]].concat();
    let more = frame(CONTINUATION, 0, 1, &field.repeat(150));
    let continuation = [
        frame(HEADERS, END_STREAM, 1, &head("/", &[])),
        more.repeat(64),
    ]
    .concat();
    for (name, flood) in [
        ("ping", ping),
        ("settings", settings),
        ("reset", reset),
        ("continuation", continuation),
    ] {
        let mut client = running.connect();
        let begun = Instant::now();
        let mut told = false;
        let mut goes_on = true;
        // Pings and settings are answered until the server has had enough; the others are sent once.
        while goes_on && !told && begun.elapsed() < Duration::from_secs(20) {
            goes_on = client.send(&flood) && matches!(name, "ping" | "settings");
            let answers = if goes_on { 4096 } else { usize::MAX };
            for _ in 0..answers {
                match client.next() {
                    Some(frame) if frame.kind == GOAWAY => {
                        assert_eq!(error(&frame), ENHANCE_YOUR_CALM, "{name}");
                        told = true;
                        break;
                    }
                    Some(_) => {}
                    None => {
                        goes_on = false;
                        break;
                    }
                }
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{name}");
        running.serves();
    }
    assert!(running.error_log().contains("http2 flood detected"));
}

#[test]
fn slow_readers_hold_little_memory() {
    let running = Running::start("sendfile on; send_timeout 60s;");
    running.serves();
    let before = running.memory();
    let mut clients: Vec<Frames> = (0..4).map(|_| running.connect()).collect();
    for client in &mut clients {
        let all: Vec<u8> = (0..100)
            .flat_map(|at| get(2 * at + 1, "/big", &[]))
            .collect();
        client.send(&all);
        client.until(DATA).unwrap();
    }
    running.serves();
    let grown = running.memory().saturating_sub(before);
    // 400 streams; each has read a piece of its file, and a connection's queue is bounded.
    assert!(grown < 64 << 20, "{grown} bytes");
}

#[test]
fn a_slow_reader_is_given_up() {
    let running = Running::start("send_timeout 300ms;");
    let mut client = running.connect();
    let all: Vec<u8> = (0..20)
        .flat_map(|at| get(2 * at + 1, "/big", &[]))
        .collect();
    client.send(&all);
    wait_until("the connection is given up", || {
        running.error_log().contains("client timed out")
    });
    running.serves();
}

/// The streams in the order of their ends.
fn ends(client: &mut Frames, count: usize) -> Vec<u32> {
    let mut ended = Vec::new();
    while ended.len() < count {
        let frame = client.next().unwrap();
        if frame.kind == DATA && frame.flags & END_STREAM != 0 {
            ended.push(frame.stream);
        }
    }
    ended
}

#[test]
fn the_most_urgent_response_comes_first() {
    let running = Running::start("");
    let mut client = running.connect();
    let requests = [
        get(1, "/big", &[("priority", "u=6")]),
        get(3, "/big", &[]),
        get(5, "/big", &[("priority", "u=0")]),
    ];
    client.send(&requests.concat());
    assert_eq!(ends(&mut client, 3), [5, 3, 1]);
    // The frame takes the field's place.
    let mut client = running.connect();
    let update = [&[0, 0, 0, 3][..], b"u=0"].concat();
    let requests = [
        get(1, "/big", &[]),
        get(3, "/big", &[("priority", "u=7")]),
        frame(PRIORITY_UPDATE, 0, 0, &update),
    ];
    client.send(&requests.concat());
    assert_eq!(ends(&mut client, 2), [3, 1]);
}

/// h2spec, where it is installed: in the path, or where `H2SPEC` says.
#[test]
fn the_suite_of_conformance_tests_passes() {
    let program = std::env::var("H2SPEC").unwrap_or_else(|_| "h2spec".to_string());
    if Command::new(&program).arg("--version").output().is_err() {
        eprintln!("skipped: h2spec is not installed");
        return;
    }
    let secure = ports::lease();
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls");
    let running = Running::start(&format!(
        "listen 127.0.0.1:{} ssl; ssl_certificate {files}/certificate.pem; ssl_certificate_key {files}/key.pem;",
        secure.port
    ));
    let run = |port: u16, more: &[&str]| {
        let port = port.to_string();
        let output = Command::new(&program)
            .args(["-h", "127.0.0.1", "-p", &port, "-P", "/1k", "-o", "5"])
            .args(more)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let summary = said.lines().rev().find(|line| line.contains(" tests, "));
        (summary.unwrap_or_default().to_string(), said)
    };
    let (summary, said) = run(secure.port, &["-t", "-k"]);
    assert!(summary.ends_with(" 0 skipped, 0 failed"), "{said}");
    // A cleartext address speaks HTTP/1, too: what is no preface is answered as a bad request of that.
    let (summary, said) = run(running.lease.port, &[]);
    assert!(summary.ends_with(" 0 skipped, 1 failed"), "{said}");
    assert!(
        said.contains("2: Sends invalid connection preface"),
        "{said}"
    );
    running.serves();
}
