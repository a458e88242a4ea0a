//! A server under test: started in the foreground in a directory of its own, ready when its pid file is written
//! (both servers open their sockets before that), stopped and reaped on drop, also when the test panics.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(20);
const STOP_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Gannet,
    Nginx,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Gannet => "gannet",
            Kind::Nginx => "nginx",
        }
    }
}

/// A server's binary.
#[derive(Clone, Debug)]
pub struct Program {
    pub kind: Kind,
    pub path: PathBuf,
}

impl Program {
    /// Gannet: GANNET_BIN, or the binary that cargo built for the tests, or the newest in the target directory.
    pub fn gannet(built: Option<&str>) -> Option<Program> {
        let given = std::env::var_os("GANNET_BIN").map(PathBuf::from);
        let path = given
            .or_else(|| built.map(PathBuf::from))
            .or_else(beside_the_test)?;
        path.exists().then_some(Program {
            kind: Kind::Gannet,
            path,
        })
    }

    /// nginx, if it is installed.
    pub fn nginx() -> Option<Program> {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let usual = [PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")];
        let path = std::env::split_paths(&folders)
            .chain(usual)
            .map(|folder| folder.join("nginx"))
            .find(|p| p.exists());
        path.map(|path| Program {
            kind: Kind::Nginx,
            path,
        })
    }

    /// The command that runs the binary on `conf` with `prefix`, in a fixed time zone and locale.
    pub fn command(&self, prefix: &Path, conf: &Path) -> Command {
        let mut command = Command::new(&self.path);
        command.arg("-p").arg(prefix).arg("-c").arg(conf);
        command
            .env("TZ", "UTC")
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .current_dir(prefix);
        command
    }

    /// Runs `-t`.
    pub fn test_configuration(&self, prefix: &Path, conf: &Path, globals: Option<&str>) -> Output {
        let mut command = self.command(prefix, conf);
        command.arg("-t");
        // Where messages go before the configuration is read; by default that differs from build to build.
        command.arg("-e").arg(prefix.join("startup.log"));
        if let Some(globals) = globals {
            command.arg("-g").arg(globals);
        }
        command
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", self.path.display()))
    }
}

/// `target/PROFILE/gannet`, seen from `target/PROFILE/deps/TEST`.
fn beside_the_test() -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    Some(test.parent()?.parent()?.join("gannet"))
}

pub struct Server {
    child: Child,
    stopped: bool,
}

impl Server {
    /// Starts `program` on `directory/nginx.conf`, which must run in the foreground and write its pid to
    /// `directory/pid`. Standard error goes to `directory/stderr`.
    pub fn start(program: &Program, directory: &Path) -> Result<Server, String> {
        let stderr = directory.join("stderr");
        let file =
            File::create(&stderr).map_err(|error| format!("{}: {error}", stderr.display()))?;
        let mut command = program.command(directory, &directory.join("nginx.conf"));
        command.stdout(Stdio::null()).stderr(file);
        let child = command
            .spawn()
            .map_err(|error| format!("{}: {error}", program.path.display()))?;
        let mut server = Server {
            child,
            stopped: false,
        };
        let deadline = Instant::now() + START_LIMIT;
        while !pid_file_is_written(directory) {
            if let Ok(Some(status)) = server.child.try_wait() {
                server.stopped = true;
                let said = std::fs::read_to_string(&stderr).unwrap_or_default();
                return Err(format!("the server ended at once with {status}:\n{said}"));
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "the server wrote no pid file within {START_LIMIT:?}"
                ));
            }
            std::thread::sleep(POLL);
        }
        Ok(server)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name without SIG: HUP, USR1, …
    pub fn signal(&self, name: &str) {
        kill(name, self.child.id());
    }

    /// Stops gracefully, so that logs are complete; after a while less gracefully. Gives the exit status.
    pub fn stop(&mut self) -> Option<ExitStatus> {
        if self.stopped {
            return None;
        }
        self.stopped = true;
        for signal in ["QUIT", "TERM"] {
            self.signal(signal);
            if let Some(status) = self.wait() {
                return Some(status);
            }
        }
        for child in children(self.child.id()) {
            kill("KILL", child);
        }
        let _ = self.child.kill();
        self.child.wait().ok()
    }

    fn wait(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + STOP_LIMIT;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(POLL),
                Ok(Some(status)) => return Some(status),
                Err(_) => return None,
            }
        }
        None
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn pid_file_is_written(directory: &Path) -> bool {
    std::fs::read_to_string(directory.join("pid")).is_ok_and(|text| text.ends_with('\n'))
}

pub(crate) fn kill(signal: &str, pid: u32) {
    let _ = Command::new("sh")
        .arg("-c")
        .arg(format!("kill -{signal} {pid}"))
        .stderr(Stdio::null())
        .status();
}

fn children(pid: u32) -> Vec<u32> {
    let list =
        std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}
