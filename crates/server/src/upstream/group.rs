//! A group of servers, named by `upstream` or implied by an address, and a request's way through it: `begin`, `next` for
//! each try, `report` for what came of it. Its state is shared by all threads and outlives a reload.

pub mod endpoint; // an address and its health
pub mod peers; // the addresses of a moment
pub mod watch; // names that are looked up at run time

use super::balance::{Method, Walk};
use super::sticky::{self, Sticky};
use crate::http::{Request, thread};
use bytes::Bytes;
use endpoint::{Endpoint, Parameters};
use peers::{Peers, Tier, Tried};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock};

/// A group's place in the configuration's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupId(pub u32);

/// How connections of a group are kept for further requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keepalive {
    /// How many idle ones a thread keeps; 0: none.
    pub connections: usize,
    /// A connection serves only the location that opened it.
    pub local: bool,
    /// Requests that a connection serves at most.
    pub requests: u64,
    /// How long a connection serves requests.
    pub time_ms: u64,
    /// How long it stays idle.
    pub timeout_ms: u64,
}

impl Keepalive {
    /// Of a group that was made for one request.
    pub const NONE: Keepalive = Keepalive {
        connections: 0,
        ..Keepalive::DEFAULT
    };
    const DEFAULT: Keepalive = Keepalive {
        connections: 32,
        local: true,
        requests: 1000,
        time_ms: 60 * 60 * 1000,
        timeout_ms: 60 * 1000,
    };
}

impl Default for Keepalive {
    fn default() -> Keepalive {
        Keepalive::DEFAULT
    }
}

/// A `server` line whose addresses are known.
#[derive(Debug, Clone)]
pub struct Server {
    /// The address as it was written.
    pub written: Bytes,
    pub addresses: Vec<sys::address::SocketAddress>,
    pub parameters: Parameters,
    pub backup: bool,
}

impl Server {
    fn endpoints(&self) -> impl Iterator<Item = Endpoint> {
        self.addresses.iter().map(|address| {
            Endpoint::new(
                address.clone(),
                self.written.clone(),
                self.parameters.clone(),
            )
        })
    }
}

/// A group.
#[derive(Debug)]
pub struct Group {
    /// The host that names it, as it was first written.
    pub name: Bytes,
    /// The port of a group that an address implies; 0 if none was meant.
    pub port: u16,
    pub no_port: bool,
    /// `upstream NAME { … }`, not an address.
    pub explicit: bool,
    pub keepalive: Keepalive,
    pub method: Method,
    pub sticky: Option<Sticky>,
    /// Where names are looked up at run time.
    pub watched: Option<watch::Watched>,
    peers: RwLock<Arc<Peers>>,
}

/// What came of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The server answered, if only what makes another one be asked (403, 404).
    Ok,
    /// It counts towards `max_fails`.
    Failed,
    /// Nobody knows: the client went away, say.
    Released,
    /// The server had closed the connection that was kept: it is no try, and the server may be asked again.
    Stale,
}

impl Group {
    /// A group with these servers.
    #[must_use]
    pub fn new(name: Bytes, port: u16, method: Method, servers: &[Server]) -> Group {
        let peers = assemble(&method, servers, &mut Vec::new());
        Group {
            name,
            port,
            no_port: false,
            explicit: false,
            keepalive: Keepalive::default(),
            method,
            sticky: None,
            watched: None,
            peers: RwLock::new(Arc::new(peers)),
        }
    }

