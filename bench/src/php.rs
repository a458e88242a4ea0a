//! PHP behind the servers: a pool's settings, as php-fpm reads them and as Gannet does, and a php-fpm of our own.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::server;

const START_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);
/// What the programs that run PHP are called by, in `/proc`: php-fpm8.2, php-cgi.
pub const NAME: &str = "php";
/// The pool's name in Gannet.
const POOL: &str = "www";

/// How many children a pool has, in words and values that both know.
#[derive(Clone, Debug)]
pub struct Pool {
    entries: Vec<(&'static str, String)>,
}

impl Pool {
    pub fn of_static(children: usize) -> Pool {
        Pool {
            entries: vec![
                ("pm", "static".to_owned()),
                ("pm.max_children", children.to_string()),
            ],
        }
    }

    /// As in the article behind the gallery.
    pub fn dynamic() -> Pool {
        let entries = [
            ("pm", "dynamic"),
            ("pm.max_children", "6"),
            ("pm.start_servers", "3"),
            ("pm.min_spare_servers", "2"),
            ("pm.max_spare_servers", "4"),
        ];
        Pool::of(&entries)
    }

    /// As in the article behind the gallery.
    pub fn ondemand() -> Pool {
        let entries = [
            ("pm", "ondemand"),
            ("pm.max_children", "6"),
            ("pm.process_idle_timeout", "20s"),
        ];
        Pool::of(&entries)
    }

    /// Gannet's own: nothing is set.
    pub fn auto() -> Pool {
        Pool::of(&[("pm", "auto")])
    }

    fn of(entries: &[(&'static str, &str)]) -> Pool {
        let owned = |(name, value): &(&'static str, &str)| (*name, (*value).to_owned());
        Pool {
            entries: entries.iter().map(owned).collect(),
        }
    }

    /// The block for the http block of nginx.conf.
    pub fn block(&self) -> String {
        let mut text = format!("php_pool {POOL} {{\n");
        for (name, value) in &self.entries {
            let _infallible = writeln!(text, "    {name} {value};");
        }
        text + "}\n"
    }

    /// What `fastcgi_pass` is given for the block.
    pub fn address() -> String {
        format!("pool:{POOL}")
    }

    /// The same in a line, for tables.
    pub fn describe(&self) -> String {
        let words = self.entries.iter().map(|(name, value)| {
            let short = name.strip_prefix("pm.").unwrap_or(name);
            format!("{short} {value}")
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

/// A running php-fpm; stopped and reaped when dropped.
pub struct Fpm {
    child: Child,
    socket: PathBuf,
}

impl Fpm {
    /// Starts the newest php-fpm there is on `core`, or on all, and waits until it listens.
    pub fn start(pool: &Pool, dir: &Path, core: Option<usize>) -> Result<Fpm> {
        let socket = dir.join("php-fpm.sock");
        let conf = dir.join("php-fpm.conf");
        fs::write(&conf, configuration(pool, dir, &socket))?;
        let mut command = Command::new(program()?);
        command.arg("-F").arg("-y").arg(&conf);
        if rustix::process::geteuid().is_root() {
            command.arg("-R");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let stderr = fs::File::create(dir.join("php-fpm.stderr"))?;
        let child = server::spawn(command.stderr(stderr), core).context("php-fpm")?;
        let mut fpm = Fpm { child, socket };
        let deadline = Instant::now() + START_TIMEOUT;
        while UnixStream::connect(&fpm.socket).is_err() {
            if fpm.child.try_wait()?.is_some() || Instant::now() > deadline {
                let said = fs::read_to_string(dir.join("php-fpm.stderr")).unwrap_or_default();
                bail!("php-fpm does not listen:\n{said}");
            }
            sleep(POLL);
        }
        Ok(fpm)
    }

    /// What `fastcgi_pass` is given.
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// The master.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        if let Err(error) = server::stop(&mut self.child) {
            eprintln!("stopping php-fpm: {error}");
        }
        // The next one is up when it has made its own.
        let _gone = fs::remove_file(&self.socket);
    }
}

fn configuration(pool: &Pool, dir: &Path, socket: &Path) -> String {
    let (dir, socket) = (dir.display(), socket.display());
    let mut text = format!(
        "[global]\nerror_log = {dir}/php-fpm.log\n[{POOL}]\nlisten = {socket}\nlisten.mode = 0666\n"
    );
    if rustix::process::geteuid().is_root() {
        text.push_str("user = root\ngroup = root\n");
    }
    for (name, value) in &pool.entries {
        let _infallible = writeln!(text, "{name} = {value}");
    }
    text
}

/// Debian names php-fpm after its version.
fn program() -> Result<PathBuf> {
    let mut found: Vec<PathBuf> = ["/usr/sbin", "/usr/local/sbin", "/usr/bin"]
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("php-fpm")
        })
        .collect();
    found.sort();
    found
        .pop()
        .context("php-fpm is needed: apt-get install php-fpm php-cgi php-cli php-gd php-sqlite3")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_says_the_same_to_both() {
        let pool = Pool::of_static(4);
        assert_eq!(
            pool.block(),
            "php_pool www {\n    pm static;\n    pm.max_children 4;\n}\n"
        );
        let text = configuration(&pool, Path::new("/d"), Path::new("/d/s"));
        assert!(
            text.contains("pm = static\npm.max_children = 4\n"),
            "{text}"
        );
        assert_eq!(pool.describe(), "pm static, max_children 4");
    }
}
