//! The other arguments of `listen`, and the list of a configuration's addresses, where servers meet.

use super::address;
use crate::config::setting::Complaint;
use conf::{Word, values};
use std::time::Duration;
use sys::address::SocketAddress as Address;
use sys::listen::{Keepalive, ListenOptions};
use sys::socket::Probes;

/// An address to listen at, with the options of its socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    pub address: Address,
    pub default_server: bool,
    /// `bind`, or an option that implies it: the address has a socket of its own, and its options are said once.
    pub bind: bool,
    /// Every connection begins with what a proxy says of its client; said once it holds for the address.
    pub proxy_protocol: bool,
    /// Clients may speak HTTP/2 here, whatever the servers say.
    pub http2: bool,
    /// TLS is spoken; said once it holds for the address.
    pub ssl: bool,
    pub options: ListenOptions,
}

impl Listen {
    /// A plain listener on `address`.
    #[must_use]
    pub fn new(address: Address) -> Listen {
        Listen {
            address,
            default_server: false,
            bind: false,
            proxy_protocol: false,
            http2: false,
            ssl: false,
            options: ListenOptions::default(),
        }
    }
}

/// Reads the options; the address is the default one, to be replaced. `inet`: not a UNIX socket.
pub fn parse(words: &[Word], inet: bool) -> Result<Listen, Complaint> {
    let mut listen = Listen::new(address::of_servers_without_one());
    for word in words {
        let invalid = || format!("invalid parameter \"{word}\"");
        let text = word.as_str().ok_or_else(invalid)?;
        match text {
            "default_server" | "default" => listen.default_server = true,
            "proxy_protocol" => listen.proxy_protocol = true,
            "http2" => listen.http2 = true,
            "ssl" => listen.ssl = true,
            "quic" => {
                return Err(format!(
                    "\"{text}\" parameter of the \"listen\" directive is not supported by gannet yet"
                )
                .into());
            }
            text => {
                socket_option(&mut listen.options, text).unwrap_or_else(|| Err(invalid()))?;
                listen.bind = true;
            }
        }
    }
    // There is nothing to spread over several paths.
    listen.options.multipath &= inet;
    Ok(listen)
}

/// An option that needs a socket of its own; `None` for one that there is not.
fn socket_option(options: &mut ListenOptions, text: &str) -> Option<Result<(), String>> {
    match text {
        "bind" => return Some(Ok(())),
        "reuseport" => options.reuse_port = true,
        "deferred" => options.deferred_accept = true,
        "multipath" => options.multipath = true,
        "ipv6only=on" => options.ipv6_only = true,
        "ipv6only=off" => options.ipv6_only = false,
        text => return valued_option(options, text),
    }
    Some(Ok(()))
}

fn valued_option(options: &mut ListenOptions, text: &str) -> Option<Result<(), String>> {
    let (name, value) = text.split_once('=')?;
    let number = || {
        let number = values::parse_number(value.as_bytes())?;
        u32::try_from(number).ok().filter(|&n| n <= i32::MAX as u32)
    };
    let size = || values::parse_size(value.as_bytes()).map(|bytes| bytes as usize);
    let read = match name {
        "backlog" => number()
            .filter(|&length| length > 0)
            .map(|length| options.backlog = length),
        "fastopen" => number().map(|length| options.fast_open = Some(length)),
        "rcvbuf" => size().map(|bytes| options.receive_buffer = Some(bytes)),
        "sndbuf" => size().map(|bytes| options.send_buffer = Some(bytes)),
        "so_keepalive" => {
            return Some(match keepalive(value) {
                Some(keepalive) => {
                    options.keepalive = keepalive;
                    Ok(())
                }
                None => Err(format!("invalid so_keepalive value: \"{value}\"")),
            });
        }
        // Not on Linux: the setter warns.
        "accept_filter" => Some(()),
        _ => return None,
    };
    Some(read.ok_or_else(|| format!("invalid {name} \"{text}\"")))
}

