//! How long a response may be kept and used as RFC 9111 has it (`cache_semantics rfc9111`), in place of nginx's reading in
//! `freshness`. Bytes and the time in, a verdict out. X-Accel-Expires comes before all, as the word of this server's own
//! upstream, and `proxy_cache_valid` before a guess.

use super::freshness::{Freshness, Ignored, VARY_MAX};
use wire::fields::date;
use wire::http1::Known;
use wire::http1::response::Head;

/// The longest that is guessed from Last-Modified, in seconds.
const GUESS_MAX: i64 = 24 * 3600;
/// Numbers of seconds beyond this are this (RFC 9111, 1.2.2).
const SECONDS_MAX: i64 = 1 << 31;

/// The directives of Cache-Control that mean something here; lengths of time in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheControl {
    pub no_store: bool,
    pub no_cache: bool,
    pub private: bool,
    pub public: bool,
    pub must_revalidate: bool,
    pub must_understand: bool,
    pub only_if_cached: bool,
    pub max_age: Option<i64>,
    pub shared_max_age: Option<i64>,
    pub min_fresh: i64,
    /// Without a number: any.
    pub max_stale: Option<i64>,
    pub while_revalidate: i64,
    pub if_error: i64,
}

impl CacheControl {
    /// Reads the values of all fields of the name; of a directive that is repeated the first counts.
    pub fn read<'v>(values: impl Iterator<Item = &'v [u8]>) -> CacheControl {
        let mut told = CacheControl::default();
        for value in values {
            for member in members(value) {
                told.take(member);
            }
        }
        told
    }

    fn take(&mut self, member: &[u8]) {
        let (name, value) = split(member);
        let name = name.to_ascii_lowercase();
        let seconds = || seconds(value);
        match &name[..] {
            b"no-store" => self.no_store = true,
            b"no-cache" => self.no_cache = true,
            b"private" => self.private = true,
            b"public" => self.public = true,
            b"must-revalidate" | b"proxy-revalidate" => self.must_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"only-if-cached" => self.only_if_cached = true,
            // What is no number is out of date at once.
            b"max-age" => {
                self.max_age.get_or_insert_with(|| seconds().unwrap_or(0));
            }
            b"s-maxage" => {
                self.shared_max_age
                    .get_or_insert_with(|| seconds().unwrap_or(0));
            }
            b"min-fresh" => self.min_fresh = seconds().unwrap_or(0),
            b"max-stale" => self.max_stale = seconds().or((value.is_none()).then_some(SECONDS_MAX)),
            b"stale-while-revalidate" => self.while_revalidate = seconds().unwrap_or(0),
            b"stale-if-error" => self.if_error = seconds().unwrap_or(0),
            _ => {}
        }
    }

    /// Whether a response that is out of date must not be used, whatever the settings say.
    #[must_use]
    pub fn forbids_stale(&self) -> bool {
        self.must_revalidate || self.no_cache || self.shared_max_age.is_some()
    }
}

/// The members of a list, none of them cut inside a quoted string.
fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    let mut escaped = false;
    value
        .split(move |&byte| {
            let in_quotes = quoted;
            if escaped {
                escaped = false;
            } else if quoted && byte == b'\\' {
                escaped = true;
            } else if byte == b'"' {
                quoted = !quoted;
            }
            byte == b',' && !in_quotes
        })
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

/// A member's name and its value without quotes.
fn split(member: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some(at) = memchr::memchr(b'=', member) else {
        return (member, None);
    };
    let (name, value) = (&member[..at], &member[at + 1..]);
    let value = value.strip_prefix(b"\"").unwrap_or(value);
    (name, Some(value.strip_suffix(b"\"").unwrap_or(value)))
}

fn seconds(value: Option<&[u8]>) -> Option<i64> {
    let digits =
        value.filter(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))?;
    let number = conf::values::parse_number(digits).and_then(|number| i64::try_from(number).ok());
    Some(number.unwrap_or(SECONDS_MAX).min(SECONDS_MAX))
}

/// Whether a value is a dictionary of structured fields, as far as the fields of RFC 9213 use them.
fn is_dictionary(value: &[u8]) -> bool {
    members(value).all(|member| {
        let (name, _) = split(member);
        name.first()
            .is_some_and(|byte| byte.is_ascii_lowercase() || *byte == b'*')
            && name.iter().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(byte)
            })
    })
}

