//! `resolver` and `resolver_timeout`.

use super::Resolver;
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, msec, row};
use crate::config::setting::Complaint;
use crate::upstream::address::{Behind, Place};
use crate::upstream::written::resolve_host;
use conf::table::{Contexts, Row};
use conf::{Directive, Word, values};
use std::net::SocketAddr;
use std::sync::Arc;
use sys::address::SocketAddress;

/// The port of name servers.
const DEFAULT_PORT: u16 = 53;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "resolver",
        HSL.or(Contexts::UPSTREAM),
        Arity::AtLeast(1),
        resolver,
        "The name servers that are asked at run time.",
    ),
    row(
        "resolver_timeout",
        HSL.or(Contexts::UPSTREAM),
        Arity::Exactly(1),
        |b, d| msec(&mut b.location().resolver.timeout_ms, d),
        "How long a name may take.",
    ),
];

crate::config::setting::settings! {
    resolver: Option<Arc<Resolver>> = None,
    timeout_ms: u64 = 30_000,
}

fn resolver(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().resolver.resolver.vacant()?;
    let (mut servers, mut valid) = (Vec::new(), None);
    let (mut ipv4, mut ipv6) = (true, true);
    for word in &directive.args {
        if let Some(text) = word.strip_prefix(b"valid=") {
            valid = Some(values::parse_sec(text).ok_or_else(|| invalid(word))?);
        } else if let Some(text) = word.strip_prefix(b"ipv4=") {
            ipv4 = on_or_off(text).ok_or_else(|| invalid(word))?;
        } else if let Some(text) = word.strip_prefix(b"ipv6=") {
            ipv6 = on_or_off(text).ok_or_else(|| invalid(word))?;
        } else {
            servers.append(&mut addresses(word)?);
        }
    }
    if !ipv4 && !ipv6 {
        return Err("\"ipv4\" and \"ipv6\" cannot both be \"off\"".into());
    }
    if servers.is_empty() {
        return Err("no name servers defined".into());
    }
    let resolver = Resolver {
        servers,
        valid,
        ipv4,
        ipv6,
        turn: Default::default(),
        names: Default::default(),
    };
    let setting = &mut build.location().resolver.resolver;
    setting.set(Some(Arc::new(resolver)))
}

fn invalid(word: &Word) -> Complaint {
    format!("invalid parameter: {word}").into()
}

fn on_or_off(text: &[u8]) -> Option<bool> {
    match text {
        b"on" => Some(true),
        b"off" => Some(false),
        _ => None,
    }
}

/// The addresses of a name server, which may be written as a name.
fn addresses(word: &Word) -> Result<Vec<SocketAddr>, Complaint> {
    let complaint = |text: &str| Complaint::from(format!("{text} in resolver \"{word}\""));
    let place = Place::parse(word, DEFAULT_PORT, Behind::Nothing).map_err(complaint)?;
    let addresses = match place.address {
        Some(address) => vec![address],
        None => resolve_host(&place.host, place.port).ok_or_else(|| complaint("host not found"))?,
    };
    let inet = addresses.into_iter().filter_map(|address| match address {
        SocketAddress::Ip(address) => Some(address),
        SocketAddress::Unix(_) => None,
    });
    Ok(inet.collect())
}