/// `on`, `off`, or `idle:interval:count` with any of them left out, but not all.
fn keepalive(text: &str) -> Option<Keepalive> {
    match text {
        "on" => return Some(Keepalive::On(Probes::default())),
        "off" => return Some(Keepalive::Off),
        _ => {}
    }
    let mut fields = text.split(':');
    let mut seconds = || match fields.next().unwrap_or_default() {
        "" => Some(None),
        field => Some(Some(values::parse_sec(field.as_bytes())?)),
    };
    let (idle, interval) = (seconds()?, seconds()?);
    let count = match fields.next().unwrap_or_default() {
        "" => None,
        field => Some(values::parse_number(field.as_bytes())?),
    };
    if fields.next().is_some() {
        return None;
    }
    // A zero is nginx's "not set"; all of them not set is an error.
    let set = |value: Option<u64>| value.filter(|&value| value > 0);
    let duration = |value| set(value).map(Duration::from_secs);
    match (duration(idle), duration(interval), set(count)) {
        (None, None, None) => None,
        (idle, interval, count) => Some(Keepalive::On(Probes {
            idle,
            interval,
            count: count.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
        })),
    }
}

/// The addresses of a configuration in the order of their first mention, each with what was said of it anywhere.
#[derive(Debug, Default)]
pub struct Addresses {
    all: Vec<Listen>,
}

impl Addresses {
    #[must_use]
    pub fn find(&self, address: &Address) -> Option<usize> {
        self.all.iter().position(|known| known.address == *address)
    }

    /// Joins a `listen` to the others of its address; gives the address's place.
    pub fn add(&mut self, listen: Listen) -> Result<usize, String> {
        let Some(index) = self.find(&listen.address) else {
            self.all.push(listen);
            return Ok(self.all.len() - 1);
        };
        let known = &mut self.all[index];
        if known.bind && listen.bind {
            return Err(format!("duplicate listen options for {}", known.address));
        }
        if known.default_server && listen.default_server {
            return Err(format!("a duplicate default server for {}", known.address));
        }
        known.default_server |= listen.default_server;
        known.proxy_protocol |= listen.proxy_protocol;
        known.http2 |= listen.http2;
        known.ssl |= listen.ssl;
        if listen.bind {
            known.bind = true;
            known.options = listen.options;
        }
        Ok(index)
    }

    /// The address with this place.
    #[must_use]
    pub fn address(&self, index: usize) -> &Address {
        &self.all[index].address
    }

    /// What was said of the address with this place.
    #[must_use]
    pub fn listen(&self, index: usize) -> &Listen {
        &self.all[index]
    }

    #[must_use]
    pub fn into_inner(self) -> Vec<Listen> {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepalive_has_nginx_s_forms() {
        let probes = |idle: u64, interval: u64, count: u32| {
            let seconds = |value: u64| (value > 0).then(|| Duration::from_secs(value));
            Some(Keepalive::On(Probes {
                idle: seconds(idle),
                interval: seconds(interval),
                count: (count > 0).then_some(count),
            }))
        };
        for (text, expected) in [
            ("on", Some(Keepalive::On(Probes::default()))),
            ("off", Some(Keepalive::Off)),
            ("30m::10", probes(1800, 0, 10)),
            ("1", probes(1, 0, 0)),
            ("1:2", probes(1, 2, 0)),
            ("0:1:1", probes(0, 1, 1)),
            ("::", None),
            ("", None),
            ("x", None),
            ("1:1:1:1", None),
            ("1:x:1", None),
        ] {
            assert_eq!(keepalive(text), expected, "{text}");
        }
    }

    #[test]
    fn an_address_is_said_once_with_options() {
        let plain = Listen::new(Address::Ip(([127, 0, 0, 1], 80).into()));
        let bound = Listen {
            bind: true,
            ..plain.clone()
        };
        let default = Listen {
            default_server: true,
            ..plain.clone()
        };
        let mut all = Addresses::default();
        assert_eq!(all.add(plain), Ok(0));
        assert_eq!(all.add(bound.clone()), Ok(0));
        assert_eq!(all.add(default.clone()), Ok(0));
        assert_eq!(
            all.add(bound),
            Err("duplicate listen options for 127.0.0.1:80".to_owned())
        );
        assert_eq!(
            all.add(default),
            Err("a duplicate default server for 127.0.0.1:80".to_owned())
        );
        assert!(all.into_inner()[0].bind);
    }
}
