//! What case folders cannot show of logs: buffers and their clock, gzip, reopening, reloading, syslog. Every test runs on
//! Gannet and, where it is installed, on nginx, and asks the same of both.

use libtest_mimic::{Arguments, Trial};
use std::io::Read;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use testkit::client::Client;
use testkit::directory::Directory;
use testkit::ports::{self, Lease};
use testkit::server::{Kind, Program, Server};

type Outcome = Result<(), String>;
type Test = fn(&Program) -> Outcome;

const TESTS: &[(&str, Test)] = &[
    ("a_buffer_is_flushed_in_time", a_buffer_is_flushed_in_time),
    ("a_full_buffer_is_written", a_full_buffer_is_written),
    (
        "buffers_are_written_at_the_end",
        buffers_are_written_at_the_end,
    ),
    ("gzip", gzip),
    (
        "reopening_separates_the_lines",
        reopening_separates_the_lines,
    ),
    (
        "a_reload_opens_moved_logs_anew",
        a_reload_opens_moved_logs_anew,
    ),
    ("syslog_over_udp", syslog_over_udp),
    ("syslog_over_a_unix_socket", syslog_over_a_unix_socket),
    (
        "combined_is_the_format_of_logs_that_name_none",
        combined_is_the_format_of_logs_that_name_none,
    ),
];

