//! HTTP/2 against nginx, whose log tells what was agreed on: as many requests as were counted, on as few connections.

use load::{Control, Nobody, Report};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::directory::Directory;
use testkit::ports;
use testkit::server::{Program, Server};

fn run(arguments: &str) -> Result<Report, String> {
    let words: Vec<OsString> = arguments.split_whitespace().map(OsString::from).collect();
    let plan = load::command::planned(&words)?;
    load::run(&Arc::new(plan), &Arc::new(Control::default()), &mut Nobody)
}

#[test]
fn users_share_connections() {
    let Some(nginx) = Program::nginx() else {
        eprintln!("skipped: nginx is not installed");
        return;
    };
    let (directory, plain, secure) = (Directory::create(), ports::lease(), ports::lease());
    let path = directory.path().display();
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tls");
    let configuration = format!(
        "daemon off;\npid {path}/pid;\nerror_log {path}/error.log;\nevents {{ }}\nhttp {{\n\
         log_format l '$connection $server_protocol $request_method $content_length $uri';\n\
         access_log {path}/access.log l;\nclient_body_temp_path {path}/t;\n\
         server {{ listen 127.0.0.1:{} http2; listen 127.0.0.1:{} ssl http2; keepalive_requests 100;\n\
         ssl_certificate {fixtures}/certificate.pem; ssl_certificate_key {fixtures}/key.pem;\n\
         location / {{ return 200 0123456789; }}\nlocation /none {{ return 404; }}\n}}\n}}\n",
        plain.port, secure.port
    );
    std::fs::write(directory.path().join("nginx.conf"), configuration).unwrap();
    let mut server = Server::start(&nginx, directory.path()).unwrap();
    let (http, https) = (
        format!("http://127.0.0.1:{}", plain.port),
        format!("https://127.0.0.1:{}", secure.port),
    );
    let mut requests = 0;
    for (arguments, connections) in [
        (
            format!("--http2-prior-knowledge -n 90 -c 10 --streams 5 -t 1 {http}/a"),
            2,
        ),
        (
            format!("--http2 -k -n 90 -c 10 --streams 10 -t 2 {https}/b"),
            1,
        ),
        (
            format!("--http2 -k -n 20 -c 2 --new-connection {https}/c"),
            20,
        ),
        (
            format!("--http2 -k -n 20 -c 2 -t 1 --body x=1 {https}/d"),
            2,
        ),
        // The server ends a connection after its hundredth request, and works on none that it has not counted.
        (
            format!("--http2 -k -n 250 -c 1 -t 1 --body x=1 {https}/e"),
            3,
        ),
    ] {
        let report = run(&arguments).unwrap();
        let total = &report.total;
        assert_eq!(
            (total.failures, report.opened),
            (0, connections),
            "{arguments}"
        );
        assert_eq!(total.body_bytes, 10 * total.requests, "{arguments}");
        assert!(total.received_bytes > 19 * total.requests, "{arguments}");
        requests += total.requests;
    }
    // nginx ends a connection after 100 requests: that is no failure.
    let report = run(&format!(
        "--http2 -k -n 350 -c 4 --streams 4 --body x=1 {https}/e"
    ))
    .unwrap();
    assert_eq!(
        (report.total.requests, report.total.failures),
        (350, 0),
        "{:?}",
        report.failures
    );
    requests += report.total.requests;
    let report = run(&format!("--http2 -k -n 5 {https}/none")).unwrap();
    assert_eq!(
        (report.total.failures, report.statuses.get(&404)),
        (5, Some(&5))
    );
    requests += 5;
    server.stop();
    let log = std::fs::read_to_string(directory.path().join("access.log")).unwrap();
    assert_eq!(log.lines().count() as u64, requests);
    assert!(log.lines().all(|line| line.contains(" HTTP/2.0 ")), "{log}");
    assert!(log.contains(" POST 3 /d"), "{log}");
}

#[test]
fn what_does_not_go_together_is_told() {
    for (arguments, text) in [
        ("--http2 http://127.0.0.1:1/", "say --http2-prior-knowledge"),
        (
            "--streams 5 http://127.0.0.1:1/",
            "--streams belongs to --http2",
        ),
        ("--http2 --streams 0 https://127.0.0.1:1/", "between 1 and"),
        (
            "--http2 --streams 2 --new-connection https://127.0.0.1:1/",
            "no connection for --streams",
        ),
    ] {
        let complaint = run(arguments).err().unwrap_or_default();
        assert!(complaint.contains(text), "{arguments}: {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{arguments}");
    }
}

/// A server of HTTP/2 that breaks the connection instead of answering its second request; counts what it saw.
fn breaking() -> (u16, Arc<AtomicUsize>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&seen);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                // The connection that only looks whether somebody is there says nothing.
                let Ok(mut connection) = h2::server::handshake(stream).await else {
                    continue;
                };
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    if counter.fetch_add(1, Ordering::Relaxed) == 1 {
                        break;
                    }
                    respond
                        .send_response(http::Response::new(()), true)
                        .unwrap();
                }
            }
        });
    });
    (port, seen)
}

#[test]
fn a_post_is_not_sent_twice() {
    for (arguments, failures, requests) in [
        ("-X GET", 0, 5),
        ("-X POST", 1, 4),
        ("-X POST --repeat-any", 0, 5),
    ] {
        let (port, seen) = breaking();
        let words = "--http2-prior-knowledge -n 4 -c 1 -t 1";
        let report = run(&format!("{words} {arguments} http://127.0.0.1:{port}/")).unwrap();
        assert_eq!(report.total.failures, failures, "{arguments}");
        assert_eq!(seen.load(Ordering::Relaxed), requests, "{arguments}");
    }
}
