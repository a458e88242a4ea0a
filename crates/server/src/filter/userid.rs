//! `userid`: a cookie that tells clients apart, in the form of mod_uid.

use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, keyword, row};
use crate::http::{Request, Response, thread};
use crate::log::error::{Level, write_request};
use bytes::Bytes;
use conf::table::Row;
use conf::{Directive, values};
use std::net::IpAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use wire::fields::{base64, cookie, date};
use wire::http1::Known;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "userid",
        HSL,
        Arity::Exactly(1),
        |b, d| keyword(&mut b.location().userid.mode, d, MODES),
        "Whether clients get a cookie that tells them apart: on, v1, log (it is only read), off.",
    ),
    row(
        "userid_service",
        HSL,
        Arity::Exactly(1),
        |b, d| {
            let service = &mut b.location().userid.service;
            let number =
                values::parse_number(&d.args[0]).and_then(|number| u32::try_from(number).ok());
            service.vacant()?.set(Some(number.ok_or("invalid number")?))
        },
        "The number of the server that gives out the cookie; else its address.",
    ),
    row(
        "userid_name",
        HSL,
        Arity::Exactly(1),
        |b, d| text(b, d, |raw| &mut raw.name),
        "The cookie's name.",
    ),
    row(
        "userid_domain",
        HSL,
        Arity::Exactly(1),
        |b, d| {
            let word = &d.args[0];
            let domain = match &word[..] {
                b"none" => Bytes::new(),
                domain => Bytes::from([b"; domain=", domain].concat()),
            };
            b.location().userid.domain.set(domain)
        },
        "The domain that the cookie is for; none: the host alone.",
    ),
    row(
        "userid_path",
        HSL,
        Arity::Exactly(1),
        |b, d| text(b, d, |raw| &mut raw.path),
        "The path that the cookie is for.",
    ),
    row(
        "userid_expires",
        HSL,
        Arity::Exactly(1),
        expires,
        "How long browsers keep the cookie: a time, max, or off.",
    ),
    row(
        "userid_flags",
        HSL,
        Arity::Between(1, 3),
        flags,
        "Attributes of the cookie: secure, httponly, samesite=…; off: none.",
    ),
    row(
        "userid_p3p",
        HSL,
        Arity::Exactly(1),
        |b, d| {
            let p3p = match &d.args[0][..] {
                b"none" => Bytes::new(),
                value => Bytes::copy_from_slice(value),
            };
            b.location().userid.p3p.set(p3p)
        },
        "The value of a P3P field that goes with the cookie.",
    ),
    row(
        "userid_mark",
        HSL,
        Arity::Exactly(1),
        mark,
        "A letter in place of the cookie's padding; one without it is given out anew.",
    ),
];

/// `userid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Off,
    Log,
    V1,
    On,
}

const MODES: &[(&str, Mode)] = &[
    ("off", Mode::Off),
    ("log", Mode::Log),
    ("v1", Mode::V1),
    ("on", Mode::On),
];

/// How long the cookie is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expires {
    Session,
    Max,
    Seconds(u64),
}

crate::config::setting::settings! {
    mode: Mode = Mode::Off,
    service: Option<u32> = None,
    name: Bytes = Bytes::from_static(b"uid"),
    domain: Bytes = Bytes::new(),
    path: Bytes = Bytes::from_static(b"/"),
    expires: Expires = Expires::Session,
    flags: Bytes = Bytes::new(),
    p3p: Bytes = Bytes::new(),
    mark: Option<u8> = None,
}

fn text(
    build: &mut Build<'_>,
    directive: &Directive,
    field: fn(&mut Raw) -> &mut crate::config::setting::Setting<Bytes>,
) -> Outcome {
    let text = Bytes::copy_from_slice(&directive.args[0]);
    field(&mut build.location().userid).set(text)
}

fn expires(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.location().userid.expires.vacant()?;
    setting.set(match &directive.args[0][..] {
        b"max" => Expires::Max,
        b"off" => Expires::Session,
        word => Expires::Seconds(values::parse_sec(word).ok_or("invalid value")?),
    })
}

