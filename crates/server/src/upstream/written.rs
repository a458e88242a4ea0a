//! Groups as they were read: those that `upstream` names and those that an address implies, in the order of the file; and
//! what becomes of them when all was read.

use super::address::Place;
use super::balance::Method;
use super::group::endpoint::Parameters;
use super::group::watch::{Line, Named, Watched};
use super::group::{Group, GroupId, Keepalive, Server};
use super::resolver;
use super::sticky::Sticky;
use super::target::Groups;
use crate::config::setting::{Complaint, Setting};
use bytes::Bytes;
use conf::{Error, Position};
use std::net::SocketAddr;
use std::sync::Arc;
use sys::address::SocketAddress;

/// A `server` line.
#[derive(Debug)]
pub struct WrittenServer {
    pub place: Place,
    /// Unless they are found at run time.
    pub addresses: Vec<SocketAddress>,
    /// They are: the name of the service that is asked for, or nothing for the host's own addresses.
    pub service: Option<Bytes>,
    pub parameters: Parameters,
    pub backup: bool,
}

impl WrittenServer {
    fn line(&self) -> Line {
        let (written, parameters) = (self.place.written.clone(), self.parameters.clone());
        match &self.service {
            None => Line::Known(Server {
                written,
                addresses: self.addresses.clone(),
                parameters,
                backup: self.backup,
            }),
            Some(service) => Line::Named(Named {
                written,
                host: self.place.host.clone(),
                port: self.place.port,
                service: service.clone(),
                parameters,
                backup: self.backup,
            }),
        }
    }
}

/// `keepalive` and its kin, as far as they were written.
#[derive(Debug, Default)]
pub struct RawKeepalive {
    pub connections: Setting<(usize, bool)>,
    pub requests: Setting<u64>,
    pub time_ms: Setting<u64>,
    pub timeout_ms: Setting<u64>,
}

impl RawKeepalive {
    fn resolve(&self) -> Keepalive {
        let default = Keepalive::default();
        let (connections, local) = self.connections.or(&(default.connections, default.local));
        Keepalive {
            connections,
            local,
            requests: self.requests.or(&default.requests),
            time_ms: self.time_ms.or(&default.time_ms),
            timeout_ms: self.timeout_ms.or(&default.timeout_ms),
        }
    }
}

/// A group as it was read.
#[derive(Debug)]
pub struct Written {
    pub name: Bytes,
    /// Of an address; 0 for none.
    pub port: u16,
    pub no_port: bool,
    /// `upstream NAME { … }`
    pub explicit: bool,
    pub position: Position,
    /// The literal address that implies the group.
    pub address: Option<SocketAddress>,
    pub servers: Vec<WrittenServer>,
    pub method: Option<Method>,
    pub keepalive: RawKeepalive,
    pub zone: Option<Bytes>,
    pub sticky: Option<Sticky>,
    pub resolver: resolver::Raw,
}

impl Written {
    /// `upstream NAME`.
    #[must_use]
    pub fn named(name: &[u8], position: &Position) -> Written {
        Written {
            name: Bytes::copy_from_slice(name),
            port: 0,
            no_port: true,
            explicit: true,
            position: position.clone(),
            address: None,
            servers: Vec::new(),
            method: None,
            keepalive: RawKeepalive::default(),
            zone: None,
            sticky: None,
            resolver: resolver::Raw::default(),
        }
    }

    /// The group of an address.
    #[must_use]
    pub fn implied(place: &Place, position: &Position) -> Written {
        Written {
            port: place.port,
            no_port: place.no_port,
            explicit: false,
            address: place.address.clone(),
            ..Written::named(&place.host, position)
        }
    }

    /// What is wrong with the group as a whole; nginx names the line of its beginning.
    fn error(&self, message: &str) -> Error {
        let name = String::from_utf8_lossy(&self.name);
        Error::at(&self.position, format!("{message} in upstream \"{name}\""))
    }

    fn resolve(self, http: &resolver::Settings) -> Result<Group, Error> {
        let (servers, watched) = match self.explicit {
            true => self.resolve_servers(http)?,
            false => (vec![self.resolve_address()?], None),
        };
        let mut group = Group::new(
            self.name,
            self.port,
            self.method.unwrap_or_default(),
            &servers,
        );
        group.watched = watched;
        group.sticky = self.sticky;
        group.no_port = self.no_port;
        group.explicit = self.explicit;
        group.keepalive = self.keepalive.resolve();
        Ok(group)
    }

