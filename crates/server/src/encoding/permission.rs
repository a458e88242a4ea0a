//! Whether a client may get gzip at all (`gzip_http_version`, `gzip_proxied`, `gzip_disable`), and what else all that
//! compresses has in common: `gzip_vary` and the order of the codings.

use super::negotiate::{CODINGS, Coding, Offers, Order, Ranked, ranked};
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, flag, keyword, row};
use crate::http::{Request, Response, thread, user_agent};
use crate::routing::pattern::Pattern;
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use std::sync::Arc;
use wire::fields::{date, list};
use wire::http1::{Known, Version};

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "gzip_http_version",
        HSL,
        Arity::Exactly(1),
        |b, d| {
            let versions = &[("1.0", Version::Http10), ("1.1", Version::Http11)];
            keyword(&mut b.location().compression.least_version, d, versions)
        },
        "The least version of HTTP of requests whose responses may be gzip.",
    ),
    row(
        "gzip_proxied",
        HSL,
        Arity::AtLeast(1),
        proxied,
        "Which responses to requests that came through a proxy (Via) may be gzip.",
    ),
    row(
        "gzip_disable",
        HSL,
        Arity::AtLeast(1),
        disable,
        "Browsers (User-Agent) that do not get gzip.",
    ),
    row(
        "gzip_vary",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().compression.vary, d),
        "Add `Vary: Accept-Encoding` to responses that may be compressed.",
    ),
    row(
        "compression_order",
        HSL,
        Arity::Between(1, CODINGS),
        order,
        "Which of several codings that a client wants equally it gets.",
    ),
];

/// `gzip_proxied`: a set of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Proxied(u16);

const EXPIRED: Proxied = Proxied(1);
const NO_CACHE: Proxied = Proxied(1 << 1);
const NO_STORE: Proxied = Proxied(1 << 2);
const PRIVATE: Proxied = Proxied(1 << 3);
const NO_LAST_MODIFIED: Proxied = Proxied(1 << 4);
const NO_ETAG: Proxied = Proxied(1 << 5);
const AUTH: Proxied = Proxied(1 << 6);
const ANY: Proxied = Proxied(1 << 7);
const OFF: Proxied = Proxied(1 << 8);

const PROXIED_WORDS: &[(&str, Proxied)] = &[
    ("off", OFF),
    ("expired", EXPIRED),
    ("no-cache", NO_CACHE),
    ("no-store", NO_STORE),
    ("private", PRIVATE),
    ("no_last_modified", NO_LAST_MODIFIED),
    ("no_etag", NO_ETAG),
    ("auth", AUTH),
    ("any", ANY),
];

impl Proxied {
    const fn has(self, other: Proxied) -> bool {
        self.0 & other.0 != 0
    }
}

/// `gzip_disable`.
#[derive(Debug, Clone, Default)]
pub struct Disable {
    pub msie6: bool,
    pub patterns: Vec<Pattern>,
}

/// What was written in one block.
#[derive(Default, Debug, Clone)]
pub struct Raw {
    pub least_version: crate::config::setting::Setting<Version>,
    pub proxied: Option<Proxied>,
    pub disable: Option<Disable>,
    pub vary: crate::config::setting::Setting<bool>,
    pub order: crate::config::setting::Setting<Order>,
}

/// What holds in one block.
#[derive(Debug, Clone)]
pub struct Settings {
    pub least_version: Version,
    pub proxied: Proxied,
    pub disable: Option<Arc<Disable>>,
    pub vary: bool,
    pub order: Order,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            least_version: Version::Http11,
            proxied: OFF,
            disable: None,
            vary: false,
            order: Order::default(),
        }
    }
}

impl Raw {
    /// The settings of a block inside one with the settings `parent`.
    #[must_use]
    pub fn resolve(&self, parent: &Settings) -> Settings {
        Settings {
            least_version: self.least_version.or(&parent.least_version),
            proxied: self.proxied.unwrap_or(parent.proxied),
            disable: self.resolve_disable(parent),
            vary: self.vary.or(&parent.vary),
            order: self.order.or(&parent.order),
        }
    }
}

impl Raw {
    /// As in nginx `msie6` is inherited also where a block has patterns of its own; patterns are not, where it has a word.
    fn resolve_disable(&self, parent: &Settings) -> Option<Arc<Disable>> {
        let Some(own) = &self.disable else {
            return parent.disable.clone();
        };
        let inherited = parent.disable.as_ref().is_some_and(|outer| outer.msie6);
        Some(Arc::new(Disable {
            msie6: own.msie6 || inherited,
            patterns: own.patterns.clone(),
        }))
    }
}

fn proxied(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let mut all = build.location().compression.proxied.unwrap_or_default();
    for word in &directive.args {
        let same = |(name, _): &&(&str, Proxied)| name.as_bytes().eq_ignore_ascii_case(word);
        let Some((_, value)) = PROXIED_WORDS.iter().find(same) else {
            return Err(format!("invalid value \"{word}\"").into());
        };
        if all.has(*value) {
            build.warn(directive, format!("duplicate value \"{word}\""));
        }
        all = Proxied(all.0 | value.0);
    }
    build.location().compression.proxied = Some(all);
    Ok(())
}

