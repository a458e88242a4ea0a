//! What a pool is told, in php-fpm's words: the same words stand in a `php_pool` block and in php-fpm's own files. Each
//! word is one line of a table; errors are php-fpm's.

use super::values;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use sys::address::SocketAddress;

/// How a pool decides how many children it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pm {
    /// Always `max_children`.
    Static,
    /// Between `start_servers` and `max_children`, so that some are idle.
    Dynamic,
    /// None until there is a request.
    Ondemand,
    /// As many as there is work and room for.
    Auto,
}

impl Pm {
    pub fn as_str(self) -> &'static str {
        match self {
            Pm::Static => "static",
            Pm::Dynamic => "dynamic",
            Pm::Ondemand => "ondemand",
            Pm::Auto => "auto",
        }
    }

    fn parse(text: &str) -> Option<Pm> {
        let all = [Pm::Static, Pm::Dynamic, Pm::Ondemand, Pm::Auto];
        all.into_iter().find(|pm| pm.as_str() == text)
    }
}

/// A pool, as it was written and then checked. Times are in seconds unless a name says otherwise; 0 is "off" as in php-fpm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub name: String,
    pub pm: Pm,
    pub max_children: usize,
    pub start_servers: usize,
    pub min_spare_servers: usize,
    pub max_spare_servers: usize,
    pub max_spawn_rate: usize,
    pub process_idle_timeout: u64,
    pub max_requests: u64,
    /// Bytes; a larger child is replaced after its request.
    pub max_memory: Option<u64>,
    pub request_terminate_timeout: u64,
    pub terminate_track_finished: bool,
    pub request_slowlog_timeout: u64,
    pub slowlog_trace_depth: u64,
    pub slowlog: Option<String>,
    pub status_path: Option<String>,
    pub ping_path: Option<String>,
    pub ping_response: String,
    pub access_log: Option<String>,
    pub access_format: String,
    /// Paths that are not written to the access log.
    pub access_suppress: Vec<String>,
    pub catch_workers_output: bool,
    pub decorate_workers_output: bool,
    pub limit_extensions: Vec<String>,
    /// Requests that may wait for a child; more get 503.
    pub queue_max: usize,
    /// How long one may wait, in milliseconds; 0: as long as it takes.
    pub queue_timeout_ms: u64,
    pub process: Process,
    pub listen: Option<Listen>,
}

/// What a child is started with: a change of it, and of nothing else, needs other children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    pub user: Option<String>,
    pub group: Option<String>,
    pub chroot: Option<PathBuf>,
    pub chdir: Option<PathBuf>,
    pub rlimit_files: Option<u64>,
    /// `u64::MAX` is "unlimited".
    pub rlimit_core: Option<u64>,
    pub priority: Option<i32>,
    pub dumpable: bool,
    pub keep_environment: bool,
    pub environment: Vec<(String, String)>,
    /// Directives of php.ini by name.
    pub ini: Vec<(String, String)>,
    /// Those of them that scripts cannot change.
    pub locked: Vec<(String, String)>,
    /// The version of PHP in the name of its program: `8.2`.
    pub version: Option<String>,
    /// Where php.ini and conf.d are, instead of php-cgi's own place.
    pub ini_directory: Option<PathBuf>,
    /// Program and arguments instead of php-cgi.
    pub command: Vec<String>,
}

/// Where other programs may connect to the pool, as php-fpm's clients do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// `host:port`, a port, or a path.
    pub address: String,
    /// The same for the system; known once the pool is read as a whole.
    pub place: Option<SocketAddress>,
    pub backlog: i32,
    pub owner: Option<String>,
    pub group: Option<String>,
    pub mode: Option<u32>,
    /// `listen.allowed_clients`; empty: any.
    pub allowed: Vec<IpAddr>,
}

/// Waiting requests unless `queue_max` says otherwise: php-fpm's backlog.
const QUEUE_MAX: usize = 511;
const SLOWLOG_TRACE_DEPTH: u64 = 20;
const ACCESS_FORMAT: &str = "%R - %u %t \"%m %r\" %s";