    /// The servers with addresses, and those that get theirs at run time.
    fn resolve_servers(
        &self,
        http: &resolver::Settings,
    ) -> Result<(Vec<Server>, Option<Watched>), Error> {
        let settings = self.resolver.resolve(http);
        let named = self.servers.iter().any(|server| server.service.is_some());
        if named && self.zone.is_none() {
            let name = String::from_utf8_lossy(&self.name);
            return Err(Error::new(
                format!(
                    "resolving names at run time requires upstream \"{name}\" in {} to be in shared memory",
                    self.position
                ),
                None,
            ));
        }
        let watched = match (settings.resolver, named) {
            (_, false) => None,
            (None, true) => {
                return Err(self.error("no resolver defined to resolve names at run time"));
            }
            (Some(resolver), true) => {
                let lines = self.servers.iter().map(WrittenServer::line).collect();
                Some(Watched::new(lines, resolver, settings.timeout_ms))
            }
        };
        let first_choice = |server: &WrittenServer| !server.backup && !server.addresses.is_empty();
        if !named && !self.servers.iter().any(first_choice) {
            return Err(self.error("no servers"));
        }
        let known = self
            .servers
            .iter()
            .filter_map(|server| match server.line() {
                Line::Known(server) => Some(server),
                Line::Named(_) => None,
            });
        Ok((known.collect(), watched))
    }

    /// The addresses of an implied group's host.
    fn resolve_address(&self) -> Result<Server, Error> {
        let addresses = match &self.address {
            Some(unix @ SocketAddress::Unix(_)) => vec![unix.clone()],
            _ if self.port == 0 => return Err(self.error("no port")),
            Some(address) => vec![address.clone()],
            None => {
                resolve_host(&self.name, self.port).ok_or_else(|| self.error("host not found"))?
            }
        };
        Ok(Server {
            written: self.name.clone(),
            addresses,
            parameters: Parameters::default(),
            backup: false,
        })
    }
}

/// The addresses of a host, as the machine's own means tell them.
#[must_use]
pub fn resolve_host(host: &[u8], port: u16) -> Option<Vec<SocketAddress>> {
    let addresses = sys::host::addresses(std::str::from_utf8(host).ok()?).ok()?;
    let addresses = addresses
        .into_iter()
        .map(|ip| SocketAddress::Ip(SocketAddr::new(ip, port)));
    Some(addresses.collect())
}

/// All groups read so far.
#[derive(Debug, Default)]
pub struct Upstreams {
    groups: Vec<Written>,
}

impl Upstreams {
    /// Adds a group, or finds the one that it means.
    pub fn add(&mut self, new: Written) -> Result<GroupId, Complaint> {
        let name = String::from_utf8_lossy(&new.name).into_owned();
        for (index, known) in self.groups.iter_mut().enumerate() {
            if !known.name.eq_ignore_ascii_case(&new.name) {
                continue;
            }
            match (known.explicit, new.explicit) {
                (true, true) => return Err(format!("duplicate upstream \"{name}\"").into()),
                (true, false) if !new.no_port => {
                    let port = new.port;
                    return Err(format!("upstream \"{name}\" may not have port {port}").into());
                }
                (false, true) if !known.no_port => {
                    return Err(Complaint::bare(format!(
                        "upstream \"{name}\" may not have port {} in {}",
                        known.port, known.position
                    )));
                }
                _ => {}
            }
            if known.port != 0 && new.port != 0 && known.port != new.port {
                continue;
            }
            if new.explicit {
                // Those who meant the name before mean this group.
                *known = new;
            }
            return Ok(GroupId(index as u32));
        }
        self.groups.push(new);
        Ok(GroupId((self.groups.len() - 1) as u32))
    }

    /// The group whose block is being read.
    pub fn written(&mut self, id: GroupId) -> &mut Written {
        &mut self.groups[id.0 as usize]
    }

    /// Makes the groups that serve, in their order.
    pub fn resolve(&mut self, http: &resolver::Settings) -> Result<Groups, Error> {
        let groups = std::mem::take(&mut self.groups).into_iter();
        let groups = groups.map(|written| written.resolve(http).map(Arc::new));
        Ok(Groups {
            all: groups.collect::<Result<_, _>>()?,
        })
    }
}
