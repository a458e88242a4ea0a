//! The cache where time decides: who waits for whom, what answers meanwhile, upstreams that are gone, purges on the disk,
//! and `gannet warm`. The upstream answers when the test lets it.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use testkit::client::Client;
use testkit::directory::Directory;
use testkit::ports;
use testkit::reply::Reply;
use testkit::server::{Program, Server};

/// The longest that anything is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of the upstream's bodies before the gate, and behind it.
const HALF: usize = 1000;
/// Bytes of a body that is not kept in memory.
const LARGE: usize = 300_000;
/// Stores under way when the worker is killed; GANNET_STORES=N for others.
const STORES: usize = 200;

#[derive(Default)]
struct State {
    requests: HashMap<String, usize>,
    /// Requests that were let through the gate: all of those that came up to here.
    is_open: bool,
    is_down: bool,
}

/// An upstream. `/held…` answers its first request only when the gate is open, `/slow…` sends the second half of its body
/// then, others answer at once.
struct Upstream {
    port: u16,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Upstream {
    fn start() -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // A client that goes away ends its thread only.
                std::thread::spawn(move || drop(answer(stream, &shared)));
            }
        });
        Upstream { port, state }
    }

    fn requests(&self, path: &str) -> usize {
        let state = self.state.0.lock().unwrap();
        state.requests.get(path).copied().unwrap_or(0)
    }

    fn open_gate(&self) {
        self.state.0.lock().unwrap().is_open = true;
        self.state.1.notify_all();
    }

    fn close_gate(&self) {
        self.state.0.lock().unwrap().is_open = false;
    }

    fn set_down(&self, is_down: bool) {
        self.state.0.lock().unwrap().is_down = is_down;
    }
}

fn answer(mut stream: TcpStream, shared: &(Mutex<State>, Condvar)) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte)? == 0 {
            return Ok(());
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let number = {
        let mut state = shared.0.lock().unwrap();
        if state.is_down {
            return Ok(());
        }
        let number = state.requests.entry(path.clone()).or_default();
        *number += 1;
        *number
    };
    if path.starts_with("/fresh") {
        return answer_fresh(&mut stream, &head, number);
    }
    let held_number = if path.starts_with("/update") { 2 } else { 1 };
    if (path.starts_with("/held") || path.starts_with("/update")) && number == held_number {
        wait_for_gate(shared);
    }
    let body = format!("{number}").repeat(2 * HALF);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body.as_bytes()[..HALF])?;
    if path.starts_with("/slow") {
        stream.flush()?;
        wait_for_gate(shared);
    }
    stream.write_all(&body.as_bytes()[HALF..])
}

/// What is large and never changes, but for a field.
fn answer_fresh(stream: &mut TcpStream, head: &str, number: usize) -> std::io::Result<()> {
    let fields = format!("ETag: \"v\"\r\nX-Number: {number}\r\n");
    if head.contains("If-None-Match: \"v\"") {
        let head =
            format!("HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\n{fields}\r\n");
        return stream.write_all(head.as_bytes());
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nContent-Length: {LARGE}\r\n{fields}\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&[b'f'; LARGE])
}

fn wait_for_gate(shared: &(Mutex<State>, Condvar)) {
    let state = shared.0.lock().unwrap();
    let waited = shared
        .1
        .wait_timeout_while(state, PATIENCE, |state| !state.is_open);
    drop(waited.unwrap());
}

/// Gannet with a cache before an upstream.
struct Site {
    upstream: Upstream,
    server: Server,
    lease: ports::Lease,
    directory: Directory,
}

