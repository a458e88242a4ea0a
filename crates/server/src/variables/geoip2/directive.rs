//! Reading `geoip2` and whose word of a client's address is taken.

use super::database::{Database, Opened, Path};
use super::{Geoip2, Record, What};
use crate::config::build::Build;
use crate::config::directive::{Arity, HTTP, Outcome, Set, block, parse_flag, row};
use crate::config::setting::Complaint;
use crate::http::network::Network;
use crate::variables::Template;
use crate::variables::map::directive::variable_name;
use bytes::Bytes;
use conf::table::Row;
use conf::{Directive, Item, Word, values};
use std::sync::Arc;

pub const DIRECTIVES: &[Row<Set>] = &[
    block(
        "geoip2",
        HTTP,
        Arity::Exactly(1),
        geoip2,
        "Variables by what a MaxMind database says of an address.",
    ),
    row(
        "geoip2_proxy",
        HTTP,
        Arity::Exactly(1),
        proxy,
        "A network of proxies whose X-Forwarded-For names the client to geoip2.",
    ),
    row(
        "geoip2_proxy_recursive",
        HTTP,
        Arity::Flag,
        proxy_recursive,
        "Whether the last address that is no such proxy is taken, in place of the last one.",
    ),
];

fn geoip2(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let word = &directive.args[0];
    let path = build.paths.conf_prefix.join(word.to_path());
    if build.http.geoip2_files.contains(&path) {
        return Err(Complaint::bare(
            directive
                .error(format!("Duplicate GeoIP2 mmdb - {word}"))
                .to_string(),
        ));
    }
    let opened = Opened::read(&path)
        .map_err(|reason| Complaint::from(format!("MMDB_open(\"{word}\") failed - {reason}")))?;
    build.http.geoip2_files.push(path.clone());
    let (mut interval, mut variables) = (0, Vec::new());
    for item in directive.block.iter().flat_map(|block| &block.items) {
        let item = match item {
            Item::Directive(item) => item,
            Item::Error(error) => return Err(Complaint::bare(error.to_string())),
        };
        // The line of the item, not of the block.
        let placed = |complaint: Complaint| match complaint.bare {
            true => complaint,
            false => Complaint::bare(item.error(complaint.text).to_string()),
        };
        if item.block.is_some() {
            return Err(placed("unexpected \"{\"".into()));
        }
        if item.name.starts_with(b"$") {
            variables.push((variable_name(&item.name).map_err(placed)?.to_vec(), {
                what(build, item).map_err(placed)?
            }));
            continue;
        }
        match (&item.name[..], &item.args[..]) {
            (b"auto_reload", [time]) => {
                interval = values::parse_sec(time).ok_or_else(|| {
                    placed(format!("invalid interval for auto_reload \"{time}\"").into())
                })?;
            }
            (b"auto_reload", _) => {
                return Err(placed("invalid number of arguments for auto_reload".into()));
            }
            _ => return Err(placed(format!("invalid setting \"{}\"", item.name).into())),
        }
    }
    let database = Arc::new(Database::new(path, opened, interval));
    for (name, what) in variables {
        let database = Arc::clone(&database);
        build.variables.geoip2(&name, Geoip2 { database, what })?;
    }
    Ok(())
}

/// What stands behind a variable's name.
fn what(build: &mut Build<'_>, item: &Directive) -> Result<What, Complaint> {
    let name = &item.name;
    build.variables.define(variable_name(name)?)?;
    let mut words = &item.args[..];
    if let [first, rest @ ..] = words
        && first[..] == *b"metadata"
    {
        match rest.first().map(|field| &field[..]) {
            Some(b"build_epoch") => return Ok(What::BuildEpoch),
            Some(b"last_check") => return Ok(What::LastCheck),
            Some(b"last_change") => return Ok(What::LastChange),
            // A name that a record could have.
            _ => {}
        }
    }
    let (mut default, mut source) = (None, None);
    while let [word, rest @ ..] = words {
        if matches!(&word[..], b"default=" | b"source=") {
            return Err(format!("invalid setting \"{word}\" for \"{name}\"").into());
        }
        if let Some(value) = word.strip_prefix(b"default=") {
            if default.is_some() {
                return Err(format!("default has already been declared for  \"{name}\"").into());
            }
            default = Some(Bytes::copy_from_slice(value));
        } else if let Some(value) = word.strip_prefix(b"source=") {
            if source.is_some() {
                return Err(format!("source has already been declared for  \"{name}\"").into());
            }
            source = Some(self::source(build, value)?);
        } else {
            break;
        }
        words = rest;
    }
    Ok(What::Record(Record {
        path: path(words),
        default,
        source,
    }))
}

fn source(build: &mut Build<'_>, value: &[u8]) -> Result<Template, Complaint> {
    let shown = String::from_utf8_lossy(value);
    if !value.starts_with(b"$") {
        return Err(format!("invalid source variable name \"{shown}\"").into());
    }
    Template::compile(value, &mut build.variables)
}

/// Names are UTF-8 in a database; others are in none.
fn path(words: &[Word]) -> Path {
    let steps = words.iter();
    Path(
        steps
            .map(|word| String::from_utf8_lossy(word).into_owned().into())
            .collect(),
    )
}

fn proxy(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let word = &directive.args[0];
    let invalid = || {
        Complaint::bare(
            directive
                .error(format!("invalid network \"{word}\""))
                .to_string(),
        )
    };
    let (network, exact) = match &word[..] {
        // It is a network to nginx here.
        b"255.255.255.255" => Some((
            Network::V4 {
                address: u32::MAX,
                length: 32,
            },
            true,
        )),
        word => Network::parse(word),
    }
    .ok_or_else(invalid)?;
    if !exact {
        build.warn(
            directive,
            format!("low address bits of {word} are meaningless"),
        );
    }
    build.http.geoip2.trusted.networks.push(network);
    Ok(())
}

fn proxy_recursive(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let recursive = &mut build.http.geoip2.recursive;
    if recursive.is_some() {
        return Err("is duplicate".into());
    }
    *recursive = Some(parse_flag(directive)?);
    Ok(())
}
