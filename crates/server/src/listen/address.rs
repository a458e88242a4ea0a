//! The first argument of `listen`: an address, a name, a port, a range of ports, a UNIX socket. The errors are nginx's.

use conf::values;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use sys::address::SocketAddress as Address;

/// The port where none is written.
const DEFAULT_PORT: u16 = 80;
/// The longest path that a UNIX socket's address has room for.
const UNIX_PATH_MAX: usize = 107;

/// What an argument stands for.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    pub addresses: Vec<Address>,
    /// It is TCP, not a UNIX socket.
    pub inet: bool,
}

/// `*:80`, or `*:8000` for those who may not open port 80: what a server without `listen` has.
#[must_use]
pub fn of_servers_without_one() -> Address {
    let port = match sys::user::effective_uid() {
        sys::user::Uid(0) => DEFAULT_PORT,
        _ => 8000,
    };
    Address::Ip(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port))
}

pub fn parse(text: &str) -> Result<Written, &'static str> {
    if let Some(path) = text.strip_prefix("unix:") {
        return match path.len() {
            0 => Err("no path in the unix domain socket"),
            1..=UNIX_PATH_MAX => Ok(Written {
                addresses: vec![Address::Unix(PathBuf::from(path))],
                inet: false,
            }),
            _ => Err("too long path in the unix domain socket"),
        };
    }
    let (hosts, ports) = inet(text)?;
    let mut addresses: Vec<Address> = Vec::new();
    for host in hosts {
        for port in ports.clone() {
            let address = Address::Ip(SocketAddr::new(host, port));
            // A name may have one address several times.
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    Ok(Written {
        addresses,
        inet: true,
    })
}

type Inet = (Vec<IpAddr>, RangeInclusive<u16>);

fn inet(text: &str) -> Result<Inet, &'static str> {
    if text.contains(['/', '?']) {
        return Err("invalid host");
    }
    if let Some(rest) = text.strip_prefix('[') {
        return inet6(rest);
    }
    let wildcard = || vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, port_range(port).unwrap_or(Err("invalid port"))?),
        None => match port_range(text) {
            Some(ports) => return Ok((wildcard(), ports?)),
            None => (text, DEFAULT_PORT..=DEFAULT_PORT),
        },
    };
    match host {
        "" => Err("no host"),
        "*" => Ok((wildcard(), port)),
        host => {
            let found = (host, 0)
                .to_socket_addrs()
                .map_err(|_| "host not found")?
                .map(|address| address.ip())
                .collect();
            Ok((found, port))
        }
    }
}

/// What follows `[`.
fn inet6(rest: &str) -> Result<Inet, &'static str> {
    let (host, after) = rest.split_once(']').ok_or("invalid host")?;
    let port = match after.strip_prefix(':') {
        Some(port) => port_range(port).unwrap_or(Err("invalid port"))?,
        None if after.is_empty() => DEFAULT_PORT..=DEFAULT_PORT,
        None => return Err("invalid host"),
    };
    if host.is_empty() {
        return Err("no host");
    }
    let address: Ipv6Addr = host.parse().map_err(|_| "invalid IPv6 address")?;
    Ok((vec![address.into()], port))
}

/// `8000` or `8000-8010`; `None` for what has another form.
fn port_range(text: &str) -> Option<Result<RangeInclusive<u16>, &'static str>> {
    let number = |text: &str| values::parse_number(text.as_bytes());
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    let port = |number: u64| u16::try_from(number).ok().filter(|&port| port > 0);
    Some(match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        (Some(_), Some(_)) => Err("invalid port range"),
        _ => Err("invalid port"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_nginx_does() {
        for (text, expected) in [
            ("80", "0.0.0.0:80"),
            ("08000", "0.0.0.0:8000"),
            ("*", "0.0.0.0:80"),
            ("*:81", "0.0.0.0:81"),
            ("127.0.0.1", "127.0.0.1:80"),
            ("8000-8002", "0.0.0.0:8000 0.0.0.0:8001 0.0.0.0:8002"),
            ("127.0.0.1:9-10", "127.0.0.1:9 127.0.0.1:10"),
            ("[::1]:8000-8001", "[::1]:8000 [::1]:8001"),
            ("[::]", "[::]:80"),
            ("unix:a", "unix:a"),
            ("", "no host"),
            (":80", "no host"),
            (":x", "invalid port"),
            ("[]:80", "no host"),
            ("[]x", "invalid host"),
            ("[::1", "invalid host"),
            ("[::1]x", "invalid host"),
            ("[::1]:", "invalid port"),
            ("[x]:80", "invalid IPv6 address"),
            ("[fe80::1%lo]:80", "invalid IPv6 address"),
            ("127.0.0.1/8", "invalid host"),
            ("80?x", "invalid host"),
            ("0", "invalid port"),
            ("65536", "invalid port"),
            ("8000-70000", "invalid port"),
            ("0-10", "invalid port"),
            ("*:", "invalid port"),
            ("127.0.0.1:5-", "invalid port"),
            ("::1", "invalid port"),
            ("8010-8000", "invalid port range"),
            ("[::1]:9-5", "invalid port range"),
            ("8000-", "host not found"),
            ("99999999999999999999", "host not found"),
            ("unix:", "no path in the unix domain socket"),
        ] {
            let shown = match parse(text) {
                Ok(written) => {
                    let all = written.addresses.iter().map(ToString::to_string);
                    all.collect::<Vec<_>>().join(" ")
                }
                Err(message) => message.to_owned(),
            };
            assert_eq!(shown, expected, "{text}");
        }
        let long = format!("unix:{}", "x".repeat(108));
        assert_eq!(
            parse(&long).unwrap_err(),
            "too long path in the unix domain socket"
        );
    }
}
