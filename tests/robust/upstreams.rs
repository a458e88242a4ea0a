//! Upstreams that fail in every way: what the client gets, what the log says, that others are served meanwhile, and that
//! nothing is left behind.

use crate::site::{Site, request, wait_for};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::acceptor::Acceptor;

/// A large body: it passes, and is never held whole in memory.
const LARGE: usize = 200 * 1024 * 1024;
/// What the server may grow by while it passes, in bytes.
const GROWTH_MAX: u64 = 50 * 1024 * 1024;

/// Reads the head of a request and what came with it; `None` at the end of the connection.
fn head(stream: &mut TcpStream) -> Option<Vec<u8>> {
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .ok()?;
    let mut received = Vec::new();
    let mut piece = [0; 4096];
    while testkit::reply::find(&received, b"\r\n\r\n").is_none() {
        match stream.read(&mut piece) {
            Ok(read) if read > 0 => received.extend_from_slice(&piece[..read]),
            _ => return None,
        }
    }
    Some(received)
}

/// An origin that does this with each connection.
fn origin(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Acceptor {
    Acceptor::start(serve).expect("a free port")
}

/// One that sends these bytes for each request and closes.
fn sends(reply: &'static [u8]) -> Acceptor {
    origin(move |mut stream| {
        if head(&mut stream).is_some() {
            // The server may have gone first.
            let _gone = stream.write_all(reply);
        }
    })
}

fn proxied(to: &Acceptor, more: &str) -> Site {
    let port = to.port();
    let server = format!(
        "proxy_temp_path temp; client_body_temp_path body; {more}\
         location /up {{ proxy_pass http://127.0.0.1:{port}; }}"
    );
    Site::start_with("worker_processes 1;", "client_max_body_size 0;", &server)
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Bytes of memory that the process has now.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    number.expect("a resident size") * 1024
}

#[test]
fn an_origin_that_stalls_is_given_up_while_others_are_served() {
    let origin = origin(|mut stream| {
        let _asked = head(&mut stream);
        let _until_closed = stream.read(&mut [0; 16]);
    });
    let site = proxied(&origin, "proxy_read_timeout 1s;");
    let mut client = site.connect();
    client.send(request("/up", "close").as_bytes());
    for _ in 0..20 {
        assert_eq!(site.ask("/small.txt").status(), 200);
    }
    let reply = client.read_reply("GET").expect("a reply");
    assert_eq!(reply.status(), 504);
    site.wait_for_log(
        "upstream timed out (110: Connection timed out) while reading response header from upstream",
        1,
    );
}

#[test]
fn an_origin_that_is_not_there_or_resets_is_a_bad_gateway() {
    let origin = origin(|mut stream| {
        // Closed with bytes unread: the kernel resets the connection.
        let _some = stream.read(&mut [0; 1]);
    });
    let site = proxied(&origin, "");
    assert_eq!(site.ask("/up").status(), 502);
    drop(origin);
    assert_eq!(site.ask("/up").status(), 502);
    site.wait_for_log(
        "connect() failed (111: Connection refused) while connecting to upstream",
        1,
    );
}

#[test]
fn a_short_body_is_seen_to_be_short() {
    let origin = sends(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
    let site = proxied(&origin, "");
    let mut client = site.connect();
    client.send(request("/up", "keep-alive").as_bytes());
    let (received, _end) = client.read_to_end();
    assert!(received.ends_with(b"only this"));
    site.wait_for_log(
        "upstream prematurely closed connection while reading upstream",
        1,
    );
}

#[test]
fn a_body_beyond_its_length_is_cut() {
    let origin = sends(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbodyand more");
    let site = proxied(&origin, "");
    let reply = site.ask("/up");
    assert_eq!((reply.status(), reply.text()), (200, "body".to_owned()));
    site.wait_for_log("upstream sent more data than specified", 1);
}

/// Each connection answers one request, and closes when the next comes.
fn closing(requests: &Arc<AtomicUsize>) -> Acceptor {
    let requests = Arc::clone(requests);
    origin(move |mut stream| {
        if head(&mut stream).is_some() {
            requests.fetch_add(1, Ordering::Relaxed);
            let _sent = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
            let _next = head(&mut stream);
        }
    })
}

#[test]
fn a_kept_connection_that_closes_under_a_request_is_replaced_for_requests_that_may_repeat() {
    let requests = Arc::default();
    let origin = closing(&requests);
    let port = origin.port();
    let site = Site::start_with(
        "worker_processes 1;",
        &format!("upstream kept {{ server 127.0.0.1:{port}; keepalive 4; }}"),
        "location /up { proxy_pass http://kept; proxy_http_version 1.1; proxy_set_header Connection ''; }",
    );
    for _ in 0..10 {
        assert_eq!(site.ask("/up").status(), 200);
    }
    assert_eq!(requests.load(Ordering::Relaxed), 10);
    // What a POST has done is not known: it is not sent again.
    let mut client = site.connect();
    client
        .send(b"POST /up HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!(client.read_reply("POST").expect("a reply").status(), 502);
}

#[test]
fn an_upstream_is_let_go_when_the_client_leaves() {
    let (asked, gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (questions, counter) = (Arc::clone(&asked), Arc::clone(&gone));
    let origin = origin(move |mut stream| {
        let _asked = head(&mut stream);
        questions.fetch_add(1, Ordering::Relaxed);
        if matches!(stream.read(&mut [0; 16]), Ok(0)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let site = proxied(&origin, "");
    // It is up when it answers.
    assert_eq!(site.ask("/small.txt").status(), 200);
    let before = descriptors(site.worker());
    for number in 1..=10 {
        let mut client = site.connect();
        client.send(request("/up", "close").as_bytes());
        wait_for("a request at the origin", || {
            (asked.load(Ordering::Relaxed) == number).then_some(())
        });
        drop(client);
    }
    wait_for("the origin to see the ends", || {
        (gone.load(Ordering::Relaxed) == 10).then_some(())
    });
    wait_for("no descriptor left", || {
        (descriptors(site.worker()) <= before).then_some(())
    });
    let log = wait_for("the access log", || {
        let log = std::fs::read_to_string(site.file("access.log")).ok()?;
        (log.lines().count() == 11).then_some(log)
    });
    assert_eq!(log.matches("\" 499 ").count(), 10, "{log}");
}

#[test]
fn large_bodies_pass_both_ways_without_being_held() {
    let origin = origin(|mut stream| {
        let Some(received) = head(&mut stream) else {
            return;
        };
        let text = String::from_utf8_lossy(&received).to_ascii_lowercase();
        if text.starts_with("get") {
            let _sent = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n");
            let piece = vec![b'x'; 1 << 20];
            for _ in 0..LARGE / piece.len() {
                if stream.write_all(&piece).is_err() {
                    return;
                }
            }
            return;
        }
        let body_start = testkit::reply::find(&received, b"\r\n\r\n").unwrap_or(0) + 4;
        let mut count = received.len() - body_start;
        let mut piece = vec![0; 1 << 16];
        while count < LARGE {
            match stream.read(&mut piece) {
                Ok(read) if read > 0 => count += read,
                _ => break,
            }
        }
        let _sent = write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{count}",
            count.to_string().len()
        );
    });
    for more in ["", "proxy_buffering off; proxy_request_buffering off;"] {
        let site = proxied(&origin, more);
        let worker = site.worker();
        assert_eq!(site.ask("/up/warm?but=small").status(), 200);
        let before = resident(worker);
        let mut stream = TcpStream::connect(("127.0.0.1", site.port)).expect("it listens");
        stream
            .write_all(request("/up", "close").as_bytes())
            .expect("it listens");
        // A client that takes its time at first.
        wait_for("the response to begin", || {
            (stream.peek(&mut [0; 1]).ok()? > 0).then_some(())
        });
        let (mut received, mut piece, mut most) = (0, vec![0; 1 << 20], 0);
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            received += read;
            most = most.max(resident(worker));
        }
        assert!(received > LARGE, "{received} bytes came");
        let mut stream = TcpStream::connect(("127.0.0.1", site.port)).expect("it listens");
        write!(
            stream,
            "POST /up HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {LARGE}\r\n\r\n"
        )
        .expect("it listens");
        let piece = vec![b'y'; 1 << 20];
        for _ in 0..LARGE / piece.len() {
            stream.write_all(&piece).expect("it reads");
            most = most.max(resident(worker));
        }
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("a reply");
        assert!(reply.ends_with(&LARGE.to_string()), "{reply}");
        let growth = most.saturating_sub(before);
        assert!(growth <= GROWTH_MAX, "{more}: grew by {growth} bytes");
    }
}

#[test]
fn a_switched_protocol_passes_both_ways() {
    let origin = origin(|mut stream| {
        let Some(received) = head(&mut stream) else {
            return;
        };
        assert!(String::from_utf8_lossy(&received).contains("Upgrade: echo"));
        let switched = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\nhello ";
        let _sent = stream.write_all(switched);
        let mut piece = [0; 1024];
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            if stream.write_all(&piece[..read]).is_err() {
                return;
            }
        }
    });
    let site = proxied(
        &origin,
        "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;",
    );
    let mut stream = TcpStream::connect(("127.0.0.1", site.port)).expect("it listens");
    stream
        .write_all(
            b"GET /up HTTP/1.1\r\nHost: h\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\nearly ",
        )
        .expect("it listens");
    let mut received = Vec::new();
    let mut piece = [0; 1024];
    let mut wait_until = |stream: &mut TcpStream, text: &[u8]| {
        while !received.ends_with(text) {
            let read = stream.read(&mut piece).expect("more");
            assert!(read > 0, "{}", String::from_utf8_lossy(&received));
            received.extend_from_slice(&piece[..read]);
        }
    };
    wait_until(&mut stream, b"early ");
    stream.write_all(b"and late").expect("it is open");
    wait_until(&mut stream, b"and late");
    assert!(received.starts_with(b"HTTP/1.1 101 Switching Protocols\r\n"));
    stream
        .shutdown(std::net::Shutdown::Write)
        .expect("it is open");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the end");
    assert!(rest.is_empty());
}

#[test]
fn a_response_is_stored_whole_or_not_at_all() {
    let whole = sends(
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nLast-Modified: Mon, 01 Jan 2001 00:00:00 GMT\r\n\r\nbody",
    );
    let short = sends(b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\nbody");
    let (whole_port, short_port) = (whole.port(), short.port());
    let site = Site::prepared();
    let kept = site.file("kept");
    std::fs::create_dir(&kept).expect("our directory");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&kept, open).expect("our directory");
    let path = kept.display();
    let mut site = site;
    site.configure(&format!(
        "proxy_temp_path temp; proxy_store {path}/a$uri; proxy_store_access user:rw group:r all:r;\
         location /up {{ proxy_pass http://127.0.0.1:{whole_port}; }}\
         location /short {{ proxy_pass http://127.0.0.1:{short_port}; }}"
    ));
    site.run();
    assert_eq!(site.ask("/up").text(), "body");
    let stored = kept.join("a/up");
    wait_for("the stored file", || stored.exists().then_some(()));
    let metadata = std::fs::metadata(&stored).expect("it is there");
    let modified = metadata.modified().expect("a time");
    let seconds = modified.duration_since(std::time::UNIX_EPOCH);
    assert_eq!(seconds.expect("after 1970").as_secs(), 978_307_200);
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777,
        0o644
    );
    assert_eq!(std::fs::read(&stored).expect("readable"), b"body");
    let mut client = site.connect();
    client.send(request("/short", "close").as_bytes());
    let _cut = client.read_to_end();
    site.wait_for_log(
        "upstream prematurely closed connection while reading upstream",
        1,
    );
    assert!(!kept.join("a/short").exists());
    let left = std::fs::read_dir(site.file("temp")).expect("our directory");
    let files = left
        .flatten()
        .filter(|entry| entry.path().is_file())
        .count();
    assert_eq!(files, 0);
}

#[test]
fn hints_and_trailers_pass_where_they_are_wanted() {
    let origin = sends(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 7\r\n\r\n",
    );
    let read = |site: &Site| {
        let mut client = site.connect();
        client.send(request("/up", "close").as_bytes());
        String::from_utf8(client.read_to_end().0).expect("text")
    };
    let passed = read(&proxied(
        &origin,
        "early_hints $host; proxy_pass_trailers on;",
    ));
    assert!(
        passed.starts_with("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\n")
    );
    assert!(
        passed.ends_with("4\r\nbody\r\n0\r\nX-Sum: 7\r\n\r\n"),
        "{passed}"
    );
    let plain = read(&proxied(&origin, "early_hints '' 0;"));
    assert!(
        plain.starts_with("HTTP/1.1 200 OK\r\n") && plain.ends_with("\r\n0\r\n\r\n"),
        "{plain}"
    );
}

#[test]
fn a_body_that_went_to_one_upstream_is_not_promised_to_another() {
    let first = origin(|mut stream| {
        let Some(_head) = head(&mut stream) else {
            return;
        };
        // The rest of the body is still to come.
        let _sent =
            stream.write_all(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
    let heads = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let second = origin(move |mut stream| {
        while let Some(received) = head(&mut stream) {
            let text = String::from_utf8_lossy(&received).to_ascii_lowercase();
            seen.lock().expect("no panic").push(text);
            if stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond")
                .is_err()
            {
                return;
            }
        }
    });
    let (first_port, second_port) = (first.port(), second.port());
    let site = Site::start_with(
        "worker_processes 1;",
        &format!("upstream kept {{ server 127.0.0.1:{second_port}; keepalive 4; }}"),
        &format!(
            "proxy_http_version 1.1; proxy_set_header Connection ''; proxy_request_buffering off;\
             location /up {{ proxy_pass http://127.0.0.1:{first_port}; proxy_intercept_errors on; error_page 500 = /other; }}\
             location /other {{ proxy_pass http://kept; }}"
        ),
    );
    for _ in 0..5 {
        let mut client = site.connect();
        client.send(
            b"POST /up HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 10\r\n\r\n01234",
        );
        let reply = client.read_reply("POST").expect("a reply");
        assert_eq!((reply.status(), reply.text()), (200, "second".to_owned()));
        assert_eq!(site.ask("/other").text(), "second");
    }
    let heads = heads.lock().expect("no panic");
    assert!(!heads.is_empty());
    for text in heads.iter() {
        assert!(text.starts_with("get /other "), "{text}");
        assert!(
            !text.contains("content-length") && !text.contains("transfer-encoding"),
            "{text}"
        );
    }
}

#[test]
fn a_body_that_nobody_asked_for_does_not_reach_the_next_request() {
    let origin = origin(|mut stream| {
        while head(&mut stream).is_some() {
            if stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 38\r\n\r\n")
                .is_err()
            {
                return;
            }
            // In a packet of its own.
            let _flushed = stream.flush();
            std::thread::sleep(Duration::from_millis(20));
            let _sent = stream.write_all(b"HTTP/1.1 403 Forged\r\nContent-Length: 0\r\n");
        }
    });
    let port = origin.port();
    let site = Site::start_with(
        "worker_processes 1;",
        &format!("upstream kept {{ server 127.0.0.1:{port}; keepalive 4; }}"),
        "proxy_http_version 1.1; proxy_set_header Connection ''; proxy_method GET;\
         location /up { proxy_pass http://kept; }",
    );
    for _ in 0..5 {
        let mut client = site.connect();
        client.send(b"HEAD /up HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        assert_eq!(client.read_reply("HEAD").expect("a reply").status(), 200);
        assert_eq!(site.ask("/up").status(), 200);
    }
}
