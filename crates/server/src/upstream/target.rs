//! Where a location passes requests: a group that is known when the configuration is read, or one that is found for each
//! request from what variables say.

use super::address::Place;
use super::balance::Method;
use super::balance::random::random;
use super::group::{Group, GroupId, Keepalive, Server, watch};
use super::written::Written;
use crate::config::build::Build;
use crate::config::setting::Complaint;
use crate::http::{Interrupt, Phase, Request};
use crate::log::error::{Level, write_request};
use conf::Directive;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use sys::address::SocketAddress;

/// Where a location passes requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// `upstream NAME`, or an address that was resolved when the configuration was read.
    Group(GroupId),
    /// The address has variables in it: `find` it for each request.
    Variable,
}

impl Target {
    /// The target that was written without variables. An `upstream` of the name may come later in the file.
    pub fn of(
        build: &mut Build<'_>,
        directive: &Directive,
        place: &Place,
    ) -> Result<Target, Complaint> {
        let written = Written::implied(place, &directive.position);
        Ok(Target::Group(build.http.upstreams.add(written)?))
    }
}

/// The groups of a configuration, in the order of the file.
#[derive(Debug, Default)]
pub struct Groups {
    pub all: Vec<Arc<Group>>,
}

impl Groups {
    #[must_use]
    pub fn group(&self, id: GroupId) -> &Arc<Group> {
        &self.all[id.0 as usize]
    }

    /// The group of a name that was worked out for a request: one that was written, of any case.
    #[must_use]
    pub fn find(&self, place: &Place) -> Option<&Arc<Group>> {
        self.all.iter().find(|group| {
            ((group.port == 0 && place.no_port) || group.port == place.port)
                && group.name.eq_ignore_ascii_case(&place.host)
        })
    }

    /// Begins to look up the names that are to be looked up at run time. For one thread.
    pub fn watch(&self) {
        self.all.iter().for_each(watch::watch);
    }

    /// Takes over what is known of the health of servers that a former configuration had, too.
    pub fn adopt(&self, former: &Groups) {
        for group in &self.all {
            let same = |other: &&Arc<Group>| {
                other.name == group.name
                    && other.port == group.port
                    && other.explicit == group.explicit
            };
            if let Some(former) = former.all.iter().find(same) {
                group.adopt(former);
            }
        }
    }
}

/// The group for an address that variables made: a written group, the literal address, or what the name server says.
pub async fn find(request: &Request, place: &Place) -> Phase<Arc<Group>> {
    let groups = &request.generation.config.http.upstreams;
    if let Some(group) = groups.find(place) {
        return Ok(Arc::clone(group));
    }
    let host = String::from_utf8_lossy(&place.host);
    let is_unix = place
        .address
        .as_ref()
        .is_some_and(|address| address.is_unix());
    if place.port == 0 && !is_unix {
        let message = format_args!("no port in upstream \"{host}\"");
        write_request(request, Level::Error, message);
        return Err(Interrupt::Status(500));
    }
    let addresses = match &place.address {
        Some(address) => vec![address.clone()],
        None => look_up(request, place).await?,
    };
    let server = Server {
        written: place.host.clone(),
        addresses,
        parameters: Default::default(),
        backup: false,
    };
    let mut group = Group::new(
        place.host.clone(),
        place.port,
        Method::RoundRobin,
        &[server],
    );
    group.keepalive = Keepalive::NONE;
    Ok(Arc::new(group))
}

/// The addresses of a name, from a random one on; without any the response is 502.
async fn look_up(request: &Request, place: &Place) -> Phase<Vec<SocketAddress>> {
    let host = String::from_utf8_lossy(&place.host);
    let settings = &request.location().settings.resolver;
    let Some(resolver) = settings.resolver.clone() else {
        let message = format_args!("no resolver defined to resolve {host}");
        write_request(request, Level::Error, message);
        return Err(Interrupt::Status(502));
    };
    let timeout = Duration::from_millis(settings.timeout_ms);
    let found = resolver.addresses(&place.host, timeout).await;
    let found = found.map_err(|failure| {
        let message = format_args!("{host} could not be resolved ({failure})");
        write_request(request, Level::Error, message);
        Interrupt::Status(502)
    })?;
    let addresses = found.addresses();
    let addresses = addresses.map(|ip| SocketAddress::Ip(SocketAddr::new(ip, place.port)));
    let mut addresses: Vec<_> = addresses.collect();
    if !addresses.is_empty() {
        let first = random() % addresses.len() as u64;
        addresses.rotate_left(first as usize);
    }
    Ok(addresses)
}
