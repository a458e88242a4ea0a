//! `gannet load` from the outside: its counts are those of the server's log, and bad input gets one clear line.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::directory::Directory;
use testkit::ports;
use testkit::responder::Responder;
use testkit::server::{Program, Server};

fn load(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gannet"))
        .arg("load")
        .args(arguments)
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The single line of a complaint.
fn complaint(arguments: &[&str]) -> String {
    let output = load(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
    text.trim_end().to_owned()
}

/// The number after a word of the summary.
fn count(summary: &str, word: &str) -> usize {
    let line = summary.lines().find(|line| line.starts_with(word));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    number.unwrap_or_else(|| panic!("no {word} in\n{summary}"))
}

#[test]
fn counts_are_those_of_the_access_log() {
    let (directory, lease) = (Directory::create(), ports::lease());
    let (path, port) = (directory.path().display(), lease.port);
    let configuration = format!(
        "daemon off;\npid {path}/pid;\nworker_processes 2;\nerror_log {path}/error.log;\nevents {{ }}\nhttp {{\n\
         log_format l '$connection $status $request';\naccess_log {path}/access.log l;\n\
         server {{ listen 127.0.0.1:{port}; keepalive_requests 50;\n\
         location /a {{ return 200 aaa; }}\nlocation /b {{ return 200 bbb; }}\n\
         location /e {{ return 404; }}\n}}\n}}\n"
    );
    fs::write(directory.path().join("nginx.conf"), configuration).unwrap();
    let program = Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))).unwrap();
    let mut server = Server::start(&program, directory.path()).unwrap();
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
    let (a, b, e) = (url("/a"), format!("3:{}", url("/b")), url("/e"));
    let mut requests = 0;
    let mut connections = 0;
    for arguments in [
        vec!["-n", "777", "-c", "7", &a, &b],
        vec!["-d", "300ms", "-c", "5", &a, &e],
        vec!["-d", "500ms", "--rate", "400", &b],
        vec!["-n", "100", "-c", "3", "--new-connection", &a],
        vec!["--stages", "200ms:10,200ms:0", "--think", "1ms..5ms", &a],
    ] {
        let output = load(&arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        let summary = out(&output);
        requests += count(&summary, "requests");
        connections += count(&summary, "connections");
    }
    server.stop();
    let log = fs::read_to_string(directory.path().join("access.log")).unwrap();
    assert_eq!(log.lines().count(), requests);
    let mut numbers: Vec<_> = log.lines().map(|line| line.split(' ').next()).collect();
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), connections);
}

#[test]
fn thresholds_and_checks_set_the_exit_code() {
    let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let responder = Responder::start(|_| reply.to_vec()).unwrap();
    let url = format!("http://127.0.0.1:{}/", responder.port());
    for (arguments, code, failed) in [
        (vec!["--require", "errors<1%"], 0, 0),
        (vec!["--require", "p99<1ns"], 2, 0),
        (vec!["--require", "p99<0.001us"], 1, 0),
        (
            vec!["--expect-body", "^hel+o$", "--require", "errors<=0"],
            0,
            0,
        ),
        (
            vec!["--expect-body", "bye", "--require", "errors<=0"],
            1,
            20,
        ),
        (
            vec!["--expect-status", "201-299", "--require", "errors<50%"],
            1,
            20,
        ),
        (vec!["--expect-length", "5", "--require", "errors<=0"], 0, 0),
        (vec!["--expect-length", "4"], 0, 20),
    ] {
        let mut all = vec!["-n", "20", "-c", "2", &url];
        all.extend(&arguments);
        let output = load(&all);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        if code < 2 {
            assert_eq!(count(&out(&output), "failed"), failed, "{arguments:?}");
        }
    }
}