/// What the fields of a response say of its use; those that are `targeted` at caches like this one come first (RFC 9213).
#[must_use]
pub fn told(head: &Head, buffer: &[u8], targeted: &[Box<[u8]>]) -> (CacheControl, bool) {
    let values = |name: &[u8]| {
        let name = name.to_vec();
        head.fields
            .iter()
            .filter(move |field| field.name.of(buffer).eq_ignore_ascii_case(&name))
            .map(|field| field.value.of(buffer))
    };
    for name in targeted {
        let mut all = values(name).peekable();
        if all.peek().is_some() && values(name).all(is_dictionary) {
            return (CacheControl::read(all), true);
        }
    }
    (CacheControl::read(values(b"Cache-Control")), false)
}

/// How old a response was when it came (RFC 9111, 4.2.3), in seconds.
#[must_use]
pub fn age_at(head: &Head, buffer: &[u8], came: i64) -> i64 {
    let date = head.value(Known::Date, buffer).and_then(date::parse);
    let apparent = date.map_or(0, |date| came.saturating_sub(date));
    let field = |name: &[u8]| {
        let mut fields = head.fields.iter();
        let found = fields.find(|field| field.name.of(buffer).eq_ignore_ascii_case(name));
        found.map(|field| field.value.of(buffer))
    };
    apparent.max(seconds(field(b"Age")).unwrap_or(0)).max(0)
}

/// What is known of the request that a response answers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked {
    pub authorization: bool,
    pub no_store: bool,
}

/// Reads the fields of a response.
#[must_use]
pub fn read(
    (head, buffer): (&Head, &[u8]),
    ignored: Ignored,
    targeted: &[Box<[u8]>],
    asked: Asked,
    now: i64,
) -> Freshness {
    // X-Accel-Expires, Set-Cookie and Vary are read as nginx reads them.
    let others = Ignored {
        expires: true,
        cache_control: true,
        ..ignored
    };
    let mut freshness = super::freshness::read(head, buffer, others, now);
    let varies_in_all = super::freshness::names(&freshness.vary).any(|name| name == b"*");
    freshness.refused |= varies_in_all || freshness.vary.len() > VARY_MAX || asked.no_store;
    let (told, is_targeted) = match ignored.cache_control {
        true => (CacheControl::default(), false),
        false => told(head, buffer, targeted),
    };
    if freshness.valid_until.is_some() {
        return freshness;
    }
    let may_with_authorization =
        told.public || told.must_revalidate || told.shared_max_age.is_some();
    freshness.refused |= told.private
        || (told.no_store && !told.must_understand)
        || (asked.authorization && !may_with_authorization);
    let field = |known| head.value(known, buffer);
    let has_validator = field(Known::Etag).is_some() || field(Known::LastModified).is_some();
    let date = field(Known::Date).and_then(date::parse).unwrap_or(now);
    let expires = field(Known::Expires).filter(|_| !ignored.expires && !is_targeted);
    let lifetime = (told.shared_max_age.or(told.max_age))
        .or_else(|| expires.map(|value| date::parse(value).map_or(0, |until| until - date)));
    let age = age_at(head, buffer, now);
    freshness.valid_until = match lifetime {
        _ if told.no_cache => Some(now - 1),
        Some(lifetime) if lifetime > age => Some(now.saturating_add(lifetime - age)),
        // Without any time left it was never fresh.
        Some(lifetime) => Some(now - 1 - (age - lifetime).min(SECONDS_MAX)),
        None => None,
    };
    if lifetime.is_none() && is_guessable(head.status, &told) {
        let modified = field(Known::LastModified).and_then(date::parse);
        let since = modified.map(|modified| date.saturating_sub(modified) / 10);
        let guess = since.map(|seconds| seconds.min(GUESS_MAX) - age);
        freshness.guess = guess.filter(|&seconds| seconds > 0);
    }
    if !told.forbids_stale() {
        freshness.updating = told.while_revalidate;
        freshness.on_error = told.if_error;
    }
    // What is out of date from the beginning and cannot be found to hold is of no use.
    let is_over = freshness.valid_until.is_some_and(|until| until < now);
    freshness.refused |=
        is_over && !has_validator && freshness.updating == 0 && freshness.on_error == 0;
    freshness
}

/// Statuses that may be kept without a word of it (RFC 9110, 15.1).
fn is_guessable(status: u16, told: &CacheControl) -> bool {
    let usual = [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501];
    told.public || usual.contains(&status)
}

/// What of a response that is kept a request wants to know.
#[derive(Debug, Clone, Copy)]
pub struct State {
    /// In seconds since 1970.
    pub valid_until: i64,
    pub age: i64,
    pub forbids_stale: bool,
}

/// What a request makes of a response that is kept: its own Cache-Control may ask for a fresher one, or take an older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    Fresh,
    Stale,
}

