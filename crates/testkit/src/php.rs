//! PHP as it is installed: which programs there are, and a php-fpm of a test's own.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(2);

/// The command line's PHP, if it is installed with what the gallery is written with.
pub fn command_line() -> Option<PathBuf> {
    let php = program(|name| name == "php")?;
    let parts = Command::new(&php).arg("-m").output().ok()?;
    let parts = String::from_utf8_lossy(&parts.stdout).into_owned();
    let has = |part: &str| parts.lines().any(|line| line == part);
    (has("gd") && has("pdo_sqlite")).then_some(php)
}

/// php-cgi, if it is installed.
pub fn cgi() -> Option<PathBuf> {
    program(|name| name == "php-cgi")
}

/// php-fpm, if it is installed; Debian names it after its version.
pub fn fpm() -> Option<PathBuf> {
    program(|name| name.starts_with("php-fpm"))
}

fn program(is_it: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> = std::env::split_paths(&folders)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| is_it(&name.to_string_lossy()))
        })
        .collect();
    found.sort();
    found.pop()
}

/// A running php-fpm, stopped and reaped on drop.
pub struct Fpm {
    child: Child,
    socket: PathBuf,
}

impl Fpm {
    /// Starts `program` in `directory` with a pool of these lines, on a socket there.
    pub fn start(program: &Path, directory: &Path, pool: &str) -> Result<Fpm, String> {
        let place = directory.display();
        let mut text = format!(
            "[global]\nerror_log = {place}/php-fpm.log\n[www]\nlisten = {place}/php-fpm.sock\nlisten.mode = 0666\n"
        );
        // As root it wants to be told a user, and to be asked to stay root.
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            text.push_str("user = root\ngroup = root\n");
        }
        text.push_str(pool);
        let conf = directory.join("php-fpm.conf");
        let failed = |error: std::io::Error| format!("{}: {error}", program.display());
        fs::write(&conf, text).map_err(failed)?;
        let stderr = File::create(directory.join("php-fpm.stderr")).map_err(failed)?;
        let mut command = Command::new(program);
        command.arg("-F").arg("-y").arg(&conf);
        command.args(is_root.then_some("-R"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(stderr).spawn().map_err(failed)?;
        let mut fpm = Fpm {
            child,
            socket: directory.join("php-fpm.sock"),
        };
        let deadline = Instant::now() + START_LIMIT;
        while UnixStream::connect(&fpm.socket).is_err() {
            if !matches!(fpm.child.try_wait(), Ok(None)) || Instant::now() > deadline {
                let said = fs::read_to_string(directory.join("php-fpm.stderr")).unwrap_or_default();
                return Err(format!("php-fpm does not listen:\n{said}"));
            }
            std::thread::sleep(POLL);
        }
        Ok(fpm)
    }

    /// What `fastcgi_pass` is given.
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket.display())
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        // Its children end with it.
        crate::server::kill("TERM", self.child.id());
        let _ = self.child.wait();
    }
}
