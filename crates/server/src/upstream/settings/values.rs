//! The values of a relay's settings that are more than a number or a flag, and how they are read.

use crate::config::build::Build;
use crate::config::model::RawLocation;
use crate::config::setting::{Complaint, Setting};
use crate::http::Request;
use crate::variables::Template;
use conf::{Directive, Word};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Names of fields, as they were written.
pub type Names = Arc<Vec<Box<[u8]>>>;

/// What a request may be sent to the next server for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Condition {
    Error = 1,
    Timeout = 1 << 1,
    InvalidHeader = 1 << 2,
    Http500 = 1 << 3,
    Http502 = 1 << 4,
    Http503 = 1 << 5,
    Http504 = 1 << 6,
    Http403 = 1 << 7,
    Http404 = 1 << 8,
    Http429 = 1 << 9,
    /// Requests with a method that changes things are sent again, too.
    NonIdempotent = 1 << 10,
    /// Of the cache; nothing here asks for it.
    Updating = 1 << 11,
}

const OFF: u16 = 1 << 15;

/// `proxy_next_upstream_tries` that sets no limit.
pub const TRIES_UNLIMITED: u64 = 0;

/// `proxy_next_upstream`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextUpstream(u16);

impl Default for NextUpstream {
    fn default() -> NextUpstream {
        NextUpstream(Condition::Error as u16 | Condition::Timeout as u16)
    }
}

impl NextUpstream {
    /// `off` outweighs all that stands beside it.
    #[must_use]
    pub fn contains(self, condition: Condition) -> bool {
        self.0 & OFF == 0 && self.0 & condition as u16 != 0
    }

    /// Whether a response of this status is taken for a failure.
    #[must_use]
    pub fn contains_status(self, status: u16) -> bool {
        let condition = match status {
            500 => Condition::Http500,
            502 => Condition::Http502,
            503 => Condition::Http503,
            504 => Condition::Http504,
            403 => Condition::Http403,
            404 => Condition::Http404,
            429 => Condition::Http429,
            _ => return false,
        };
        self.contains(condition)
    }
}

const CONDITIONS: &[(&str, u16)] = &[
    ("error", Condition::Error as u16),
    ("timeout", Condition::Timeout as u16),
    ("non_idempotent", Condition::NonIdempotent as u16),
    ("invalid_header", Condition::InvalidHeader as u16),
    ("http_500", Condition::Http500 as u16),
    ("http_503", Condition::Http503 as u16),
    ("http_403", Condition::Http403 as u16),
    ("http_404", Condition::Http404 as u16),
    ("http_429", Condition::Http429 as u16),
    ("updating", Condition::Updating as u16),
    ("off", OFF),
    // FastCGI has no gateways.
    ("http_502", Condition::Http502 as u16),
    ("http_504", Condition::Http504 as u16),
];
const GATEWAY_CONDITIONS: usize = 2;

/// Reads `proxy_next_upstream`, or with `fastcgi` its sibling.
pub fn next_upstream(
    build: &mut Build<'_>,
    directive: &Directive,
    fastcgi: bool,
    setting: fn(&mut RawLocation) -> &mut Setting<NextUpstream>,
) -> Result<(), Complaint> {
    let known = match fastcgi {
        true => CONDITIONS.len() - GATEWAY_CONDITIONS,
        false => CONDITIONS.len(),
    };
    let before = setting(build.location()).0.map_or(0, |set| set.0);
    let bits = bits(build, directive, before, &CONDITIONS[..known])?;
    setting(build.location()).0 = Some(NextUpstream(bits));
    Ok(())
}

/// Fields of a response that are not obeyed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IgnoredFields(u16);

impl IgnoredFields {
    pub const X_ACCEL_REDIRECT: u16 = 1;
    pub const X_ACCEL_EXPIRES: u16 = 1 << 1;
    pub const X_ACCEL_LIMIT_RATE: u16 = 1 << 2;
    pub const X_ACCEL_BUFFERING: u16 = 1 << 3;
    pub const X_ACCEL_CHARSET: u16 = 1 << 4;
    pub const EXPIRES: u16 = 1 << 5;
    pub const CACHE_CONTROL: u16 = 1 << 6;
    pub const SET_COOKIE: u16 = 1 << 7;
    pub const VARY: u16 = 1 << 8;

    #[must_use]
    pub fn contains(self, field: u16) -> bool {
        self.0 & field != 0
    }
}

const IGNORABLE: &[(&str, u16)] = &[
    ("X-Accel-Redirect", IgnoredFields::X_ACCEL_REDIRECT),
    ("X-Accel-Expires", IgnoredFields::X_ACCEL_EXPIRES),
    ("X-Accel-Limit-Rate", IgnoredFields::X_ACCEL_LIMIT_RATE),
    ("X-Accel-Buffering", IgnoredFields::X_ACCEL_BUFFERING),
    ("X-Accel-Charset", IgnoredFields::X_ACCEL_CHARSET),
    ("Expires", IgnoredFields::EXPIRES),
    ("Cache-Control", IgnoredFields::CACHE_CONTROL),
    ("Set-Cookie", IgnoredFields::SET_COOKIE),
    ("Vary", IgnoredFields::VARY),
];

/// Reads `proxy_ignore_headers`.
pub fn ignore_headers(
    build: &mut Build<'_>,
    directive: &Directive,
    setting: fn(&mut RawLocation) -> &mut Setting<IgnoredFields>,
) -> Result<(), Complaint> {
    let before = setting(build.location()).0.map_or(0, |set| set.0);
    let bits = bits(build, directive, before, IGNORABLE)?;
    setting(build.location()).0 = Some(IgnoredFields(bits));
    Ok(())
}

