//! `ip_hash`: the client's network decides: three bytes of an IPv4 address, all of an IPv6 one.

use super::{LOOKS_MAX, Open};
use std::net::IpAddr;
use sys::address::SocketAddress;

/// Where nginx's hash begins and what it turns by.
const BEGIN: u32 = 89;
const FACTOR: u32 = 113;
const MODULUS: u32 = 6271;

/// A request's way along the servers.
#[derive(Debug)]
pub struct Walk {
    octets: [u8; 16],
    length: usize,
    hash: u32,
    looks: u32,
}

impl Walk {
    #[must_use]
    pub fn new(client: &SocketAddress) -> Walk {
        let mut octets = [0; 16];
        // A client on a UNIX socket counts as 0.0.0.
        let length = match client.ip() {
            Some(IpAddr::V4(ip)) => {
                octets[..3].copy_from_slice(&ip.octets()[..3]);
                3
            }
            Some(IpAddr::V6(ip)) => {
                octets = ip.octets();
                16
            }
            None => 3,
        };
        Walk {
            octets,
            length,
            hash: BEGIN,
            looks: 0,
        }
    }

    pub(super) fn next(&mut self, open: &Open<'_>) -> Option<usize> {
        let total = open.tier.total_weight.max(1);
        let mut hash = self.hash;
        while self.looks <= LOOKS_MAX {
            for &octet in &self.octets[..self.length] {
                hash = (hash * FACTOR + u32::from(octet)) % MODULUS;
            }
            let index = open.tier.at_weight(u64::from(hash) % total);
            if open.has(index) {
                self.hash = hash;
                return Some(index);
            }
            self.looks += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{picks, tier};
    use super::*;
    use crate::upstream::group::peers::Tried;

    fn of(client: &str, weights: &[u64], tried: &[usize]) -> String {
        let client = SocketAddress::Ip(client.parse().expect("an address"));
        let mut seen = Tried::default();
        tried.iter().for_each(|&index| seen.insert(index));
        picks(&tier(weights), &seen, 1, |open| {
            Walk::new(&client).next(open)
        })
    }

    const CLIENTS: [&str; 8] = [
        "127.0.0.1:1",
        "127.0.0.200:2",
        "127.0.1.1:1",
        "127.1.0.1:1",
        "127.9.8.7:1",
        "127.200.100.3:1",
        "127.77.0.1:1",
        "127.3.3.3:1",
    ];

    /// The picks are nginx's for the same clients.
    #[test]
    fn clients_keep_their_server() {
        for (weights, tried, expected) in [
            (&[1, 1, 1][..], &[][..], "22011012"),
            (&[1, 1, 1], &[0], "22111212"),
            (&[1, 2, 3], &[], "11211011"),
            (&[1, 2, 3], &[0], "11211211"),
        ] {
            let picked: String = CLIENTS.map(|client| of(client, weights, tried)).concat();
            assert_eq!(picked, expected, "{weights:?}");
        }
        assert_eq!(of("127.0.0.1:1", &[1, 1], &[0, 1]), "-");
    }
}
