//! The server as the process layer sees it: nginx.conf becomes a plan and a configuration, and network threads serve it.

mod children;

use crate::acme;
use crate::cache;
use crate::config::{self, Config, InForce, Paths};
use crate::filter;
use crate::image;
use crate::log;
use crate::pool;
use crate::precompress;
use crate::process::{
    ChildEvent, Diagnostic, ErrorLog, ErrorTarget, Level, ListenSpec, Loaded, Notifier, Plan,
    Program, Resources, Service, Spawn,
};
use crate::tls;
use crate::worker::{Begin, Command, Worker};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// nginx.conf and the `-g` text, to be read at the start and at every reload.
pub struct Site {
    pub paths: Paths,
    pub globals: Vec<u8>,
}

impl Program for Site {
    type Configuration = Arc<Config>;
    type Service = Running;

    fn load(&self, source: &dyn conf::Source) -> Result<Loaded<Arc<Config>>, Vec<Diagnostic>> {
        let (loaded, tree) = config::load(source, &self.paths, &self.globals);
        let warning = |warning: &conf::Error| Diagnostic::new(Level::Warning, warning.to_string());
        let config = loaded.map_err(|failure| {
            let mut all: Vec<Diagnostic> = failure.warnings.iter().map(warning).collect();
            let error = Diagnostic::new(Level::Emergency, failure.error.to_string());
            all.push(if failure.late { error.late() } else { error });
            all
        })?;
        let mut warnings: Vec<Diagnostic> = config.warnings.iter().map(warning).collect();
        warnings.extend(config.late_warnings.iter().map(|late| warning(late).late()));
        let plan = match plan(&config, &self.paths) {
            Ok(plan) => plan,
            Err(error) => {
                warnings.push(Diagnostic::new(Level::Emergency, error).late());
                return Err(warnings);
            }
        };
        let files = tree
            .files
            .into_iter()
            .map(|file| (file.path, file.text))
            .collect();
        Ok(Loaded {
            plan,
            configuration: Arc::new(config),
            warnings,
            files,
        })
    }

    fn start(&self, spawn: Spawn<'_>, config: Arc<Config>) -> Result<Running, String> {
        log::panic::log_panics();
        install_logs(&config, spawn.resources);
        let in_force = Arc::new(InForce::new(spawn.notifier.clone()));
        precompress::watch::start(&config);
        image::start(&config);
        filter::dictionary::start(&config);
        cache::upkeep::begin(&config.http.caches);
        acme::keeper::begin(&certificates(&config));
        let mut keeper = None;
        let none = pool::Pools::default();
        let plan = spawn.plan;
        begin_pools(&mut keeper, &config, &none, plan, &spawn.notifier)?;
        let count = spawn.plan.threads;
        let processors = sys::machine::cpu_count();
        let mut workers = Vec::with_capacity(count);
        for index in 0..count {
            let begin = Begin {
                index,
                processors: config.main.cpu_affinity.of_thread(index, processors),
                count,
                number: 0,
                config: Arc::clone(&config),
                in_force: Arc::clone(&in_force),
                listeners: spawn.resources.listeners.clone(),
            };
            workers.push(
                Worker::spawn(begin)
                    .map_err(|error| format!("a worker thread failed to start: {error}"))?,
            );
        }
        Ok(Running {
            number: 0,
            workers,
            config,
            in_force,
            notifier: spawn.notifier,
            keeper,
        })
    }
}

/// The threads at work.
pub struct Running {
    /// How many configurations came into force before this one.
    number: u64,
    workers: Vec<Worker>,
    config: Arc<Config>,
    in_force: Arc<InForce>,
    notifier: Notifier,
    /// Looks after the pools, once there are any.
    keeper: Option<Arc<pool::Way>>,
}