#[test]
fn connections_that_break_are_counted() {
    let responder = Responder::start(|n| match n % 4 {
        0 => Vec::new(),
        1 => b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel".to_vec(),
        2 => b"nonsense\r\n\r\n".to_vec(),
        _ => b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(),
    })
    .unwrap();
    let url = format!("http://127.0.0.1:{}/", responder.port());
    let output = load(&[
        "-n",
        "40",
        "-c",
        "1",
        "--new-connection",
        "--timeout",
        "200ms",
        &url,
    ]);
    let text = out(&output);
    assert_eq!(count(&text, "failed"), 30, "{text}");
    for line in [
        "10 × timed out",
        "10 × connection closed before the response was whole",
        "10 × invalid response head",
        "status     200: 20",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

/// The figures of ab itself, where it is installed, on the same server; times differ.
#[test]
fn ab_s_report_is_ab_s() {
    let reply = |n: usize| {
        match n % 5 {
        4 => b"HTTP/1.0 404 No\r\nServer: toy\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc".to_vec(),
        _ => b"HTTP/1.0 200 OK\r\nServer: toy\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nab".to_vec(),
    }
    };
    let figures = |command: &mut Command| -> Option<Vec<String>> {
        let responder = Responder::start(reply).unwrap();
        let url = format!("http://127.0.0.1:{}/x?y", responder.port());
        let output = command
            .args(["-q", "-n", "50", "-c", "1", "-k", &url])
            .output()
            .ok()?;
        let mut lines: Vec<String> = out(&output).lines().map(str::to_owned).collect();
        let timed = ["Time", "Requests per", "Transfer", "Server Port"];
        lines
            .retain(|line| line.contains(": ") && !timed.iter().any(|word| line.starts_with(word)));
        lines.retain(|line| {
            !["Connect:", "Processing:", "Waiting:", "Total: ", "WARNING"]
                .iter()
                .any(|word| line.starts_with(word))
        });
        Some(lines)
    };
    let own = figures(Command::new(env!("CARGO_BIN_EXE_gannet")).arg("ab")).unwrap();
    assert_eq!(
        own,
        [
            "Server Software:        toy",
            "Server Hostname:        127.0.0.1",
            "Document Path:          /x?y",
            "Document Length:        2 bytes",
            "Concurrency Level:      1",
            "Complete requests:      50",
            "Failed requests:        10",
            "   (Connect: 0, Receive: 0, Length: 10, Exceptions: 0)",
            "Non-2xx responses:      10",
            "Keep-Alive requests:    50",
            "Total transferred:      3860 bytes",
            "HTML transferred:       110 bytes",
        ]
    );
    match figures(&mut Command::new("ab")) {
        Some(lines) => assert_eq!(lines, own),
        None => eprintln!("skipped: ab is not installed"),
    }
}

/// A reply whose body is the request's line and, where there is one, its body's last line.
fn scenario_site(directory: &Directory, port: u16) -> Server {
    let path = directory.path().display();
    let configuration = format!(
        "daemon off;\npid {path}/pid;\nerror_log {path}/error.log;\nevents {{ }}\nhttp {{\n\
         log_format l '$request_method $request_uri $http_cookie $status';\naccess_log {path}/access.log l;\n\
         server {{ listen 127.0.0.1:{port};\n\
         location = /login {{ add_header Set-Cookie sid=s$arg_user; return 200 'token=\"t$arg_user\"'; }}\n\
         location /item/ {{ return 200 $uri; }}\nlocation = /bad {{ return 500; }}\n\
         location / {{ return 200 x; }}\n}}\n}}\n"
    );
    fs::write(directory.path().join("nginx.conf"), configuration).unwrap();
    let program = Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))).unwrap();
    Server::start(&program, directory.path()).unwrap()
}

/// How often each line stands in the access log.
fn log_counts(directory: &Directory) -> Vec<(usize, String)> {
    let log = fs::read_to_string(directory.path().join("access.log")).unwrap();
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort();
    lines
        .chunk_by(|a, b| a == b)
        .map(|same| (same.len(), same[0].to_owned()))
        .collect()
}

