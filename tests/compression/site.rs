//! A server that compresses, an upstream behind it, and clients that undo every coding.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use testkit::client::Client;
use testkit::directory::Directory;
use testkit::ports;
use testkit::reply::Reply;
use testkit::server::{Program, Server};

/// How long what happens in the background may take, on a machine with other things to do.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Site {
    pub port: u16,
    pub directory: Directory,
    _lease: ports::Lease,
    _server: Server,
}

impl Site {
    /// Starts a server; `inside` stands in its server block, `files` lie below its root.
    pub fn start(outside: &str, inside: &str, files: &[(&str, &[u8])]) -> Site {
        let program = Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))).unwrap();
        Site::start_with(&program, outside, inside, files)
    }

    pub fn start_with(
        program: &Program,
        outside: &str,
        inside: &str,
        files: &[(&str, &[u8])],
    ) -> Site {
        let directory = Directory::create();
        let lease = ports::lease();
        let (path, port) = (directory.path().display(), lease.port);
        let configuration = format!(
            "daemon off;\npid {path}/pid;\nworker_processes 1;\nerror_log {path}/error.log;\n\
             events {{ worker_connections 1024; }}\nhttp {{\n\
             types {{ text/html html; text/css css; text/javascript js; application/octet-stream bin; }}\n\
             log_format codings '$request_method $uri $status $sent_http_content_encoding';\n\
             access_log {path}/access.log codings;\n{outside}\n\
             server {{ listen 127.0.0.1:{port}; root {path}/html; {inside} }}\n}}\n"
        );
        let root = directory.path().join("html");
        fs::create_dir(&root).unwrap();
        for (name, content) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        fs::write(directory.path().join("nginx.conf"), configuration).unwrap();
        let server = Server::start(program, directory.path()).unwrap();
        Site {
            port,
            directory,
            _lease: lease,
            _server: server,
        }
    }

    pub fn root(&self) -> PathBuf {
        self.directory.path().join("html")
    }

    pub fn client(&self) -> Client {
        Client::connect(self.port).unwrap()
    }

    /// Sends one request with fields, and reads its reply.
    pub fn ask(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Reply {
        let mut client = self.client();
        client.send(head(method, path, fields).as_bytes());
        client.read_reply(method).expect("a reply")
    }

    pub fn access_log(&self) -> String {
        fs::read_to_string(self.directory.path().join("access.log")).unwrap_or_default()
    }
}

pub fn head(method: &str, path: &str, fields: &[(&str, &str)]) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
    for (name, value) in fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head + "\r\n"
}

/// The bytes before a coding, of as much as there is.
pub fn decoded(coding: Option<&str>, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match coding {
        None => out.extend_from_slice(body),
        Some("gzip") => {
            let mut reader = flate2::read::GzDecoder::new(body);
            let _end = reader.read_to_end(&mut out);
        }
        Some("br") => {
            let mut reader = brotli::Decompressor::new(body, 4096);
            let mut byte = [0];
            while let Ok(1) = reader.read(&mut byte) {
                out.push(byte[0]);
            }
        }
        Some("zstd") => {
            out.reserve(8 << 20);
            let mut context = zstd_safe::DCtx::create();
            let mut output = zstd_safe::OutBuffer::around(&mut out);
            let mut input = zstd_safe::InBuffer::around(body);
            while input.pos() < body.len() {
                context.decompress_stream(&mut output, &mut input).unwrap();
            }
        }
        Some(other) => panic!("Content-Encoding: {other}"),
    }
    out
}

/// Asks until `done` says so.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