impl Service<Arc<Config>> for Running {
    fn replace(
        &mut self,
        plan: &Plan,
        config: Arc<Config>,
        resources: &Resources,
    ) -> Result<(), String> {
        let limits = &config.http.limits;
        limits.check_successor(&self.config.http.limits)?;
        limits.inherit(&self.config.http.limits);
        install_logs(&config, resources);
        (config.http.upstreams).adopt(&self.config.http.upstreams);
        cache::upkeep::begin(&config.http.caches);
        acme::keeper::begin(&certificates(&config));
        let former = &self.config.http.pools;
        begin_pools(&mut self.keeper, &config, former, plan, &self.notifier)?;
        let in_force = Arc::new(InForce::new(self.notifier.clone()));
        self.number += 1;
        for worker in &self.workers {
            worker.tell(Command::Replace {
                number: self.number,
                config: Arc::clone(&config),
                in_force: Arc::clone(&in_force),
                listeners: resources.listeners.clone(),
            });
        }
        precompress::watch::start(&config);
        filter::dictionary::start(&config);
        std::mem::replace(&mut self.in_force, in_force).retire();
        self.config = config;
        Ok(())
    }

    fn flush_logs(&mut self) {
        self.config.logs.flush();
    }

    fn quit(&mut self) {
        let left = Arc::new(AtomicUsize::new(self.workers.len()));
        for worker in &self.workers {
            let (left, notifier) = (Arc::clone(&left), self.notifier.clone());
            let finished = Box::new(move || {
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    notifier.finished();
                }
            });
            worker.tell(Command::Quit { finished });
        }
    }

    fn child(&mut self, event: ChildEvent) {
        if let Some(keeper) = &self.keeper {
            keeper.hear(children::event(event));
        }
    }

    fn stop(self) {
        for worker in &self.workers {
            worker.tell(Command::Stop);
        }
        self.workers.into_iter().for_each(Worker::join);
        crate::cache::zone::close_all();
        crate::store::close_all();
        if let Some(keeper) = &self.keeper {
            keeper.stop();
        }
        self.config.logs.flush();
    }
}

fn install_logs(config: &Config, resources: &Resources) {
    config
        .logs
        .install(|path| resources.logs.file(path).cloned());
    log::error::set_process_logs(config.error_log.clone());
}

/// The pools of a configuration come into force after those of the former one.
fn begin_pools(
    keeper: &mut Option<Arc<pool::Way>>,
    config: &Config,
    former: &pool::Pools,
    plan: &Plan,
    notifier: &Notifier,
) -> Result<(), String> {
    if keeper.is_none() {
        if config.http.pools.is_empty() {
            return Ok(());
        }
        let asking = Box::new(children::Asking(notifier.clone()));
        let started = pool::start(asking);
        *keeper = Some(started.map_err(|error| {
            let reason = sys::errno::Errno(&error);
            format!("the thread for pools failed to start ({reason})")
        })?);
    }
    if let Some(keeper) = keeper {
        let print = |settings: &pool::Settings| {
            let mut specs = plan.children.iter();
            let spec = specs.find(|spec| spec.name == settings.name);
            spec.map_or(0, |spec| spec.print())
        };
        config.http.pools.come_into_force(former, keeper, print);
    }
    Ok(())
}

