//! Reading the `geo` block.

use super::{Geo, Steps, of_networks};
use crate::config::build::Build;
use crate::config::directive::{Arity, HTTP, Outcome, Set, block};
use crate::config::setting::Complaint;
use crate::http::forwarded::Trusted;
use crate::http::network::{Network, parse_v4};
use crate::variables::Template;
use crate::variables::map::directive::variable_name;
use bytes::Bytes;
use conf::table::Row;
use conf::{Directive, Item};
use std::collections::{BTreeMap, HashMap};

pub const DIRECTIVES: &[Row<Set>] = &[block(
    "geo",
    HTTP,
    Arity::Between(1, 2),
    geo,
    "A variable whose value depends on an address.",
)];

/// A block being read.
#[derive(Default)]
struct Reading {
    /// The first line says `ranges`.
    ranges: bool,
    /// A line with an address was read.
    begun: bool,
    networks: HashMap<Network, u32, foldhash::fast::RandomState>,
    /// By the first address: the last one, and the value.
    spans: BTreeMap<u32, (u32, u32)>,
    proxies: Trusted,
    recursive: bool,
    values: Vec<Bytes>,
    numbers: HashMap<Bytes, u32, foldhash::fast::RandomState>,
}

fn geo(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let (source, target) = match &directive.args[..] {
        [source, target] => (Some(source), target),
        [target] => (None, target),
        _ => return Err("invalid number of arguments in \"geo\" directive".into()),
    };
    let source = match source {
        Some(word) => {
            variable_name(word)?;
            Some(Template::compile(word, &mut build.variables)?)
        }
        None => None,
    };
    let name = variable_name(target)?;
    build.variables.define(name)?;
    let mut reading = Reading {
        values: vec![Bytes::new()],
        ..Reading::default()
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
    let geo = reading.finish(source);
    build.variables.geo(name, geo)?;
    Ok(())
}

impl Reading {
    /// One line of the block.
    fn item(&mut self, build: &mut Build<'_>, item: &Directive) -> Outcome {
        if item.block.is_some() {
            return Err("unexpected \"{\"".into());
        }
        match (&item.name[..], &item.args[..]) {
            (b"ranges", []) => {
                if self.begun && !self.ranges {
                    return Err(
                        "the \"ranges\" directive must be the first directive inside \"geo\" block"
                            .into(),
                    );
                }
                self.ranges = true;
                Ok(())
            }
            (b"proxy_recursive", []) => {
                self.recursive = true;
                Ok(())
            }
            (b"proxy", [network]) => {
                let network = read_network(build, item, network)?;
                self.proxies.networks.push(network);
                Ok(())
            }
            (key, [value]) => {
                self.begun = true;
                match self.ranges {
                    true => self.span(build, item, key, value),
                    false => self.network(build, item, key, value),
                }
            }
            _ => Err("invalid number of the geo parameters".into()),
        }
    }

    /// The number of a value; the same texts share one.
    fn value(&mut self, text: &[u8]) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.values.len() as u32;
        let text = Bytes::copy_from_slice(text);
        self.values.push(text.clone());
        self.numbers.insert(text, number);
        number
    }

    fn text(&self, number: u32) -> String {
        let text = self.values.get(number as usize);
        String::from_utf8_lossy(text.map_or(&[], |text| text)).into_owned()
    }

    /// `NETWORK VALUE`, `default VALUE` or `delete NETWORK`.
    fn network(
        &mut self,
        build: &mut Build<'_>,
        item: &Directive,
        key: &[u8],
        value: &[u8],
    ) -> Outcome {
        if key == b"delete" {
            let network = read_network(build, item, value)?;
            if self.networks.remove(&network).is_none() {
                let shown = String::from_utf8_lossy(value);
                build.warn(item, format!("no network \"{shown}\" to delete"));
            }
            return Ok(());
        }
        let (networks, count) = match key {
            b"default" => {
                let all = [&b"0.0.0.0/0"[..], b"::/0"].map(Network::parse);
                (all.map(|parsed| parsed.map(|(network, _)| network)), 2)
            }
            key => ([Some(read_network(build, item, key)?), None], 1),
        };
        let number = self.value(value);
        for network in networks.into_iter().take(count).flatten() {
            if let Some(old) = self.networks.insert(network, number) {
                let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(value));
                let old = self.text(old);
                build.warn(
                    item,
                    format!(
                        "duplicate network \"{key}\", value: \"{value}\", old value: \"{old}\""
                    ),
                );
            }
        }
        Ok(())
    }

    /// `FIRST-LAST VALUE`, `default VALUE` or `delete FIRST-LAST`.
    fn span(
        &mut self,
        build: &mut Build<'_>,
        item: &Directive,
        key: &[u8],
        value: &[u8],
    ) -> Outcome {
        if key == b"default" {
            let old = std::mem::replace(&mut self.values[0], Bytes::copy_from_slice(value));
            if !old.is_empty() {
                let message = format!(
                    "duplicate default geo range value: \"{}\", old value: \"{}\"",
                    String::from_utf8_lossy(value),
                    String::from_utf8_lossy(&old)
                );
                build.warn(item, message);
            }
            return Ok(());
        }
        let delete = key == b"delete";
        let written = if delete { value } else { key };
        let shown = String::from_utf8_lossy(written);
        let (first, last) =
            parse_span(written).ok_or_else(|| format!("invalid range \"{shown}\""))?;
        if delete {
            match self.spans.get(&first) {
                Some(&(end, _)) if end == last => drop(self.spans.remove(&first)),
                _ => build.warn(item, format!("no address range \"{shown}\" to delete")),
            }
            return Ok(());
        }
        // The last of those that begin before the new one's end.
        let before = self.spans.range(..=last).next_back();
        let around = before.map(|(&start, &(end, number))| (start, end, number));
        let number = self.value(value);
        match around.filter(|&(_, end, _)| end >= first) {
            None => {}
            Some((start, end, old)) if start == first && end == last => {
                let (old, value) = (self.text(old), String::from_utf8_lossy(value));
                build.warn(
                    item,
                    format!(
                        "duplicate range \"{shown}\", value: \"{value}\", old value: \"{old}\""
                    ),
                );
            }
            // What is left of it on both sides stays.
            Some((start, end, old)) if start <= first && last <= end => {
                if start < first {
                    self.spans.insert(start, (first - 1, old));
                }
                if last < end {
                    self.spans.insert(last + 1, (end, old));
                }
            }
            Some((start, end, _)) => {
                let [start, end] = [start, end].map(std::net::Ipv4Addr::from);
                return Err(format!("range \"{shown}\" overlaps \"{start}-{end}\"").into());
            }
        }
        self.spans.insert(first, (last, number));
        Ok(())
    }

    fn finish(self, source: Option<Template>) -> Geo {
        let (v4, v6) = match self.ranges {
            false => of_networks(self.networks.into_iter()),
            true => {
                let mut steps = Steps::default();
                for (first, (last, value)) in self.spans {
                    steps.push(first, value);
                    if let Some(after) = last.checked_add(1) {
                        steps.push(after, 0);
                    }
                }
                (steps, Steps::default())
            }
        };
        Geo {
            source,
            proxies: self.proxies,
            recursive: self.recursive,
            v4,
            v6,
            values: self.values,
        }
    }
}

fn read_network(
    build: &mut Build<'_>,
    item: &Directive,
    word: &[u8],
) -> Result<Network, Complaint> {
    let shown = || String::from_utf8_lossy(word);
    // It is a network to nginx in this block alone.
    if word == b"255.255.255.255" {
        return Ok(Network::V4 {
            address: u32::MAX,
            length: 32,
        });
    }
    let (network, exact) =
        Network::parse(word).ok_or_else(|| format!("invalid network \"{}\"", shown()))?;
    if !exact {
        build.warn(
            item,
            format!("low address bits of {} are meaningless", shown()),
        );
    }
    Ok(network)
}

fn parse_span(text: &[u8]) -> Option<(u32, u32)> {
    let dash = memchr::memchr(b'-', text)?;
    let (first, last) = (parse_v4(&text[..dash])?, parse_v4(&text[dash + 1..])?);
    (first <= last).then_some((first, last))
}
