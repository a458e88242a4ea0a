//! Servers of a group that `resolve` says to look up at run time: their addresses are asked for again whenever what was
//! found is no longer valid.

use super::{Group, Server};
use crate::log::error::{self, Level};
use crate::upstream::group::endpoint::Parameters;
use crate::upstream::resolver::{Failure, Found, Resolver};
use bytes::Bytes;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use sys::address::SocketAddress;
use wire::dns::Record;

/// Servers that an SRV record set may name.
const SERVICES_MAX: usize = 64;
/// The shortest pause between two questions.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// A `server` line with `resolve`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The address as it was written.
    pub written: Bytes,
    pub host: Bytes,
    pub port: u16,
    /// Where SRV records are asked for; empty: for addresses.
    pub service: Bytes,
    pub parameters: Parameters,
    pub backup: bool,
}

/// A `server` line.
#[derive(Debug, Clone)]
pub enum Line {
    Known(Server),
    Named(Named),
}

/// The lines of a group of which some are looked up at run time.
#[derive(Debug)]
pub struct Watched {
    pub resolver: Arc<Resolver>,
    pub timeout_ms: u64,
    lines: Vec<Line>,
    /// By line: its servers of this moment.
    servers: Mutex<Vec<Vec<Server>>>,
}

impl Watched {
    #[must_use]
    pub fn new(lines: Vec<Line>, resolver: Arc<Resolver>, timeout_ms: u64) -> Watched {
        let known = lines.iter().map(|line| match line {
            Line::Known(server) => vec![server.clone()],
            Line::Named(_) => Vec::new(),
        });
        Watched {
            servers: Mutex::new(known.collect()),
            resolver,
            timeout_ms,
            lines,
        }
    }

    /// All servers of this moment, in the order of the lines.
    #[must_use]
    pub fn servers(&self) -> Vec<Server> {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.iter().flatten().cloned().collect()
    }

    /// Begins with what a former configuration found for the same names.
    pub fn adopt(&self, former: &Watched) {
        let found = former
            .servers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for (index, line) in self.lines.iter().enumerate() {
            let same = |(_, other): &(usize, &Line)| match (line, *other) {
                (Line::Named(one), Line::Named(other)) => one == other,
                _ => false,
            };
            if let Some((other, _)) = former.lines.iter().enumerate().find(same)
                && let Some(servers) = found.get(other)
            {
                self.put(index, servers.clone());
            }
        }
    }

    fn put(&self, index: usize, servers: Vec<Server>) {
        let mut all = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = all.get_mut(index) {
            *line = servers;
        }
    }
}

/// Looks the group's names up, now and then, as long as the group is in use. Belongs to one thread.
pub fn watch(group: &Arc<Group>) {
    let Some(watched) = &group.watched else {
        return;
    };
    for (index, line) in watched.lines.iter().enumerate() {
        if let Line::Named(named) = line {
            tokio::task::spawn_local(follow(Arc::downgrade(group), index, named.clone()));
        }
    }
}

async fn follow(group: Weak<Group>, index: usize, named: Named) {
    loop {
        let Some(held) = group.upgrade() else { return };
        let Some(watched) = &held.watched else { return };
        let (resolver, timeout) = (Arc::clone(&watched.resolver), watched.timeout_ms);
        // Not held while waiting: a group that is not in use any more goes.
        drop(held);
        let timeout = Duration::from_millis(timeout);
        let found = look_up(&resolver, &named, timeout).await;
        let Some(held) = group.upgrade() else { return };
        let pause = match found {
            Ok((servers, valid_until)) => {
                held.put(index, servers);
                valid_until.saturating_duration_since(Instant::now())
            }
            Err(failure) => {
                let name = String::from_utf8_lossy(asked_name(&named));
                let message = format_args!("{name} could not be resolved ({failure})");
                error::write(Level::Error, message);
                // Others may be passing troubles: the addresses stay.
                if failure == Failure::NOT_FOUND {
                    held.put(index, Vec::new());
                }
                timeout
            }
        };
        drop(held);
        tokio::time::sleep(pause.max(PAUSE_MIN)).await;
    }
}

fn asked_name(named: &Named) -> &[u8] {
    match named.service.is_empty() {
        true => &named.host,
        false => &named.service,
    }
}

impl Group {
    fn put(&self, index: usize, servers: Vec<Server>) {
        if let Some(watched) = &self.watched {
            watched.put(index, servers);
            self.set_servers(&watched.servers());
        }
    }
}

type Lookup = Result<(Vec<Server>, Instant), Failure>;

async fn look_up(resolver: &Arc<Resolver>, named: &Named, timeout: Duration) -> Lookup {
    if named.service.is_empty() {
        let found = resolver.addresses(&named.host, timeout).await?;
        let server = server(named, named.written.clone(), found.addresses(), named.port);
        return Ok((vec![server], found.valid_until));
    }
    let found = resolver.services(&named.service, timeout).await?;
    let (mut servers, mut valid_until) = (Vec::new(), found.valid_until);
    for service in services(&found, named.backup) {
        let addresses = resolver.addresses(service.target.as_bytes(), timeout).await;
        // A server whose name is wrong takes nothing from the others.
        let addresses = match addresses {
            Err(Failure::Code(_)) => continue,
            other => other?,
        };
        valid_until = valid_until.min(addresses.valid_until);
        let written = format!("{}:{}", service.target, service.port).into();
        let mut server = server(named, written, addresses.addresses(), service.port);
        if server.parameters.weight == 1 && service.weight > 0 {
            server.parameters.weight = u64::from(service.weight);
        }
        server.backup = service.backup;
        servers.push(server);
    }
    Ok((servers, valid_until))
}

fn server(
    named: &Named,
    written: Bytes,
    addresses: impl Iterator<Item = IpAddr>,
    port: u16,
) -> Server {
    let addresses = addresses.map(|ip| SocketAddress::Ip(SocketAddr::new(ip, port)));
    Server {
        written,
        addresses: addresses.collect(),
        parameters: named.parameters.clone(),
        backup: named.backup,
    }
}

/// A server that an SRV record names.
#[derive(Debug, PartialEq, Eq)]
struct Service<'a> {
    target: &'a str,
    port: u16,
    weight: u16,
    backup: bool,
}

/// The services that count. Those of the first priority serve and the others stand by; where the line says `backup`, those
/// of the first priority stand by and the others are left out.
fn services(found: &Found, backup: bool) -> Vec<Service<'_>> {
    let all = found.records.iter().filter_map(|record| match record {
        Record::Service {
            priority,
            weight,
            port,
            target,
        } => Some((*priority, *weight, *port, target)),
        Record::Address(_) => None,
    });
    let Some(first) = all.clone().map(|(priority, ..)| priority).min() else {
        return Vec::new();
    };
    let services = all.filter(|(priority, ..)| !backup || *priority == first);
    let services = services.map(|(priority, weight, port, target)| Service {
        target,
        port,
        weight,
        backup: backup || priority != first,
    });
    services.take(SERVICES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_tell_who_stands_by() {
        let record = |priority, port| Record::Service {
            priority,
            weight: 3,
            port,
            target: "a.test".to_owned(),
        };
        let found = Found {
            records: vec![record(2, 82), record(1, 81), record(1, 80)].into(),
            valid_until: Instant::now(),
        };
        let shown = |backup| -> Vec<_> {
            let services = services(&found, backup);
            services.iter().map(|s| (s.port, s.backup)).collect()
        };
        assert_eq!(shown(false), [(82, true), (81, false), (80, false)]);
        assert_eq!(shown(true), [(81, true), (80, true)]);
    }
}
