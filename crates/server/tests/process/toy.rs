//! A server of one line in, one line out: it answers `ANSWER PID` of the configuration a request began with. The line
//! `hold` begins a request that the next line ends.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use server::process::{
    Action, Diagnostic, ErrorLog, ErrorTarget, Invocation, Level, ListenSpec, Loaded, Notifier,
    Plan, Program, Resources, Service, SignalCommand, Spawn,
};
use sys::address::SocketAddress;
use sys::listen::ListenOptions;

/// Arguments: `serve CONFIGURATION [test|dump|stop|quit|reload|reopen]`.
pub fn main(arguments: Vec<OsString>) -> i32 {
    let configuration = PathBuf::from(&arguments[2]);
    let action = match arguments.get(3).and_then(|word| word.to_str()) {
        None => Action::Serve,
        Some("test") => Action::Test {
            quiet: false,
            dump: false,
        },
        Some("dump") => Action::Test {
            quiet: true,
            dump: true,
        },
        Some(word) => Action::Signal(SignalCommand::from_word(word.as_bytes()).expect("a signal")),
    };
    let invocation = Invocation {
        error_log: ErrorTarget::File(configuration.with_file_name("start.log")),
        configuration: configuration.clone(),
        action,
        version: "toy/1.0",
        arguments,
    };
    server::process::run(&Toy { configuration }, &invocation)
}

struct Toy {
    configuration: PathBuf,
}

/// What a configuration file says, one `name value` a line.
#[derive(Default)]
struct Settings {
    answer: String,
    access_log: Option<PathBuf>,
    /// The worker fails: `start` (fatal), `replace` (refuses), `die` (in the middle of taking it over), `birth`, `stop` (never does).
    fail: Option<String>,
    notifier: Mutex<Option<Notifier>>,
}

impl Drop for Settings {
    fn drop(&mut self) {
        // The last request of this configuration has ended.
        if let Some(notifier) = self.notifier.lock().unwrap().take() {
            notifier.drained();
        }
    }
}

fn unknown(word: &str, path: &Path, line: usize) -> Vec<Diagnostic> {
    let message = format!("unknown directive \"{word}\" in {}:{line}", path.display());
    vec![Diagnostic::new(Level::Emergency, message)]
}

impl Program for Toy {
    type Configuration = Arc<Settings>;
    type Service = Serving;

    fn load(&self, source: &dyn conf::Source) -> Result<Loaded<Arc<Settings>>, Vec<Diagnostic>> {
        let path = &self.configuration;
        let bytes = source.read(path).map_err(|error| {
            let message = format!(
                "open() \"{}\" failed {}",
                path.display(),
                conf::os_error(&error)
            );
            vec![Diagnostic::new(Level::Emergency, message)]
        })?;
        let text = String::from_utf8(bytes.clone()).unwrap();
        let mut plan = Plan::new(path.with_file_name("pid"));
        plan.daemon = false;
        let mut settings = Settings::default();
        for (index, line) in text.lines().enumerate() {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            let file = || path.with_file_name(value);
            match name {
                "answer" => settings.answer = value.to_owned(),
                "listen" => plan.listen.push(listen(path, value)),
                "threads" => plan.threads = value.parse().unwrap(),
                "daemon" => plan.daemon = value == "on",
                "master_process" => plan.master_process = value == "on",
                "pid" => plan.pid = file(),
                "error_log" => plan.error_logs.push(ErrorLog {
                    target: ErrorTarget::File(file()),
                    level: Level::Notice,
                }),
                "access_log" => {
                    settings.access_log = Some(file());
                    plan.log_files.push(file());
                }
                "user" => {
                    let user = sys::user::user(value).unwrap().unwrap();
                    let group = user.gid;
                    plan.user = Some((user, group));
                }
                "shutdown_timeout_ms" => {
                    plan.shutdown_timeout = Some(Duration::from_millis(value.parse().unwrap()))
                }
                "fail" => settings.fail = Some(value.to_owned()),
                _ => return Err(unknown(name, path, index + 1)),
            }
        }
        let files = vec![(path.clone(), Arc::from(bytes))];
        Ok(Loaded {
            plan,
            configuration: Arc::new(settings),
            warnings: Vec::new(),
            files,
        })
    }

    fn start(&self, spawn: Spawn<'_>, configuration: Arc<Settings>) -> Result<Serving, String> {
        match configuration.fail.as_deref() {
            Some("start") => return Err("told to fail".to_owned()),
            Some("birth") => std::process::abort(),
            _ => {}
        }
        let shared = Arc::new(Shared {
            now: Mutex::new((configuration, log_of(spawn.resources))),
            active: AtomicUsize::new(0),
            quitting: AtomicBool::new(false),
            notifier: spawn.notifier,
        });
        let mut serving = Serving {
            shared,
            stops: Vec::new(),
        };
        serving.listen(spawn.plan, spawn.resources);
        Ok(serving)
    }
}