/// A pool being read.
#[derive(Clone, Debug)]
pub struct Reading {
    settings: Settings,
    pm: Option<Pm>,
    start_servers: Option<usize>,
    max_children: Option<usize>,
    extensions: Option<Vec<String>>,
    listen: Listen,
    idle_timeout: Option<u64>,
}

impl Settings {
    /// Whether somebody wants to know the processor time or memory of each request.
    pub fn measures(&self) -> bool {
        let logged = self.access_log.is_some() && super::access_log::measures(&self.access_format);
        logged || self.max_memory.is_some() || self.status_path.is_some()
    }
}

/// A complaint in php-fpm's words.
pub type Outcome = Result<(), String>;

impl Reading {
    pub fn new(name: &str) -> Reading {
        let settings = Settings {
            name: name.to_owned(),
            pm: Pm::Auto,
            max_children: 0,
            start_servers: 0,
            min_spare_servers: 0,
            max_spare_servers: 0,
            max_spawn_rate: 32,
            process_idle_timeout: 10,
            max_requests: 0,
            max_memory: None,
            request_terminate_timeout: 0,
            terminate_track_finished: false,
            request_slowlog_timeout: 0,
            slowlog_trace_depth: SLOWLOG_TRACE_DEPTH,
            slowlog: None,
            status_path: None,
            ping_path: None,
            ping_response: "pong".to_owned(),
            access_log: None,
            access_format: ACCESS_FORMAT.to_owned(),
            access_suppress: Vec::new(),
            catch_workers_output: false,
            decorate_workers_output: true,
            limit_extensions: vec![".php".to_owned(), ".phar".to_owned()],
            queue_max: QUEUE_MAX,
            queue_timeout_ms: 0,
            process: Process::default(),
            listen: None,
        };
        Reading {
            settings,
            pm: None,
            start_servers: None,
            max_children: None,
            extensions: None,
            listen: Listen {
                address: String::new(),
                place: None,
                backlog: 511,
                owner: None,
                group: None,
                mode: None,
                allowed: Vec::new(),
            },
            idle_timeout: None,
        }
    }

