//! `valid_referers` and `$invalid_referer`: whether a request comes from a page that may link here.

use crate::config::build::Build;
use crate::config::directive::{Arity, Outcome, SL, Set, row};
use crate::config::setting::Complaint;
use crate::http::Request;
use crate::routing::directive::compile;
use crate::routing::hosts::ServerName;
use crate::routing::pattern::Pattern;
use crate::variables::map::hosts::{HostKey, HostKeys};
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use std::collections::HashMap;
use std::sync::Arc;
use wire::http1::Known;

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "valid_referers",
    SL,
    Arity::AtLeast(1),
    valid_referers,
    "Which Referer fields leave $invalid_referer empty.",
)];

// The referers of a block take the place of all the outer block's.
crate::config::setting::settings! {
    referers: Option<Arc<Referers>> = None,
}

/// Which referers are valid.
#[derive(Debug, Default)]
pub struct Referers {
    none: bool,
    blocked: bool,
    /// Names by host in lower case, with places in `paths`.
    exact: HashMap<Box<[u8]>, usize>,
    wildcards: HostKeys,
    /// How the path has to begin, for each name.
    paths: Vec<Bytes>,
    /// Over host and path.
    patterns: Vec<Pattern>,
    /// Over the host: those of the server's names.
    host_patterns: Vec<Pattern>,
}

/// The longest host that is looked up, as in nginx.
const HOST_MAX: usize = 256;
/// No shorter text is a URL to nginx.
const URL_MIN: usize = "http://i.ru".len();

fn valid_referers(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let written = build.location().referer.referers.0.take().flatten();
    let mut referers = written.and_then(Arc::into_inner).unwrap_or_default();
    for word in &directive.args {
        match &word[..] {
            b"none" => referers.none = true,
            b"blocked" => referers.blocked = true,
            b"server_names" => add_server_names(build, &mut referers)?,
            b"" => return Err(format!("invalid referer \"{word}\"").into()),
            b"~" => return Err(format!("empty regex in \"{word}\"").into()),
            [b'~', pattern @ ..] => referers.patterns.push(compile(pattern, true)?),
            name => referers.add(name)?,
        }
    }
    build.location().referer.referers.0 = Some(Some(Arc::new(referers)));
    Ok(())
}

/// The names of the server around; those that stand further down in the file as well.
fn add_server_names(build: &mut Build<'_>, referers: &mut Referers) -> Outcome {
    let servers = build.frames().iter().rev();
    let names: Vec<ServerName> = servers
        .map(|frame| &frame.names)
        .find(|names| !names.is_empty())
        .cloned()
        .unwrap_or_default();
    for name in names {
        match name.as_pattern() {
            Some(matcher) => referers.host_patterns.push(matcher.pattern.clone()),
            None => {
                // One that is there already is as good.
                let _known = referers.add(&name.text);
            }
        }
    }
    Ok(())
}

impl Referers {
    /// `HOST` or `HOST/PATH`, the host with wildcards as in `server_name`.
    fn add(&mut self, name: &[u8]) -> Result<(), Complaint> {
        let slash = memchr::memchr(b'/', name).unwrap_or(name.len());
        let (host, path) = name.split_at(slash);
        let shown = String::from_utf8_lossy(host);
        let lower = host.to_ascii_lowercase();
        let key = HostKey::parse(&lower)
            .ok_or_else(|| format!("invalid hostname or wildcard \"{shown}\""))?;
        let place = self.paths.len();
        let added = match key {
            HostKey::Exact(name) => {
                !self.wildcards.has_domain(name) && self.exact.insert(name.into(), place).is_none()
            }
            HostKey::Domain(name) if self.exact.contains_key(name) => false,
            key => self.wildcards.add(key, place),
        };
        if !added {
            return Err(format!("conflicting parameter \"{shown}\"").into());
        }
        self.paths.push(Bytes::copy_from_slice(path));
        Ok(())
    }

    fn allow(&self, referer: Option<&[u8]>) -> bool {
        let Some(referer) = referer else {
            return self.none;
        };
        let scheme = [&b"http://"[..], b"https://"]
            .into_iter()
            .find(|scheme| {
                let start = referer.get(..scheme.len());
                start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            })
            .filter(|_| referer.len() >= URL_MIN);
        let Some(scheme) = scheme else {
            return self.blocked;
        };
        let rest = &referer[scheme.len()..];
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b':'));
        let host = rest[..end.unwrap_or(rest.len())].to_ascii_lowercase();
        if host.len() > HOST_MAX {
            return false;
        }
        let found = match self.exact.get(&host[..]) {
            Some(&place) => Some(place),
            None => self.wildcards.find(&host),
        };
        if let Some(wanted) = found.and_then(|place| self.paths.get(place)) {
            let slash = memchr::memchr(b'/', rest).unwrap_or(rest.len());
            return rest[slash..].starts_with(wanted);
        }
        self.host_patterns
            .iter()
            .any(|pattern| pattern.is_match(&host))
            || self.patterns.iter().any(|pattern| pattern.is_match(rest))
    }

    fn has_names(&self) -> bool {
        !self.paths.is_empty() || !self.patterns.is_empty() || !self.host_patterns.is_empty()
    }
}

impl Settings {
    /// What is wrong with the block as a whole; nginx finds it at the end of `http`.
    pub fn check(&self) -> Result<(), &'static str> {
        match &self.referers {
            Some(referers) if (referers.none || referers.blocked) && !referers.has_names() => Err(
                "the \"none\" or \"blocked\" referers are specified in the \"valid_referers\" directive without any valid referer",
            ),
            _ => Ok(()),
        }
    }
}

/// `$invalid_referer`: empty, or `1`.
pub fn append_invalid(request: &Request, out: &mut Vec<u8>) -> bool {
    if let Some(referers) = &request.location().settings.referer.referers
        && !referers.allow(request.field(Known::Referer))
    {
        out.push(b'1');
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn referers() {
        let mut referers = Referers {
            blocked: true,
            ..Referers::default()
        };
        for name in ["a.org", "*.b.org", "c.*", "d.org/x/", ".e.org"] {
            referers.add(name.as_bytes()).expect(name);
        }
        referers
            .patterns
            .push(Pattern::compile(b"\\.google\\.", true).expect("right"));
        for (referer, allowed) in [
            ("http://a.org", true),
            ("HTTPS://A.org:80/x", true),
            ("http://www.a.org/", false),
            ("http://www.b.org/", true),
            ("http://b.org/", false),
            ("http://c.net/", true),
            ("http://d.org/x/y", true),
            ("http://d.org/", false),
            ("http://e.org/", true),
            ("http://x.e.org/", true),
            ("http://www.google.com/", true),
            ("http://other.org/?www.google.", true),
            ("other", true),
            ("ftp://other.org/", true),
            ("http://other.org/", false),
        ] {
            assert_eq!(
                referers.allow(Some(referer.as_bytes())),
                allowed,
                "{referer}"
            );
        }
        assert!(!referers.allow(None));
    }
}