impl Site {
    fn start(inside: &str) -> Site {
        let (directory, lease) = (Directory::create(), ports::lease());
        let upstream = Upstream::start();
        let program = Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))).unwrap();
        let path = directory.path().display();
        let (port, origin) = (lease.port, upstream.port);
        let text = format!(
            "daemon off;\npid {path}/pid;\nworker_processes 2;\nerror_log {path}/error.log notice;\n\
             events {{ worker_connections 4096; }}\n\
             http {{\n access_log off;\n proxy_cache_path {path}/cache keys_zone=zone:1m;\n\
             map $request_method $purge {{ PURGE 1; default 0; }}\n\
             server {{ listen 127.0.0.1:{port};\n location / {{ proxy_pass http://127.0.0.1:{origin};\n\
             proxy_cache zone; proxy_cache_key $uri; proxy_cache_valid 1h; proxy_cache_purge $purge;\n\
             proxy_cache_purge_soft $http_x_soft; add_header X-Cache $upstream_cache_status always;\n {inside} }}\n\
             location ~ ^/captured(/.*)$ {{ proxy_pass http://127.0.0.1:{origin}$1; proxy_cache zone; proxy_cache_key c$1;\n\
             proxy_cache_valid 1h; proxy_cache_purge $purge; proxy_cache_purge_soft $http_x_soft;\n\
             add_header X-Cache $upstream_cache_status always; proxy_cache_use_stale updating;\n\
             proxy_cache_background_update on; }} }}\n}}\n"
        );
        fs::write(directory.path().join("nginx.conf"), text).unwrap();
        let server = Server::start(&program, directory.path()).unwrap();
        Site {
            upstream,
            server,
            lease,
            directory,
        }
    }

    /// Sends a request, and reads no answer.
    fn ask(&self, method: &str, path: &str) -> Client {
        let mut client = Client::connect(self.lease.port).unwrap();
        let soft = if method == "SOFT" {
            "X-Soft: 1\r\n"
        } else {
            ""
        };
        let method = if method == "SOFT" { "PURGE" } else { method };
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{soft}\r\n");
        client.send(request.as_bytes());
        client
    }

    fn reply(&self, method: &str, path: &str) -> Reply {
        self.ask(method, path).read_reply("GET").unwrap()
    }

    /// The status of the cache, and the first digit of the body.
    fn get(&self, path: &str) -> (String, u8) {
        told(&self.reply("GET", path))
    }
}

fn told(reply: &Reply) -> (String, u8) {
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.body.len(), 2 * HALF);
    let status = reply.field("X-Cache").unwrap_or("-").to_owned();
    (status, reply.body[0])
}

fn is(status: &str, number: u8) -> (String, u8) {
    (status.to_owned(), number)
}

#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn many_clients_of_a_cold_key_are_one_request_and_get_its_bytes_as_they_come() {
    let site = Site::start("proxy_cache_lock on;");
    let mut clients: Vec<Client> = (0..200).map(|_| site.ask("GET", "/slow")).collect();
    // The upstream holds the second half back: the first is with everybody all the same.
    for client in &mut clients {
        assert!(client.read_at_least(HALF) >= HALF);
    }
    site.upstream.open_gate();
    for client in &mut clients {
        told(&client.read_reply("GET").unwrap());
    }
    assert_eq!(site.upstream.requests("/slow"), 1);
    assert_eq!(site.get("/slow"), is("HIT", b'1'));
}

#[test]
fn a_lock_is_waited_for_as_long_as_it_says() {
    let site = Site::start("proxy_cache_lock on; proxy_cache_lock_timeout 150ms;");
    let mut first = site.ask("GET", "/held");
    until("the first is asked for", || {
        site.upstream.requests("/held") == 1
    });
    // It asks for itself then, and what it gets is not kept.
    assert_eq!(site.get("/held"), is("MISS", b'2'));
    assert_eq!(site.get("/held"), is("MISS", b'3'));
    site.upstream.open_gate();
    assert_eq!(told(&first.read_reply("GET").unwrap()), is("MISS", b'1'));
    assert_eq!(site.get("/held"), is("HIT", b'1'));
}

#[test]
fn a_lock_that_is_too_old_is_passed_on() {
    let site = Site::start("proxy_cache_lock on; proxy_cache_lock_age 150ms;");
    let mut first = site.ask("GET", "/held");
    until("the first is asked for", || {
        site.upstream.requests("/held") == 1
    });
    assert_eq!(site.get("/held"), is("MISS", b'2'));
    assert_eq!(site.get("/held"), is("HIT", b'2'));
    site.upstream.open_gate();
    assert_eq!(told(&first.read_reply("GET").unwrap()), is("MISS", b'1'));
}

