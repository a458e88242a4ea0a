//! The `upstream` block: its servers, how one of them is chosen, how connections to them are kept.

use super::address::{Behind, Place};
use super::balance::least_time::LeastTime;
use super::balance::{Measure, Method};
use super::group::GroupId;
use super::group::endpoint::Parameters;
use super::written::{Written, WrittenServer, resolve_host};
use crate::config::build::Build;
use crate::config::directive::{Arity, HTTP, Outcome, Set, block, msec, number, row};
use crate::config::model::LocationKind;
use crate::config::setting::Complaint;
use crate::variables::Template;
use bytes::Bytes;
use conf::table::{Contexts, Row};
use conf::{Directive, Word, values};

const UPSTREAM: Contexts = Contexts::UPSTREAM;
/// The port of a server where none is written.
const DEFAULT_PORT: u16 = 80;
/// nginx's zones have eight pages at least.
const ZONE_MIN: u64 = 8 * 4096;

pub const DIRECTIVES: &[Row<Set>] = &[
    block(
        "upstream",
        HTTP,
        Arity::Exactly(1),
        upstream,
        "A group of servers.",
    ),
    row(
        "server",
        UPSTREAM,
        Arity::AtLeast(1),
        server,
        "A server of a group, and what holds for it.",
    ),
    row(
        "zone",
        UPSTREAM,
        Arity::Between(1, 2),
        zone,
        "Accepted: all threads share what is known of a group.",
    ),
    row(
        "ip_hash",
        UPSTREAM,
        Arity::Exactly(0),
        |b, d| method(b, d, Method::IpHash),
        "The client's network chooses the server.",
    ),
    row(
        "hash",
        UPSTREAM,
        Arity::Between(1, 2),
        hash,
        "A key chooses the server.",
    ),
    row(
        "least_conn",
        UPSTREAM,
        Arity::Exactly(0),
        |b, d| method(b, d, Method::LeastConn),
        "The server with the fewest requests under way.",
    ),
    row(
        "least_time",
        UPSTREAM,
        Arity::Between(1, 2),
        least_time,
        "The server that answers fastest.",
    ),
    row(
        "random",
        UPSTREAM,
        Arity::Between(0, 2),
        random,
        "A server by chance, or the better of two.",
    ),
    row(
        "sticky",
        UPSTREAM,
        Arity::AtLeast(2),
        sticky,
        "Clients keep the server they were given.",
    ),
    row(
        "keepalive",
        UPSTREAM,
        Arity::Between(1, 2),
        keepalive,
        "How many idle connections a thread keeps for the group.",
    ),
    row(
        "keepalive_requests",
        UPSTREAM,
        Arity::Exactly(1),
        |b, d| number(&mut current(b)?.keepalive.requests, d),
        "Requests a kept connection may carry.",
    ),
    row(
        "keepalive_time",
        UPSTREAM,
        Arity::Exactly(1),
        |b, d| msec(&mut current(b)?.keepalive.time_ms, d),
        "How long a kept connection may carry requests.",
    ),
    row(
        "keepalive_timeout",
        UPSTREAM,
        Arity::Exactly(1),
        |b, d| msec(&mut current(b)?.keepalive.timeout_ms, d),
        "How long a kept connection may be idle.",
    ),
];

fn upstream(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let written = Written::named(&directive.args[0], &directive.position);
    let id = build.http.upstreams.add(written)?;
    build.http.upstream = Some(id);
    let frame = build.nested(directive, UPSTREAM, LocationKind::None)?;
    build.http.upstreams.written(id).resolver = frame.location.resolver;
    match build.http.upstreams.written(id).servers.is_empty() {
        true => {
            // nginx has read the block's end by then.
            let end = directive.block.as_ref().map(|block| &block.end);
            let end = end.unwrap_or(&directive.position);
            let error = conf::Error::at(end, "no servers are inside upstream");
            Err(Complaint::bare(error.to_string()))
        }
        false => Ok(()),
    }
}

/// The group whose block is being read.
fn current<'b>(build: &'b mut Build<'_>) -> Result<&'b mut Written, Complaint> {
    let id = build.http.upstream.unwrap_or(GroupId(0));
    Ok(build.http.upstreams.written(id))
}

/// The value of `name=value`.
fn value<'w>(word: &'w [u8], name: &str) -> Option<&'w [u8]> {
    word.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

fn invalid(word: &Word) -> Complaint {
    format!("invalid parameter \"{word}\"").into()
}

fn server(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let method = current(build)?.method.as_ref();
    let standby = method.is_none_or(Method::takes_backup);
    let (mut parameters, mut backup, mut resolve) = (Parameters::default(), false, false);
    let mut service = None;
    for word in &directive.args[1..] {
        match &word[..] {
            b"backup" if !standby => {
                return Err(
                    format!("balancing method does not support parameter \"{word}\"").into(),
                );
            }
            b"backup" => backup = true,
            b"down" => parameters.down = true,
            b"drain" => parameters.drain = true,
            b"resolve" => resolve = true,
            _ => match value(word, "service") {
                Some(b"") => return Err("service is empty".into()),
                Some(name) => service = Some(name),
                None => parameter(&mut parameters, word).ok_or_else(|| invalid(word))?,
            },
        }
    }
    let word = &directive.args[0];
    let complaint = |text: &str| format!("{text} in upstream \"{word}\"");
    let place = Place::parse(word, DEFAULT_PORT, Behind::Nothing).map_err(complaint)?;
    if let Some(what) = service.and_then(|_| service_needs(&place, resolve)) {
        return Err(format!("service upstream \"{word}\" {what}").into());
    }
    let (addresses, named) = match &place.address {
        Some(address) => (vec![address.clone()], None),
        None if resolve => (Vec::new(), Some(service_name(&place, service))),
        None => {
            let found = resolve_host(&place.host, place.port);
            (found.ok_or_else(|| complaint("host not found"))?, None)
        }
    };
    current(build)?.servers.push(WrittenServer {
        place,
        addresses,
        service: named,
        parameters,
        backup,
    });
    Ok(())
}

