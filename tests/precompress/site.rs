//! A server with copies, and clients that undo every coding.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use testkit::client::Client;
use testkit::directory::Directory;
use testkit::ports;
use testkit::reply::Reply;
use testkit::server::{Program, Server};

pub const CODINGS: [&str; 4] = ["gzip", "br", "zstd", "identity"];
/// How long copies may take to come, on a machine with other things to do.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Site {
    pub port: u16,
    pub directory: Directory,
    _lease: ports::Lease,
    server: Option<Server>,
}

impl Site {
    /// Starts a server whose files lie in `html`; `inside` stands in its server block.
    pub fn start(outside: &str, inside: &str) -> Site {
        let site = Site::prepare(outside, inside);
        site.started()
    }

    /// The same without the server.
    pub fn prepare(outside: &str, inside: &str) -> Site {
        let directory = Directory::create();
        let lease = ports::lease();
        let (path, port) = (directory.path().display(), lease.port);
        let configuration = format!(
            "daemon off;\npid {path}/pid;\nworker_processes 2;\nerror_log {path}/error.log;\n\
             events {{ worker_connections 1024; }}\n{outside}\n\
             http {{\n access_log off;\n keepalive_requests 1000000;\n types {{ text/html html; text/css css; }}\n\
             server {{ listen 127.0.0.1:{port}; root {path}/html; precompress on; {inside}\n\
             location = /status {{ precompress_status; }} }}\n}}\n"
        );
        fs::create_dir(directory.path().join("html")).unwrap();
        fs::write(directory.path().join("nginx.conf"), configuration).unwrap();
        Site {
            port: lease.port,
            directory,
            _lease: lease,
            server: None,
        }
    }

    pub fn started(mut self) -> Site {
        self.restart();
        self
    }

    pub fn restart(&mut self) {
        // A killed server leaves its pid file, which tells that the next one is ready.
        let _none = fs::remove_file(self.directory.path().join("pid"));
        let program = Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))).unwrap();
        self.server = Some(Server::start(&program, self.directory.path()).unwrap());
    }

    /// Has the server read its configuration again, with something in place of something else.
    pub fn reload(&self, from: &str, to: &str) {
        let path = self.directory.path().join("nginx.conf");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from}");
        // Whole at every moment: the server may be reading for an earlier signal.
        let next = path.with_extension("next");
        fs::write(&next, text.replace(from, to)).unwrap();
        fs::rename(next, &path).unwrap();
        self.server.as_ref().unwrap().signal("HUP");
    }

    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.signal("KILL");
            server.stop();
        }
    }

    pub fn root(&self) -> PathBuf {
        self.directory.path().join("html")
    }

    pub fn client(&self) -> Client {
        Client::connect(self.port).unwrap()
    }

    /// A number of the status page.
    pub fn count(&self, section: &str, name: &str) -> u64 {
        let text = get(&mut self.client(), "/status", "identity")
            .unwrap()
            .text();
        let rest = &text[text.find(&format!("\"{section}\"")).unwrap()..];
        let rest = rest.split_once(&format!("\"{name}\": ")).unwrap().1;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap();
        digits.parse().unwrap()
    }

    pub fn error_log(&self) -> String {
        fs::read_to_string(self.directory.path().join("error.log")).unwrap_or_default()
    }
}

pub fn get(client: &mut Client, path: &str, coding: &str) -> Option<Reply> {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: {coding}\r\n\r\n");
    client.send(request.as_bytes());
    client.read_reply("GET")
}

/// The body as it was before its coding; `None` where it cannot be undone.
pub fn decoded(reply: &Reply) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let body = &reply.body[..];
    match reply.field("Content-Encoding") {
        None => out.extend_from_slice(body),
        Some("gzip") => drop(
            flate2::read::GzDecoder::new(body)
                .read_to_end(&mut out)
                .ok()?,
        ),
        Some("br") => drop(
            brotli::Decompressor::new(body, 4096)
                .read_to_end(&mut out)
                .ok()?,
        ),
        Some("zstd") => {
            out.reserve(1 << 20);
            zstd_safe::decompress(&mut out, body).ok()?;
        }
        Some(other) => panic!("Content-Encoding: {other}"),
    }
    Some(out)
}

/// Asks until `done` says so.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether the body was made ahead: what is compressed on the fly has a weak tag.
pub fn is_copy(reply: &Reply) -> bool {
    let ends = |tag: &str| {
        tag.starts_with('"')
            && ["-gzip\"", "-br\"", "-zstd\""]
                .iter()
                .any(|end| tag.ends_with(end))
    };
    reply.field("ETag").is_some_and(ends)
}

/// Asks until a path comes as a copy in a coding.
pub fn until_coded(site: &Site, path: &str, coding: &str) -> Reply {
    let mut client = site.client();
    let mut last = None;
    until(&format!("{path} in {coding}"), || {
        let reply = get(&mut client, path, coding).unwrap();
        let coded = reply.field("Content-Encoding") == Some(coding) && is_copy(&reply);
        last = Some(reply);
        coded
    });
    last.unwrap()
}