fn flags(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.location().userid.flags.vacant()?;
    let mut known = [false; 2];
    let mut same_site = "";
    for word in &directive.args {
        match &word[..] {
            b"off" => {}
            b"secure" => known[0] = true,
            b"httponly" => known[1] = true,
            b"samesite=strict" => same_site = "; samesite=strict",
            b"samesite=lax" => same_site = "; samesite=lax",
            b"samesite=none" => same_site = "; samesite=none",
            _ => return Err(format!("invalid value \"{word}\"").into()),
        }
    }
    let secure = if known[0] { "; secure" } else { "" };
    let http_only = if known[1] { "; httponly" } else { "" };
    setting.set(Bytes::from([secure, http_only, same_site].concat()))
}

fn mark(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.location().userid.mark.vacant()?;
    let word = &directive.args[0];
    match word[..] {
        _ if &word[..] == b"off" => setting.set(None),
        [mark] if mark.is_ascii_alphanumeric() || mark == b'=' => setting.set(Some(mark)),
        _ => Err(
            "\"userid_mark\" directive value must be \"off\" or a single letter, digit or \"=\""
                .into(),
        ),
    }
}

impl Settings {
    /// Whether clients get no cookie, and none is looked for.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.mode == Mode::Off
    }
}

/// The bytes of an identifier.
const ID_BYTES: usize = 16;
/// Their length in a cookie, without the padding.
const TEXT_LEN: usize = 22;

/// What `userid` found and gave out for a request.
type Id = [u8; ID_BYTES];

/// The identifier that the client brought, and whether it has the mark that is asked for.
fn received(request: &Request, complains: bool) -> Option<(Id, bool)> {
    let settings = &request.location().settings.userid;
    if settings.mode == Mode::Off {
        return None;
    }
    let value = cookie::find(request.fields_known(Known::Cookie), &settings.name)?;
    let shown = || String::from_utf8_lossy(value);
    if value.len() < TEXT_LEN {
        let message = format_args!("client sent too short userid cookie \"{}\"", shown());
        if complains {
            write_request(request, Level::Error, message);
        }
        return None;
    }
    let id = base64::decode(&value[..TEXT_LEN], base64::Alphabet::Standard)
        .and_then(|bytes| Id::try_from(bytes).ok());
    let Some(id) = id else {
        let message = format_args!("client sent invalid userid cookie \"{}\"", shown());
        if complains {
            write_request(request, Level::Error, message);
        }
        return None;
    };
    let marked = match settings.mark {
        None => true,
        Some(mark) => value.get(TEXT_LEN..TEXT_LEN + 2) == Some(&[mark, b'='][..]),
    };
    Some((id, marked))
}

/// Whether `$uid_reset` asks for another identifier.
fn is_reset(request: &Request, id: &Id) -> bool {
    let mut value = Vec::new();
    let variables = &request.generation.config.http.variables;
    variables.append_named(b"uid_reset", request, &mut value);
    if value == b"log" {
        let mut shown = Vec::new();
        append(request, Some(*id), &mut shown);
        let shown = String::from_utf8_lossy(&shown);
        let message = format_args!("userid cookie \"{shown}\" was reset");
        write_request(request, Level::Notice, message);
    }
    !value.is_empty()
}

/// The identifier that the client gets, where it brought none or not one that counts. It is settled when it is first
/// asked for.
fn given(request: &Request, complains: bool) -> Option<Id> {
    let settings = &request.location().settings.userid;
    if !matches!(settings.mode, Mode::On | Mode::V1) {
        return None;
    }
    if let Some(id) = *request.user_id.borrow() {
        return Some(id);
    }
    let brought = received(request, complains).filter(|(id, _)| !is_reset(request, id));
    let id = match brought {
        Some((_, true)) => return None,
        // The mark is changed, the identifier stays.
        Some((id, false)) => id,
        None => fresh(request, settings),
    };
    *request.user_id.borrow_mut() = Some(id);
    Some(id)
}

/// Gives the client its identifier.
pub fn apply(request: &Request, response: &mut Response) {
    let settings = &request.location().settings.userid;
    let Some(id) = given(request, true) else {
        return;
    };
    response
        .headers
        .push("Set-Cookie", set_cookie(settings, &id));
    if !settings.p3p.is_empty() {
        response.headers.push("P3P", settings.p3p.clone());
    }
}

