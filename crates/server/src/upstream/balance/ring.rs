//! `hash KEY consistent`: points of all servers on a ring (ketama, 160 for each unit of weight, as Cache::Memcached::Fast
//! has them), so that few keys move when a server comes or goes.

use super::{Endpoint, LOOKS_MAX, Open, round_robin};
use bytes::Bytes;
use flate2::Crc;
use std::sync::Arc;

const POINTS: u64 = 160;
/// The most points of a group: weights beyond that share them.
const POINTS_MAX: u64 = 4 << 20;

/// The points by their hash, each with the number of its server.
#[derive(Debug)]
pub struct Ring {
    points: Vec<(u32, u32)>,
    /// The written addresses; one may have several endpoints.
    servers: Vec<Bytes>,
}

impl Ring {
    #[must_use]
    pub fn new(endpoints: &[Arc<Endpoint>]) -> Ring {
        let mut ring = Ring {
            points: Vec::new(),
            servers: Vec::new(),
        };
        let total: u64 = endpoints.iter().map(|e| e.parameters.weight).sum();
        let each = (POINTS_MAX / total.max(1)).clamp(1, POINTS);
        for endpoint in endpoints {
            let known = ring
                .servers
                .iter()
                .position(|name| *name == endpoint.server);
            let server = known.unwrap_or_else(|| {
                ring.servers.push(endpoint.server.clone());
                ring.servers.len() - 1
            });
            let count = endpoint.parameters.weight.min(POINTS_MAX) * each;
            ring.add(server as u32, count.min(POINTS_MAX));
        }
        ring.points.sort_by_key(|&(hash, _)| hash);
        ring.points.dedup_by_key(|(hash, _)| *hash);
        ring
    }

    /// The points of a server: each hash goes into the next.
    fn add(&mut self, server: u32, count: u64) {
        let name = self.servers[server as usize].clone();
        let (host, port) = host_and_port(&name);
        let mut previous = 0u32;
        for _ in 0..count {
            let mut crc = Crc::new();
            crc.update(host);
            crc.update(b"\0");
            crc.update(port);
            crc.update(&previous.to_le_bytes());
            previous = crc.sum();
            self.points.push((previous, server));
        }
    }

    /// The written address at the point where the hash leads, counted from there.
    fn server(&self, start: usize, step: u32) -> Option<&Bytes> {
        let at = (start + step as usize).checked_rem(self.points.len())?;
        let (_, server) = self.points.get(at)?;
        self.servers.get(*server as usize)
    }
}

/// What stands before the last `:` and the digits behind it; a UNIX socket's path has no port.
fn host_and_port(server: &[u8]) -> (&[u8], &[u8]) {
    if let Some((scheme, path)) = server.split_at_checked(5)
        && scheme.eq_ignore_ascii_case(b"unix:")
    {
        return (path, b"");
    }
    let digits = server.iter().rev().take_while(|byte| byte.is_ascii_digit());
    let (before, port) = server.split_at(server.len() - digits.count());
    match before.strip_suffix(b":") {
        Some(host) => (host, port),
        None => (server, b""),
    }
}

/// A request's way along the ring.
#[derive(Debug)]
pub struct Walk {
    hash: u32,
    looks: u32,
}

impl Walk {
    #[must_use]
    pub fn new(key: &[u8]) -> Walk {
        let mut crc = Crc::new();
        crc.update(key);
        Walk {
            hash: crc.sum(),
            looks: 0,
        }
    }

    pub(super) fn next(&mut self, open: &Open<'_>) -> Option<usize> {
        let ring = open.tier.ring.as_ref()?;
        let start = ring.points.partition_point(|&(hash, _)| hash < self.hash);
        let _turn = open.tier.lock();
        while self.looks <= LOOKS_MAX {
            let server = ring.server(start, self.looks)?;
            let own = open
                .iter()
                .filter(|(_, endpoint)| endpoint.server == *server);
            if let Some(index) = round_robin::turn(own) {
                return Some(index);
            }
            self.looks += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{KEYS, picks, tier};
    use super::*;
    use crate::upstream::group::peers::Tried;

    #[test]
    fn hosts_and_ports_are_told_apart() {
        for (server, host, port) in [
            ("127.0.0.1:80", "127.0.0.1", "80"),
            ("backend", "backend", ""),
            ("[::1]:9", "[::1]", "9"),
            ("[::1]", "[::1]", ""),
            ("unix:/a:1", "/a:1", ""),
            ("a:", "a", ""),
            ("9000", "9000", ""),
        ] {
            let found = host_and_port(server.as_bytes());
            assert_eq!(found, (host.as_bytes(), port.as_bytes()), "{server}");
        }
    }

    /// The picks are nginx's for the same keys and servers.
    #[test]
    fn keys_keep_their_server() {
        for (weights, expected) in [
            (&[1, 1, 1][..], "100010021220"),
            (&[1, 2, 3], "200012111222"),
            (&[5, 1, 1, 1, 2], "000010333020"),
        ] {
            let mut tier = tier(weights);
            tier.ring = Some(Ring::new(&tier.endpoints));
            let pick = |key: &str| {
                let mut walk = Walk::new(key.as_bytes());
                picks(&tier, &Tried::default(), 1, |open| walk.next(open))
            };
            assert_eq!(KEYS.map(pick).concat(), expected, "{weights:?}");
        }
    }

    #[test]
    fn few_keys_move_when_a_server_goes() {
        let mut tier = tier(&[1, 1, 1, 1]);
        tier.ring = Some(Ring::new(&tier.endpoints));
        let (none, mut gone) = (Tried::default(), Tried::default());
        gone.insert(2);
        let mut shares = [0; 4];
        for number in 0..400 {
            let key = format!("/{number}");
            let pick = |tried| picks(&tier, tried, 1, |open| Walk::new(key.as_bytes()).next(open));
            let (before, after) = (pick(&none), pick(&gone));
            shares[before.parse::<usize>().expect("an index")] += 1;
            assert!(before == after || before == "2", "{key}: {before} {after}");
        }
        assert!(shares.iter().all(|&share| share > 50), "{shares:?}");
    }
}