/// What the process layer is to open and to be.
fn plan(config: &Config, paths: &Paths) -> Result<Plan, String> {
    let main = &config.main;
    let mut plan = Plan::new(main.pid.clone());
    plan.daemon = main.daemon;
    plan.master_process = main.master_process;
    plan.user = match &main.user {
        Some((user, group)) => Some(find_user(user, group.as_deref())?),
        None => find_user("nobody", None).ok(),
    };
    plan.foreign_addresses = config.http.locations.iter().any(binds_foreign_addresses);
    plan.threads = main.worker_processes;
    plan.rlimit_nofile = main.rlimit_nofile;
    plan.rlimit_core = main.rlimit_core;
    plan.priority = main.priority;
    plan.working_directory = main.working_directory.clone();
    for (name, value) in &main.env {
        plan.environment
            .retain(|(known, _)| known.as_encoded_bytes() != name.as_bytes());
        let value = value
            .as_ref()
            .map(OsString::from)
            .or_else(|| std::env::var_os(name));
        plan.environment
            .extend(value.map(|value| (OsString::from(name), value)));
    }
    plan.shutdown_timeout = main.shutdown_timeout_ms.map(Duration::from_millis);
    plan.error_logs = config.error_log.logs().iter().map(error_log).collect();
    plan.log_files = config.logs.paths();
    plan.directories = precompress::directories(config);
    plan.directories.extend(image::directories(config));
    let caches = config.http.caches.zones.iter();
    (plan.directories).extend(caches.map(|(path, _)| path.directory.clone()));
    let issuers = certificates(config);
    let states = issuers.iter().filter_map(|slot| slot.place.state.clone());
    plan.directories.extend(states);
    plan.watched = watched(config, paths);
    plan.listen = config
        .http
        .listens
        .iter()
        .filter(|listener| listener.own_socket)
        .map(|listener| ListenSpec {
            address: listener.listen.address.clone(),
            options: listener.listen.options.clone(),
            optional: false,
        })
        .collect();
    for pool in config.http.pools.iter() {
        plan.listen.extend(children::listen_spec(&pool.settings)?);
        let spec = children::spec(&pool.settings, plan.user.as_ref())?;
        plan.children.push(spec);
    }
    plan.directories.extend(temp_directories(config));
    Ok(plan)
}

/// The files of `ssl_certificate_reload`.
fn watched(config: &Config, paths: &Paths) -> Vec<PathBuf> {
    let servers = config.http.servers.iter();
    let servers = servers.map(|server| &server.settings.tls);
    let names = servers
        .filter(|tls| tls.reload)
        .flat_map(tls::Settings::files);
    let mut files: Vec<PathBuf> = names
        .map(|name| paths.in_conf(&String::from_utf8_lossy(name)))
        .collect();
    files.sort();
    files.dedup();
    files
}

/// The certificates that are got for the servers.
fn certificates(config: &Config) -> Vec<Arc<acme::Slot>> {
    let servers = config.http.servers.iter();
    servers.filter_map(|server| server.acme.clone()).collect()
}

/// The directories for temporary files that the locations name.
/// Whether requests of a location are passed on from addresses that are not the machine's.
fn binds_foreign_addresses(location: &config::model::Location) -> bool {
    let settings = &location.settings;
    let relays = [&settings.proxy_relay, &settings.fastcgi_relay];
    let mut binds = relays.into_iter().filter_map(|relay| relay.bind.as_ref());
    binds.any(|bind| bind.transparent)
}

fn temp_directories(config: &Config) -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = Vec::new();
    for location in &config.http.locations {
        let settings = &location.settings;
        let named = [&settings.proxy_relay.temp, &settings.fastcgi_relay.temp];
        let named = named.into_iter().flatten().map(|temp| &temp.directory);
        for directory in named.chain([&settings.request_body.temp_path.directory]) {
            if !directories.contains(directory) {
                directories.push(directory.clone());
            }
        }
    }
    directories
}

/// A log of the main context, to which the process layer writes as well.
fn error_log(log: &log::error::ErrorLog) -> ErrorLog {
    let target = match &log.target {
        log::error::Target::File(file) if file.is_stderr() => ErrorTarget::Stderr,
        log::error::Target::File(file) => ErrorTarget::File(file.path().to_owned()),
        log::error::Target::Syslog(peer) => ErrorTarget::Syslog(Arc::clone(peer)),
    };
    ErrorLog {
        target,
        level: log.level,
    }
}

fn find_user(name: &str, group: Option<&str>) -> Result<(sys::user::User, sys::user::Gid), String> {
    let not_found = |call: &str, name: &str| format!("{call}(\"{name}\") failed");
    let user = sys::user::user(name)
        .ok()
        .flatten()
        .ok_or_else(|| not_found("getpwnam", name))?;
    let group = group.unwrap_or(name);
    let gid = match sys::user::group(group).ok().flatten() {
        Some(gid) => gid,
        None if group == name => user.gid,
        None => return Err(not_found("getgrnam", group)),
    };
    Ok((user, gid))
}
