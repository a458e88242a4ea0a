//! Servers that a study starts: this gannet, the installed nginx, php-fpm. They run in process groups of their own, so that
//! Ctrl-C comes to the study alone, and are ended by it, or by its death.

use crate::study::{Case, Contender, Pool};
use crate::usage;
use crate::workspace::{Workspace, free_port};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use sys::signal::Signal;

/// A server that does not listen by then is broken.
const START_MAX: Duration = Duration::from_secs(10);
/// After this it is killed.
const STOP_MAX: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);
/// Attempts to start: a port that was free may be taken meanwhile.
const ATTEMPTS: usize = 3;
/// Where Debian and others keep servers, beside PATH.
const FOLDERS: &[&str] = &["/usr/sbin", "/usr/local/sbin", "/sbin"];
/// What the programs that run PHP are called by: php-fpm8.2, php-cgi.
const PHP: &str = "php";
/// The pool's name.
const POOL: &str = "study";

/// The program of a contender.
pub fn program(contender: Contender) -> Result<PathBuf, String> {
    match contender {
        Contender::Gannet => {
            std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))
        }
        Contender::Nginx => find("nginx", str::eq)
            .ok_or_else(|| "--against nginx: there is no nginx; the package is nginx".to_owned()),
    }
}

/// First line of what it says of itself.
pub fn version(contender: Contender) -> String {
    let said = program(contender).ok().and_then(|program| {
        let output = Command::new(program).arg("-v").output().ok()?;
        let text = [output.stderr, output.stdout].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        text.lines().next().map(str::to_owned)
    });
    said.unwrap_or_else(|| "unknown".to_owned())
}

/// The last by name of the programs in PATH and among the servers whose name fits.
pub fn find(name: &str, fits: fn(&str, &str) -> bool) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> = std::env::split_paths(&path)
        .chain(FOLDERS.iter().map(PathBuf::from))
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            let executable = fs::metadata(path)
                .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
            fits(&file, name) && executable
        })
        .collect();
    found.sort();
    found.pop()
}

/// What runs for one measurement.
pub struct Running {
    server: Process,
    pool: Option<Process>,
    pub address: SocketAddr,
    pub secure_address: SocketAddr,
    error_log: PathBuf,
}

impl Running {
    /// Starts the server, and PHP where it is needed, and waits until they listen.
    pub fn start(
        case: &Case,
        contender: Contender,
        workspace: &Workspace,
    ) -> Result<Running, String> {
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            match Running::attempt(case, contender, workspace) {
                Err(complaint) if complaint.contains("Address already in use") => last = complaint,
                settled => return settled,
            }
        }
        Err(last)
    }

    fn attempt(
        case: &Case,
        contender: Contender,
        workspace: &Workspace,
    ) -> Result<Running, String> {
        let pool = match (&case.pool, contender) {
            (Some(pool), Contender::Nginx) => Some(start_fpm(pool, workspace)?),
            _ => None,
        };
        let (port, tls, origin) = (free_port()?, free_port()?, free_port()?);
        let text = configuration(case, contender, workspace.path());
        let text = text
            .replace("%PORT%", &port.to_string())
            .replace("%TLS%", &tls.to_string())
            .replace("%ORIGIN%", &origin.to_string());
        let conf = workspace.write("nginx.conf", text.as_bytes())?;
        let error_log = workspace.write("error.log", b"")?;
        let mut command = Command::new(program(contender)?);
        command.arg("-p").arg(workspace.path());
        command.arg("-e").arg(&error_log).arg("-c").arg(&conf);
        let server = Process::start(&mut command, contender.as_str(), workspace)?;
        let mut running = Running {
            server,
            pool,
            address: (Ipv4Addr::LOCALHOST, port).into(),
            secure_address: (Ipv4Addr::LOCALHOST, tls).into(),
            error_log,
        };
        // One listening socket is opened after the other.
        let mut addresses = vec![running.address];
        addresses.extend(case.load.is_secure.then_some(running.secure_address));
        let listens = running.server.wait_until(|| {
            let mut all = addresses.iter();
            all.all(|address| TcpStream::connect(address).is_ok())
        });
        listens.map_err(|why| format!("{}: {why}{}", contender.as_str(), running.errors()))?;
        Ok(running)
    }

    /// All processes: master, workers, PHP.
    pub fn processes(&self) -> Vec<u32> {
        let mut all = usage::family(self.server.child.id());
        if let Some(pool) = &self.pool {
            all.extend(usage::family(pool.child.id()));
        }
        all
    }

    /// The processes that run scripts, of which php-fpm's master is none.
    pub fn children(&self, processes: &[u32]) -> usize {
        let master = self.pool.as_ref().map(|pool| pool.child.id());
        let mut others = processes.to_vec();
        others.retain(|process| Some(*process) != master);
        usage::named(&others, PHP)
    }

    /// The first line of the error log, after a colon.
    pub fn errors(&self) -> String {
        let text = fs::read_to_string(&self.error_log).unwrap_or_default();
        text.lines()
            .next()
            .map_or_else(String::new, |line| format!(": {line}"))
    }
}

