//! Networks as a configuration writes them: an address with or without the length of its prefix.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses with a common prefix; no bits stand behind the mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Network {
    V4 { address: u32, length: u8 },
    V6 { address: u128, length: u8 },
}

impl Network {
    /// Reads a network, and whether no bits stood behind its mask.
    #[must_use]
    pub fn parse(word: &[u8]) -> Option<(Network, bool)> {
        let (text, length) = match memchr::memchr(b'/', word) {
            Some(slash) => {
                let digits = conf::values::parse_number(&word[slash + 1..])?;
                (&word[..slash], Some(u8::try_from(digits).ok()?))
            }
            None => (word, None),
        };
        let network = Network::of(parse_address(text)?, length)?;
        let exact = match (network, parse_address(text)?) {
            (Network::V4 { address, .. }, IpAddr::V4(written)) => address == u32::from(written),
            (Network::V6 { address, .. }, IpAddr::V6(written)) => address == u128::from(written),
            _ => false,
        };
        Some((network, exact))
    }

    /// The network of an address; without a length the address alone.
    #[must_use]
    pub fn of(address: IpAddr, length: Option<u8>) -> Option<Network> {
        Some(match address {
            IpAddr::V4(address) => {
                let length = length.unwrap_or(32);
                let below = 32_u32.checked_sub(u32::from(length))?;
                let mask = u32::MAX.checked_shl(below).unwrap_or(0);
                Network::V4 {
                    address: u32::from(address) & mask,
                    length,
                }
            }
            IpAddr::V6(address) => {
                let length = length.unwrap_or(128);
                let below = 128_u32.checked_sub(u32::from(length))?;
                let mask = u128::MAX.checked_shl(below).unwrap_or(0);
                Network::V6 {
                    address: u128::from(address) & mask,
                    length,
                }
            }
        })
    }

    #[must_use]
    pub fn contains(&self, peer: IpAddr) -> bool {
        match (*self, peer) {
            (Network::V4 { address, length }, IpAddr::V4(peer)) => {
                let below = 32 - u32::from(length);
                (u32::from(peer) ^ address).checked_shr(below).unwrap_or(0) == 0
            }
            (Network::V6 { address, length }, IpAddr::V6(peer)) => {
                let below = 128 - u32::from(length);
                (u128::from(peer) ^ address).checked_shr(below).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// An address. Unlike the standard library nginx lets the numbers of IPv4 begin with zeros.
#[must_use]
pub fn parse_address(text: &[u8]) -> Option<IpAddr> {
    if let Some(address) = parse_v4(text) {
        return Some(IpAddr::V4(Ipv4Addr::from(address)));
    }
    let address: Ipv6Addr = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(IpAddr::V6(address))
}

/// Four numbers with dots. As in nginx 255.255.255.255 is none: it stands for a failure.
#[must_use]
pub fn parse_v4(text: &[u8]) -> Option<u32> {
    let mut parts = text.split(|&byte| byte == b'.');
    let mut address = 0_u32;
    for _ in 0..4 {
        let number = conf::values::parse_number(parts.next()?)?;
        address = address << 8 | u32::from(u8::try_from(number).ok()?);
    }
    (parts.next().is_none() && address != u32::MAX).then_some(address)
}

/// An IPv4 address in IPv6's clothes is one of IPv4.
#[must_use]
pub fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        for (rule, exact, inside, outside) in [
            ("10.0.0.0/8", true, "10.255.0.1", "11.0.0.0"),
            ("10.1.2.3/8", false, "10.255.0.1", "11.0.0.0"),
            ("10.1.2.3", true, "10.1.2.3", "10.1.2.4"),
            ("010.001.002.003/32", true, "10.1.2.3", "10.1.2.4"),
            ("0.0.0.0/0", true, "1.2.3.4", "::1"),
            ("2001:db8::/32", true, "2001:db8:1::", "2001:db9::"),
            ("2001:db8::1/32", false, "2001:db8:1::", "10.0.0.1"),
            ("::/0", true, "::1", "127.0.0.1"),
        ] {
            let (network, is_exact) = Network::parse(rule.as_bytes()).expect(rule);
            assert_eq!(is_exact, exact, "{rule}");
            let peer = |text: &str| text.parse::<IpAddr>().expect(text);
            assert!(network.contains(peer(inside)), "{rule} {inside}");
            assert!(!network.contains(peer(outside)), "{rule} {outside}");
        }
        for wrong in [
            "",
            "x",
            "10.0.0",
            "10.0.0.0.0",
            "256.0.0.0",
            "255.255.255.255",
            "10.0.0.0/33",
            "10.0.0.0/999",
            "::/129",
            "::1/",
        ] {
            assert_eq!(Network::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