#[test]
fn a_scenario_carries_values_from_response_to_request() {
    let (directory, lease) = (Directory::create(), ports::lease());
    let mut server = scenario_site(&directory, lease.port);
    let file = directory.path().join("s.toml");
    fs::write(
        &file,
        r#"
values = { user = ["a", "b"] }
[[start]]
get = "/login?user={user}"
take = { token = 'token="(.*?)"' }
take_head = { sid = '^set-cookie: (sid=\w+)' }
[[task]]
[[task.step]]
get = "/item/{token}"
headers = { Cookie = "{sid}" }
contains = "^/item/t[ab]$"
[[task.step]]
get = "/bad"
[[task.step]]
get = "/never"
"#,
    )
    .unwrap();
    let file = file.display().to_string();
    let url = format!("http://127.0.0.1:{}/", lease.port);
    let output = load(&[
        "--scenario",
        &file,
        &url,
        "-c",
        "4",
        "-n",
        "24",
        "--require",
        "errors[/item/{token}]<=0",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", out(&output));
    server.stop();
    let counts = log_counts(&directory);
    let sum: usize = counts.iter().map(|(count, _)| count).sum();
    assert_eq!(sum, 24);
    let lines: Vec<&str> = counts.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(
        lines,
        [
            "GET /bad - 500",
            "GET /item/ta sid=sa 200",
            "GET /item/tb sid=sb 200",
            "GET /login?user=a - 200",
            "GET /login?user=b - 200",
        ]
    );
    assert_eq!((counts[3].0, counts[4].0), (2, 2));
}

#[test]
fn lists_and_logs_are_sent_as_they_stand() {
    let (directory, lease) = (Directory::create(), ports::lease());
    let mut server = scenario_site(&directory, lease.port);
    let url = format!("http://127.0.0.1:{}/", lease.port);
    let list = directory.path().join("list");
    fs::write(&list, "# paths\n/one\n\n/two?x\n").unwrap();
    let line = |second: u32, request: &str| {
        format!(
            "1.2.3.4 - - [10/Oct/2020:13:55:{second} +0000] \"{request} HTTP/1.1\" 200 5 \"-\" \"-\"\n"
        )
    };
    let log = directory.path().join("old.log");
    let lines = [
        line(10, "GET /r1"),
        line(10, "POST /r2"),
        "nonsense\n".to_owned(),
        line(12, "HEAD /r3?a=b"),
        line(13, "GET /r1"),
    ];
    fs::write(&log, lines.concat()).unwrap();
    let (list, log) = (list.display().to_string(), log.display().to_string());
    for arguments in [
        vec!["--list", &list, "--in-turn", "-n", "10", &url],
        vec!["--replay", &log, &url],
        vec!["--replay", &log, "--speed", "10", &url],
    ] {
        let output = load(&arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
    server.stop();
    let expected = [
        (5, "GET /one - 200"),
        (4, "GET /r1 - 200"),
        (5, "GET /two?x - 200"),
        (2, "HEAD /r3?a=b - 200"),
    ];
    assert_eq!(
        log_counts(&directory),
        expected.map(|(count, line)| (count, line.to_owned()))
    );
}

/// nginx is the server: its log tells what was agreed on. The certificate is for `localhost` and `other.example`.
#[test]
fn tls_checks_names_and_resumes_sessions() {
    let Some(nginx) = Program::nginx() else {
        eprintln!("skipped: nginx is not installed");
        return;
    };
    let (directory, lease) = (Directory::create(), ports::lease());
    let (path, port) = (directory.path().display(), lease.port);
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls");
    let configuration = format!(
        "daemon off;\npid {path}/pid;\nerror_log {path}/error.log;\nevents {{ }}\nhttp {{\n\
         log_format l '$ssl_server_name $ssl_session_reused $http_host';\naccess_log {path}/access.log l;\n\
         server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {fixtures}/certificate.pem;\n\
         ssl_certificate_key {fixtures}/key.pem; ssl_session_cache shared:s:1m;\n\
         location / {{ return 200 ok; }}\n}}\n}}\n"
    );
    fs::write(directory.path().join("nginx.conf"), configuration).unwrap();
    let mut server = Server::start(&nginx, directory.path()).unwrap();
    let certificate = format!("{fixtures}/certificate.pem");
    let run = |trusted: bool, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
        let trusted = if trusted {
            certificate.as_str()
        } else {
            "/dev/null"
        };
        command
            .env("SSL_CERT_FILE", trusted)
            .env_remove("SSL_CERT_DIR");
        let output = command
            .args(["load", "-n", "20", "-c", "1", "-t", "1"])
            .args(arguments)
            .output()
            .unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), out(&output), complaint)
    };
    let name = format!("https://localhost:{port}/");
    let address = format!("https://127.0.0.1:{port}/");
    for (trusted, arguments, complaint) in [
        (true, vec![name.as_str(), "--require", "errors<=0"], ""),
        (
            true,
            vec![&name, "--new-connection", "--require", "errors<=0"],
            "",
        ),
        (
            true,
            vec![
                &name,
                "--new-connection",
                "--no-resumption",
                "--require",
                "errors<=0",
            ],
            "",
        ),
        (
            true,
            vec![&address, "--sni", "other.example", "--require", "errors<=0"],
            "",
        ),
        (false, vec![&address, "-k", "--require", "errors<=0"], ""),
        (true, vec![&address], "-k trusts any server"),
        (
            true,
            vec![&name, "--sni", "third.example"],
            "not valid for name",
        ),
        (false, vec![&name], "-k trusts any server"),
    ] {
        let (code, summary, said) = run(trusted, &arguments);
        let expected = if complaint.is_empty() { 0 } else { 2 };
        assert_eq!(code, Some(expected), "{arguments:?}: {summary}{said}");
        assert!(said.contains(complaint), "{arguments:?}: {said}");
        assert!(complaint.is_empty() || said.lines().count() == 1, "{said}");
    }
    server.stop();
    let counts = log_counts(&directory);
    let of = |line: &str| {
        let line = line.replace("PORT", &port.to_string());
        counts
            .iter()
            .find(|(_, found)| *found == line)
            .map_or(0, |(count, _)| *count)
    };
    // Kept: one handshake. New connections: the session of the first, or of the look before the run, goes on.
    assert_eq!(
        of("localhost r localhost:PORT") + of("localhost . localhost:PORT"),
        60,
        "{counts:?}"
    );
    assert!(
        (19..=40).contains(&of("localhost r localhost:PORT")),
        "{counts:?}"
    );
    assert_eq!(
        of("other.example . 127.0.0.1:PORT") + of("other.example r 127.0.0.1:PORT"),
        20,
        "{counts:?}"
    );
    assert_eq!(
        of("- . 127.0.0.1:PORT") + of("- r 127.0.0.1:PORT"),
        20,
        "{counts:?}"
    );
}

/// The page in a browser, as wide as a screen and as a phone, and as it is printed.
#[test]
fn the_report_s_page_draws_its_charts() {
    let responder = Responder::start(|n| match n % 50 {
        49 => b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_vec(),
        _ => b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec(),
    })
    .unwrap();
    let url = format!(
        "http://127.0.0.1:{}/<script>alert(1)</script>",
        responder.port()
    );
    let directory = Directory::create();
    let page = directory.path().join("page.html");
    let file = page.display().to_string();
    let output = load(&["-d", "1s", "--rate", "300", "--html", &file, &url]);
    assert_eq!(output.status.code(), Some(0));
    let browser = |size: &str, arguments: &[&str]| {
        Command::new("chromium")
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ])
            .arg(format!(
                "--user-data-dir={}/browser",
                directory.path().display()
            ))
            .arg(format!("--window-size={size}"))
            .args(arguments)
            .arg(format!("file://{file}"))
            .output()
    };
    if let Err(error) = browser("800,600", &["--dump-dom"]) {
        eprintln!("skipped: chromium does not run: {error}");
        return;
    }
    for size in ["1280,900", "500,800"] {
        let seen = out(&browser(size, &["--dump-dom", "--virtual-time-budget=2000"]).unwrap());
        let start = seen.get(..300).unwrap_or(&seen);
        assert!(start.contains("data-charts=\"6\""), "{size}: {start}");
        assert!(start.contains("data-fits=\"true\""), "{size}: {start}");
        assert_eq!(seen.matches("<canvas").count(), 6, "{size}");
    }
    let printed = directory.path().join("page.pdf");
    let argument = format!("--print-to-pdf={}", printed.display());
    browser("1280,900", &[&argument]).unwrap();
    assert!(fs::read(&printed).unwrap().starts_with(b"%PDF"));
}

