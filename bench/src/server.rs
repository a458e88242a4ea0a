//! Starts a server on its core in its directory, waits until it answers, and leaves nothing of it behind.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::cases::{self, Case};
use crate::usage;

/// A server that listens neither then nor later is broken.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// After a fast shutdown was asked for; then it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);

/// A server that takes part, and how it is started.
#[derive(Clone)]
pub struct Contender {
    pub name: String,
    program: Program,
}

#[derive(Clone)]
enum Program {
    /// Words of a command; `{conf}` and `{dir}` are filled in.
    Configured(Vec<String>),
    Floor,
}

impl Contender {
    /// nginx as Debian installs it, the gannet built beside this program, and the floor.
    pub fn defaults() -> Result<Vec<Contender>> {
        let beside = std::env::current_exe()?.with_file_name("gannet");
        let gannet = std::env::var("GANNET_BIN").unwrap_or(beside.display().to_string());
        let configured = |name: &str, program: &str| {
            let words = [
                program,
                "-p",
                "{dir}",
                "-e",
                "{dir}/error.log",
                "-c",
                "{conf}",
            ];
            let program = Program::Configured(words.map(String::from).to_vec());
            Contender {
                name: name.to_owned(),
                program,
            }
        };
        Ok(vec![
            configured("nginx", "/usr/sbin/nginx"),
            configured("gannet", &gannet),
            Contender {
                name: "floor".to_owned(),
                program: Program::Floor,
            },
        ])
    }

    /// From `NAME=COMMAND`.
    pub fn parse(text: &str) -> Result<Contender> {
        let (name, command) = text
            .split_once('=')
            .context("--server needs NAME=COMMAND")?;
        let words: Vec<String> = command.split_whitespace().map(String::from).collect();
        if words.is_empty() {
            bail!("--server {name}: no command");
        }
        Ok(Contender {
            name: name.to_owned(),
            program: Program::Configured(words),
        })
    }

    pub fn is_floor(&self) -> bool {
        matches!(self.program, Program::Floor)
    }

    /// The program's name or path.
    pub fn program_name(&self) -> &str {
        match &self.program {
            Program::Configured(words) => words.first().map_or("", String::as_str),
            Program::Floor => "",
        }
    }

    /// As the report shows it.
    pub fn command_text(&self) -> String {
        match &self.program {
            Program::Configured(words) => words.join(" "),
            Program::Floor => "gannet-bench floor PORT FILE".to_owned(),
        }
    }

    /// First line of `-v`.
    pub fn version(&self) -> String {
        let Program::Configured(words) = &self.program else {
            return "the bare epoll loop of bench/src/floor.rs".to_owned();
        };
        let Ok(output) = Command::new(&words[0]).arg("-v").output() else {
            return "unknown".to_owned();
        };
        let text = [output.stderr, output.stdout].concat();
        String::from_utf8_lossy(&text)
            .lines()
            .next()
            .unwrap_or("unknown")
            .to_owned()
    }

    fn command(&self, dir: &Path, task: &Task) -> Result<Command> {
        match (&self.program, task) {
            (Program::Floor, Task::Text(_)) => bail!("the floor reads no configuration"),
            (Program::Floor, Task::Case(case, port)) => {
                let mut command = Command::new(std::env::current_exe()?);
                command
                    .arg("floor")
                    .arg(port.to_string())
                    .arg(cases::body_file(dir, case.size));
                command.args(case.close.then_some("close"));
                Ok(command)
            }
            (Program::Configured(words), task) => {
                let conf = dir.join("nginx.conf");
                fs::write(&conf, task.configuration(dir))?;
                let fill = |word: &String| {
                    word.replace("{conf}", &conf.display().to_string())
                        .replace("{dir}", &dir.display().to_string())
                };
                let mut filled = words.iter().map(fill);
                let mut command = Command::new(filled.next().context("an empty command")?);
                command.args(filled);
                Ok(command)
            }
        }
    }
}

