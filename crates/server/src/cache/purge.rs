//! `proxy_cache_purge` in both grammars that there are: conditions, as nginx's commercial edition has it, and a method with
//! the addresses that may use it, as ngx_cache_purge has it, which also has a location that does nothing else. A key that
//! ends with `*` means all keys that begin so; instead of a key a request may name tags.

use super::bans::What;
use super::settings::{Named, Settings};
use super::tags;
use super::zone::Zone;
use crate::config::build::Build;
use crate::config::model::RawLocation;
use crate::config::setting::{Complaint, Setting};
use crate::http::Request;
use crate::http::network::Network;
use crate::variables::Template;
use bytes::Bytes;
use conf::{Directive, Word};
use std::sync::{Arc, OnceLock};

/// A `proxy_cache_purge`.
#[derive(Debug)]
pub enum Purge {
    /// Purges where one of these is neither empty nor 0.
    When(super::settings::Conditions),
    Method {
        method: Box<[u8]>,
        /// The whole zone goes.
        all: bool,
        /// None: anybody may.
        from: Option<Vec<Network>>,
    },
    /// The location does nothing else.
    Place { zone: Named, key: Template },
}

/// What a request asks of a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Nothing,
    Forbidden,
    Key,
    All,
}

/// Reads the directive.
pub fn set(
    build: &mut Build<'_>,
    directive: &Directive,
    zones: &'static str,
    field: fn(&mut RawLocation) -> &mut Setting<Option<Arc<Purge>>>,
) -> Result<(), Complaint> {
    field(build.location()).vacant()?;
    let words = &directive.args;
    let purge = match words.iter().position(|word| **word == *b"from") {
        Some(from) => Some(by_method(words, from)?),
        None => match &words[0][..] {
            b"off" => None,
            name if words.len() == 2 && is_zone_name(name) => {
                build.zones.add(&words[0], 0, zones)?;
                Some(Purge::Place {
                    zone: Named {
                        name: Bytes::copy_from_slice(name),
                        zone: OnceLock::new(),
                    },
                    key: Template::compile(&words[1], &mut build.variables)?,
                })
            }
            b"on" => Some(Purge::Method {
                method: b"PURGE"[..].into(),
                all: words.get(1).is_some_and(|word| **word == *b"purge_all"),
                from: None,
            }),
            _ => {
                let conditions = words.iter();
                let conditions: Result<Vec<Template>, Complaint> = conditions
                    .map(|word| Template::compile(word, &mut build.variables))
                    .collect();
                let conditions = super::settings::Conditions {
                    templates: Arc::new(conditions?),
                    is_early: false,
                };
                Some(Purge::When(conditions))
            }
        },
    };
    field(build.location()).set(purge.map(Arc::new))
}

/// Whether a word of two is the name of a zone: a condition that stands beside another one is no constant word.
fn is_zone_name(word: &[u8]) -> bool {
    word.first().is_some_and(u8::is_ascii_alphabetic) && *word != *b"on" && !word.contains(&b'$')
}

/// Reads `METHOD [purge_all] from all|ADDRESS …`.
fn by_method(words: &[Word], from: usize) -> Result<Purge, Complaint> {
    let (before, behind) = words.split_at(from);
    let (method, all) = match before {
        [method] => (method, false),
        [method, word] if **word == *b"purge_all" => (method, true),
        _ => return Err(format!("invalid parameter \"{}\"", words[from]).into()),
    };
    let mut networks = Some(Vec::new());
    let addresses = behind.get(1..).unwrap_or_default();
    if addresses.is_empty() {
        return Err("addresses are missing behind \"from\"".into());
    }
    for word in addresses {
        if **word == *b"all" {
            networks = None;
            continue;
        }
        let (network, _) =
            Network::parse(word).ok_or_else(|| format!("invalid parameter \"{word}\""))?;
        if let Some(networks) = &mut networks {
            networks.push(network);
        }
    }
    Ok(Purge::Method {
        method: match &method[..] {
            b"on" => b"PURGE"[..].into(),
            other => other.into(),
        },
        all,
        from: networks,
    })
}

impl Purge {
    /// What a request asks.
    #[must_use]
    pub fn asked(&self, request: &Request) -> Asked {
        match self {
            Purge::When(conditions) if conditions.hold(request) => Asked::Key,
            Purge::When(_) | Purge::Place { .. } => Asked::Nothing,
            Purge::Method { method, .. } if **method != *request.method_name() => Asked::Nothing,
            Purge::Method { all, from, .. } => {
                let ip = request.remote().ip();
                let may = match from {
                    None => true,
                    Some(networks) => {
                        ip.is_some_and(|ip| networks.iter().any(|network| network.contains(ip)))
                    }
                };
                match (may, all) {
                    (false, _) => Asked::Forbidden,
                    (true, true) => Asked::All,
                    (true, false) => Asked::Key,
                }
            }
        }
    }

    /// The zone and the key of a location that does nothing else.
    #[must_use]
    pub fn place(&self, request: &Request) -> Option<(Arc<Zone>, Bytes)> {
        match self {
            Purge::Place { zone, key } => {
                Some((Arc::clone(zone.zone.get()?), key.evaluate(request)))
            }
            _ => None,
        }
    }
}

/// Purges what a request asks for; whether there was something to purge, as far as that is known at once.
#[must_use]
pub fn carry_out(
    settings: &Settings,
    request: &Request,
    zone: &Arc<Zone>,
    text: &[u8],
    all: bool,
) -> bool {
    let soft = settings.purge_soft.hold(request);
    let tags = settings.purge_tags.as_ref();
    let tags = tags
        .map(|template| template.evaluate(request))
        .unwrap_or_default();
    let mut tags = tags::asked(&tags).peekable();
    if all {
        zone.ban(What::Prefix(Box::default()), soft);
    } else if tags.peek().is_some() {
        tags.for_each(|tag| zone.ban(What::Tag(tag.into()), soft));
    } else if let Some(prefix) = text.strip_suffix(b"*") {
        zone.ban(What::Prefix(prefix.into()), soft);
    } else if soft {
        let is_known = zone.knows(text);
        if is_known {
            zone.ban(What::Key(text.into()), true);
        }
        return is_known;
    } else {
        return zone.purge(text);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_told_from_conditions() {
        for (word, expected) in [
            ("zone", true),
            ("on", false),
            ("1", false),
            ("$purge", false),
            ("a$b", false),
            ("", false),
        ] {
            assert_eq!(is_zone_name(word.as_bytes()), expected, "{word}");
        }
    }
}
