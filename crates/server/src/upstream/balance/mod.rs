//! The balancing methods: each picks the next endpoint of a tier that a request has not tried. Which servers requests go
//! to is nginx's to the request, since caches behind it depend on that.

pub mod hash; // hash KEY [consistent]
pub mod ip_hash;
pub mod least_conn;
pub mod least_time;
pub mod random;
pub mod ring; // the points of `consistent`
pub mod round_robin; // the default, and what others end with

use super::group::endpoint::Endpoint;
use super::group::peers::{Tier, Tried};
use crate::http::Request;
use crate::variables::Template;
use least_time::LeastTime;

/// Servers that a method looks at for a request before it leaves the choice to the round robin.
const LOOKS_MAX: u32 = 20;

/// How a group chooses.
#[derive(Debug, Clone, Default)]
pub enum Method {
    #[default]
    RoundRobin,
    LeastConn,
    LeastTime(LeastTime),
    IpHash,
    Hash(Template),
    /// `hash KEY consistent`
    Ring(Template),
    Random,
    /// `random two`
    RandomTwo(Measure),
}

/// What the better of two servers is better in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Connections,
    Time(LeastTime),
}

/// Where a request stands on its way along a method's servers.
#[derive(Debug)]
pub enum Walk {
    RoundRobin,
    LeastConn,
    LeastTime(LeastTime),
    IpHash(ip_hash::Walk),
    Hash(hash::Walk),
    Ring(ring::Walk),
    Random { looks: u32 },
    RandomTwo { measure: Measure, looks: u32 },
}

impl Method {
    /// Begins a request's way. An empty key leaves the choice to the round robin.
    #[must_use]
    pub fn begin(&self, request: &Request) -> Walk {
        match self {
            Method::RoundRobin => Walk::RoundRobin,
            Method::LeastConn => Walk::LeastConn,
            Method::LeastTime(by) => Walk::LeastTime(*by),
            Method::IpHash => Walk::IpHash(ip_hash::Walk::new(request.remote())),
            Method::Hash(key) | Method::Ring(key) => {
                let key = key.evaluate(request);
                match self {
                    _ if key.is_empty() => Walk::RoundRobin,
                    Method::Ring(_) => Walk::Ring(ring::Walk::new(&key)),
                    _ => Walk::Hash(hash::Walk::new(key)),
                }
            }
            Method::Random => Walk::Random { looks: 0 },
            Method::RandomTwo(measure) => Walk::RandomTwo {
                measure: *measure,
                looks: 0,
            },
        }
    }

    /// Whether servers may stand by: those of a key or of chance are all in use.
    #[must_use]
    pub fn takes_backup(&self) -> bool {
        matches!(
            self,
            Method::RoundRobin | Method::LeastConn | Method::LeastTime(_)
        )
    }

    #[must_use]
    pub fn is_consistent(&self) -> bool {
        matches!(self, Method::Ring(_))
    }
}

impl Walk {
    /// The next endpoint of the tier.
    pub fn next(&mut self, tier: &Tier, tried: &Tried, now: u64) -> Option<usize> {
        // A choice of one is no choice.
        let alone = tier.endpoints.len() < 2;
        let open = Open { tier, tried, now };
        match self {
            Walk::RoundRobin => None,
            Walk::LeastConn => return least_conn::next(&open),
            Walk::LeastTime(by) => return least_time::next(&open, *by),
            _ if alone => None,
            Walk::IpHash(walk) => walk.next(&open),
            Walk::Hash(walk) => walk.next(&open),
            Walk::Ring(walk) => walk.next(&open),
            Walk::Random { looks } => random::next(&open, looks),
            Walk::RandomTwo { measure, looks } => random::better_of_two(&open, *measure, looks),
        }
        .or_else(|| round_robin::next(&open))
    }
}

/// The endpoints that are open to a request.
struct Open<'a> {
    tier: &'a Tier,
    tried: &'a Tried,
    now: u64,
}

impl<'a> Open<'a> {
    fn has(&self, index: usize) -> bool {
        let endpoint = self.tier.endpoints.get(index);
        !self.tried.contains(index) && endpoint.is_some_and(|endpoint| endpoint.takes_new(self.now))
    }

    /// The open endpoints in their order.
    fn iter(&self) -> impl Iterator<Item = (usize, &'a Endpoint)> {
        let all = self.tier.endpoints.iter().enumerate();
        all.filter(|(index, _)| self.has(*index))
            .map(|(index, endpoint)| (index, &**endpoint))
    }
}

#[cfg(test)]
mod testing;