/// What a `service` lacks.
fn service_needs(place: &Place, resolve: bool) -> Option<&'static str> {
    if !resolve {
        return Some("requires \"resolve\" parameter");
    }
    if !place.no_port {
        return Some("may not have port");
    }
    place.address.is_some().then_some("requires domain name")
}

/// The name that SRV records are asked for; empty without a service. A service without a dot is one of TCP.
fn service_name(place: &Place, service: Option<&[u8]>) -> Bytes {
    let host = &place.host[..];
    Bytes::from(match service {
        None => return Bytes::new(),
        Some(name) if name.contains(&b'.') => [name, b".", host].concat(),
        Some(name) => [b"_", name, b"._tcp.", host].concat(),
    })
}

/// One `name=value` of a server.
fn parameter(parameters: &mut Parameters, word: &[u8]) -> Option<()> {
    if let Some(text) = value(word, "weight") {
        parameters.weight = values::parse_number(text).filter(|&weight| weight > 0)?;
    } else if let Some(text) = value(word, "max_conns") {
        parameters.max_conns = values::parse_number(text)?;
    } else if let Some(text) = value(word, "max_fails") {
        parameters.max_fails = values::parse_number(text)?;
    } else if let Some(text) = value(word, "fail_timeout") {
        parameters.fail_timeout = values::parse_sec(text)?;
    } else if let Some(text) = value(word, "route") {
        parameters.route = Bytes::copy_from_slice(text);
    } else {
        return None;
    }
    Some(())
}

fn zone(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let name = &directive.args[0];
    if name.is_empty() {
        return Err(format!("invalid zone name \"{name}\"").into());
    }
    let size = match directive.args.get(1) {
        None => 0,
        Some(word) => match values::parse_size(word) {
            None => return Err(format!("invalid zone size \"{word}\"").into()),
            Some(size) if size < ZONE_MIN => {
                return Err(format!("zone \"{name}\" is too small").into());
            }
            Some(size) => size,
        },
    };
    build.zones.add(name, size, "http upstream")?;
    current(build)?.zone = Some(Bytes::copy_from_slice(name));
    Ok(())
}

fn method(build: &mut Build<'_>, directive: &Directive, method: Method) -> Outcome {
    if current(build)?.method.replace(method).is_some() {
        build.warn(directive, "load balancing method redefined");
    }
    Ok(())
}

fn hash(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let key = Template::compile(&directive.args[0], &mut build.variables)?;
    let chosen = match directive.args.get(1) {
        None => Method::Hash(key),
        Some(word) if word[..] == *b"consistent" => Method::Ring(key),
        Some(word) => return Err(invalid(word)),
    };
    method(build, directive, chosen)
}

fn least_time(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let mut by = LeastTime {
        last_byte: match &directive.args[0][..] {
            b"header" => false,
            b"last_byte" => true,
            _ => return Err(invalid(&directive.args[0])),
        },
        inflight: false,
    };
    match directive.args.get(1) {
        None => {}
        Some(word) if word[..] == *b"inflight" => by.inflight = true,
        Some(word) => return Err(invalid(word)),
    }
    method(build, directive, Method::LeastTime(by))
}

fn random(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let time = |last_byte| {
        Measure::Time(LeastTime {
            last_byte,
            inflight: false,
        })
    };
    let chosen = match &directive.args[..] {
        [] => Method::Random,
        [two, ..] if two[..] != *b"two" => return Err(invalid(two)),
        [_] => Method::RandomTwo(Measure::Connections),
        [_, word, ..] => Method::RandomTwo(match &word[..] {
            b"least_conn" => Measure::Connections,
            b"least_time=header" => time(false),
            b"least_time=last_byte" => time(true),
            _ => return Err(invalid(word)),
        }),
    };
    method(build, directive, chosen)
}

fn sticky(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    if current(build)?.sticky.is_some() {
        return Err("is duplicate".into());
    }
    let sticky = super::sticky::directive::parse(build, directive)?;
    current(build)?.sticky = Some(sticky);
    Ok(())
}

fn keepalive(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = current(build)?.keepalive.connections.vacant()?;
    let word = &directive.args[0];
    let connections = values::parse_number(word)
        .and_then(|number| usize::try_from(number).ok())
        .ok_or_else(|| format!("invalid value \"{word}\" in \"keepalive\" directive"))?;
    let local = match directive.args.get(1) {
        None => false,
        Some(word) if word[..] == *b"local" => true,
        Some(word) => return Err(invalid(word)),
    };
    setting.set((connections, local))
}
