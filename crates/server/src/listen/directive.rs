//! `listen`: the address and options of a listening socket.

use crate::config::build::Build;
use crate::config::directive::{Arity, Outcome, SERVER, Set, row};
use conf::table::Row;
use conf::{Directive, values};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use sys::address::SocketAddress as Address;

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "listen",
    SERVER,
    Arity::AtLeast(1),
    listen,
    "An address and port, or a UNIX socket, to accept connections on.",
)];

/// `so_keepalive`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoKeepalive {
    pub on: bool,
    pub idle_s: Option<u32>,
    pub interval_s: Option<u32>,
    pub count: Option<u32>,
}

/// One `listen` directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    pub address: Address,
    pub default_server: bool,
    /// Options of the socket were given (`bind` or any that implies it).
    pub options_set: bool,
    pub backlog: Option<u32>,
    pub rcvbuf: Option<u64>,
    pub sndbuf: Option<u64>,
    pub deferred: bool,
    pub reuseport: bool,
    pub ipv6only: bool,
    pub fastopen: Option<u32>,
    pub so_keepalive: Option<SoKeepalive>,
}

impl Listen {
    /// A plain listener on `address`.
    #[must_use]
    pub fn new(address: Address) -> Listen {
        Listen {
            address,
            default_server: false,
            options_set: false,
            backlog: None,
            rcvbuf: None,
            sndbuf: None,
            deferred: false,
            reuseport: false,
            ipv6only: true,
            fastopen: None,
            so_keepalive: None,
        }
    }

    /// `*:80`, or `*:8000` for those who may not open port 80: nginx's default.
    #[must_use]
    pub fn default_address() -> Address {
        let port = if sys::user::effective_uid().0 == 0 {
            80
        } else {
            8000
        };
        Address::Ip(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port))
    }
}

impl fmt::Display for Listen {
    /// The address as nginx prints it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.address)
    }
}

fn listen(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let written = directive.args[0].as_str().ok_or("invalid value")?;
    let addresses = parse_address(written)?;
    for address in addresses {
        let mut listen = Listen::new(address);
        for word in &directive.args[1..] {
            option(&mut listen, word.as_str().ok_or("invalid value")?)?;
        }
        let listens = &mut build.frame().listens;
        if listens.iter().any(|other| other.address == listen.address) {
            return Err(format!("a duplicate listen {written}").into());
        }
        listens.push(listen);
    }
    Ok(())
}

fn port(text: &str, whole: &str) -> Result<u16, String> {
    text.parse::<u16>()
        .ok()
        .filter(|&port| port != 0)
        .ok_or_else(|| format!("invalid port in \"{whole}\" of the \"listen\" directive"))
}

/// The addresses of `listen`'s first argument; a name may have several.
fn parse_address(text: &str) -> Result<Vec<Address>, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() {
            return Err(format!(
                "no path in the unix domain socket \"{text}\" of the \"listen\" directive"
            ));
        }
        return Ok(vec![Address::Unix(PathBuf::from(path))]);
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (address, after) = rest
            .split_once(']')
            .ok_or_else(|| format!("invalid host in \"{text}\" of the \"listen\" directive"))?;
        let address: Ipv6Addr = address.parse().map_err(|_| {
            format!("invalid IPv6 address in \"{text}\" of the \"listen\" directive")
        })?;
        let port = match after.strip_prefix(':') {
            Some(digits) => port(digits, text)?,
            None => 80,
        };
        return Ok(vec![Address::Ip(SocketAddr::new(
            IpAddr::V6(address),
            port,
        ))]);
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let port = port(text, text)?;
        return Ok(vec![Address::Ip(SocketAddr::new(
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port,
        ))]);
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, digits)) => (host, port(digits, text)?),
        None => (text, 80),
    };
    if host.is_empty() {
        return Err(format!("no host in \"{text}\" of the \"listen\" directive"));
    }
    if host == "*" {
        return Ok(vec![Address::Ip(SocketAddr::new(
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port,
        ))]);
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![Address::Ip(SocketAddr::new(address, port))]);
    }
    let found: Vec<Address> = (host, port)
        .to_socket_addrs()
        .map_err(|_| format!("host not found in \"{text}\" of the \"listen\" directive"))?
        .map(Address::Ip)
        .collect();
    let mut unique = Vec::new();
    for address in found {
        if !unique.contains(&address) {
            unique.push(address);
        }
    }
    Ok(unique)
}

/// One option after the address.
fn option(listen: &mut Listen, word: &str) -> Result<(), String> {
    let invalid = || format!("invalid parameter \"{word}\"");
    let (name, value) = word
        .split_once('=')
        .map_or((word, None), |(name, value)| (name, Some(value)));
    if !matches!((name, value), ("default_server" | "default", None)) {
        listen.options_set = true;
    }
    match (name, value) {
        ("default_server" | "default", None) => listen.default_server = true,
        ("bind", None) => {}
        ("reuseport", None) => listen.reuseport = true,
        ("deferred", None) => listen.deferred = true,
        ("backlog", Some(number)) => {
            listen.backlog = Some(
                number
                    .parse()
                    .ok()
                    .filter(|&n| n != 0)
                    .ok_or_else(|| format!("invalid backlog \"{number}\""))?,
            );
        }
        ("fastopen", Some(number)) => {
            listen.fastopen = Some(
                number
                    .parse()
                    .map_err(|_| format!("invalid fastopen \"{number}\""))?,
            );
        }
        ("rcvbuf", Some(size)) => {
            listen.rcvbuf = Some(
                values::parse_size(size.as_bytes())
                    .ok_or_else(|| format!("invalid rcvbuf \"{size}\""))?,
            );
        }
        ("sndbuf", Some(size)) => {
            listen.sndbuf = Some(
                values::parse_size(size.as_bytes())
                    .ok_or_else(|| format!("invalid sndbuf \"{size}\""))?,
            );
        }
        ("ipv6only", Some("on")) => listen.ipv6only = true,
        ("ipv6only", Some("off")) => listen.ipv6only = false,
        ("so_keepalive", Some(text)) => listen.so_keepalive = Some(so_keepalive(text)?),
        ("setfib" | "accept_filter", _) => return Err(invalid()),
        ("ssl" | "http2" | "quic" | "proxy_protocol", None) => {
            return Err(format!(
                "the \"{name}\" parameter of \"listen\" is not supported by gannet yet"
            ));
        }
        _ => return Err(invalid()),
    }
    Ok(())
}

fn so_keepalive(text: &str) -> Result<SoKeepalive, String> {
    let invalid = || format!("invalid so_keepalive value: \"{text}\"");
    let plain = |on| SoKeepalive {
        on,
        idle_s: None,
        interval_s: None,
        count: None,
    };
    match text {
        "on" => return Ok(plain(true)),
        "off" => return Ok(plain(false)),
        _ => {}
    }
    let fields: Vec<&str> = text.split(':').collect();
    let [idle, interval, count] = fields[..] else {
        return Err(invalid());
    };
    let seconds = |text: &str| match text {
        "" => Ok(None),
        text => values::parse_sec(text.as_bytes())
            .map(|seconds| Some(seconds as u32))
            .ok_or_else(invalid),
    };
    let count = match count {
        "" => None,
        text => Some(text.parse().map_err(|_| invalid())?),
    };
    let keepalive = SoKeepalive {
        on: true,
        idle_s: seconds(idle)?,
        interval_s: seconds(interval)?,
        count,
    };
    if keepalive.idle_s.is_none() && keepalive.interval_s.is_none() && keepalive.count.is_none() {
        return Err(invalid());
    }
    Ok(keepalive)
}