    /// Takes one entry; `env[X]` and the like have their key in the name.
    pub fn entry(&mut self, name: &str, value: &str) -> Outcome {
        if name == "access.suppress_path[]" {
            self.settings.access_suppress.push(value.to_owned());
            return Ok(());
        }
        let value = value.replace("$pool", &self.settings.name);
        if let Some((field, key)) = name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            return self.keyed(name, field, key, &value);
        }
        let outcome = match name.split_once('.') {
            Some(("pm", rest)) => self.pm_entry(rest, &value),
            Some(("listen", rest)) => self.listen_entry(rest, &value),
            Some(_) => self.dotted(name, &value),
            None => self.plain(name, &value),
        };
        match outcome {
            None => Err(format!("unknown entry '{name}'")),
            Some(Ok(())) => Ok(()),
            Some(Err(why)) => Err(format!("unable to parse value for entry '{name}': {why}")),
        }
    }

    fn pm_entry(&mut self, name: &str, value: &str) -> Option<Result<(), &'static str>> {
        let settings = &mut self.settings;
        Some(match name {
            "max_children" => values::number(value).map(|n| self.max_children = Some(n)),
            "start_servers" => values::number(value).map(|n| self.start_servers = Some(n)),
            "min_spare_servers" => values::number(value).map(|n| settings.min_spare_servers = n),
            "max_spare_servers" => values::number(value).map(|n| settings.max_spare_servers = n),
            "max_spawn_rate" => values::number(value).map(|n| settings.max_spawn_rate = n),
            "process_idle_timeout" => values::seconds(value).map(|s| self.idle_timeout = Some(s)),
            "max_requests" => values::number(value).map(|n| settings.max_requests = n as u64),
            "max_memory" => values::bytes(value).map(|n| settings.max_memory = Some(n)),
            "status_path" => {
                settings.status_path = Some(value.to_owned());
                Ok(())
            }
            // The status is answered by the server itself, so it needs no socket of its own.
            "status_listen" => Ok(()),
            _ => return None,
        })
    }

    fn listen_entry(&mut self, name: &str, value: &str) -> Option<Result<(), &'static str>> {
        let listen = &mut self.listen;
        match name {
            "backlog" => match value.parse() {
                Ok(backlog) => listen.backlog = backlog,
                Err(_) => return Some(Err("is not a valid number (greater or equal than zero)")),
            },
            "owner" => listen.owner = Some(value.to_owned()),
            "group" => listen.group = Some(value.to_owned()),
            "mode" => match u32::from_str_radix(value, 8) {
                Ok(mode) if mode <= 0o7777 => listen.mode = Some(mode),
                _ => return Some(Err("is not a valid mode")),
            },
            "allowed_clients" => {
                let addresses = value.split(',').map(|word| word.trim().parse());
                match addresses.collect() {
                    Ok(allowed) => listen.allowed = allowed,
                    Err(_) => return Some(Err("invalid address")),
                }
            }
            // Lists of further users need ACLs on the file system; the group serves the same end.
            "acl_users" | "acl_groups" if value.is_empty() => {}
            "acl_users" | "acl_groups" => {
                return Some(Err("is not supported by gannet, use 'listen.group'"));
            }
            _ => return None,
        }
        Some(Ok(()))
    }

    fn dotted(&mut self, name: &str, value: &str) -> Option<Result<(), &'static str>> {
        let settings = &mut self.settings;
        let text = Some(value.to_owned());
        Some(match name {
            "ping.path" => assign(&mut settings.ping_path, text),
            "ping.response" => assign(&mut settings.ping_response, value.to_owned()),
            "access.log" => assign(&mut settings.access_log, text),
            "access.format" => assign(&mut settings.access_format, value.to_owned()),
            "process.priority" => match value.parse() {
                Ok(nice) => assign(&mut settings.process.priority, Some(nice)),
                Err(_) => Err("is not a valid number"),
            },
            "process.dumpable" => values::flag(value).map(|on| settings.process.dumpable = on),
            "security.limit_extensions" => {
                let words = value.split_ascii_whitespace().map(str::to_owned);
                assign(&mut self.extensions, Some(words.collect()))
            }
            _ => return None,
        })
    }

    fn plain(&mut self, name: &str, value: &str) -> Option<Result<(), &'static str>> {
        let settings = &mut self.settings;
        let process = &mut settings.process;
        let text = Some(value.to_owned());
        Some(match name {
            "user" => assign(&mut process.user, text),
            "group" => assign(&mut process.group, text),
            "listen" => assign(&mut self.listen.address, value.to_owned()),
            "pm" => Pm::parse(value)
                .map(|pm| self.pm = Some(pm))
                .ok_or("invalid process manager (static, dynamic or ondemand)"),
            "request_terminate_timeout" => {
                values::seconds(value).map(|s| settings.request_terminate_timeout = s)
            }
            "request_terminate_timeout_track_finished" => {
                values::flag(value).map(|on| settings.terminate_track_finished = on)
            }
            "request_slowlog_timeout" => {
                values::seconds(value).map(|s| settings.request_slowlog_timeout = s)
            }
            "request_slowlog_trace_depth" => {
                values::number(value).map(|n| settings.slowlog_trace_depth = n as u64)
            }
            "slowlog" => assign(&mut settings.slowlog, text),
            "catch_workers_output" => {
                values::flag(value).map(|on| settings.catch_workers_output = on)
            }
            "decorate_workers_output" => {
                values::flag(value).map(|on| settings.decorate_workers_output = on)
            }
            "clear_env" => values::flag(value).map(|on| process.keep_environment = !on),
            "chroot" => assign(&mut process.chroot, path(value)),
            "chdir" => assign(&mut process.chdir, path(value)),
            "rlimit_files" => values::number(value).map(|n| process.rlimit_files = Some(n as u64)),
            "rlimit_core" => values::core(value).map(|n| process.rlimit_core = Some(n)),
            "queue_max" => values::number(value).map(|n| settings.queue_max = n),
            "queue_timeout" => values::milliseconds(value).map(|ms| settings.queue_timeout_ms = ms),
            _ => return None,
        })
    }

    /// `env[X]`, `php_value[X]` and the like.
    fn keyed(&mut self, name: &str, field: &str, key: &str, value: &str) -> Outcome {
        let process = &mut self.settings.process;
        let pair = |value: &str| (key.to_owned(), value.to_owned());
        match field {
            "env" | "php_value" | "php_admin_value" | "php_flag" | "php_admin_flag"
                if key.is_empty() =>
            {
                return Err(format!("You must provide a key for field '{field}'"));
            }
            "env" => process.environment.push(pair(value)),
            "php_value" | "php_admin_value" => process.ini.push(pair(value)),
            "php_flag" | "php_admin_flag" => {
                let on = values::flag(value)
                    .map_err(|why| format!("error while parsing '{name}' : {why}"))?;
                process.ini.push(pair(if on { "1" } else { "0" }));
            }
            _ => return Err(format!("unknown entry '{name}'")),
        }
        if field.starts_with("php_admin_") {
            process.locked.extend(process.ini.last().cloned());
        }
        Ok(())
    }

    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// `command PROGRAM ARGUMENT…`; only a block of nginx.conf has it.
    pub fn command(&mut self, words: Vec<String>) {
        self.settings.process.command = words;
    }

    /// A file of php-fpm's says by its place which PHP it is for: `/etc/php/8.2/fpm/pool.d/www.conf`.
    pub fn in_file(&mut self, path: &Path) {
        let process = &mut self.settings.process;
        for directory in path.ancestors().skip(1) {
            if directory.join("php.ini").is_file() {
                process.ini_directory = Some(directory.to_owned());
                break;
            }
        }
        let mut parts = path.iter().filter_map(|part| part.to_str());
        let version = |part: &&str| {
            let digits = part
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.');
            digits && part.contains('.')
        };
        if parts.any(|part| part == "php") {
            process.version = parts.next().filter(version).map(str::to_owned);
        }
    }

    /// The pool, checked as a whole. Without `pm` a block of nginx.conf means `auto`; a file of php-fpm must say it.
    pub fn finish(mut self, pm_default: Option<Pm>) -> Result<Settings, String> {
        let settings = &mut self.settings;
        settings.pm = self
            .pm
            .or(pm_default)
            .ok_or("the process manager is missing (static, dynamic or ondemand)")?;
        let auto = settings.pm == Pm::Auto;
        settings.max_children = self.max_children.unwrap_or(if auto { AUTO_MAX } else { 0 });
        if settings.max_children == 0 {
            return Err("pm.max_children must be a positive value".to_owned());
        }
        if settings.pm == Pm::Dynamic {
            settings.start_servers = check_dynamic(settings, self.start_servers)?;
        }
        match self.idle_timeout {
            Some(0) if settings.pm == Pm::Ondemand => {
                return Err("pm.process_idle_timeout(0s) must be greater than 0s".to_owned());
            }
            idle => settings.process_idle_timeout = idle.unwrap_or(10),
        }
        for (what, path) in [
            ("status", &settings.status_path),
            ("ping", &settings.ping_path),
        ] {
            path.as_ref()
                .map_or(Ok(()), |path| check_path(what, path))?;
        }
        if settings.ping_response.is_empty() && settings.ping_path.is_some() {
            return Err("the ping response page has to be specified".to_owned());
        }
        if settings.request_slowlog_timeout > 0 && settings.slowlog.is_none() {
            let why = "'slowlog' must be specified for use with 'request_slowlog_timeout'";
            return Err(why.to_owned());
        }
        if let Some(nice) = settings.process.priority
            && !(-19..=20).contains(&nice)
        {
            return Err("process.priority must be included into [-19,20]".to_owned());
        }
        if let Some(extensions) = self.extensions.take() {
            settings.limit_extensions = extensions;
        }
        // Other programs are nobody's scripts.
        if !settings.process.command.is_empty() {
            settings.limit_extensions.clear();
        }
        super::access_log::check(&settings.access_format)?;
        if !self.listen.address.is_empty() {
            self.listen.place = Some(place_of(&self.listen.address)?);
            settings.listen = Some(self.listen);
        }
        Ok(self.settings)
    }
}

