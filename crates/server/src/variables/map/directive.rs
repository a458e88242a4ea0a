//! Reading the `map` block.

use super::hosts::{HostKey, HostKeys};
use super::{Map, PatternEntry, Value};
use crate::config::build::Build;
use crate::config::directive::{Arity, HTTP, Outcome, Set, block, number, row};
use crate::config::setting::Complaint;
use crate::routing::directive::{compile, named_groups};
use crate::variables::Template;
use bytes::Bytes;
use conf::table::Row;
use conf::{Directive, Item, Word};
use std::collections::HashMap;

pub const DIRECTIVES: &[Row<Set>] = &[
    block(
        "map",
        HTTP,
        Arity::Exactly(2),
        map,
        "A variable whose value depends on another value.",
    ),
    row(
        "map_hash_max_size",
        HTTP,
        Arity::Exactly(1),
        |b, d| number(&mut b.http.map_hash_max_size, d),
        "Accepted: maps size themselves.",
    ),
    row(
        "map_hash_bucket_size",
        HTTP,
        Arity::Exactly(1),
        |b, d| number(&mut b.http.map_hash_bucket_size, d),
        "Accepted: maps size themselves.",
    ),
];

/// A map being read.
struct Reading {
    map: Map,
    default_seen: bool,
}

fn map(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    // nginx settles the sizes with its first map, so that they come too late afterwards.
    build.http.map_hash_max_size.0.get_or_insert(2048);
    build.http.map_hash_bucket_size.0.get_or_insert(64);
    let source = Template::compile(&directive.args[0], &mut build.variables)?;
    let name = variable_name(&directive.args[1])?;
    build.variables.define(name)?;
    let mut reading = Reading {
        map: Map {
            source,
            strings: HashMap::default(),
            hosts: None,
            patterns: Vec::new(),
            values: Vec::new(),
            default: Value::Constant(Bytes::new()),
            volatile: false,
        },
        default_seen: false,
    };
    for item in directive.block.iter().flat_map(|block| &block.items) {
        let item = match item {
            Item::Directive(item) => item,
            Item::Error(error) => return Err(Complaint::bare(error.to_string())),
        };
        reading.item(build, item).map_err(|complaint| {
            // The line of the item, not of the block.
            Complaint::bare(item.error(complaint.text).to_string())
        })?;
    }
    build.variables.map(name, reading.map)?;
    Ok(())
}

/// The name after the `$` of a variable that a block defines (`map`, and those like it).
pub fn variable_name(word: &Word) -> Result<&[u8], Complaint> {
    match word.strip_prefix(b"$") {
        Some(name) if !name.is_empty() => Ok(name),
        _ => Err(format!("invalid variable name \"{word}\"").into()),
    }
}

impl Reading {
    /// One line of the block.
    fn item(&mut self, build: &mut Build<'_>, item: &Directive) -> Outcome {
        if item.block.is_some() {
            return Err("unexpected \"{\"".into());
        }
        match (&item.name[..], &item.args[..]) {
            (b"hostnames", []) => {
                self.map.hosts.get_or_insert_default();
                Ok(())
            }
            (b"volatile", []) => {
                self.map.volatile = true;
                Ok(())
            }
            (key, [value]) => self.entry(build, key, value),
            _ => Err("invalid number of the map parameters".into()),
        }
    }

    /// `key value;`. A backslash before the key takes its special meaning.
    fn entry(&mut self, build: &mut Build<'_>, key: &[u8], value: &[u8]) -> Outcome {
        let template = Template::compile(value, &mut build.variables)?;
        let value = match template.constant() {
            Some(text) => Value::Constant(text),
            None => Value::Template(template),
        };
        match key {
            b"default" if self.default_seen => Err("duplicate default map parameter".into()),
            b"default" => {
                self.default_seen = true;
                self.map.default = value;
                Ok(())
            }
            [b'~', b'*', pattern @ ..] => self.pattern(build, pattern, true, value),
            [b'~', pattern @ ..] => self.pattern(build, pattern, false, value),
            [b'\\', key @ ..] | key => self.string(key, value),
        }
    }

    fn pattern(
        &mut self,
        build: &mut Build<'_>,
        text: &[u8],
        ignore_case: bool,
        value: Value,
    ) -> Outcome {
        let pattern = compile(text, ignore_case)?;
        let groups = named_groups(build, &pattern)?;
        self.map.patterns.push(PatternEntry {
            pattern,
            groups,
            value: self.map.values.len(),
        });
        self.map.values.push(value);
        Ok(())
    }

    /// A string, or with `hostnames` a name that may have a wildcard.
    fn string(&mut self, written: &[u8], value: Value) -> Outcome {
        let Map {
            strings,
            hosts,
            values,
            ..
        } = &mut self.map;
        let key = written.to_ascii_lowercase();
        let index = values.len();
        let added = match hosts {
            Some(hosts) => {
                let Some(key) = HostKey::parse(&key) else {
                    let name = String::from_utf8_lossy(written);
                    return Err(format!("invalid hostname or wildcard \"{name}\"").into());
                };
                add_host(strings, hosts, key, index)
            }
            None => add_string(strings, &key, index),
        };
        if !added {
            let name = String::from_utf8_lossy(&key);
            return Err(format!("conflicting parameter \"{name}\"").into());
        }
        values.push(value);
        Ok(())
    }
}

type Strings = HashMap<Box<[u8]>, usize, super::Hasher>;

/// Adds a string; false if it is there already.
fn add_string(strings: &mut Strings, key: &[u8], value: usize) -> bool {
    let new = !strings.contains_key(key);
    if new {
        strings.insert(key.into(), value);
    }
    new
}

/// Adds a host name; `name` and `.name` exclude each other.
fn add_host(strings: &mut Strings, hosts: &mut HostKeys, key: HostKey<'_>, value: usize) -> bool {
    match key {
        HostKey::Exact(name) => !hosts.has_domain(name) && add_string(strings, name, value),
        HostKey::Domain(name) if strings.contains_key(name) => false,
        key => hosts.add(key, value),
    }
}
