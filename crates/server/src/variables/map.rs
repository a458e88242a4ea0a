//! `map $source $variable { … }`: a value chosen by another one, by string, host name or pattern. It is worked out when
//! it is first used and kept by the request, unless the map is volatile.

pub mod directive; // the block in the configuration
pub mod hosts; // names with wildcards

use super::registry::VariableId;
use super::template::Template;
use crate::http::Request;
use crate::http::request::Slot;
use crate::routing::pattern::Pattern;
use bytes::Bytes;
use hosts::HostKeys;
use std::cell::Cell;
use std::collections::HashMap;

type Hasher = foldhash::fast::RandomState;

/// A value of the map.
#[derive(Debug, Clone)]
enum Value {
    Constant(Bytes),
    Template(Template),
}

/// `~pattern value`, with the variables that the named groups assign.
#[derive(Debug)]
struct PatternEntry {
    pattern: Pattern,
    groups: Vec<(usize, VariableId)>,
    value: usize,
}

/// A compiled map. Keys lead to places in `values`.
#[derive(Debug)]
pub struct Map {
    source: Template,
    /// In lower case: strings match in any case.
    strings: HashMap<Box<[u8]>, usize, Hasher>,
    /// Only with the `hostnames` parameter.
    hosts: Option<Box<HostKeys>>,
    patterns: Vec<PatternEntry>,
    values: Vec<Value>,
    /// For a source that nothing matches; empty if the map has no `default`.
    default: Value,
    volatile: bool,
}

thread_local! {
    /// Room for the source and its lower-case form. Taken while in use, since maps use maps.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Map {
    /// Appends the value that the map gives for `request`, and keeps it for the variable `id`.
    pub fn append(&self, id: VariableId, request: &Request, out: &mut Vec<u8>) -> bool {
        let value = match self.choose(request) {
            Value::Constant(text) => {
                out.extend_from_slice(text);
                (!self.volatile).then(|| text.clone())
            }
            Value::Template(template) => {
                let start = out.len();
                template.append(request, out);
                (!self.volatile).then(|| Bytes::copy_from_slice(&out[start..]))
            }
        };
        if let Some(value) = value {
            request.assign(id, Slot::Value(value));
        }
        true
    }

    fn choose(&self, request: &Request) -> &Value {
        let mut source = SCRATCH.take();
        source.clear();
        self.source.append(request, &mut source);
        let found = self.find(request, &mut source);
        SCRATCH.set(source);
        found.map_or(&self.default, |index| &self.values[index])
    }

    /// Strings first, then wildcards, then the patterns in their order.
    fn find(&self, request: &Request, source: &mut Vec<u8>) -> Option<usize> {
        if self.hosts.is_some() && source.last() == Some(&b'.') {
            source.pop();
        }
        let length = source.len();
        source.extend_from_within(..);
        let (original, lower) = source.split_at_mut(length);
        lower.make_ascii_lowercase();
        if let Some(&index) = self.strings.get(&*lower) {
            return Some(index);
        }
        if let Some(index) = self.hosts.as_ref().and_then(|hosts| hosts.find(lower)) {
            return Some(index);
        }
        self.patterns
            .iter()
            .find(|entry| matches(entry, original, request))
            .map(|entry| entry.value)
    }
}

/// Whether the pattern matches; its captures are then those of the request, for the value and, as in nginx, for
/// whatever uses captures afterwards.
fn matches(entry: &PatternEntry, source: &[u8], request: &Request) -> bool {
    let matched = entry
        .pattern
        .capture(source, &mut request.captures.borrow_mut());
    if matched {
        request.assign_groups(&entry.groups);
    }
    matched
}