/// The most children of `pm auto` unless `pm.max_children` says otherwise; memory usually ends its growth before.
const AUTO_MAX: usize = 256;

/// An address as php-fpm reads it: a path, a port (of all addresses), or a host and a port.
fn place_of(address: &str) -> Result<SocketAddress, String> {
    if address.starts_with('/') {
        return Ok(SocketAddress::Unix(PathBuf::from(address)));
    }
    if let Ok(port) = address.parse::<u16>() {
        let all = IpAddr::from(std::net::Ipv6Addr::UNSPECIFIED);
        return Ok(SocketAddress::Ip((all, port).into()));
    }
    let mut found = match address.to_socket_addrs() {
        Ok(found) => found,
        Err(error) => return Err(format!("invalid address '{address}': {error}")),
    };
    let first = found.next().filter(|address| address.port() != 0);
    let first = first.ok_or_else(|| format!("invalid port value in '{address}'"))?;
    Ok(SocketAddress::Ip(first))
}

fn assign<T>(place: &mut T, value: T) -> Result<(), &'static str> {
    *place = value;
    Ok(())
}

/// An empty path is none.
fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

/// php-fpm's checks of `pm dynamic`; gives `start_servers`.
fn check_dynamic(settings: &Settings, start: Option<usize>) -> Result<usize, String> {
    let (min, max) = (settings.min_spare_servers, settings.max_spare_servers);
    let children = settings.max_children;
    let complain = |condition: bool, text: String| if condition { Err(text) } else { Ok(()) };
    complain(
        min == 0,
        "pm.min_spare_servers(0) must be a positive value".to_owned(),
    )?;
    complain(
        max == 0,
        "pm.max_spare_servers(0) must be a positive value".to_owned(),
    )?;
    complain(
        min > children || max > children,
        format!(
            "pm.min_spare_servers({min}) and pm.max_spare_servers({max}) cannot be greater than pm.max_children({children})"
        ),
    )?;
    complain(
        max < min,
        format!("pm.max_spare_servers({max}) must not be less than pm.min_spare_servers({min})"),
    )?;
    let start = match start {
        None | Some(0) => min + (max - min) / 2,
        Some(start) => start,
    };
    complain(
        start < min || start > max,
        format!(
            "pm.start_servers({start}) must not be less than pm.min_spare_servers({min}) and not greater than pm.max_spare_servers({max})"
        ),
    )?;
    complain(
        settings.max_spawn_rate == 0,
        "pm.max_spawn_rate must be a positive value".to_owned(),
    )?;
    Ok(start)
}