static SEQUENCE_V1: AtomicU32 = AtomicU32::new(1);
static SEQUENCE_V2: AtomicU32 = AtomicU32::new(0x0303_0302);
/// Tells this process from others on the machine.
static START: LazyLock<u32> = LazyLock::new(|| {
    let micros = (thread::unix_ms() as u32).wrapping_mul(1000);
    (micros / 20) << 16 | (std::process::id() & 0xffff)
});

fn fresh(request: &Request, settings: &Settings) -> Id {
    let seconds = (thread::unix_ms() / 1000) as u32;
    let (parts, in_order): ([u32; 4], bool) = match settings.mode {
        Mode::V1 => {
            let number = SEQUENCE_V1.fetch_add(0x100, Ordering::Relaxed);
            let service = settings.service.unwrap_or(0);
            ([service, seconds, *START, number], false)
        }
        _ => {
            let number = SEQUENCE_V2
                .fetch_add(0x100, Ordering::Relaxed)
                .wrapping_add(0x100);
            let service = settings.service.unwrap_or_else(|| own_address(request));
            ([service, seconds, *START, number], true)
        }
    };
    let mut id = Id::default();
    for (bytes, part) in id.chunks_exact_mut(4).zip(parts) {
        bytes.copy_from_slice(&match in_order {
            true => part.to_be_bytes(),
            false => part.to_le_bytes(),
        });
    }
    id
}

/// The server's address as a number; of a longer one its last bytes.
fn own_address(request: &Request) -> u32 {
    match request.connection.local_address().ip() {
        Some(IpAddr::V4(ip)) => u32::from(ip),
        Some(IpAddr::V6(ip)) => u128::from(ip) as u32,
        None => 0,
    }
}

fn set_cookie(settings: &Settings, id: &Id) -> Bytes {
    let mut cookie = [&settings.name[..], b"="].concat();
    base64::encode_into(id, &mut cookie);
    if let (Some(mark), Some(place)) = (settings.mark, cookie.len().checked_sub(2)) {
        cookie[place] = mark;
    }
    match settings.expires {
        Expires::Session => {}
        Expires::Max => cookie.extend_from_slice(b"; expires=Thu, 31-Dec-37 23:55:55 GMT"),
        Expires::Seconds(seconds) => {
            let end = (thread::unix_ms() / 1000).saturating_add(seconds);
            cookie.extend_from_slice(b"; expires=");
            cookie.extend_from_slice(&cookie_time(i64::try_from(end).unwrap_or(i64::MAX)));
        }
    }
    cookie.extend_from_slice(&settings.domain);
    cookie.extend_from_slice(b"; path=");
    cookie.extend_from_slice(&settings.path);
    cookie.extend_from_slice(&settings.flags);
    Bytes::from(cookie)
}

/// `Thu, 31-Dec-37 23:55:55 GMT`; from 2038 on with four digits of the year, as some take two for the last century.
fn cookie_time(seconds: i64) -> Vec<u8> {
    let mut text = date::format(seconds).to_vec();
    for place in [7, 11] {
        if let Some(blank) = text.get_mut(place) {
            *blank = b'-';
        }
    }
    if text.get(12..16).is_some_and(|year| year <= &b"2037"[..]) {
        text.drain(12..14);
    }
    text
}

/// `NAME=` and the identifier as four numbers.
fn append(request: &Request, id: Option<Id>, out: &mut Vec<u8>) -> bool {
    let Some(id) = id else { return false };
    out.extend_from_slice(&request.location().settings.userid.name);
    out.push(b'=');
    for bytes in id.chunks_exact(4) {
        for byte in bytes.iter().rev() {
            out.extend_from_slice(format!("{byte:02X}").as_bytes());
        }
    }
    true
}

/// `$uid_got`.
pub fn append_got(request: &Request, out: &mut Vec<u8>) -> bool {
    append(request, received(request, false).map(|(id, _)| id), out)
}

/// `$uid_set`.
pub fn append_set(request: &Request, out: &mut Vec<u8>) -> bool {
    append(request, given(request, false), out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_have_years_of_two_digits_until_2038() {
        for (seconds, expected) in [
            (0, "Thu, 01-Jan-70 00:00:00 GMT"),
            (2_145_916_555, "Thu, 31-Dec-37 23:55:55 GMT"),
            (2_145_916_800, "Fri, 01-Jan-2038 00:00:00 GMT"),
        ] {
            assert_eq!(cookie_time(seconds), expected.as_bytes());
        }
    }
}