fn disable(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let disable = build.location().compression.disable.get_or_insert_default();
    for word in &directive.args {
        match &word[..] {
            b"msie6" => disable.msie6 = true,
            // nginx acts on it only where it was built for degradation.
            b"degradation" => {}
            text => disable.patterns.push(Pattern::compile(text, true)?),
        }
    }
    Ok(())
}

fn order(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let mut codings = Vec::with_capacity(CODINGS);
    for word in &directive.args {
        match Coding::of(word) {
            Some(coding) if codings.contains(&coding) => {
                return Err(format!("duplicate value \"{word}\"").into());
            }
            Some(coding) => codings.push(coding),
            None => return Err(format!("invalid value \"{word}\"").into()),
        }
    }
    // What was not named follows in the usual order.
    let rest = Order::default().0;
    codings.extend(
        rest.into_iter()
            .filter(|coding| !directive_names(directive, *coding)),
    );
    let codings = codings.try_into().map_err(|_| "invalid value")?;
    build.location().compression.order.set(Order(codings))
}

fn directive_names(directive: &Directive, coding: Coding) -> bool {
    directive
        .args
        .iter()
        .any(|word| Coding::of(word) == Some(coding))
}

/// What the client says it takes.
fn accept_encoding(request: &Request) -> &[u8] {
    request.field(Known::AcceptEncoding).unwrap_or_default()
}

/// The codings among those on offer that this response may have for this client, the best first.
#[must_use]
pub fn codings(request: &Request, response: Option<&Response>, offers: Offers) -> Ranked {
    let accepted = accept_encoding(request);
    if accepted.is_empty() {
        return Ranked::default();
    }
    let order = request.location().settings.compression.order;
    match offers.contains(Coding::Gzip) && !is_gzip_permitted(request, response) {
        true => ranked(accepted, offers.without(Coding::Gzip), order),
        false => ranked(accepted, offers, order),
    }
}

/// Whether the client takes gzip and may get it. As in nginx the first question is answered once for a request, so that the
/// content and the filters agree whatever the response's fields have become.
#[must_use]
pub fn takes_gzip(request: &Request, response: Option<&Response>) -> bool {
    let accepted = accept_encoding(request);
    !accepted.is_empty()
        && ranked(accepted, Offers::GZIP, Order::default())
            .next()
            .is_some()
        && is_gzip_permitted(request, response)
}

fn is_gzip_permitted(request: &Request, response: Option<&Response>) -> bool {
    if let Some(known) = request.gzip_permitted.get() {
        return known;
    }
    let settings = &request.location().settings.compression;
    let permitted = request.version >= settings.least_version
        && (request.field(Known::Via).is_none()
            || is_proxied_permitted(settings.proxied, request, response))
        && !is_disabled(settings.disable.as_deref(), request);
    request.gzip_permitted.set(Some(permitted));
    permitted
}

fn is_disabled(disable: Option<&Disable>, request: &Request) -> bool {
    let (Some(disable), Some(agent)) = (disable, request.field(Known::UserAgent)) else {
        return false;
    };
    (disable.msie6 && user_agent::browser(request).msie6)
        || disable
            .patterns
            .iter()
            .any(|pattern| pattern.is_match(agent))
}

/// nginx's order of questions: what decides first is Expires, then Cache-Control, then what is absent.
fn is_proxied_permitted(allowed: Proxied, request: &Request, response: Option<&Response>) -> bool {
    if allowed.has(OFF) {
        return false;
    }
    let authorized = request.field(Known::Authorization).is_some();
    if allowed.has(ANY) || (allowed.has(AUTH) && authorized) {
        return true;
    }
    let Some(response) = response else {
        return true;
    };
    if let Some(expires) = response.headers.find("Expires") {
        return allowed.has(EXPIRED) && has_expired(expires, response.headers.find("Date"));
    }
    let mut controls = response.headers.find_all("Cache-Control").peekable();
    if controls.peek().is_some() {
        let named: Vec<&Bytes> = controls.collect();
        let says = |token| named.iter().any(|value| list::has_token(value, token));
        return (allowed.has(NO_CACHE) && says("no-cache"))
            || (allowed.has(NO_STORE) && says("no-store"))
            || (allowed.has(PRIVATE) && says("private"));
    }
    let refused = (allowed.has(NO_LAST_MODIFIED) && response.last_modified.is_some())
        || (allowed.has(NO_ETAG) && response.etag.is_some());
    !refused
}

fn has_expired(expires: &[u8], date: Option<&Bytes>) -> bool {
    let now = match date {
        Some(date) => date::parse(date),
        None => Some((thread::unix_ms() / 1000) as i64),
    };
    matches!((date::parse(expires), now), (Some(expires), Some(now)) if expires < now)
}