/// A path that the pool answers itself.
fn check_path(what: &str, path: &str) -> Outcome {
    if !path.starts_with('/') {
        return Err(format!("the {what} path '{path}' must start with a '/'"));
    }
    if path.len() < 2 {
        return Err(format!("the {what} path '{path}' is not long enough"));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-.~".contains(&byte);
    match path.bytes().all(plain) {
        true => Ok(()),
        false => Err(format!(
            "the {what} path '{path}' must contain only the following characters '[alphanum]/_-.~'"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[(&str, &str)]) -> Result<Settings, String> {
        let mut reading = Reading::new("www");
        for (name, value) in lines {
            reading.entry(name, value)?;
        }
        reading.finish(None)
    }

    /// Each line as `NAME=VALUE`, the complaint as php-fpm 8.2 has it.
    #[test]
    fn complaints_are_those_of_php_fpm() {
        let dynamic = "pm=dynamic pm.max_children=5";
        let fixed = "pm=static pm.max_children=5";
        for (before, line, complaint) in [
            (
                "",
                "",
                "the process manager is missing (static, dynamic or ondemand)",
            ),
            (
                "",
                "pm=foo",
                "unable to parse value for entry 'pm': invalid process manager (static, dynamic or ondemand)",
            ),
            ("", "pm=static", "pm.max_children must be a positive value"),
            (
                "pm=static",
                "pm.max_children=a",
                "unable to parse value for entry 'pm.max_children': is not a valid number (greater or equal than zero)",
            ),
            (
                dynamic,
                "",
                "pm.min_spare_servers(0) must be a positive value",
            ),
            (
                dynamic,
                "pm.min_spare_servers=1",
                "pm.max_spare_servers(0) must be a positive value",
            ),
            (
                dynamic,
                "pm.min_spare_servers=3 pm.max_spare_servers=2",
                "pm.max_spare_servers(2) must not be less than pm.min_spare_servers(3)",
            ),
            (
                dynamic,
                "pm.min_spare_servers=1 pm.max_spare_servers=9",
                "pm.min_spare_servers(1) and pm.max_spare_servers(9) cannot be greater than pm.max_children(5)",
            ),
            (
                dynamic,
                "pm.min_spare_servers=1 pm.max_spare_servers=3 pm.start_servers=4",
                "pm.start_servers(4) must not be less than pm.min_spare_servers(1) and not greater than pm.max_spare_servers(3)",
            ),
            (
                dynamic,
                "pm.min_spare_servers=1 pm.max_spare_servers=3 pm.max_spawn_rate=0",
                "pm.max_spawn_rate must be a positive value",
            ),
            (
                "pm=ondemand pm.max_children=5",
                "pm.process_idle_timeout=0",
                "pm.process_idle_timeout(0s) must be greater than 0s",
            ),
            (
                "pm=ondemand pm.max_children=5",
                "pm.process_idle_timeout=1x",
                "unable to parse value for entry 'pm.process_idle_timeout': unknown suffix used in time value",
            ),
            (fixed, "foo=1", "unknown entry 'foo'"),
            (
                fixed,
                "clear_env=maybe",
                "unable to parse value for entry 'clear_env': invalid boolean value",
            ),
            (
                fixed,
                "pm.status_path=status",
                "the status path 'status' must start with a '/'",
            ),
            (
                fixed,
                "ping.path=/a%b",
                "the ping path '/a%b' must contain only the following characters '[alphanum]/_-.~'",
            ),
            (
                fixed,
                "request_slowlog_timeout=5",
                "'slowlog' must be specified for use with 'request_slowlog_timeout'",
            ),
            (
                fixed,
                "php_flag[x]=maybe",
                "error while parsing 'php_flag[x]' : invalid boolean value",
            ),
            (
                fixed,
                "process.priority=55",
                "process.priority must be included into [-19,20]",
            ),
            (
                fixed,
                "access.format=%z",
                "wrong format for access.format '%z'",
            ),
            (fixed, "env[]=x", "You must provide a key for field 'env'"),
        ] {
            let all = [before, line].join(" ");
            let lines: Vec<_> = all
                .split_ascii_whitespace()
                .map(|word| word.split_once('=').unwrap())
                .collect();
            assert_eq!(read(&lines).unwrap_err(), complaint, "{all}");
        }
    }

    #[test]
    fn what_is_not_said_is_as_with_php_fpm() {
        let read = read(&[
            ("pm", "dynamic"),
            ("pm.max_children", "5"),
            ("pm.min_spare_servers", "1"),
            ("pm.max_spare_servers", "4"),
            ("slowlog", "/var/log/$pool.slow"),
            ("php_admin_flag[log_errors]", "on"),
            ("php_value[memory_limit]", "32M"),
        ]);
        let settings = read.unwrap();
        assert_eq!(settings.start_servers, 2);
        assert_eq!(settings.slowlog.as_deref(), Some("/var/log/www.slow"));
        assert_eq!(settings.limit_extensions, [".php", ".phar"]);
        assert!(!settings.process.keep_environment);
        let ini = [("log_errors", "1"), ("memory_limit", "32M")];
        let ini: Vec<_> = ini.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        assert_eq!(settings.process.ini, ini);
    }
}
