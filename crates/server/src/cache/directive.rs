//! The directives of `proxy_cache_…`, and with another prefix of `fastcgi_cache_…`.

use super::settings::{Choice, Conditions, Methods, Named, Semantics, UseStale, Valid};
use super::{path, purge};
use crate::config::build::Build;
use crate::config::directive::{
    Arity, HSL, HTTP, Outcome, Set, flag, keyword, msec, number, offset, row,
};
use crate::config::setting::{Complaint, Setting};
use crate::variables::Template;
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use std::sync::{Arc, OnceLock};

/// The module that a family's zones belong to, as messages name it.
pub const PROXY_ZONES: &str = "ngx_http_proxy_module";
pub const FASTCGI_ZONES: &str = "ngx_http_fastcgi_module";

/// What tells a family from another.
#[derive(Debug)]
pub struct Family {
    pub prefix: &'static str,
    pub zones: &'static str,
    /// It has a key of its own where none is written.
    pub has_key: bool,
}

pub const PROXY_FAMILY: Family = Family {
    prefix: "proxy",
    zones: PROXY_ZONES,
    has_key: true,
};
pub const FASTCGI_FAMILY: Family = Family {
    prefix: "fastcgi",
    zones: FASTCGI_ZONES,
    has_key: false,
};

macro_rules! directives {
    ($prefix:literal, $field:ident, $relay:ident, $zones:expr, $gateways:expr) => {
        &[
            row(
                concat!($prefix, "_cache"),
                HSL,
                Arity::Exactly(1),
                |b, d| {
                    b.location().$field.cache.vacant()?;
                    let stores = b.location().$relay.store.0.as_ref();
                    let is_off = *d.args[0] == *b"off";
                    if !is_off && stores.is_some_and(|store| !store.is_off()) {
                        return Err(concat!(
                            "\"",
                            $prefix,
                            "_cache\" directive is incompatible with \"",
                            $prefix,
                            "_store\""
                        )
                        .into());
                    }
                    let choice = choice(b, d, $zones)?;
                    b.location().$field.cache.set(choice)
                },
                "The zone that keeps responses.",
            ),
            row(
                concat!($prefix, "_cache_path"),
                HTTP,
                Arity::AtLeast(2),
                |b, d| path::set(b, d, $zones),
                "A directory of kept responses, and the zone that knows them.",
            ),
            row(
                concat!($prefix, "_cache_key"),
                HSL,
                Arity::Exactly(1),
                |b, d| {
                    b.location().$field.key.vacant()?;
                    let template = Template::compile(&d.args[0], &mut b.variables)?;
                    let is_of_target = super::settings::is_of_request(&d.args[0], false);
                    b.location().$field.key_is_of_target.0 = Some(is_of_target);
                    b.location().$field.key.set(Some(Arc::new(template)))
                },
                "What tells one response from another.",
            ),
            row(
                concat!($prefix, "_cache_purge"),
                HSL,
                Arity::AtLeast(1),
                |b, d| purge::set(b, d, $zones, |raw| &mut raw.$field.purge),
                "When, or by which method and from where, what is kept is dropped; a key ending with * means all that begin so. With a zone and a key: the location drops that and does nothing else.",
            ),
            row(
                concat!($prefix, "_cache_purge_tags"),
                HSL,
                Arity::Exactly(1),
                |b, d| {
                    b.location().$field.purge_tags.vacant()?;
                    let template = Template::compile(&d.args[0], &mut b.variables)?;
                    b.location().$field.purge_tags.set(Some(Arc::new(template)))
                },
                "Where a purge names tags: then it drops all responses that have one of them in Surrogate-Key, Cache-Tag or Cache-Groups.",
            ),
            row(
                concat!($prefix, "_cache_purge_soft"),
                HSL,
                Arity::AtLeast(1),
                |b, d| conditions(b, d, |raw| &mut raw.$field.purge_soft),
                "When what is purged is kept as out of date, for use_stale and revalidation.",
            ),
            row(
                concat!($prefix, "_cache_valid"),
                HSL,
                Arity::AtLeast(1),
                |b, d| valid(&mut b.location().$field.valid, d),
                "How long responses are kept that do not say so themselves, by status.",
            ),
            row(
                concat!($prefix, "_cache_methods"),
                HSL,
                Arity::AtLeast(1),
                |b, d| methods(b, d, |raw| &mut raw.$field.methods),
                "The methods whose responses are kept.",
            ),
            row(
                concat!($prefix, "_cache_min_uses"),
                HSL,
                Arity::Exactly(1),
                |b, d| number(&mut b.location().$field.min_uses, d),
                "How many requests it takes for a response to be kept.",
            ),
            row(
                concat!($prefix, "_cache_bypass"),
                HSL,
                Arity::AtLeast(1),
                |b, d| conditions(b, d, |raw| &mut raw.$field.bypass),
                "When what is kept is not used.",
            ),
            row(
                concat!($prefix, "_no_cache"),
                HSL,
                Arity::AtLeast(1),
                |b, d| conditions(b, d, |raw| &mut raw.$field.no_cache),
                "When a response is not kept.",
            ),
            row(
                concat!($prefix, "_cache_use_stale"),
                HSL,
                Arity::AtLeast(1),
                |b, d| use_stale(b, d, $gateways, |raw| &mut raw.$field.use_stale),
                "What a response that is out of date stands in for.",
            ),
            row(
                concat!($prefix, "_cache_background_update"),
                HSL,
                Arity::Flag,
                |b, d| flag(&mut b.location().$field.background_update, d),
                "Fetch a new response in the background while the old one is used.",
            ),
            row(
                concat!($prefix, "_cache_revalidate"),
                HSL,
                Arity::Flag,
                |b, d| flag(&mut b.location().$field.revalidate, d),
                "Ask the upstream whether a response that is out of date still holds.",
            ),
            row(
                concat!($prefix, "_cache_lock"),
                HSL,
                Arity::Flag,
                |b, d| flag(&mut b.location().$field.lock, d),
                "One request fetches a response, and others take part in it as it comes.",
            ),
            row(
                concat!($prefix, "_cache_lock_timeout"),
                HSL,
                Arity::Exactly(1),
                |b, d| msec(&mut b.location().$field.lock_timeout_ms, d),
                "How long a request waits for another one's response.",
            ),
            row(
                concat!($prefix, "_cache_lock_age"),
                HSL,
                Arity::Exactly(1),
                |b, d| msec(&mut b.location().$field.lock_age_ms, d),
                "How long one request may fetch before another one may as well.",
            ),
            row(
                concat!($prefix, "_cache_max_range_offset"),
                HSL,
                Arity::Exactly(1),
                |b, d| {
                    let mut written = Setting(None);
                    b.location().$field.max_range_offset.vacant()?;
                    offset(&mut written, d)?;
                    b.location().$field.max_range_offset.set(written.0)
                },
                "From which offset on a range is fetched by itself, without being kept.",
            ),
        ]
    };
}

