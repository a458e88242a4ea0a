//! `geo [$address] $variable { … }`: a value by the client's address, or by another one. Networks and ranges become one
//! sorted list of where a value begins, so that a look-up is a binary search.

pub mod directive; // the block in the configuration

use super::registry::VariableId;
use super::template::Template;
use crate::http::forwarded::{self, Trusted};
use crate::http::network::{self, Network};
use crate::http::request::Slot;
use crate::http::{Request, network::parse_address};
use bytes::Bytes;
use std::net::{IpAddr, Ipv4Addr};
use wire::http1::Known;

/// Where values begin: each holds from its start to the next.
#[derive(Debug, Default)]
pub struct Steps<A> {
    starts: Vec<A>,
    values: Vec<u32>,
}

impl<A: Ord + Copy> Steps<A> {
    fn find(&self, address: A) -> Option<u32> {
        let after = self.starts.partition_point(|start| *start <= address);
        self.values.get(after.checked_sub(1)?).copied()
    }

    /// From here on the value is another one.
    fn push(&mut self, start: A, value: u32) {
        if self.starts.last() == Some(&start) {
            self.starts.pop();
            self.values.pop();
        }
        if self.values.last() != Some(&value) {
            self.starts.push(start);
            self.values.push(value);
        }
    }
}

/// A compiled `geo`.
#[derive(Debug)]
pub struct Geo {
    /// What holds the address; without it the client's.
    source: Option<Template>,
    proxies: Trusted,
    recursive: bool,
    v4: Steps<u32>,
    v6: Steps<u128>,
    /// The first is what holds where nothing else does.
    values: Vec<Bytes>,
}

impl Geo {
    /// Appends the value for `request`, and keeps it for the variable `id`.
    pub fn append(&self, id: VariableId, request: &Request, out: &mut Vec<u8>) -> bool {
        let value = self.find(self.address(request));
        out.extend_from_slice(value);
        request.assign(id, Slot::Value(value.clone()));
        true
    }

    /// The address that is looked up; what is none is taken for 255.255.255.255, as in nginx.
    fn address(&self, request: &Request) -> IpAddr {
        let mut address = match &self.source {
            Some(source) => parse_address(&source.evaluate(request)),
            None => request.remote().ip(),
        };
        if !self.proxies.is_empty() {
            let values = request.fields_known(Known::XForwardedFor);
            if let Some(client) = forwarded::client(address, values, &self.proxies, self.recursive)
            {
                address = Some(client.ip());
            }
        }
        address.map_or(IpAddr::V4(Ipv4Addr::BROADCAST), network::plain)
    }

    fn find(&self, address: IpAddr) -> &Bytes {
        let found = match address {
            IpAddr::V4(address) => self.v4.find(u32::from(address)),
            IpAddr::V6(address) => self.v6.find(u128::from(address)),
        };
        let index = found.unwrap_or(0) as usize;
        self.values.get(index).unwrap_or(&self.values[0])
    }
}

/// Networks inside one another become steps; the longest prefix counts.
fn steps<A>(mut networks: Vec<(A, A, u32)>, successor: fn(A) -> Option<A>) -> Steps<A>
where
    A: Ord + Copy,
{
    let mut steps = Steps {
        starts: Vec::with_capacity(networks.len()),
        values: Vec::with_capacity(networks.len()),
    };
    // The outer before the inner ones.
    networks.sort_unstable_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
    let mut open: Vec<(A, u32)> = Vec::new();
    let close = |open: &mut Vec<(A, u32)>, steps: &mut Steps<A>| {
        let ended = open.pop();
        if let Some(start) = ended.and_then(|(last, _)| successor(last)) {
            steps.push(start, open.last().map_or(0, |outer| outer.1));
        }
    };
    for (first, last, value) in networks {
        while open.last().is_some_and(|outer| outer.0 < first) {
            close(&mut open, &mut steps);
        }
        steps.push(first, value);
        open.push((last, value));
    }
    while !open.is_empty() {
        close(&mut open, &mut steps);
    }
    steps
}

/// The first and last address of a network of IPv4.
fn bounds_v4(address: u32, length: u8) -> (u32, u32) {
    let below = u32::MAX.checked_shr(u32::from(length)).unwrap_or(0);
    (address, address | below)
}

/// The first and last address of a network of IPv6.
fn bounds_v6(address: u128, length: u8) -> (u128, u128) {
    let below = u128::MAX.checked_shr(u32::from(length)).unwrap_or(0);
    (address, address | below)
}

/// The steps of networks of both kinds.
fn of_networks(networks: impl Iterator<Item = (Network, u32)>) -> (Steps<u32>, Steps<u128>) {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for (network, value) in networks {
        match network {
            Network::V4 { address, length } => {
                let (first, last) = bounds_v4(address, length);
                v4.push((first, last, value));
            }
            Network::V6 { address, length } => {
                let (first, last) = bounds_v6(address, length);
                v6.push((first, last, value));
            }
        }
    }
    let v4 = steps(v4, |last| last.checked_add(1));
    let v6 = steps(v6, |last| last.checked_add(1));
    (v4, v6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_counts() {
        let networks = [
            ("10.0.0.0/8", 1),
            ("10.1.0.0/16", 2),
            ("10.1.2.3", 3),
            ("10.255.255.255", 4),
            ("255.0.0.0/8", 5),
            ("2001::/16", 6),
            ("2001:1::/32", 7),
        ];
        let networks = networks.map(|(text, value)| {
            let (network, _) = Network::parse(text.as_bytes()).expect(text);
            (network, value)
        });
        let (v4, v6) = of_networks(networks.into_iter());
        for (address, value) in [
            ("9.255.255.255", None),
            ("10.0.0.0", Some(1)),
            ("10.1.0.0", Some(2)),
            ("10.1.2.2", Some(2)),
            ("10.1.2.3", Some(3)),
            ("10.1.2.4", Some(2)),
            ("10.2.0.0", Some(1)),
            ("10.255.255.255", Some(4)),
            ("11.0.0.0", Some(0)),
            ("255.255.255.255", Some(5)),
            ("2001::1", Some(6)),
            ("2001:1::1", Some(7)),
            ("2001:2::", Some(6)),
            ("2002::", Some(0)),
            ("::", None),
        ] {
            let found = match address.parse().expect(address) {
                IpAddr::V4(address) => v4.find(u32::from(address)),
                IpAddr::V6(address) => v6.find(u128::from(address)),
            };
            assert_eq!(found, value, "{address}");
        }
    }
}