/// `gannet load --ui`, and where its page is.
struct Page {
    child: Child,
    said: BufReader<ChildStdout>,
    address: String,
}

impl Page {
    fn start(arguments: &[&str]) -> Page {
        let mut child = Command::new(env!("CARGO_BIN_EXE_gannet"))
            .args(["load", "--ui", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("http://");
        Page {
            address: address.trim_end_matches('/').to_owned(),
            child,
            said,
        }
    }

    /// The whole response.
    fn send(&self, request: &str, fields: &str, body: &str) -> String {
        self.send_as(&self.address, request, fields, body)
    }

    fn send_as(&self, host: &str, request: &str, fields: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let text = format!(
            "{request} HTTP/1.1\r\nHost: {host}\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(text.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    fn post(&self, path: &str, body: &str) -> String {
        self.send(
            &format!("POST {path}"),
            "Content-Type: application/json\r\n",
            body,
        )
    }

    fn state(&self) -> serde_json::Value {
        let response = self.send("GET /state?epoch=0&from=0", "", "");
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }

    /// The first state of which the condition holds.
    fn until(&self, holds: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        let begin = Instant::now();
        loop {
            let state = self.state();
            if holds(&state) {
                return state;
            }
            assert!(begin.elapsed() < Duration::from_secs(30), "{state}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ctrl-C; the exit code and what was printed.
    fn end(mut self) -> (Option<i32>, String) {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-INT", &id]).status().unwrap();
        let mut text = String::new();
        self.said.read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().code(), text)
    }
}

#[test]
fn runs_are_started_and_stopped_from_the_page() {
    let responder =
        Responder::start(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec())
            .unwrap();
    let url = format!("http://127.0.0.1:{}/", responder.port());
    let page = Page::start(&["-c", "2", &url]);
    assert_eq!(page.state()["phase"], "ready");
    let html = page.send("GET /", "", "");
    assert!(html.contains(&format!("<h1>{url}</h1>")) && html.contains("value=\"2\""));
    for (fields, body, status) in [
        ("", "{}", "403"),
        ("Content-Type: text/plain\r\n", "{}", "403"),
        (
            "Content-Type: application/json\r\nOrigin: http://evil.example\r\n",
            "{}",
            "403",
        ),
        ("Content-Type: application/json\r\n", "{\"users\":1}", "400"),
        (
            "Content-Type: application/json\r\n",
            "{\"users\":\"0\"}",
            "409",
        ),
    ] {
        let response = page.send("POST /start", fields, body);
        let answered = response.starts_with(&format!("HTTP/1.1 {status} "));
        assert!(answered, "{fields:?} {body}: {response}");
    }
    let foreign = page.send_as("evil.example", "GET /", "", "");
    assert!(foreign.starts_with("HTTP/1.1 403 "), "{foreign}");
    assert_eq!(responder.took().len(), 0);

    // Until stopped, with more users and then fewer.
    assert!(page.post("/users", r#"{"users":"5"}"#).contains(" 409 "));
    let wish = r#"{"users":"3","rate":"","duration":""}"#;
    assert!(page.post("/start", wish).contains(" 200 "));
    assert!(page.post("/start", wish).contains(" 409 "));
    page.until(|state| state["points"].as_array().is_some_and(|p| !p.is_empty()));
    for users in [6, 1] {
        let wish = format!("{{\"users\":\"{users}\"}}");
        assert!(page.post("/users", &wish).contains(" 200 "));
        page.until(|state| {
            let last = state["points"].as_array().and_then(|points| points.last());
            last.is_some_and(|point| point["users"] == users)
        });
    }
    assert!(page.post("/users", r#"{"users":"0"}"#).contains(" 409 "));
    assert!(page.send("GET /report", "", "").contains(" 404 "));
    assert!(page.post("/stop", "{}").contains(" 200 "));
    let first = page.until(|state| state["phase"] == "ended");
    let requests = first["requests"].as_u64().unwrap() as usize;
    assert_eq!(
        (requests, &first["failures"]),
        (responder.took().len(), &0.into())
    );
    assert_eq!(first["points"][0]["users"], 3);

    // At a rate, for a time.
    let wish = r#"{"users":"","rate":"100","duration":"1s"}"#;
    assert!(page.post("/start", wish).contains(" 200 "));
    let second = page.until(|state| state["phase"] == "ended");
    assert_eq!(second["requests"], 100);
    assert_eq!(responder.took().len(), requests + 100);
    assert!(page.send("GET /report", "", "").contains("<dd>100</dd>"));
    seen_in_chromium(&page);
    let (code, text) = page.end();
    assert_eq!((code, count(&text, "requests")), (Some(0), 100), "{text}");
}

/// The page after a run of 100 requests, in a browser.
fn seen_in_chromium(page: &Page) {
    let directory = Directory::create();
    let browser = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--dump-dom",
            "--virtual-time-budget=3000",
            "--window-size=500,800",
        ])
        .arg(format!("--user-data-dir={}", directory.path().display()))
        .arg(format!("http://{}/", page.address))
        .output();
    let output = match browser {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: the live page in a browser: chromium does not run: {error}");
            return;
        }
    };
    let seen = out(&output);
    for text in [
        "data-charts=\"4\"",
        "data-fits=\"true\"",
        "data-phase=\"ended\"",
        "<dd id=\"requests\">100</dd>",
        "<dd id=\"failures\">0 (0.00%)</dd>",
    ] {
        assert!(
            seen.contains(text),
            "{text} in {}",
            seen.get(..300).unwrap_or(&seen)
        );
    }
    assert!(!seen.contains("data-points=\"0\""));
    assert_eq!(seen.matches("<canvas").count(), 4);
}

#[test]
fn ctrl_c_ends_the_page_and_its_run() {
    let responder =
        Responder::start(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()).unwrap();
    let url = format!("http://127.0.0.1:{}/", responder.port());
    let page = Page::start(&["--require", "errors<0", &url]);
    assert!(page.post("/start", "{}").contains(" 200 "));
    page.until(|state| state["points"].as_array().is_some_and(|p| !p.is_empty()));
    let (code, text) = page.end();
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(count(&text, "requests"), responder.took().len());

    let (code, text) = Page::start(&[&url]).end();
    assert_eq!((code, text.as_str()), (Some(0), ""));
}

/// nginx asks for a certificate; the one of the tests has signed itself.
#[test]
fn a_certificate_is_shown_to_servers_that_ask() {
    let Some(nginx) = Program::nginx() else {
        eprintln!("skipped: nginx is not installed");
        return;
    };
    let (directory, lease) = (Directory::create(), ports::lease());
    let (path, port) = (directory.path().display(), lease.port);
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls");
    let configuration = format!(
        "daemon off;\npid {path}/pid;\nerror_log {path}/error.log;\nevents {{ }}\nhttp {{\n\
         log_format l '$ssl_protocol $ssl_client_verify';\naccess_log {path}/access.log l;\n\
         server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {fixtures}/certificate.pem;\n\
         ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate_key {fixtures}/key.pem;\n\
         ssl_verify_client optional_no_ca; location / {{ return 200 ok; }}\n}}\n}}\n"
    );
    fs::write(directory.path().join("nginx.conf"), configuration).unwrap();
    let mut server = Server::start(&nginx, directory.path()).unwrap();
    let (certificate, key) = (
        format!("{fixtures}/certificate.pem"),
        format!("{fixtures}/key.pem"),
    );
    let both = directory.path().join("both.pem");
    let text = [&certificate, &key].map(|file| fs::read_to_string(file).unwrap());
    fs::write(&both, text.concat()).unwrap();
    let both = both.display().to_string();
    let url = format!("https://127.0.0.1:{port}/");
    let usual = ["-k", "-n", "4", "-c", "1", "--require", "errors<=0", &url];
    for arguments in [
        &[
            "--cert",
            &certificate,
            "--key",
            &key,
            "--tls-version",
            "1.2",
        ][..],
        &["--cert", &both, "--tls-version", "1.3"],
        &[],
    ] {
        let output = load(&[arguments, &usual].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
    for (arguments, words) in [
        (&["--cert", "/no/such"][..], "cannot read \"/no/such\""),
        (&["--cert", &key], "holds no certificate"),
        (&["--cert", &certificate], "holds no key"),
        (&["--key", &key], "--cert"),
    ] {
        let line = complaint(&[arguments, &usual].concat());
        assert!(line.contains(words), "{arguments:?}: {line}");
    }
    server.stop();
    let counts = log_counts(&directory);
    let without = counts.iter().find(|(_, line)| line.ends_with("NONE"));
    assert_eq!(without.map(|(count, _)| *count), Some(4), "{counts:?}");
    for version in ["TLSv1.2 FAILED", "TLSv1.3 FAILED"] {
        let found = counts.iter().find(|(_, line)| line.starts_with(version));
        assert_eq!(found.map(|(count, _)| *count), Some(4), "{counts:?}");
    }
}

/// Each user keeps its own; without the switch nobody does.
#[test]
fn users_keep_their_cookies() {
    let (directory, lease) = (Directory::create(), ports::lease());
    let mut server = scenario_site(&directory, lease.port);
    let file = directory.path().join("s.toml");
    let scenario = "values = { user = [\"a\", \"b\"] }\n[[start]]\nget = \"/login?user={user}\"\n\
                    [[task]]\n[[task.step]]\nget = \"/item/{user}\"\n";
    let url = format!("http://127.0.0.1:{}/", lease.port);
    for (cookies, switch) in [
        ("", "--quiet"),
        ("", "--cookies"),
        ("cookies = true\n", "--quiet"),
    ] {
        fs::write(&file, format!("{cookies}{scenario}")).unwrap();
        let file = file.display().to_string();
        let output = load(&[
            "--scenario",
            &file,
            switch,
            &url,
            "-c",
            "2",
            "-n",
            "40",
            "--think",
            "2ms..4ms",
        ]);
        assert_eq!(output.status.code(), Some(0));
    }
    server.stop();
    let counts = log_counts(&directory);
    let lines: Vec<&str> = counts.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(
        lines,
        [
            "GET /item/a - 200",
            "GET /item/a sid=sa 200",
            "GET /item/b - 200",
            "GET /item/b sid=sb 200",
            "GET /login?user=a - 200",
            "GET /login?user=b - 200",
        ]
    );
    let with: usize = [1, 3].map(|index| counts[index].0).iter().sum();
    assert_eq!(with, 76, "{counts:?}");
}

/// A server that closes a kept connection instead of answering the second request.
#[test]
fn a_post_is_not_sent_twice() {
    let answers = || {
        Responder::start(|n| match n {
            1 => Vec::new(),
            _ => b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(),
        })
        .unwrap()
    };
    for (arguments, failed, seen) in [
        (&["-X", "GET"][..], 0, 4),
        (&["-X", "PUT"], 0, 4),
        (&["-X", "POST"], 1, 3),
        (&["-X", "BREW"], 1, 3),
        (&["-X", "POST", "--repeat-any"], 0, 4),
    ] {
        let responder = answers();
        let url = format!("http://127.0.0.1:{}/", responder.port());
        let output = load(&[&["-n", "3", "-c", "1", &url], arguments].concat());
        assert_eq!(count(&out(&output), "failed"), failed, "{arguments:?}");
        assert_eq!(responder.requests(), seen, "{arguments:?}");
    }
}

/// What is asked for stands in the bytes of the request.
#[test]
fn methods_headers_and_bodies_are_sent_as_asked() {
    let directory = Directory::create();
    let file = directory.path().join("body");
    fs::write(&file, "from a file\n").unwrap();
    let file = file.display().to_string();
    for (arguments, first, contained) in [
        (
            &["-H", "X-A: b"][..],
            "GET /p?q HTTP/1.1\r\n",
            "\r\nX-A: b\r\n",
        ),
        (
            &["-X", "DELETE"],
            "DELETE /p?q HTTP/1.1\r\n",
            "\r\nAccept: */*\r\n",
        ),
        (
            &["--body", "a=1"],
            "POST /p?q HTTP/1.1\r\n",
            "\r\nContent-Length: 3\r\n\r\na=1",
        ),
        (
            &["--body-file", &file, "-X", "PUT"],
            "PUT /p?q HTTP/1.1\r\n",
            "\r\nContent-Length: 12\r\n\r\nfrom a file\n",
        ),
        (
            &["--new-connection"],
            "GET /p?q HTTP/1.1\r\n",
            "\r\nConnection: close\r\n",
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/p?q", listener.local_addr().unwrap());
        let serve = std::thread::spawn(move || {
            // The first connection only looks whether somebody is there.
            let _look = listener.accept().unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            let mut seen = vec![0; 4096];
            let count = stream.read(&mut seen).unwrap();
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(answer).unwrap();
            String::from_utf8_lossy(&seen[..count]).into_owned()
        });
        let output = load(&[&["-n", "1", "-c", "1", &url], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        let seen = serve.join().unwrap();
        assert!(
            seen.starts_with(first) && seen.contains(contained),
            "{arguments:?}: {seen}"
        );
    }
}

#[test]
fn ctrl_c_reports_what_was_measured() {
    let responder =
        Responder::start(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()).unwrap();
    let url = format!("http://127.0.0.1:{}/", responder.port());
    let child = Command::new(env!("CARGO_BIN_EXE_gannet"))
        .args(["load", "-d", "1h", "-c", "2", &url])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while responder.requests() < 20 {
        assert!(begin.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(5));
    }
    let id = child.id().to_string();
    Command::new("kill").args(["-INT", &id]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(count(&out(&output), "requests"), responder.took().len());
}

/// `gannet ab`'s files.
#[test]
fn ab_writes_times_for_gnuplot_and_percentages() {
    let responder =
        Responder::start(|_| b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na".to_vec()).unwrap();
    let directory = Directory::create();
    let file = |name: &str| directory.path().join(name).display().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_gannet"))
        .args([
            "ab",
            "-q",
            "-n",
            "20",
            "-c",
            "2",
            "-g",
            &file("g"),
            "-e",
            &file("e"),
        ])
        .arg(format!("http://127.0.0.1:{}/", responder.port()))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let times = fs::read_to_string(file("g")).unwrap();
    let rows: Vec<Vec<&str>> = times
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(rows.len(), 21);
    assert_eq!(
        rows[0],
        ["starttime", "seconds", "ctime", "dtime", "ttime", "wait"]
    );
    assert!(rows.iter().all(|row| row.len() == 6), "{times}");
    assert_eq!(fs::read_to_string(file("e")).unwrap().lines().count(), 102);
}

#[test]
fn bad_input_gets_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    drop(taken);
    let refused = format!("http://127.0.0.1:{port}/");
    for (arguments, words) in [
        (vec![], "which URL?"),
        (vec![refused.as_str()], "Connection refused"),
        (
            vec!["http://no-such-host.invalid/"],
            "cannot find no-such-host.invalid",
        ),
        (vec!["ftp://a/"], "neither http nor https"),
        (vec!["http://a b/"], "invalid URL"),
        (vec!["0:http://a/"], "the weight"),
        (vec!["-c", "0", "http://a/"], "--users"),
        (vec!["-n", "0", "http://a/"], "asks for nothing"),
        (vec!["-c", "x", "http://a/"], "invalid value 'x'"),
        (vec!["-d", "1y", "http://a/"], "is no duration"),
        (vec!["-H", "nonsense", "http://a/"], "is no header line"),
        (vec!["--require", "speed>1", "http://a/"], "no measure"),
        (
            vec!["--expect-body", "(", "http://a/"],
            "invalid regular expression",
        ),
        (vec!["--body-file", "/no/such", "http://a/"], "No such file"),
        (vec!["--stages", "1s", "http://a/"], "TIME:VALUE"),
        (vec!["--unknown"], "--unknown"),
        (vec!["--ui"], "which URL?"),
        (vec!["--ui", "192.0.2.1:1", "http://a/"], "cannot listen on"),
    ] {
        let line = complaint(&arguments);
        assert!(line.starts_with("gannet: "), "{line}");
        assert!(line.contains(words), "{arguments:?}: {line}");
    }
}