fn main() {
    let arguments = Arguments::from_args();
    let gannet = Program::gannet(Some(env!("CARGO_BIN_EXE_gannet")));
    let mut trials = Vec::new();
    for (kind, program) in [(Kind::Gannet, gannet), (Kind::Nginx, Program::nginx())] {
        for &(name, test) in TESTS {
            let program = program.clone();
            let missing = program.is_none();
            let run = move || program.map_or(Ok(()), |program| Ok(test(&program)?));
            let name = format!("{}/logs/{name}", kind.as_str());
            trials.push(Trial::test(name, run).with_ignored_flag(missing));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// A server with `http` in its http block; each request is logged by its path.
struct Site {
    server: Server,
    port: Lease,
    directory: Directory,
}

/// Nothing takes longer; most takes milliseconds.
const LIMIT: Duration = Duration::from_secs(15);

impl Site {
    fn start(program: &Program, http: &str) -> Result<Site, String> {
        let site = Directory::create();
        let port = ports::lease();
        // nginx makes all of them at the start.
        let temporary = match program.kind {
            Kind::Gannet => "",
            Kind::Nginx => {
                "client_body_temp_path %DIR%/b; proxy_temp_path %DIR%/p; fastcgi_temp_path %DIR%/f; \
                 uwsgi_temp_path %DIR%/u; scgi_temp_path %DIR%/s;"
            }
        };
        let conf = format!(
            "daemon off; user root; pid %DIR%/pid; error_log %DIR%/error.log info; worker_processes 1; events {{}}\n\
             http {{ log_format path '$uri'; {temporary}\n\
             {http}\n server {{ listen 127.0.0.1:{}; root %DIR%; }} }}\n",
            port.port
        );
        let directory = site.path().display().to_string();
        let conf = conf.replace("%DIR%", &directory);
        std::fs::write(site.path().join("nginx.conf"), conf).map_err(|error| error.to_string())?;
        let server = Server::start(program, site.path())?;
        Ok(Site {
            server,
            port,
            directory: site,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Requests a path on a connection of its own, and waits for the answer's end.
    fn get(&self, path: &str) -> Outcome {
        let mut client = Client::connect(self.port.port).map_err(|error| error.to_string())?;
        client.send(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes());
        match client.read_to_end().0.is_empty() {
            true => Err(format!("no answer to {path}")),
            false => Ok(()),
        }
    }

    fn stop(&mut self) -> Outcome {
        match self.server.stop() {
            Some(status) if status.success() => Ok(()),
            other => Err(format!("the server ended with {other:?}")),
        }
    }

    fn moved(&self, from: &str, to: &str) -> Outcome {
        std::fs::rename(self.path(from), self.path(to)).map_err(|error| error.to_string())
    }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Outcome {
    let deadline = Instant::now() + LIMIT;
    while !holds() {
        if Instant::now() > deadline {
            return Err(format!("waited in vain: {what}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn same(actual: &str, expected: &str) -> Outcome {
    match actual == expected {
        true => Ok(()),
        false => Err(format!("expected {expected:?}, got {actual:?}")),
    }
}

fn a_buffer_is_flushed_in_time(program: &Program) -> Outcome {
    let site = Site::start(
        program,
        "access_log %DIR%/a.log path buffer=64k flush=200ms; access_log %DIR%/now.log path;",
    )?;
    site.get("/1")?;
    site.get("/2")?;
    wait_until("both lines are in the unbuffered log", || {
        site.read("now.log") == "/1\n/2\n"
    })?;
    wait_until("the buffer is flushed", || site.read("a.log") == "/1\n/2\n")
}

fn a_full_buffer_is_written(program: &Program) -> Outcome {
    let site = Site::start(program, "access_log %DIR%/a.log path buffer=16;")?;
    for path in ["/12345", "/1234567", "/0"] {
        site.get(path)?;
    }
    // Seven bytes and nine fill it; the third line makes room for itself.
    wait_until("the first two lines are written", || {
        site.read("a.log") == "/12345\n/1234567\n"
    })?;
    let long = format!("/{}", "x".repeat(20));
    site.get(&long)?;
    wait_until("a line larger than the buffer is written", || {
        site.read("a.log") == format!("/12345\n/1234567\n/0\n{long}\n")
    })
}

fn buffers_are_written_at_the_end(program: &Program) -> Outcome {
    let mut site = Site::start(program, "access_log %DIR%/a.log path buffer=64k;")?;
    site.get("/1")?;
    site.get("/2")?;
    same(&site.read("a.log"), "")?;
    site.stop()?;
    same(&site.read("a.log"), "/1\n/2\n")
}

fn gzip(program: &Program) -> Outcome {
    let mut site = Site::start(program, "access_log %DIR%/a.gz path gzip flush=50ms;")?;
    site.get("/1")?;
    wait_until("the first line is written", || {
        std::fs::metadata(site.path("a.gz")).is_ok_and(|data| data.len() > 0)
    })?;
    site.get("/2")?;
    site.stop()?;
    let bytes = std::fs::read(site.path("a.gz")).map_err(|error| error.to_string())?;
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(&bytes[..])
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    same(&text, "/1\n/2\n")
}

fn reopening_separates_the_lines(program: &Program) -> Outcome {
    let mut site = Site::start(
        program,
        "access_log %DIR%/a.log path; access_log %DIR%/buffered.log path buffer=64k;",
    )?;
    site.get("/old")?;
    for log in ["a.log", "buffered.log", "error.log"] {
        site.moved(log, &format!("{log}.1"))?;
    }
    site.server.signal("USR1");
    // The worker has reopened when the buffer of before is written: it goes to the moved file.
    wait_until("the logs are opened anew", || {
        site.path("a.log").exists()
            && site.path("error.log").exists()
            && site.read("buffered.log.1") == "/old\n"
    })?;
    // The worker swaps one file after the other.
    wait_until("the worker writes to the new file", || {
        site.get("/new").is_ok() && site.read("a.log").ends_with("/new\n")
    })?;
    site.stop()?;
    same(&site.read("buffered.log.1"), "/old\n")?;
    let line = site.read("a.log.1").starts_with("/old\n");
    let error = site.read("error.log").contains("/new\" failed");
    match (line, error, site.read("buffered.log").ends_with("/new\n")) {
        (true, true, true) => Ok(()),
        other => Err(format!("(old line, error, buffered): {other:?}")),
    }
}

fn a_reload_opens_moved_logs_anew(program: &Program) -> Outcome {
    let mut site = Site::start(program, "access_log %DIR%/a.log path buffer=64k;")?;
    site.get("/old")?;
    site.moved("a.log", "a.log.1")?;
    site.server.signal("HUP");
    wait_until("the buffer of the old configuration is written", || {
        site.read("a.log.1") == "/old\n"
    })?;
    site.get("/new")?;
    site.stop()?;
    same(&site.read("a.log"), "/new\n")
}

/// `<190>Nov 21 12:00:00 HOST nginx: text` without time and host.
fn parts(message: &[u8]) -> Result<(String, String), String> {
    let text = String::from_utf8_lossy(message).into_owned();
    let malformed = || format!("malformed: {text:?}");
    let (priority, rest) = text.split_once('>').ok_or_else(malformed)?;
    // `Nov  1 12:00:00 `, always 16 bytes.
    let time = rest.get(..16).ok_or_else(malformed)?;
    let separators: Vec<char> = [3, 6, 9, 12, 15]
        .iter()
        .filter_map(|&at| time.chars().nth(at))
        .collect();
    if separators != [' ', ' ', ':', ':', ' '] {
        return Err(malformed());
    }
    Ok((format!("{priority}>"), rest[16..].to_owned()))
}

fn syslog_over_udp(program: &Program) -> Outcome {
    let error = |error: std::io::Error| error.to_string();
    let sink = UdpSocket::bind("127.0.0.1:0").map_err(error)?;
    sink.set_read_timeout(Some(LIMIT)).map_err(error)?;
    let address = sink.local_addr().map_err(error)?;
    let site = Site::start(
        program,
        &format!(
            "access_log syslog:server={address} path; error_log syslog:server={address},facility=daemon,tag=errors,nohostname;"
        ),
    )?;
    site.get("/missing")?;
    let mut buffer = [0; 4096];
    let mut seen = Vec::new();
    for _ in 0..2 {
        let length = sink.recv(&mut buffer).map_err(error)?;
        seen.push(parts(&buffer[..length])?);
    }
    seen.sort();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").map_err(error)?;
    let expected = format!("{} nginx: /missing", host.trim().to_lowercase());
    let (priority, text) = &seen[0];
    same(priority, "<190>")?;
    same(text, &expected)?;
    let (priority, text) = &seen[1];
    same(priority, "<27>")?;
    match text.starts_with("errors: 20") && text.contains(" [error] ") && text.ends_with('"') {
        true => Ok(()),
        false => Err(format!("malformed error line: {text:?}")),
    }
    .and_then(
        |()| match text.contains("*1 open() ") || text.contains(" open() ") {
            true => Ok(()),
            false => Err(format!("not the expected error: {text:?}")),
        },
    )
}

fn syslog_over_a_unix_socket(program: &Program) -> Outcome {
    let error = |error: std::io::Error| error.to_string();
    let folder = Directory::create();
    let path = folder.path().join("sink");
    let site = Site::start(
        program,
        &format!(
            "access_log syslog:server=unix:{},severity=debug,nohostname path;",
            path.display()
        ),
    )?;
    site.get("/nobody-listens")?;
    let sink = UnixDatagram::bind(&path).map_err(error)?;
    sink.set_read_timeout(Some(Duration::from_millis(200)))
        .map_err(error)?;
    let mut buffer = [0; 4096];
    let mut received = None;
    wait_until("a line arrives after the server came up", || {
        let sent = site.get("/someone-listens").is_ok();
        received = sink.recv(&mut buffer).ok();
        sent && received.is_some()
    })?;
    let (priority, text) = parts(&buffer[..received.unwrap_or(0)])?;
    same(&priority, "<191>")?;
    same(&text, "nginx: /someone-listens")
}

/// The whole line, with only its time left out.
fn combined_is_the_format_of_logs_that_name_none(program: &Program) -> Outcome {
    let mut site = Site::start(program, "access_log %DIR%/a.log;")?;
    site.get("/1")?;
    site.stop()?;
    let text = site.read("a.log");
    match text.starts_with("127.0.0.1 - - [")
        && text.ends_with("] \"GET /1 HTTP/1.0\" 404 153 \"-\" \"-\"\n")
    {
        true => Ok(()),
        false => Err(format!("not the combined format: {text:?}")),
    }
}