pub const PROXY: &[Row<Set>] = directives!("proxy", proxy_cache, proxy_relay, PROXY_ZONES, true);
pub const FASTCGI: &[Row<Set>] = directives!(
    "fastcgi",
    fastcgi_cache,
    fastcgi_relay,
    FASTCGI_ZONES,
    false
);
pub const PROXY_ONLY: &[Row<Set>] = &[row(
    "proxy_cache_convert_head",
    HSL,
    Arity::Flag,
    |b, d| flag(&mut b.location().proxy_cache.convert_head, d),
    "Fetch with GET what is asked for with HEAD, so that it can be kept.",
)];

/// What holds for both families.
pub const COMMON: &[Row<Set>] = &[
    row(
        "cache_semantics",
        HSL,
        Arity::Exactly(1),
        |b, d| {
            let words = [("nginx", Semantics::Nginx), ("rfc9111", Semantics::Rfc9111)];
            keyword(&mut b.location().proxy_cache.semantics, d, &words)?;
            keyword(&mut b.location().fastcgi_cache.semantics, d, &words)
        },
        "Whose rules of caching hold: nginx's, or those of RFC 9111.",
    ),
    row(
        "cache_status_header",
        HSL,
        Arity::Exactly(1),
        |b, d| {
            let name = cache_name(&d.args[0])?;
            b.location().proxy_cache.status_header.set(name.clone())?;
            b.location().fastcgi_cache.status_header.set(name)
        },
        "The name of this cache in a field Cache-Status (RFC 9211) of responses; off: there is no such field.",
    ),
    row(
        "cache_targeted_fields",
        HSL,
        Arity::AtLeast(1),
        |b, d| {
            let mut names: Vec<Box<[u8]>> = d.args.iter().map(|word| word[..].into()).collect();
            if *names[0] == *b"off" && names.len() == 1 {
                names.clear();
            }
            let names = Some(Arc::new(names));
            b.location().proxy_cache.targeted.set(names.clone())?;
            b.location().fastcgi_cache.targeted.set(names)
        },
        "Fields that take the place of Cache-Control and Expires (RFC 9213), the first that is there; off: none.",
    ),
];

