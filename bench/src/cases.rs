//! The cases, and what each one puts on disk: the body files and the one nginx.conf all servers are given.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::wrk::Requests;

/// Enough for every case, the idle connections included.
const WORKER_CONNECTIONS: usize = 16384;
/// For the weight of a server that has made ready for nobody.
pub const FEW_WORKER_CONNECTIONS: usize = 64;
/// The name under which `--only` selects the memory measurement.
pub const IDLE: &str = "idle";
/// The body every idle connection has fetched once.
pub const IDLE_SIZE: usize = 1024;

/// How requests are logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessLog {
    Off,
    Unbuffered,
    Buffered,
}

impl AccessLog {
    fn directive(self, dir: &Path) -> String {
        let file = log_file(dir);
        match self {
            AccessLog::Off => "access_log off;".to_owned(),
            AccessLog::Unbuffered => format!("access_log {} combined;", file.display()),
            AccessLog::Buffered => {
                format!(
                    "access_log {} combined buffer=64k flush=1s;",
                    file.display()
                )
            }
        }
    }
}

/// One load: what is fetched, by how many connections, and how.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: &'static str,
    /// Bytes of the body.
    pub size: usize,
    pub connections: usize,
    /// One connection per request instead of keep-alive.
    pub close: bool,
    pub access_log: AccessLog,
    /// The `worker_connections` of the configuration.
    pub worker_connections: usize,
}

impl Case {
    const fn keep_alive(name: &'static str, size: usize) -> Case {
        Case {
            name,
            size,
            connections: 64,
            close: false,
            access_log: AccessLog::Off,
            worker_connections: WORKER_CONNECTIONS,
        }
    }

    /// For the reader of the table.
    pub fn describe(&self) -> String {
        let how = if self.close {
            "new connection each"
        } else {
            "keep-alive"
        };
        let log = match self.access_log {
            AccessLog::Off => "",
            AccessLog::Unbuffered => ", access log",
            AccessLog::Buffered => ", access log buffered",
        };
        format!(
            "{}, {how}, {} conns{log}",
            size_name(self.size),
            self.connections
        )
    }

    /// What the servers are configured with for this case.
    pub fn configuration(&self, dir: &Path, port: u16) -> String {
        configuration(dir, port, self.access_log, self.worker_connections)
    }

    /// What wrk asks for.
    pub fn requests(&self) -> Requests {
        Requests {
            path: url_path(self.size),
            connections: self.connections,
            close: self.close,
        }
    }

    /// The floor writes no log, so a logged case has no floor.
    pub fn has_floor(&self) -> bool {
        self.access_log == AccessLog::Off
    }
}

/// All cases, in the order of the table.
pub fn all() -> Vec<Case> {
    let one_kilobyte = Case::keep_alive("1k", 1 << 10);
    vec![
        Case::keep_alive("0b", 0),
        one_kilobyte.clone(),
        Case::keep_alive("10k", 10 << 10),
        Case::keep_alive("100k", 100 << 10),
        Case::keep_alive("1m", 1 << 20),
        // Fewer connections: 64 x 10 MB in flight would measure the socket buffers.
        Case {
            connections: 8,
            ..Case::keep_alive("10m", 10 << 20)
        },
        Case {
            close: true,
            ..Case::keep_alive("close", 0)
        },
        Case {
            name: "log",
            access_log: AccessLog::Unbuffered,
            ..one_kilobyte.clone()
        },
        Case {
            name: "log-buffered",
            access_log: AccessLog::Buffered,
            ..one_kilobyte
        },
    ]
}

/// The path of the body file in a URL.
pub fn url_path(size: usize) -> String {
    format!("/{size}.bin")
}

/// The body file of this size under the document root of `dir`.
pub fn body_file(dir: &Path, size: usize) -> PathBuf {
    dir.join("www").join(format!("{size}.bin"))
}

pub fn log_file(dir: &Path) -> PathBuf {
    dir.join("access.log")
}

/// Bytes that no server can shorten or guess: a fixed xorshift sequence.
pub fn body(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(size);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.push((state >> 32) as u8);
    }
    bytes
}

/// Writes the document root.
pub fn write_bodies(dir: &Path, sizes: impl Iterator<Item = usize>) -> Result<()> {
    fs::create_dir_all(dir.join("www"))?;
    for size in sizes {
        let file = body_file(dir, size);
        fs::write(&file, body(size)).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// The configuration text: one for all servers.
fn configuration(
    dir: &Path,
    port: u16,
    access_log: AccessLog,
    worker_connections: usize,
) -> String {
    let dir_text = dir.display();
    let access_log = access_log.directive(dir);
    format!(
        "daemon off;
worker_processes 1;
pid {dir_text}/server.pid;
error_log {dir_text}/error.log;
events {{
    worker_connections {worker_connections};
}}
http {{
    types {{ }}
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    open_file_cache max=1000 inactive=60s;
    open_file_cache_valid 60s;
    keepalive_timeout 300s;
    keepalive_requests 1000000000;
    {access_log}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        root {dir_text}/www;
    }}
}}
"
    )
}

/// "1 KB" for 1024.
pub fn size_name(size: usize) -> String {
    match size {
        0..=1023 => format!("{size} B"),
        1024..=1_048_575 => format!("{} KB", size >> 10),
        _ => format!("{} MB", size >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_their_size_and_are_the_same_every_time() {
        assert_eq!(body(0), b"");
        assert_eq!(body(1000).len(), 1000);
        assert_eq!(body(1000), body(2000)[..1000]);
    }

    #[test]
    fn sizes_are_named_as_people_say_them() {
        for (size, name) in [
            (0, "0 B"),
            (1 << 10, "1 KB"),
            (100 << 10, "100 KB"),
            (10 << 20, "10 MB"),
        ] {
            assert_eq!(size_name(size), name);
        }
    }

    #[test]
    fn the_log_directive_is_the_only_difference_between_logged_and_unlogged() {
        let dir = Path::new("/d");
        let off = configuration(dir, 80, AccessLog::Off, 64);
        let on = configuration(dir, 80, AccessLog::Unbuffered, 64);
        assert_eq!(
            off.replace("access_log off;", "access_log /d/access.log combined;"),
            on
        );
    }
}
