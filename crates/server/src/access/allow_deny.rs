//! `allow` and `deny`: who may have a location, by address.

use super::satisfy::{Answer, Satisfy};
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, row};
use crate::http::{Interrupt, Phase, Request};
use crate::log::error::{Level, write_request};
use conf::Directive;
use conf::table::{Contexts, Row};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

const CONTEXTS: Contexts = HSL.or(Contexts::LIMIT_EXCEPT);

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "allow",
        CONTEXTS,
        Arity::Exactly(1),
        |b, d| rule(b, d, true),
        "An address, network, or all, that may have what is here.",
    ),
    row(
        "deny",
        CONTEXTS,
        Arity::Exactly(1),
        |b, d| rule(b, d, false),
        "An address, network, or all, that may not.",
    ),
];

// The rules of a block take the place of all the outer block's.
crate::config::setting::settings! {
    rules: Arc<Vec<Rule>> = Arc::default(),
}

/// One line of the list.
#[derive(Debug, Clone)]
pub struct Rule {
    allow: bool,
    network: Network,
}

/// Whom a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    All,
    V4 { address: u32, mask: u32 },
    V6 { address: u128, mask: u128 },
    Unix,
}

fn rule(build: &mut Build<'_>, directive: &Directive, allow: bool) -> Outcome {
    let word = &directive.args[0];
    let (network, exact) = parse(word).ok_or_else(|| format!("invalid parameter \"{word}\""))?;
    if !exact {
        build.warn(
            directive,
            format!("low address bits of {word} are meaningless"),
        );
    }
    let rules = &mut build.location().access.rules.0;
    Arc::make_mut(rules.get_or_insert_default()).push(Rule { allow, network });
    Ok(())
}

impl Settings {
    /// Whether everyone may enter.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.rules.is_empty()
    }
}

/// Reads a network, and whether no bits stand below its mask.
fn parse(word: &[u8]) -> Option<(Network, bool)> {
    match word {
        b"all" => return Some((Network::All, true)),
        b"unix:" => return Some((Network::Unix, true)),
        _ => {}
    }
    let (address, bits) = match word.iter().position(|&byte| byte == b'/') {
        Some(slash) => (&word[..slash], Some(&word[slash + 1..])),
        None => (word, None),
    };
    let bits = match bits {
        Some(digits) => Some(u32::try_from(conf::values::parse_number(digits)?).ok()?),
        None => None,
    };
    if let Some(address) = parse_v4(address) {
        let bits = bits.unwrap_or(32);
        let mask = u32::MAX.checked_shl(32_u32.checked_sub(bits)?).unwrap_or(0);
        let network = Network::V4 {
            address: address & mask,
            mask,
        };
        return Some((network, address & mask == address));
    }
    let address: Ipv6Addr = std::str::from_utf8(address).ok()?.parse().ok()?;
    let address = u128::from(address);
    let bits = bits.unwrap_or(128);
    let mask = u128::MAX
        .checked_shl(128_u32.checked_sub(bits)?)
        .unwrap_or(0);
    let network = Network::V6 {
        address: address & mask,
        mask,
    };
    Some((network, address & mask == address))
}

/// Four numbers with dots; unlike the standard library nginx lets them begin with zeros.
fn parse_v4(text: &[u8]) -> Option<u32> {
    let mut parts = text.split(|&byte| byte == b'.');
    let mut address = 0_u32;
    for _ in 0..4 {
        let part = parts.next()?;
        let number = conf::values::parse_number(part)?;
        address = address << 8 | u32::from(u8::try_from(number).ok()?);
    }
    parts.next().is_none().then_some(address)
}

impl Network {
    /// Whether a peer is meant; `None` is one on a UNIX-domain socket.
    fn contains(&self, peer: Option<IpAddr>) -> bool {
        match (*self, peer) {
            (Network::All, _) | (Network::Unix, None) => true,
            (Network::V4 { address, mask }, Some(IpAddr::V4(peer))) => {
                u32::from(peer) & mask == address
            }
            (Network::V6 { address, mask }, Some(IpAddr::V6(peer))) => {
                u128::from(peer) & mask == address
            }
            _ => false,
        }
    }
}

/// The address that rules are compared with. As in nginx, an IPv4 address in IPv6's clothes is one of IPv4 as soon as
/// there are rules for those.
fn compared(peer: IpAddr, rules: &[Rule]) -> IpAddr {
    let for_v4 = |rule: &Rule| matches!(rule.network, Network::All | Network::V4 { .. });
    let mapped: Option<Ipv4Addr> = match peer {
        IpAddr::V6(peer) => peer.to_ipv4_mapped(),
        IpAddr::V4(_) => None,
    };
    match mapped {
        Some(peer) if rules.iter().any(for_v4) => IpAddr::V4(peer),
        _ => peer,
    }
}

/// Refuses what a rule denies; the first rule that is for the client decides.
pub fn check(request: &Request) -> Phase<Answer> {
    let rules = &request.location().settings.access.rules;
    if rules.is_empty() {
        return Ok(Answer::NotAsked);
    }
    let peer = request
        .connection
        .remote
        .ip()
        .map(|peer| compared(peer, rules));
    match rules.iter().find(|rule| rule.network.contains(peer)) {
        Some(rule) if !rule.allow => {
            // Where another check may still let the client in, nothing is forbidden yet.
            if request.location().settings.satisfy.satisfy == Satisfy::All {
                write_request(
                    request,
                    Level::Error,
                    format_args!("access forbidden by rule"),
                );
            }
            Err(Interrupt::Status(403))
        }
        Some(_) => Ok(Answer::Pass),
        None => Ok(Answer::NotAsked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let peer = |text: &str| text.parse::<IpAddr>().ok();
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
            let (network, is_exact) = parse(rule.as_bytes()).expect(rule);
            assert_eq!(is_exact, exact, "{rule}");
            assert!(network.contains(peer(inside)), "{rule} {inside}");
            assert!(!network.contains(peer(outside)), "{rule} {outside}");
            assert!(!network.contains(None), "{rule}");
        }
        assert!(Network::All.contains(None) && Network::Unix.contains(None));
        assert!(!Network::Unix.contains(peer("::1")));
        for wrong in [
            "",
            "x",
            "10.0.0",
            "10.0.0.0.0",
            "256.0.0.0",
            "10.0.0.0/33",
            "::/129",
            "::1/",
            "ALL",
            "unix:/x",
        ] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn mapped_addresses_are_of_ipv4_where_rules_are() {
        let rules = |word: &str| {
            let (network, _) = parse(word.as_bytes()).expect("a rule");
            [Rule {
                allow: true,
                network,
            }]
        };
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().expect("an address");
        let plain: IpAddr = "10.0.0.1".parse().expect("an address");
        assert_eq!(compared(mapped, &rules("10.0.0.0/8")), plain);
        assert_eq!(compared(mapped, &rules("all")), plain);
        assert_eq!(compared(mapped, &rules("::/0")), mapped);
        assert_eq!(compared(plain, &rules("::/0")), plain);
    }
}