#[test]
fn what_is_out_of_date_answers_while_one_request_updates_it() {
    let site = Site::start("proxy_cache_use_stale updating; proxy_cache_background_update on;");
    assert_eq!(site.get("/update"), is("MISS", b'1'));
    assert_eq!(site.reply("SOFT", "/update").status(), 204);
    assert_eq!(site.get("/update"), is("STALE", b'1'));
    until("the update is asked for", || {
        site.upstream.requests("/update") == 2
    });
    assert_eq!(site.get("/update"), is("UPDATING", b'1'));
    site.upstream.open_gate();
    until("it is updated", || site.get("/update") == is("HIT", b'2'));
    assert_eq!(site.upstream.requests("/update"), 2);
    site.upstream.close_gate();
}

#[test]
fn what_is_fetched_in_the_background_has_the_captures_of_its_request() {
    let site = Site::start("");
    assert_eq!(site.get("/captured/x"), is("MISS", b'1'));
    assert_eq!(site.reply("SOFT", "/captured/x").status(), 204);
    assert_eq!(site.get("/captured/x"), is("STALE", b'1'));
    until("it is updated", || {
        site.get("/captured/x") == is("HIT", b'2')
    });
    assert_eq!(site.upstream.requests("/x"), 2);
}

#[test]
fn an_upstream_that_is_down_is_not_noticed() {
    let site = Site::start("proxy_cache_use_stale error timeout;");
    let paths: Vec<String> = (0..10).map(|number| format!("/a{number}")).collect();
    for path in &paths {
        assert_eq!(site.get(path), is("MISS", b'1'));
    }
    site.upstream.set_down(true);
    assert_eq!(site.reply("SOFT", "/a*").status(), 204);
    for _ in 0..5 {
        for path in &paths {
            assert_eq!(site.get(path), is("STALE", b'1'), "{path}");
        }
    }
    assert_eq!(site.reply("GET", "/never").status(), 502);
    site.upstream.set_down(false);
    assert_eq!(site.get("/a1"), is("EXPIRED", b'2'));
    assert_eq!(site.get("/a1"), is("HIT", b'2'));
}

#[test]
fn the_fields_of_a_304_become_those_of_a_large_response() {
    let mut site = Site::start("cache_semantics rfc9111;");
    let get = |site: &Site| {
        let reply = site.reply("GET", "/fresh");
        assert!(reply.status() == 200 && reply.body == [b'f'; LARGE]);
        let field = |name| reply.field(name).unwrap_or_default().to_owned();
        (field("X-Cache"), field("X-Number"))
    };
    assert_eq!(get(&site), ("MISS".into(), "1".into()));
    assert_eq!(get(&site), ("REVALIDATED".into(), "2".into()));
    until("it is kept with them", || get(&site).0 == "HIT");
    let kept = get(&site);
    assert!(kept.0 == "HIT" && kept.1 != "1", "{kept:?}");
    site.server.stop();
    let program = Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))).unwrap();
    site.server = Server::start(&program, site.directory.path()).unwrap();
    assert_eq!(get(&site), kept);
}

#[test]
fn a_worker_that_is_killed_amid_many_stores_leaves_nothing_half() {
    let site = Site::start("");
    let told_stores = std::env::var("GANNET_STORES").ok();
    let stores = told_stores
        .and_then(|text| text.parse().ok())
        .unwrap_or(STORES);
    let path = |number: usize| format!("/slow{number}");
    let mut clients: Vec<Client> = (0..stores)
        .map(|number| site.ask("GET", &path(number)))
        .collect();
    for client in &mut clients {
        assert!(client.read_at_least(HALF) >= HALF);
    }
    let master = site.server.pid();
    let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children")).unwrap();
    let worker = children.split(' ').next().expect("a worker");
    let killed = Command::new("sh")
        .args(["-c", &format!("kill -KILL {worker}")])
        .status();
    assert!(killed.unwrap().success());
    site.upstream.open_gate();
    drop(clients);
    until("the next worker", || {
        site.ask("GET", "/first").read_reply("GET").is_some()
    });
    for number in 0..stores {
        let reply = site.reply("GET", &path(number));
        assert_eq!(told(&reply), is("MISS", b'2'));
        assert!(reply.body.iter().all(|byte| *byte == b'2'));
        until("it is kept", || site.get(&path(number)) == is("HIT", b'2'));
    }
}