/// Whether a response that is kept is fresh for a request.
#[must_use]
pub fn taken(told: &CacheControl, state: State, now: i64) -> Taken {
    let left = state.valid_until.saturating_sub(now);
    let too_old = told.max_age.is_some_and(|most| state.age > most);
    if told.no_cache || too_old || (left >= 0 && left < told.min_fresh) {
        return Taken::Stale;
    }
    let takes_older =
        !state.forbids_stale && told.max_stale.is_some_and(|most| left < 0 && -left <= most);
    match left >= 0 || takes_older {
        true => Taken::Fresh,
        false => Taken::Stale,
    }
}

/// The head of a response that 304 found to hold, with the fields of the 304 in place of its own (RFC 9111, 3.2), and
/// without those that Connection names; `None`: it would be too long.
#[must_use]
pub fn renewed(kept: (&Head, &[u8]), newer: Option<(&Head, &[u8])>) -> Option<Vec<u8>> {
    const STAYS: [&[u8]; 6] = [
        b"Content-Encoding",
        b"Content-Length",
        b"Content-Range",
        b"Content-Type",
        b"Transfer-Encoding",
        b"Connection",
    ];
    let (head, buffer) = kept;
    let first = memchr::memchr(b'\n', buffer)? + 1;
    let is_cgi = head
        .fields
        .first()
        .is_some_and(|field| (field.name.start as usize) < first);
    let mut out = buffer.get(..if is_cgi { 0 } else { first })?.to_vec();
    let is_named = |head: &Head, buffer: &[u8], name: &[u8]| {
        let connection = head
            .fields
            .iter()
            .filter(|field| field.known == Known::Connection);
        connection
            .flat_map(|field| members(field.value.of(buffer)))
            .any(|option| option.eq_ignore_ascii_case(name) && option != b"close")
    };
    let replaces = |name: &[u8]| !STAYS.iter().any(|other| other.eq_ignore_ascii_case(name));
    let mut push = |name: &[u8], value: &[u8]| {
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    };
    for field in &head.fields {
        let name = field.name.of(buffer);
        let is_replaced = newer.is_some_and(|(newer, buffer)| {
            let mut fields = newer.fields.iter();
            replaces(name) && fields.any(|new| new.name.of(buffer).eq_ignore_ascii_case(name))
        });
        if !is_replaced && !is_named(head, buffer, name) {
            push(name, field.value.of(buffer));
        }
    }
    if let Some((newer, buffer)) = newer {
        for field in &newer.fields {
            let name = field.name.of(buffer);
            if replaces(name) && field.known != Known::Status && !is_named(newer, buffer, name) {
                push(name, field.value.of(buffer));
            }
        }
    }
    out.extend_from_slice(b"\r\n");
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::http1::response::Parser;

    const NOW: i64 = 1_700_000_000;
    const DATE: &str = "Date: Tue, 14 Nov 2023 22:13:20 GMT";

    fn parsed(text: &str) -> Head {
        let mut parser = Parser::new();
        parser
            .parse(text.as_bytes(), 4096)
            .expect("a head")
            .expect("whole");
        parser.take_head()
    }

    fn head(status: u16, fields: &[&str]) -> (Head, String) {
        let text = format!("HTTP/1.1 {status} OK\r\n{}\r\n\r\n", fields.join("\r\n"));
        (parsed(&text), text)
    }

    fn read_one(fields: &[&str], authorization: bool) -> Freshness {
        let (head, text) = head(200, fields);
        let targeted = [b"CDN-Cache-Control"[..].into()];
        let asked = Asked {
            authorization,
            no_store: false,
        };
        let head = (&head, text.as_bytes());
        read(head, Ignored::default(), &targeted, asked, NOW)
    }

    /// Seconds that it is fresh; -1: it is not kept; 0: nothing is said.
    fn fresh(fields: &[&str]) -> i64 {
        let told = read_one(fields, false);
        match told.refused {
            true => -1,
            false => told.valid_until.map_or(0, |until| until - NOW),
        }
    }

    #[test]
    fn lifetimes_are_those_of_the_standard() {
        for (fields, expected) in [
            (&["Cache-Control: max-age=60"][..], 60),
            (&["Cache-Control: max-age=60", "Age: 20"], 40),
            (&["Cache-Control: max-age=60", "Age: x"], 60),
            (
                &[
                    "Cache-Control: max-age=60",
                    "Date: Tue, 14 Nov 2023 22:12:50 GMT",
                ],
                30,
            ),
            (&["Cache-Control: max-age=60, max-age=5"], 60),
            (&["Cache-Control: max-age=\"60\""], 60),
            (&["Cache-Control: s-maxage=9, max-age=60"], 9),
            (&["Cache-Control: max-age=60, s-maxage=9"], 9),
            (
                &["Cache-Control: max-age=60, ext=\"no-store, private\""],
                60,
            ),
            (&["Cache-Control: max-age=60, no-store"], -1),
            (
                &["Cache-Control: max-age=60, no-store, must-understand"],
                60,
            ),
            (&["Cache-Control: max-age=60, private"], -1),
            (&["Cache-Control: s-maxage=60, private"], -1),
            (&["Cache-Control: max-age=0"], -1),
            (&["Cache-Control: max-age=0", "ETag: \"a\""], -1),
            (&["Cache-Control: max-age=60x"], -1),
            (&["Cache-Control: no-cache, max-age=60", "ETag: \"a\""], -1),
            (&["Cache-Control: no-cache, max-age=60"], -1),
            (&["Expires: Tue, 14 Nov 2023 22:15:00 GMT", DATE], 100),
            (
                &[
                    "Expires: Tue, 14 Nov 2023 22:15:00 GMT",
                    "Cache-Control: max-age=5",
                ],
                5,
            ),
            (&["Expires: 0"], -1),
            (
                &["Cache-Control: max-age=5", "CDN-Cache-Control: max-age=50"],
                50,
            ),
            (
                &["Cache-Control: no-store", "CDN-Cache-Control: max-age=50"],
                50,
            ),
            (
                &["Cache-Control: max-age=5", "CDN-Cache-Control: Max-Age=50"],
                5,
            ),
            (
                &["Cache-Control: max-age=5", "CDN-Cache-Control: no-store"],
                -1,
            ),
            (&["X-Accel-Expires: 7", "Cache-Control: no-store"], 7),
            (&["Cache-Control: max-age=60", "Vary: a, *"], -1),
            (&["Cache-Control: max-age=60", "Set-Cookie: a=b"], -1),
            (&["X: y"], 0),
        ] {
            let expected = match (expected, fields) {
                // It is kept, and out of date at once.
                (-1, [field, "ETag: \"a\""]) if field.contains("no-cache") => {
                    let told = read_one(fields, false);
                    assert_eq!((told.refused, told.valid_until), (false, Some(NOW - 1)));
                    continue;
                }
                (expected, _) => expected,
            };
            assert_eq!(fresh(fields), expected, "{fields:?}");
        }
        let old = ["Last-Modified: Tue, 14 Nov 2023 22:03:20 GMT", DATE];
        assert_eq!(read_one(&old, false).guess, Some(60));
    }

    #[test]
    fn authorization_needs_a_word_of_its_own() {
        for (field, refused) in [
            ("Cache-Control: max-age=60", true),
            ("Cache-Control: max-age=60, public", false),
            ("Cache-Control: max-age=60, must-revalidate", false),
            ("Cache-Control: s-maxage=60", false),
        ] {
            assert_eq!(read_one(&[field], true).refused, refused, "{field}");
        }
    }

    #[test]
    fn requests_may_want_fresher_or_take_older() {
        let told = |text: &str| CacheControl::read(std::iter::once(text.as_bytes()));
        for (text, left, age, forbids_stale, expected) in [
            ("", 10, 5, false, Taken::Fresh),
            ("", -1, 5, false, Taken::Stale),
            ("no-cache", 10, 5, false, Taken::Stale),
            ("max-age=4", 10, 5, false, Taken::Stale),
            ("max-age=5", 10, 5, false, Taken::Fresh),
            ("min-fresh=11", 10, 5, false, Taken::Stale),
            ("max-stale", -100, 5, false, Taken::Fresh),
            ("max-stale=99", -100, 5, false, Taken::Stale),
            ("max-stale=100", -100, 5, true, Taken::Stale),
        ] {
            let state = State {
                valid_until: NOW + left,
                age,
                forbids_stale,
            };
            assert_eq!(taken(&told(text), state, NOW), expected, "{text} {left}");
        }
    }

    #[test]
    fn a_304_renews_fields() {
        let (old, old_text) = head(200, &["A: 1", "Content-Length: 5", "X: y", "Connection: X"]);
        let (new, new_text) = head(304, &["a: 2", "Content-Length: 0", "B: 3"]);
        let out = renewed(
            (&old, old_text.as_bytes()),
            Some((&new, new_text.as_bytes())),
        );
        let out = String::from_utf8(out.expect("short")).expect("text");
        let expected =
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: X\r\na: 2\r\nB: 3\r\n\r\n";
        assert_eq!(out, expected);
    }
}