/// Words of a set, joined with those `before`: the directive may stand several times. One that is there already is
/// warned of.
fn bits(
    build: &mut Build<'_>,
    directive: &Directive,
    before: u16,
    words: &[(&str, u16)],
) -> Result<u16, Complaint> {
    let mut bits = before;
    for written in &directive.args {
        let same = |word: &str| word.as_bytes().eq_ignore_ascii_case(written);
        let found = words.iter().find(|(word, _)| same(word));
        let (word, bit) = found.ok_or_else(|| format!("invalid value \"{written}\""))?;
        if bits & bit != 0 {
            build.warn(directive, format!("duplicate value \"{word}\""));
        }
        bits |= bit;
    }
    Ok(bits)
}

/// The local address of connections to upstreams.
#[derive(Debug, Clone)]
pub struct Bind {
    address: BindAddress,
    /// The address need not be one of the machine's.
    pub transparent: bool,
}

#[derive(Debug, Clone)]
enum BindAddress {
    Fixed(SocketAddr),
    Variable(Template),
}

impl Bind {
    /// Reads `ADDRESS[:PORT] [transparent]` or `off`.
    pub fn parse(build: &mut Build<'_>, words: &[Word]) -> Result<Option<Bind>, Complaint> {
        let word = &words[0];
        if words.len() == 1 && **word == *b"off" {
            return Ok(None);
        }
        let template = Template::compile(word, &mut build.variables)?;
        let address = match template.constant() {
            Some(text) => BindAddress::Fixed(
                local_address(&text).ok_or_else(|| format!("invalid address \"{word}\""))?,
            ),
            None => BindAddress::Variable(template),
        };
        match words.get(1) {
            Some(word) if **word != *b"transparent" => {
                Err(format!("invalid parameter \"{word}\"").into())
            }
            transparent => Ok(Some(Bind {
                address,
                transparent: transparent.is_some(),
            })),
        }
    }

    /// The address for a request's connection; as in nginx, a value that is none leaves the choice to the system.
    #[must_use]
    pub fn evaluate(&self, request: &Request) -> Option<SocketAddr> {
        match &self.address {
            BindAddress::Fixed(address) => Some(*address),
            BindAddress::Variable(template) => local_address(&template.evaluate(request)),
        }
    }
}

/// An address with or without a port; brackets ask for a port.
fn local_address(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    match text.parse::<IpAddr>() {
        Ok(ip) => Some(SocketAddr::new(ip, 0)),
        Err(_) => text
            .parse()
            .ok()
            .filter(|address: &SocketAddr| address.port() != 0),
    }
}

/// `proxy_store`.
#[derive(Debug, Clone)]
pub enum Store {
    Off,
    /// Where the request's path leads to, by `root` and `alias`.
    On,
    Path(Template),
}

impl Store {
    #[must_use]
    pub fn is_off(&self) -> bool {
        matches!(self, Store::Off)
    }

    pub fn parse(build: &mut Build<'_>, word: &Word) -> Result<Store, Complaint> {
        Ok(match &word[..] {
            b"off" => Store::Off,
            b"on" => Store::On,
            path => Store::Path(Template::compile(path, &mut build.variables)?),
        })
    }
}

/// Reads `user:rw group:r all:r` into a mode; whoever stores a file may always use it.
pub fn store_access(words: &[Word]) -> Result<u32, Complaint> {
    let mut mode = 0o600;
    for word in words {
        let invalid = || Complaint::from(format!("invalid value \"{word}\""));
        let colon = memchr::memchr(b':', word).ok_or_else(invalid)?;
        let shift = match &word[..colon] {
            b"user" => 6,
            b"group" => 3,
            b"all" => 0,
            _ => return Err(invalid()),
        };
        let rights = match &word[colon + 1..] {
            b"rw" => 0o6,
            b"r" => 0o4,
            _ => return Err(invalid()),
        };
        mode |= rights << shift;
    }
    Ok(mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_a_set_that_off_empties() {
        let default = NextUpstream::default();
        assert!(default.contains(Condition::Error) && default.contains(Condition::Timeout));
        assert!(!default.contains(Condition::NonIdempotent) && !default.contains_status(502));
        let some = NextUpstream(Condition::Http404 as u16 | Condition::Http502 as u16);
        for (status, expected) in [(404, true), (502, true), (503, false), (200, false)] {
            assert_eq!(some.contains_status(status), expected, "{status}");
        }
        assert!(!NextUpstream(some.0 | OFF).contains_status(404));
    }

    #[test]
    fn local_addresses_as_nginx_takes_them() {
        for (text, expected) in [
            ("127.0.0.1", Some("127.0.0.1:0")),
            ("127.0.0.1:8", Some("127.0.0.1:8")),
            ("::1", Some("[::1]:0")),
            ("[::1]:80", Some("[::1]:80")),
            ("[::1]", None),
            ("127.0.0.1:0", None),
            ("127.0.0.1:99999", None),
            ("unix:/x", None),
            ("foo", None),
            ("", None),
        ] {
            let expected = expected.map(|text| text.parse().expect("an address"));
            assert_eq!(local_address(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn modes_of_stored_files() {
        let word = |text: &str| Word {
            bytes: text.into(),
            quoted: false,
        };
        for (words, expected) in [
            (&["user:rw", "group:rw", "all:r"][..], Some(0o664)),
            (&["all:rw"], Some(0o606)),
            (&["user:r"], Some(0o600)),
            (&["user:x"], None),
            (&["user:"], None),
            (&["user"], None),
            (&["foo:r"], None),
            (&["user:wr"], None),
        ] {
            let words: Vec<Word> = words.iter().map(|text| word(text)).collect();
            assert_eq!(store_access(&words).ok(), expected, "{words:?}");
        }
    }
}