#[test]
fn a_purge_frees_the_disk_in_the_background() {
    let site = Site::start("");
    let files = || {
        let mut left = vec![site.directory.path().join("cache")];
        let mut count = 0;
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    true => left.push(entry.path()),
                    false => {
                        count += usize::from(
                            entry
                                .metadata()
                                .is_ok_and(|data| data.len() >= 2 * HALF as u64),
                        )
                    }
                }
            }
        }
        count
    };
    for number in 0..30 {
        site.get(&format!("/b{number}"));
    }
    until("all are on the disk", || files() == 30);
    assert_eq!(site.reply("PURGE", "/b1*").status(), 204);
    // /b1 and /b10 to /b19.
    until("eleven are gone", || files() == 19);
    assert_eq!(site.get("/b2"), is("HIT", b'1'));
    assert_eq!(site.get("/b12"), is("MISS", b'2'));
}

fn warm(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    let Output {
        status,
        stdout,
        stderr,
    } = command.arg("warm").args(arguments).output().unwrap();
    let said = String::from_utf8([stdout, stderr].concat()).unwrap();
    (status.code(), said)
}

#[test]
fn lists_and_sitemaps_are_fetched_into_the_cache() {
    let site = Site::start("");
    let directory = site.directory.path();
    let origin = format!("http://127.0.0.1:{}", site.lease.port);
    let path = |name: &str| directory.join(name).display().to_string();
    let write = |name: &str, bytes: &[u8]| fs::write(directory.join(name), bytes).unwrap();
    write(
        "list.txt",
        format!("# pages\n{origin}/1\n\n{origin}/2?a=b\n{origin}/1\n").as_bytes(),
    );
    let map = format!(
        "<urlset><url><loc>{origin}/3</loc></url><url><loc>{origin}/4?x&amp;y</loc></url></urlset>"
    );
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(map.as_bytes()).unwrap();
    write("map.xml.gz", &encoder.finish().unwrap());
    let index = format!(
        "<sitemapindex><sitemap><loc>{}</loc></sitemap></sitemapindex>",
        path("map.xml.gz")
    );
    write("index.xml", index.as_bytes());
    let (code, said) = warm(&[&path("list.txt"), &path("index.xml"), "--rate", "1000"]);
    assert_eq!(
        (
            code,
            said.starts_with("4 fetched, 0 failed, 8000 bytes in ")
        ),
        (Some(0), true),
        "{said}"
    );
    for path in ["/1", "/2", "/3", "/4"] {
        assert_eq!(site.get(path), is("HIT", b'1'), "{path}");
    }
    // The rate holds, other servers' URLs may be asked of this one, and failures are told.
    write(
        "list.txt",
        b"http://other.test/5\nhttp://other.test/6\nhttp://other.test/7\nhttp://other.test/8\n",
    );
    let server = format!("127.0.0.1:{}", site.lease.port);
    let begun = Instant::now();
    let (code, said) = warm(&[&path("list.txt"), "--rate", "20", "--server", &server]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        begun.elapsed() >= Duration::from_millis(150),
        "three steps of 50 ms"
    );
    assert_eq!(site.get("/5"), is("HIT", b'1'));
    site.upstream.set_down(true);
    write("list.txt", format!("{origin}/9\n").as_bytes());
    let (code, said) = warm(&[&path("list.txt")]);
    assert_eq!(code, Some(1));
    assert!(said.contains("/9: status 502"), "{said}");
    let broken: [(&str, &[u8]); 2] = [
        ("broken.xml", b"<urlset><loc>http://a/"),
        ("broken.gz", b"\x1f\x8bx"),
    ];
    for (name, bytes) in broken {
        write(name, bytes);
        let (code, said) = warm(&[&path(name)]);
        assert_eq!((code, said.contains(name)), (Some(1), true), "{said}");
    }
    assert_eq!(warm(&[&path("missing")]).0, Some(1));
    assert!(site.server.pid() > 0);
}