/// A name as a token of structured fields, or as a string.
fn cache_name(word: &[u8]) -> Result<Option<Bytes>, Complaint> {
    if *word == *b"off" {
        return Ok(None);
    }
    let is_token = word.first().is_some_and(u8::is_ascii_alphabetic)
        && (word.iter())
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(byte));
    if is_token {
        return Ok(Some(Bytes::copy_from_slice(word)));
    }
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    match !word.is_empty() && word.iter().all(is_plain) {
        true => Ok(Some(Bytes::from([b"\"", word, b"\""].concat()))),
        false => Err("invalid value".into()),
    }
}

fn choice(
    build: &mut Build<'_>,
    directive: &Directive,
    zones: &'static str,
) -> Result<Choice, Complaint> {
    let word = &directive.args[0];
    if **word == *b"off" {
        return Ok(Choice::Off);
    }
    let template = Template::compile(word, &mut build.variables)?;
    if template.constant().is_none() {
        return Ok(Choice::Variable(Arc::new(template)));
    }
    build.zones.add(word, 0, zones)?;
    Ok(Choice::Zone(Arc::new(Named {
        name: Bytes::copy_from_slice(word),
        zone: OnceLock::new(),
    })))
}

/// Reads `[STATUS … | any] TIME`; the directive may stand several times.
fn valid(setting: &mut Setting<Arc<Valid>>, directive: &Directive) -> Outcome {
    const USUAL: [u16; 3] = [200, 301, 302];
    let Some((time, statuses)) = directive.args.split_last() else {
        return Err("invalid value".into());
    };
    let seconds =
        conf::values::parse_sec(time).ok_or_else(|| format!("invalid time value \"{time}\""))?;
    let valid = Arc::make_mut(setting.0.get_or_insert_default());
    if statuses.is_empty() {
        valid.times.extend(USUAL.map(|status| (status, seconds)));
    }
    for word in statuses {
        let status = match &word[..] {
            b"any" => 0,
            digits => conf::values::parse_number(digits)
                .and_then(|status| u16::try_from(status).ok())
                .filter(|status| (100..=599).contains(status))
                .ok_or_else(|| format!("invalid status \"{word}\""))?,
        };
        valid.times.push((status, seconds));
    }
    Ok(())
}

/// A field of the settings of the block that is read.
type Field<T> = fn(&mut crate::config::model::RawLocation) -> &mut Setting<T>;

/// Reads words of a set. One that is there already is warned of.
fn bits(
    build: &mut Build<'_>,
    directive: &Directive,
    before: u16,
    words: &[(String, u16)],
) -> Result<u16, Complaint> {
    let mut bits = before;
    for written in &directive.args {
        let same = |word: &str| word.as_bytes().eq_ignore_ascii_case(written);
        let found = words.iter().find(|(word, _)| same(word));
        let (_, bit) = found.ok_or_else(|| format!("invalid value \"{written}\""))?;
        if bits & bit != 0 {
            build.warn(directive, format!("duplicate value \"{written}\""));
        }
        bits |= bit;
    }
    Ok(bits)
}

fn methods(build: &mut Build<'_>, directive: &Directive, field: Field<Methods>) -> Outcome {
    let words = ["GET", "HEAD", "POST"].into_iter().enumerate();
    let words: Vec<(String, u16)> = words
        .map(|(number, word)| (word.to_owned(), 1 << number))
        .collect();
    let before = field(build.location()).0.map_or(0, |set| set.0);
    let bits = bits(build, directive, before, &words)?;
    field(build.location()).0 = Some(Methods(bits));
    Ok(())
}

fn use_stale(
    build: &mut Build<'_>,
    directive: &Directive,
    gateways: bool,
    field: Field<UseStale>,
) -> Outcome {
    let words: Vec<(String, u16)> = UseStale::words()
        .filter(|(word, _)| gateways || !matches!(word.as_str(), "http_502" | "http_504"))
        .collect();
    let before = field(build.location()).0.map_or(0, |set| set.0);
    let bits = bits(build, directive, before, &words)?;
    field(build.location()).0 = Some(UseStale(bits));
    Ok(())
}

fn conditions(build: &mut Build<'_>, directive: &Directive, field: Field<Conditions>) -> Outcome {
    let conditions = directive.args.iter();
    let compiled: Result<Vec<Template>, Complaint> = conditions
        .map(|word| Template::compile(word, &mut build.variables))
        .collect();
    let setting = field(build.location()).0.get_or_insert_default();
    let is_early = |word: &conf::Word| super::settings::is_of_request(word, true);
    setting.is_early &= directive.args.iter().all(is_early);
    Arc::make_mut(&mut setting.templates).extend(compiled?);
    Ok(())
}