/// The whole configuration, but for the ports.
fn configuration(case: &Case, contender: Contender, dir: &Path) -> String {
    let is_nginx = contender == Contender::Nginx;
    let http = match (&case.nginx, is_nginx) {
        (Some(own), true) => own,
        _ => &case.http,
    };
    // A worker of another user could not read what only this one may.
    let user = if sys::process::is_root() {
        "user root;\n"
    } else {
        ""
    };
    let temporary = match is_nginx {
        true => {
            "client_body_temp_path %DIR%/t1; proxy_temp_path %DIR%/t2; fastcgi_temp_path %DIR%/t3;\n    \
                 uwsgi_temp_path %DIR%/t4; scgi_temp_path %DIR%/t5;"
        }
        false => {
            "client_body_temp_path %DIR%/t1; proxy_temp_path %DIR%/t2; fastcgi_temp_path %DIR%/t3;"
        }
    };
    let modules = if is_nginx { case.modules.as_str() } else { "" };
    let (pool, address) = match (&case.pool, is_nginx) {
        (Some(_), true) => (String::new(), format!("unix:{}", socket(dir).display())),
        (Some(pool), false) => (block(pool), format!("pool:{POOL}")),
        (None, _) => (String::new(), String::new()),
    };
    format!(
        "{modules}{user}daemon off;\nworker_processes {};\npid %DIR%/server.pid;\nerror_log %DIR%/error.log;\n\
         events {{ worker_connections 8192; }}\nhttp {{\n    types {{ text/html html; image/jpeg jpg; }}\n    \
         default_type text/plain;\n    access_log off;\n    keepalive_requests 1000000000;\n    \
         {temporary}\n{pool}{http}\n}}\n",
        case.workers.max(1)
    )
    .replace("%PHP%", &address)
    .replace("%DIR%", &dir.display().to_string())
}

fn block(pool: &Pool) -> String {
    let entries = pool.0.iter();
    let lines: String = entries
        .map(|(name, value)| format!("    {name} {value};\n"))
        .collect();
    format!("php_pool {POOL} {{\n{lines}}}\n")
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("php-fpm.sock")
}

