//! Whom a proxy asks for: the client that the proxies before this server name in a field such as X-Forwarded-For, as far
//! as those proxies are trusted.

use super::network::{self, Network};
use std::net::{IpAddr, SocketAddr};

/// Proxies whose word is taken.
#[derive(Debug, Clone, Default)]
pub struct Trusted {
    pub networks: Vec<Network>,
    /// Peers on UNIX-domain sockets.
    pub unix: bool,
}

impl Trusted {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && !self.unix
    }

    fn contains(&self, peer: Option<IpAddr>) -> bool {
        match peer {
            Some(peer) => {
                let peer = network::plain(peer);
                self.networks.iter().any(|network| network.contains(peer))
            }
            None => self.unix,
        }
    }
}

/// The client behind `peer` (`None`: on a UNIX-domain socket), by the values of a field in the order of the request. The
/// last address counts or, with `recursive`, the last that is no trusted proxy. `None`: it is the peer itself.
pub fn client<'v>(
    peer: Option<IpAddr>,
    values: impl DoubleEndedIterator<Item = &'v [u8]>,
    trusted: &Trusted,
    recursive: bool,
) -> Option<SocketAddr> {
    let mut found: Option<SocketAddr> = None;
    let addresses = values.rev().flat_map(|value| {
        value
            .rsplit(|byte| matches!(byte, b',' | b' '))
            .filter(|text| !text.is_empty())
    });
    for text in addresses {
        let current = found.map_or(peer, |found| Some(found.ip()));
        if !trusted.contains(current) {
            break;
        }
        let Some(address) = parse(text) else { break };
        found = Some(address);
        if !recursive {
            break;
        }
    }
    found
}

/// An address with or without a port; without one it is 0.
fn parse(text: &[u8]) -> Option<SocketAddr> {
    if let Some(address) = network::parse_address(text) {
        return Some(SocketAddr::new(address, 0));
    }
    let text = std::str::from_utf8(text).ok()?;
    text.parse()
        .ok()
        .filter(|address: &SocketAddr| address.port() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_address_that_is_trusted_to_be_told() {
        let networks = ["127.0.0.0/8", "10.0.0.0/8"].map(|text| {
            let (network, _) = Network::parse(text.as_bytes()).expect(text);
            network
        });
        let trusted = Trusted {
            networks: networks.to_vec(),
            unix: false,
        };
        let find = |peer: &str, values: &[&str], recursive| {
            let values = values.iter().map(|value| value.as_bytes());
            let peer = peer.parse().ok();
            client(peer, values, &trusted, recursive).map(|address| address.to_string())
        };
        for (peer, values, once, all) in [
            (
                "127.0.0.1",
                &["1.2.3.4"][..],
                Some("1.2.3.4:0"),
                Some("1.2.3.4:0"),
            ),
            ("9.9.9.9", &["1.2.3.4"], None, None),
            ("127.0.0.1", &[], None, None),
            (
                "127.0.0.1",
                &["1.1.1.1, 10.0.0.1"],
                Some("10.0.0.1:0"),
                Some("1.1.1.1:0"),
            ),
            (
                "127.0.0.1",
                &["1.1.1.1", "10.0.0.1"],
                Some("10.0.0.1:0"),
                Some("1.1.1.1:0"),
            ),
            (
                "127.0.0.1",
                &["2.2.2.2,1.1.1.1,10.0.0.1 "],
                Some("10.0.0.1:0"),
                Some("1.1.1.1:0"),
            ),
            (
                "127.0.0.1",
                &["x, 10.0.0.1"],
                Some("10.0.0.1:0"),
                Some("10.0.0.1:0"),
            ),
            ("127.0.0.1", &["1.2.3.4, x"], None, None),
            (
                "127.0.0.1",
                &["1.2.3.4:80"],
                Some("1.2.3.4:80"),
                Some("1.2.3.4:80"),
            ),
            (
                "127.0.0.1",
                &["[2001::1]:80"],
                Some("[2001::1]:80"),
                Some("[2001::1]:80"),
            ),
            (
                "127.0.0.1",
                &["2001::1"],
                Some("[2001::1]:0"),
                Some("[2001::1]:0"),
            ),
            (
                "::ffff:10.0.0.1",
                &["1.2.3.4"],
                Some("1.2.3.4:0"),
                Some("1.2.3.4:0"),
            ),
        ] {
            assert_eq!(find(peer, values, false).as_deref(), once, "{values:?}");
            assert_eq!(find(peer, values, true).as_deref(), all, "{values:?}");
        }
    }
}
