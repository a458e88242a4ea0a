//! `proxy_cache_purge` in both grammars that there are: conditions, as nginx's commercial edition has it, and a method with
//! the addresses that may use it, as ngx_cache_purge has it. A key that ends with `*` means all keys that begin so.

use super::zone::Zone;
use crate::config::build::Build;
use crate::config::model::RawLocation;
use crate::config::setting::{Complaint, Setting};
use crate::http::Request;
use crate::http::network::Network;
use crate::variables::Template;
use bytes::Bytes;
use conf::{Directive, Word};
use std::sync::Arc;

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
    field: fn(&mut RawLocation) -> &mut Setting<Option<Arc<Purge>>>,
) -> Result<(), Complaint> {
    field(build.location()).vacant()?;
    let words = &directive.args;
    let purge = match words.iter().position(|word| **word == *b"from") {
        Some(from) => Some(by_method(words, from)?),
        None => match &words[0][..] {
            b"off" => None,
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
            Purge::When(_) => Asked::Nothing,
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

    /// Purges; whether there was something to purge, as far as that is known at once.
    #[must_use]
    pub fn purge(zone: &Arc<Zone>, text: &Bytes, asked: Asked) -> bool {
        match (asked, text.strip_suffix(b"*")) {
            (Asked::All, _) => zone.purge_prefix(b""),
            (_, Some(prefix)) => zone.purge_prefix(prefix),
            (_, None) => return zone.purge(text),
        }
        true
    }
}