fn start_fpm(pool: &Pool, workspace: &Workspace) -> Result<Process, String> {
    let program = find("php-fpm", |file, name| file.starts_with(name))
        .ok_or_else(|| "--against nginx: there is no php-fpm; the package is php-fpm".to_owned())?;
    let (dir, socket) = (workspace.path().display(), socket(workspace.path()));
    // One that was left over would look like the new one.
    if let Err(error) = fs::remove_file(&socket)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(format!("cannot remove \"{}\": {error}", socket.display()));
    }
    let user = if sys::process::is_root() {
        "user = root\ngroup = root\n"
    } else {
        ""
    };
    let entries = pool.0.iter();
    let lines: String = entries
        .map(|(name, value)| format!("{name} = {value}\n"))
        .collect();
    let text = format!(
        "[global]\nerror_log = {dir}/php-fpm.log\n[{POOL}]\nlisten = {}\nlisten.mode = 0600\n{user}{lines}",
        socket.display()
    );
    let conf = workspace.write("php-fpm.conf", text.as_bytes())?;
    let mut command = Command::new(program);
    command.arg("-F").arg("-y").arg(conf);
    if sys::process::is_root() {
        command.arg("-R");
    }
    let mut process = Process::start(&mut command, "php-fpm", workspace)?;
    process
        .wait_until(|| UnixStream::connect(&socket).is_ok())
        .map_err(|why| format!("php-fpm: {why}"))?;
    Ok(process)
}

/// A process that is ended and reaped when dropped.
struct Process {
    child: Child,
    output: PathBuf,
}

impl Process {
    fn start(command: &mut Command, name: &str, workspace: &Workspace) -> Result<Process, String> {
        let output = workspace.write(&format!("{name}.output"), b"")?;
        let failed = |error: std::io::Error| format!("cannot start {name}: {error}");
        let file = fs::File::create(&output).map_err(failed)?;
        let again = file.try_clone().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(file).stderr(again);
        command.process_group(0);
        sys::signal::unblock_in_child(command);
        sys::signal::end_with_parent(command, Signal::Term);
        let child = command.spawn().map_err(failed)?;
        Ok(Process { child, output })
    }

    /// Waits for something that shows that it works.
    fn wait_until(&mut self, is_ready: impl Fn() -> bool) -> Result<(), String> {
        let deadline = Instant::now() + START_MAX;
        while !is_ready() {
            let ended = self.child.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || Instant::now() > deadline {
                let said = fs::read_to_string(&self.output).unwrap_or_default();
                let said = said.lines().find(|line| !line.trim().is_empty());
                return Err(match said {
                    Some(line) => format!("does not start: {line}"),
                    None => "does not start".to_owned(),
                });
            }
            sleep(POLL);
        }
        Ok(())
    }

    fn end(&mut self) -> std::io::Result<()> {
        let family = usage::family(self.child.id());
        signal(self.child.id(), Signal::Term);
        let deadline = Instant::now() + STOP_MAX;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                family
                    .iter()
                    .for_each(|process| signal(*process, Signal::Kill));
                self.child.wait()?;
            }
            sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("gannet: cannot end process {}: {error}", self.child.id());
        }
    }
}

/// A process that is gone already is no error.
fn signal(process: u32, signal: Signal) {
    let number = rustix::process::Pid::from_raw(i32::try_from(process).unwrap_or(0));
    let signal = match signal {
        Signal::Kill => rustix::process::Signal::KILL,
        _ => rustix::process::Signal::TERM,
    };
    if let Some(process) = number {
        let _gone = rustix::process::kill_process(process, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_says_the_same_to_both() {
        let words = [("pm", "static"), ("pm.max_children", "4")];
        let case = Case {
            pool: Some(Pool(
                words.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec(),
            )),
            http: "fastcgi_pass %PHP%;".to_owned(),
            ..Case::default()
        };
        let own = configuration(&case, Contender::Gannet, Path::new("/d"));
        assert!(own.contains("php_pool study {\n    pm static;\n    pm.max_children 4;\n}\n"));
        assert!(own.contains("fastcgi_pass pool:study;"));
        let nginx = configuration(&case, Contender::Nginx, Path::new("/d"));
        assert!(
            nginx.contains("fastcgi_pass unix:/d/php-fpm.sock;") && !nginx.contains("php_pool")
        );
        assert!(nginx.contains("pid /d/server.pid;") && !nginx.contains('%'));
    }
}
