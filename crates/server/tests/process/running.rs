//! A server under test: its directory, its processes, its clients. Nothing sleeps for a fixed time: every wait is for a
//! condition, with a deadline.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sys::process::Pid;
use sys::signal::Signal;

const DEADLINE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(2);

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

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

pub struct Running {
    pub directory: PathBuf,
    pub port: u16,
    child: Option<Child>,
}

impl Running {
    /// A directory and a port, with nothing running yet.
    pub fn prepared(configuration: &str) -> Running {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("gannet-process-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let running = Running {
            directory,
            port: free_port(),
            child: None,
        };
        running.configure(configuration);
        running
    }

    /// In the foreground, ready.
    pub fn start(configuration: &str) -> Running {
        let mut running = Running::prepared(configuration);
        running.spawn();
        wait_for("the first answer", || running.try_ask("hello"));
        running
    }

    /// In the foreground, whatever becomes of it.
    pub fn spawn(&mut self) {
        let mut command = self.command(&[]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        wait_for("the pid file", || read_pid(&self.path("pid")));
    }

    /// In the background, ready as soon as the starter ends.
    pub fn start_daemon(configuration: &str) -> Running {
        let running = Running::prepared(&format!("daemon on\n{configuration}"));
        let output = running.command(&[]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        running
    }

    /// Writes the configuration, with the port and the error log added.
    pub fn configure(&self, configuration: &str) {
        let port = self.port;
        let text = format!("listen 127.0.0.1:{port}\nerror_log error.log\n{configuration}\n");
        std::fs::write(self.path("toy.conf"), text).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .arg("serve")
            .arg(self.path("toy.conf"))
            .args(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("error.log")).unwrap_or_default()
    }

    /// Waits until the error log holds this text, so many times.
    pub fn wait_for_log(&self, text: &str, times: usize) {
        let count = || self.log().matches(text).count();
        let deadline = Instant::now() + DEADLINE;
        while count() < times {
            assert!(
                Instant::now() < deadline,
                "no {times} times {text:?} in:\n{}",
                self.log()
            );
            std::thread::sleep(POLL);
        }
    }

    /// The messages of the log without time and process.
    pub fn messages(&self) -> Vec<String> {
        let message = |line: &str| {
            line.split_once(": ")
                .map_or(line, |(_, message)| message)
                .to_owned()
        };
        self.log().lines().map(message).collect()
    }

    pub fn master(&self) -> Pid {
        read_pid(&self.path("pid")).expect("a pid file")
    }

    pub fn signal(&self, signal: Signal) {
        sys::process::kill(self.master(), signal).unwrap();
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.port).unwrap()
    }

    fn try_ask(&self, line: &str) -> Option<String> {
        let mut client = Client::connect(self.port)?;
        client.try_ask(line)
    }

    /// The answer of whichever worker accepts, and its process.
    pub fn ask(&self) -> (String, Pid) {
        let answer = self.connect().ask("hello");
        let (answer, pid) = answer.rsplit_once(' ').unwrap();
        (answer.to_owned(), Pid(pid.parse().unwrap()))
    }

    /// Waits until nobody answers anything else any more; gives the process that does.
    pub fn wait_for_answer(&self, answer: &str) -> Pid {
        const IN_A_ROW: usize = 32;
        let asked = || (self.ask().0 == answer).then_some(());
        wait_for("one answer only", || {
            (0..IN_A_ROW).all(|_| asked().is_some()).then_some(())
        });
        self.worker()
    }

    pub fn worker(&self) -> Pid {
        self.ask().1
    }

    /// Waits for the end of a server in the foreground; gives its exit code.
    pub fn exit_code(&mut self) -> Option<i32> {
        let child = self.child.as_mut().expect("in the foreground");
        let status = wait_for("the exit of the server", || child.try_wait().unwrap());
        self.child = None;
        status.code()
    }
}

pub fn read_pid(path: &Path) -> Option<Pid> {
    std::fs::read_to_string(path)
        .ok()?
        .trim()
        .parse()
        .ok()
        .map(Pid)
}

pub fn wait_for_end(pid: Pid) {
    wait_for("the end of a process", || (!is_alive(pid)).then_some(()));
}

/// A zombie is as good as dead: where nobody is at home to reap orphans, it stays.
pub fn is_alive(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_ok_and(|text| !text.contains(") Z "))
}

fn children(pid: Pid) -> Vec<Pid> {
    let list =
        std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace()
        .filter_map(|word| word.parse().ok().map(Pid))
        .collect()
}

impl Drop for Running {
    fn drop(&mut self) {
        let foreground = self
            .child
            .as_ref()
            .map(|child| Pid(i32::try_from(child.id()).unwrap()));
        let files = ["pid", "pid.oldbin", "other.pid"].map(|name| read_pid(&self.path(name)));
        let masters: Vec<Pid> = foreground
            .into_iter()
            .chain(files.into_iter().flatten())
            .collect();
        let mut all: Vec<Pid> = masters
            .iter()
            .flat_map(|&master| children(master))
            .collect();
        all.extend(&masters);
        for &master in &masters {
            let _gone = sys::process::kill(master, Signal::Term);
        }
        let deadline = Instant::now() + Duration::from_secs(3);
        while all.iter().any(|&pid| is_alive(pid)) && Instant::now() < deadline {
            // Reaps, where the server is a child of the tests.
            let _state = self.child.as_mut().map(Child::try_wait);
            std::thread::sleep(POLL);
        }
        for pid in all {
            let _gone = sys::process::kill(pid, Signal::Kill);
        }
        if let Some(child) = &mut self.child {
            let _reaped = child.wait();
        }
        if std::thread::panicking() {
            eprintln!(
                "--- error.log of {}\n{}",
                self.directory.display(),
                self.log()
            );
        }
        let _removed = std::fs::remove_dir_all(&self.directory);
    }
}

pub struct Client {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(port: u16) -> Option<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Some(Client { stream, reader })
    }

    pub fn try_ask(&mut self, line: &str) -> Option<String> {
        self.stream.write_all(format!("{line}\n").as_bytes()).ok()?;
        let mut answer = String::new();
        self.reader.read_line(&mut answer).ok()?;
        answer.strip_suffix('\n').map(str::to_owned)
    }

    pub fn ask(&mut self, line: &str) -> String {
        self.try_ask(line)
            .unwrap_or_else(|| panic!("no answer to {line:?}"))
    }
}