    /// The addresses of this moment.
    #[must_use]
    pub fn peers(&self) -> Arc<Peers> {
        Arc::clone(&self.peers.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts these servers in place of those before; what is known of the health of those that stay is kept.
    pub fn set_servers(&self, servers: &[Server]) {
        let mut before: Vec<_> = self.peers().endpoints().map(Arc::clone).collect();
        self.set_peers(assemble(&self.method, servers, &mut before));
    }

    /// Takes over what a former configuration's group of the same name knows of the servers that both have.
    pub fn adopt(&self, former: &Group) {
        if let (Some(own), Some(former)) = (&self.watched, &former.watched) {
            own.adopt(former);
            self.set_servers(&own.servers());
        }
        if let (
            Some(Sticky::Learn { sessions: own, .. }),
            Some(Sticky::Learn {
                sessions: former, ..
            }),
        ) = (&self.sticky, &former.sticky)
        {
            own.adopt(former);
        }
        let mut before: Vec<_> = former.peers().endpoints().map(Arc::clone).collect();
        let own = self.peers();
        let again = |endpoints: &[Arc<Endpoint>]| {
            let fresh = endpoints.iter().map(|endpoint| {
                Endpoint::new(
                    endpoint.address.clone(),
                    endpoint.server.clone(),
                    endpoint.parameters.clone(),
                )
            });
            fresh.collect()
        };
        let primary = peers::inherit(again(&own.primary.endpoints), &mut before);
        let backup = peers::inherit(again(&own.backup.endpoints), &mut before);
        self.set_peers(Peers::new(primary, backup, self.method.is_consistent()));
    }

    fn set_peers(&self, peers: Peers) {
        *self.peers.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(peers);
    }

    /// Begins a request's way through the group.
    #[must_use]
    pub fn begin(self: &Arc<Self>, request: &Request) -> Choice {
        let peers = self.peers();
        Choice {
            tries: peers.tries(),
            walk: match peers.single() {
                Some(_) => Walk::RoundRobin,
                None => self.method.begin(request),
            },
            named: self
                .sticky
                .as_ref()
                .and_then(|sticky| sticky.bound(request)),
            peers,
            backup: false,
            tried: Tried::default(),
        }
    }

    /// The server for the next try; `None` if there is none: `no live upstreams`, and `$upstream_addr` is the group's
    /// name. The number of tries is the caller's to watch: `Choice::tries`.
    pub fn next(&self, choice: &mut Choice, _: &Request) -> Option<Peer> {
        let now = now();
        if let Some(only) = choice.peers.single() {
            // Whatever failed before: there is no other.
            return (!only.parameters.down && only.enter()).then(|| Peer::new(only));
        }
        let bound = match &self.sticky {
            Some(_) => choice.bound(now),
            None => None,
        };
        bound.or_else(|| choice.next(now))
    }

    /// Ends a try; true if the server is not asked any more for a while: `upstream server temporarily disabled`.
    pub fn report(&self, choice: &mut Choice, peer: Peer, outcome: Outcome) -> bool {
        if outcome == Outcome::Stale {
            choice.forget(&peer);
            return false;
        }
        if choice.peers.single().is_some() {
            peer.endpoint.forgive();
            choice.tries = 0;
            return false;
        }
        choice.tries = choice.tries.saturating_sub(1);
        match outcome {
            Outcome::Ok | Outcome::Released | Outcome::Stale => {
                peer.endpoint.note_success();
                false
            }
            Outcome::Failed => {
                let _turn = choice.tier().lock();
                peer.endpoint.note_failure(now())
            }
        }
    }
}

/// The endpoints of servers, with the health of those in `before`.
fn assemble(method: &Method, servers: &[Server], before: &mut Vec<Arc<Endpoint>>) -> Peers {
    let mut of = |backup: bool| {
        let servers = servers.iter().filter(|server| server.backup == backup);
        peers::inherit(servers.flat_map(Server::endpoints).collect(), before)
    };
    let (primary, backup) = (of(false), of(true));
    Peers::new(primary, backup, method.is_consistent())
}

/// Seconds since 1970, as of this turn.
fn now() -> u64 {
    thread::unix_ms() / 1000
}

/// A request's way through a group.
#[derive(Debug)]
pub struct Choice {
    /// How many servers may still be tried; none after the last one.
    pub tries: usize,
    /// The server that `sticky` binds the client to.
    pub named: Option<Bytes>,
    peers: Arc<Peers>,
    walk: Walk,
    /// The servers that stand by are tried now.
    backup: bool,
    tried: Tried,
}

impl Choice {
    /// The server that the client is bound to, unless it was tried or cannot take the request.
    fn bound(&mut self, now: u64) -> Option<Peer> {
        let named = self.named.as_ref()?;
        let is_named =
            |endpoint: &Arc<Endpoint>| endpoint.is_available(now) && sticky::id(endpoint) == *named;
        let (primary, backup) = (&self.peers.primary, &self.peers.backup);
        let (tier, index, stands_by) = match primary.endpoints.iter().position(is_named) {
            Some(index) => (primary, index, false),
            None => (backup, backup.endpoints.iter().position(is_named)?, true),
        };
        if self.backup != stands_by {
            if self.backup {
                return None;
            }
            self.tried.clear();
        }
        if self.tried.contains(index) || !tier.endpoints[index].enter() {
            return None;
        }
        let endpoint = &tier.endpoints[index];
        endpoint.note_chosen(now);
        let peer = Peer::new(endpoint);
        self.backup = stands_by;
        self.tried.insert(index);
        Some(peer)
    }

    /// Lets a server be tried again.
    fn forget(&mut self, peer: &Peer) {
        let mut endpoints = self.tier().endpoints.iter();
        if let Some(index) = endpoints.position(|other| Arc::ptr_eq(other, &peer.endpoint)) {
            self.tried.remove(index);
        }
    }

    fn tier(&self) -> &Tier {
        match self.backup {
            true => &self.peers.backup,
            false => &self.peers.primary,
        }
    }

    fn next(&mut self, now: u64) -> Option<Peer> {
        loop {
            let tier = match self.backup {
                true => &self.peers.backup,
                false => &self.peers.primary,
            };
            match self.walk.next(tier, &self.tried, now) {
                Some(index) => {
                    self.tried.insert(index);
                    let endpoint = &tier.endpoints[index];
                    if endpoint.enter() {
                        endpoint.note_chosen(now);
                        return Some(Peer::new(endpoint));
                    }
                }
                None if self.backup || self.peers.backup.is_empty() => return None,
                None => {
                    self.backup = true;
                    self.tried.clear();
                    if !matches!(self.walk, Walk::LeastConn | Walk::LeastTime(_)) {
                        self.walk = Walk::RoundRobin;
                    }
                }
            }
        }
    }
}

/// A server that a request was given. It counts as busy until this is dropped; `Group::report` does that.
#[derive(Debug)]
pub struct Peer {
    pub endpoint: Arc<Endpoint>,
    started_ms: u64,
}

impl Peer {
    fn new(endpoint: &Arc<Endpoint>) -> Peer {
        let started_ms = thread::unix_ms();
        endpoint.health.starts_ms.fetch_add(started_ms, Relaxed);
        Peer {
            endpoint: Arc::clone(endpoint),
            started_ms,
        }
    }

    /// Where to connect to.
    #[must_use]
    pub fn address(&self) -> &sys::address::SocketAddress {
        &self.endpoint.address
    }

    /// The address as `$upstream_addr` and the logs have it.
    #[must_use]
    pub fn name(&self) -> &Bytes {
        &self.endpoint.name
    }

    /// The server's address as it was written.
    #[must_use]
    pub fn server(&self) -> &Bytes {
        &self.endpoint.server
    }

    /// It has answered. The try goes on until this is dropped.
    pub fn note_success(&self) {
        self.endpoint.note_success();
    }

    /// Notes how long the head of the response took.
    pub fn note_header_time(&self, ms: u64) {
        Endpoint::average(&self.endpoint.health.header_time, ms);
    }

    /// Notes how long the whole response took.
    pub fn note_response_time(&self, ms: u64) {
        Endpoint::average(&self.endpoint.health.response_time, ms);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let starts = &self.endpoint.health.starts_ms;
        starts.fetch_sub(self.started_ms, Relaxed);
        self.endpoint.leave();
    }
}
