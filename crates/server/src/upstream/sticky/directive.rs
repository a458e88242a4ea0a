//! Reading `sticky`.

use super::sessions::Sessions;
use super::{Cookie, Expires, Sticky};
use crate::config::build::Build;
use crate::config::setting::Complaint;
use crate::config::zones;
use crate::variables::Template;
use bytes::Bytes;
use conf::{Directive, Word, values};

/// How long a session is kept that is not used.
const TIMEOUT_MS: u64 = 10 * 60 * 1000;

fn invalid(word: &Word) -> Complaint {
    format!("invalid parameter \"{word}\"").into()
}

/// What the words of the directive ask for.
pub fn parse(build: &mut Build<'_>, directive: &Directive) -> Result<Sticky, Complaint> {
    let (method, words) = directive.args.split_first().ok_or("invalid value")?;
    match &method[..] {
        b"cookie" => cookie(build, words),
        b"route" => {
            let routes = words.iter().map(|word| variable(build, word, word));
            Ok(Sticky::Route(routes.collect::<Result<_, _>>()?))
        }
        b"learn" => learn(build, words),
        _ => Err(invalid(method)),
    }
}

/// A value that must begin with a variable.
fn variable(build: &mut Build<'_>, word: &Word, text: &[u8]) -> Result<Template, Complaint> {
    if !text.starts_with(b"$") {
        return Err(format!("invalid variable name \"{word}\"").into());
    }
    Template::compile(text, &mut build.variables)
}

fn cookie(build: &mut Build<'_>, words: &[Word]) -> Result<Sticky, Complaint> {
    let (name, words) = words.split_first().ok_or("invalid value")?;
    let mut cookie = Cookie {
        name: Bytes::copy_from_slice(name),
        ..Cookie::default()
    };
    for word in words {
        let (key, value) = match memchr::memchr(b'=', word) {
            Some(at) => (&word[..at], Some(&word[at + 1..])),
            None => (&word[..], None),
        };
        match (key, value) {
            (b"httponly", None) => cookie.http_only = true,
            (b"secure", None) => cookie.secure = true,
            (b"expires", Some(b"max")) => cookie.expires = Some(Expires::Max),
            (b"expires", Some(time)) => {
                let seconds = values::parse_sec(time).ok_or_else(|| invalid(word))?;
                cookie.expires = Some(Expires::After(seconds));
            }
            (b"domain", Some(domain)) => {
                cookie.domain = Some(Template::compile(domain, &mut build.variables)?);
            }
            (b"path", Some(path)) => cookie.path = Some(Bytes::copy_from_slice(path)),
            (b"samesite", Some(value)) => {
                let known = [&b"strict"[..], b"lax", b"none"];
                let known = known.iter().any(|word| value.eq_ignore_ascii_case(word));
                if !known && !value.starts_with(b"$") {
                    return Err(invalid(word));
                }
                cookie.same_site = Some(Template::compile(value, &mut build.variables)?);
            }
            _ => return Err(invalid(word)),
        }
    }
    Ok(Sticky::Cookie(Box::new(cookie)))
}

fn learn(build: &mut Build<'_>, words: &[Word]) -> Result<Sticky, Complaint> {
    let (mut create, mut lookup) = (Vec::new(), Vec::new());
    let (mut zone, mut timeout_ms) = (None, TIMEOUT_MS);
    for word in words {
        if let Some(text) = word.strip_prefix(b"create=") {
            create.push(variable(build, word, text)?);
        } else if let Some(text) = word.strip_prefix(b"lookup=") {
            lookup.push(variable(build, word, text)?);
        } else if let Some(text) = word.strip_prefix(b"zone=") {
            zone = Some(zones::parse(word, text)?);
        } else if let Some(text) = word.strip_prefix(b"timeout=") {
            timeout_ms = values::parse_msec(text).ok_or_else(|| invalid(word))?;
        } else if word[..] != *b"header" {
            return Err(invalid(word));
        }
    }
    let missing = |what: &str| format!("\"sticky learn\" requires \"{what}\" parameter");
    if create.is_empty() {
        return Err(missing("create").into());
    }
    if lookup.is_empty() {
        return Err(missing("lookup").into());
    }
    let (name, size) = zone.ok_or_else(|| missing("zone"))?;
    build.zones.add(name, size, "http sticky")?;
    Ok(Sticky::Learn {
        create,
        lookup,
        sessions: Sessions::new(size, timeout_ms),
    })
}