fn listen(path: &Path, value: &str) -> ListenSpec {
    let address = match value.strip_prefix("unix:") {
        Some(name) => SocketAddress::Unix(path.with_file_name(name)),
        None => SocketAddress::Ip(value.parse().unwrap()),
    };
    ListenSpec {
        address,
        options: ListenOptions::default(),
        optional: false,
    }
}

type AccessLog = Option<Arc<File>>;

fn log_of(resources: &Resources) -> AccessLog {
    let mut logs = resources
        .logs
        .iter()
        .filter(|(path, _)| path.ends_with("access.log"));
    logs.next().map(|(_, file)| file.clone())
}

struct Shared {
    now: Mutex<(Arc<Settings>, AccessLog)>,
    active: AtomicUsize,
    quitting: AtomicBool,
    notifier: Notifier,
}

impl Shared {
    fn leave(&self) {
        let last = self.active.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && self.quitting.load(Ordering::SeqCst) {
            self.notifier.finished();
        }
    }
}

pub struct Serving {
    shared: Arc<Shared>,
    /// Closing one stops the threads that accept for a configuration.
    stops: Vec<UnixStream>,
}

impl Serving {
    fn listen(&mut self, plan: &Plan, resources: &Resources) {
        let (stop, stopped) = UnixStream::pair().unwrap();
        self.stops.push(stop);
        for thread in 0..plan.threads {
            let own = resources
                .listeners
                .iter()
                .flat_map(|listener| listener.for_thread(thread, plan.threads));
            let sockets: Vec<OwnedFd> = own
                .map(|socket| socket.try_clone_to_owned().unwrap())
                .collect();
            let (shared, stopped) = (self.shared.clone(), stopped.try_clone().unwrap());
            // A thread that may still accept counts like a connection.
            shared.active.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || {
                accept(&shared, &sockets, &stopped);
                shared.leave();
            });
        }
    }
}

impl Service<Arc<Settings>> for Serving {
    fn replace(
        &mut self,
        plan: &Plan,
        configuration: Arc<Settings>,
        resources: &Resources,
    ) -> Result<(), String> {
        match configuration.fail.as_deref() {
            Some("replace") => return Err("told to refuse".to_owned()),
            Some("die") => std::process::abort(),
            _ => {}
        }
        let next = (configuration, log_of(resources));
        let former = std::mem::replace(&mut *self.shared.now.lock().unwrap(), next);
        *former.0.notifier.lock().unwrap() = Some(self.shared.notifier.clone());
        self.stops.clear();
        self.listen(plan, resources);
        Ok(())
    }

    fn flush_logs(&mut self) {}

    fn quit(&mut self) {
        self.shared.quitting.store(true, Ordering::SeqCst);
        self.stops.clear();
    }

    fn stop(self) {
        while self.shared.now.lock().unwrap().0.fail.as_deref() == Some("stop") {
            std::thread::park();
        }
    }
}

fn accept(shared: &Arc<Shared>, sockets: &[OwnedFd], stopped: &UnixStream) {
    loop {
        let watch = |descriptor| sys::io::Watch {
            descriptor,
            read: true,
            write: false,
        };
        let mut watches: Vec<_> = sockets.iter().map(|socket| watch(socket.as_fd())).collect();
        watches.push(watch(stopped.as_fd()));
        let ready = sys::io::wait(&watches, None).unwrap();
        for (socket, ready) in sockets.iter().zip(&ready) {
            if !ready.read {
                continue;
            }
            if let Ok((connection, _)) = sys::socket::accept(socket) {
                sys::socket::set_nonblocking(&connection, false).unwrap();
                shared.active.fetch_add(1, Ordering::SeqCst);
                let shared = shared.clone();
                std::thread::spawn(move || {
                    serve(&shared, TcpStream::from(connection));
                    shared.leave();
                });
            }
        }
        if ready.last().is_some_and(|stopped| stopped.read) {
            return;
        }
    }
}

/// Until the client closes or breaks the connection.
fn serve(shared: &Shared, mut connection: TcpStream) {
    let Ok(reader) = connection.try_clone() else {
        return;
    };
    let mut lines = BufReader::new(reader).lines();
    while let Some(Ok(line)) = lines.next() {
        let (settings, log) = shared.now.lock().unwrap().clone();
        if line == "hold" && (connection.write_all(b"held\n").is_err() || lines.next().is_none()) {
            return;
        }
        if let Some(mut log) = log.as_deref() {
            log.write_all(format!("{line}\n").as_bytes()).unwrap();
        }
        let answer = format!("{} {}\n", settings.answer, sys::process::own_pid());
        if connection.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
