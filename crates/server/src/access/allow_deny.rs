//! `allow` and `deny`: who may have a location, by address.

use super::satisfy::{Answer, Satisfy};
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, row};
use crate::http::network::Network;
use crate::http::{Interrupt, Phase, Request};
use crate::log::error::{Level, write_request};
use conf::Directive;
use conf::table::{Contexts, Row};
use std::net::{IpAddr, Ipv4Addr};
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
    whom: Whom,
}

/// Whom a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whom {
    All,
    Unix,
    Network(Network),
}

fn rule(build: &mut Build<'_>, directive: &Directive, allow: bool) -> Outcome {
    let word = &directive.args[0];
    let (whom, exact) = parse(word).ok_or_else(|| format!("invalid parameter \"{word}\""))?;
    if !exact {
        build.warn(
            directive,
            format!("low address bits of {word} are meaningless"),
        );
    }
    let rules = &mut build.location().access.rules.0;
    Arc::make_mut(rules.get_or_insert_default()).push(Rule { allow, whom });
    Ok(())
}

impl Settings {
    /// Whether everyone may enter.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.rules.is_empty()
    }
}

/// Reads whom a rule is for, and whether no bits stand below a network's mask.
fn parse(word: &[u8]) -> Option<(Whom, bool)> {
    match word {
        b"all" => Some((Whom::All, true)),
        b"unix:" => Some((Whom::Unix, true)),
        word => Network::parse(word).map(|(network, exact)| (Whom::Network(network), exact)),
    }
}

impl Whom {
    /// Whether a peer is meant; `None` is one on a UNIX-domain socket.
    fn contains(&self, peer: Option<IpAddr>) -> bool {
        match (self, peer) {
            (Whom::All, _) | (Whom::Unix, None) => true,
            (Whom::Network(network), Some(peer)) => network.contains(peer),
            _ => false,
        }
    }
}

/// The address that rules are compared with. As in nginx, an IPv4 address in IPv6's clothes is one of IPv4 as soon as
/// there are rules for those.
fn compared(peer: IpAddr, rules: &[Rule]) -> IpAddr {
    let for_v4 = |rule: &Rule| matches!(rule.whom, Whom::All | Whom::Network(Network::V4 { .. }));
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
    let peer = request.remote().ip().map(|peer| compared(peer, rules));
    match rules.iter().find(|rule| rule.whom.contains(peer)) {
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
        assert!(Whom::All.contains(None) && Whom::Unix.contains(None));
        assert!(!Whom::Unix.contains(peer("::1")));
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
            let (whom, _) = parse(word.as_bytes()).expect("a rule");
            [Rule { allow: true, whom }]
        };
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().expect("an address");
        let plain: IpAddr = "10.0.0.1".parse().expect("an address");
        assert_eq!(compared(mapped, &rules("10.0.0.0/8")), plain);
        assert_eq!(compared(mapped, &rules("all")), plain);
        assert_eq!(compared(mapped, &rules("::/0")), mapped);
        assert_eq!(compared(plain, &rules("::/0")), plain);
    }
}