/// What a server is to serve.
enum Task<'a> {
    Case(&'a Case, u16),
    Text(&'a str),
}

impl Task<'_> {
    fn configuration(&self, dir: &Path) -> String {
        match self {
            Task::Case(case, port) => case.configuration(dir, *port),
            Task::Text(text) => (*text).to_owned(),
        }
    }
}

/// A running server; stopped and reaped when dropped.
pub struct Running {
    child: Child,
    pub address: SocketAddr,
    /// The master and its workers.
    pub processes: Vec<u32>,
    error_log: PathBuf,
}

impl Running {
    /// Starts `contender` for `case` on `core` and waits until it accepts connections.
    pub fn start(contender: &Contender, case: &Case, dir: &Path, core: usize) -> Result<Running> {
        let port = free_port()?;
        Running::launch(contender, &Task::Case(case, port), dir, Some(core), port)
    }

    /// The same on a configuration that `text` makes of the port; on any core if none is given.
    pub fn start_with(
        contender: &Contender,
        text: impl Fn(u16) -> String,
        dir: &Path,
        core: Option<usize>,
    ) -> Result<Running> {
        let port = free_port()?;
        Running::launch(contender, &Task::Text(&text(port)), dir, core, port)
    }

    fn launch(
        contender: &Contender,
        task: &Task,
        dir: &Path,
        core: Option<usize>,
        port: u16,
    ) -> Result<Running> {
        let mut command = contender.command(dir, task)?;
        command.stdin(Stdio::null()).stdout(Stdio::null());
        for old in [cases::log_file(dir), dir.join("error.log")] {
            fs::write(old, "")?;
        }
        let child = spawn(&mut command, core);
        let mut running = Running {
            child: child.with_context(|| format!("cannot start {}", contender.command_text()))?,
            address: (Ipv4Addr::LOCALHOST, port).into(),
            processes: Vec::new(),
            error_log: dir.join("error.log"),
        };
        running
            .wait_until_listening()
            .with_context(|| contender.name.clone())?;
        Ok(running)
    }

    fn wait_until_listening(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("ended at once: {status}\n{}", self.errors());
            }
            if Instant::now() > deadline {
                bail!("does not listen on {}\n{}", self.address, self.errors());
            }
            sleep(POLL);
        }
        Ok(())
    }

    /// Takes note of the worker processes, which exist for certain once a request was answered.
    pub fn note_processes(&mut self) -> Result<()> {
        self.processes = usage::family(self.child.id())?;
        Ok(())
    }

    /// What the server wrote to its error log.
    pub fn errors(&self) -> String {
        fs::read_to_string(&self.error_log).unwrap_or_default()
    }

    /// The master.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

/// Starts a process on a core, or on all that this thread may use, and in a session of its own, as services are: to the
/// scheduler those of a session are one group, and php-fpm makes one for itself in any case.
pub fn spawn(command: &mut Command, core: Option<usize>) -> std::io::Result<Child> {
    sys::spawn::lead_session(command);
    // The terminal does not stop what is in another session.
    sys::signal::end_with_parent(command, sys::signal::Signal::Term);
    let before = rustix::thread::sched_getaffinity(None)?;
    if let Some(core) = core {
        pin(core).map_err(std::io::Error::other)?;
    }
    let child = command.spawn();
    sched_setaffinity(None, &before)?;
    child
}

/// Ends a process and its descendants: fast, or else by force.
pub fn stop(child: &mut Child) -> Result<()> {
    let family = usage::family(child.id())?;
    signal(child.id(), Signal::TERM);
    let deadline = Instant::now() + STOP_TIMEOUT;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            family
                .iter()
                .for_each(|process| signal(*process, Signal::KILL));
            child.wait()?;
            break;
        }
        sleep(POLL);
    }
    Ok(())
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = stop(&mut self.child) {
            eprintln!("stopping process {}: {error}", self.child.id());
        }
    }
}

/// Sends a signal; a process that is gone already is no error.
pub fn signal(process: u32, signal: Signal) {
    if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _gone = kill_process(process, signal);
    }
}

/// Pins this thread, and what it starts from now on, to one core.
pub fn pin(core: usize) -> Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).with_context(|| format!("no core {core}; see --cores"))
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}
