//! A Gannet with a configuration of its own, and what is to be known of its processes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::client::Client;
use testkit::directory::Directory;
use testkit::ports::{self, Lease};
use testkit::reply::Reply;
use testkit::server::{Program, Server};

/// No condition is waited for longer.
pub const DEADLINE: Duration = Duration::from_secs(20);
pub const POLL: Duration = Duration::from_millis(2);

/// Waits until `condition` gives something.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(POLL);
    }
}

pub fn program() -> Program {
    Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))).expect("cargo built it")
}

pub struct Site {
    /// Stopped before its directory goes.
    pub server: Option<Server>,
    pub port: u16,
    directory: Directory,
    _lease: Lease,
}

impl Site {
    /// Two threads serving `html/` by this configuration: the inside of a `server` block.
    pub fn start(server: &str) -> Site {
        Site::start_with("", "", server)
    }

    /// The same with more in the main and the http block.
    pub fn start_with(main: &str, http: &str, server: &str) -> Site {
        let mut site = Site::prepared();
        site.configure_with(main, http, server);
        site.run();
        site
    }

    /// Starts it in the foreground.
    pub fn run(&mut self) {
        self.server = Some(Server::start(&program(), self.path()).expect("it starts"));
    }

    /// A directory and a port with nothing running.
    pub fn prepared() -> Site {
        let (directory, lease) = (Directory::create(), ports::lease());
        let html = directory.path().join("html");
        std::fs::create_dir(&html).expect("a fresh directory");
        std::fs::write(html.join("small.txt"), "small\n").expect("a fresh directory");
        let site = Site {
            server: None,
            port: lease.port,
            directory,
            _lease: lease,
        };
        site.open_to_the_worker();
        site
    }

    /// The worker runs as nobody where the test is root.
    fn open_to_the_worker(&self) {
        use std::os::unix::fs::PermissionsExt;
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.path(), open).expect("our directory");
    }

    /// Starts it in the background; it is ready when this returns.
    pub fn run_in_background(&self) {
        let output = program()
            .command(self.path(), &self.file("nginx.conf"))
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{output:?}");
        wait_for("the pid file", || read_pid(&self.file("pid")));
    }

    pub fn configure(&self, server: &str) {
        self.configure_with("", "", server);
    }

    pub fn configure_with(&self, main: &str, http: &str, server: &str) {
        let port = self.port;
        let daemon = if main.contains("daemon ") {
            ""
        } else {
            "daemon off;"
        };
        let events = if main.contains("events ") {
            ""
        } else {
            "events {}"
        };
        let threads = if main.contains("worker_processes ") {
            ""
        } else {
            "worker_processes 2;"
        };
        let text = format!(
            "{daemon} pid pid; error_log error.log info; {threads} {events} {main}\n\
             http {{ access_log access.log; {http}\n\
             server {{ listen 127.0.0.1:{port}; root html; {server} }} }}\n"
        );
        // Renamed into place, as a careful operator does.
        let fresh = self.file("nginx.conf.new");
        std::fs::write(&fresh, text).expect("our directory");
        std::fs::rename(fresh, self.file("nginx.conf")).expect("our directory");
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Makes `html/NAME` of so many bytes.
    pub fn big_file(&self, name: &str, size: usize) {
        let text: Vec<u8> = (0..size).map(|at| b'a' + (at % 23) as u8).collect();
        std::fs::write(self.file("html").join(name), text).expect("our directory");
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.file("error.log")).unwrap_or_default()
    }

    /// Waits until the error log holds `text` so many times.
    pub fn wait_for_log(&self, text: &str, times: usize) {
        let deadline = Instant::now() + DEADLINE;
        while self.log().matches(text).count() < times {
            let late = Instant::now() > deadline;
            assert!(!late, "no {times} times {text:?} in:\n{}", self.log());
            std::thread::sleep(POLL);
        }
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.port).expect("it listens")
    }

    /// One request on a connection of its own.
    pub fn ask(&self, path: &str) -> Reply {
        self.try_ask(path).expect("a reply")
    }

    pub fn try_ask(&self, path: &str) -> Option<Reply> {
        let mut client = Client::connect(self.port).ok()?.forgotten();
        client.send(request(path, "close").as_bytes());
        client.read_reply("GET")
    }

    pub fn master(&self) -> u32 {
        read_pid(&self.file("pid")).expect("a pid file")
    }

    pub fn worker(&self) -> u32 {
        wait_for("a worker", || children(self.master()).first().copied())
    }

    /// Sends a signal, by its name without SIG, to the master.
    pub fn signal(&self, name: &str) {
        kill(name, self.master());
    }

    /// Waits for the end of the server; gives its exit code.
    pub fn ended(&mut self) -> Option<i32> {
        let mut server = self.server.take().expect("it was started");
        let pid = server.pid();
        wait_for("the end of the server", || (!is_running(pid)).then_some(()));
        server.stop().and_then(|status| status.code())
    }
}

impl Drop for Site {
    /// A server in the background, and one that it has started, end with the test as well.
    fn drop(&mut self) {
        drop(self.server.take());
        for name in ["pid", "pid.oldbin"] {
            let Some(master) = read_pid(&self.file(name)) else {
                continue;
            };
            for pid in children(master).into_iter().chain([master]) {
                let _ = Command::new("kill")
                    .arg("-KILL")
                    .arg(pid.to_string())
                    .stderr(Stdio::null())
                    .status();
            }
        }
    }
}

/// A GET with this Connection field.
pub fn request(path: &str, connection: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: {connection}\r\n\r\n")
}

pub fn read_pid(path: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(path).ok()?;
    text.strip_suffix('\n')?.parse().ok()
}

pub fn children(pid: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

pub fn kill(signal: &str, pid: u32) {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("kill -{signal} {pid}"));
    let status = command.stderr(Stdio::null()).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "kill -{signal} {pid}"
    );
}

/// Whether a process is there and no zombie.
pub fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z")
}

/// Open descriptors of a process.
pub fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Kilobytes of memory that a process has resident.
pub fn resident_kb(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}
