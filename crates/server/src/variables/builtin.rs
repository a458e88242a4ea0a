//! The built-in variables: tables of names and functions that append the value, one file for each theme.

mod client; // who asks, over which connection
mod elsewhere; // of features that a request did not pass
mod moment; // clocks, the process, random ids
mod outcome; // what was sent
mod received; // the request as it came
mod relayed; // what other servers are told
mod target; // where the request stands now
mod tls; // what a handshake settled
mod tls_client; // the certificate of a client
mod upstream; // other servers that were asked

use super::registry::Kind;
use crate::http::Request;

/// Appends a variable's value; false means "not found", which logs print as `-`.
pub type Evaluate = fn(&Request, &mut Vec<u8>) -> bool;
/// The same for `$arg_NAME` and its kin: the second argument is NAME.
pub type EvaluateSuffix = fn(&Request, &[u8], &mut Vec<u8>) -> bool;

type Fixed = (&'static str, Evaluate);
type Prefixed = (&'static str, EvaluateSuffix);

const FIXED: &[&[Fixed]] = &[
    client::FIXED,
    tls::FIXED,
    tls_client::FIXED,
    received::FIXED,
    target::FIXED,
    moment::FIXED,
    outcome::FIXED,
    upstream::FIXED,
    relayed::FIXED,
    elsewhere::FIXED,
];

const PREFIXED: &[&[Prefixed]] = &[
    received::PREFIXED,
    outcome::PREFIXED,
    upstream::PREFIXED,
    client::PREFIXED,
];

/// Built-in names that `set` and `map` may take although they are not prefixed ones; of these, assigning to the first
/// two changes the request itself.
const ASSIGNABLE: &[&str] = &[
    "args",
    "limit_rate",
    "proxy_host",
    "proxy_port",
    "uid_reset",
];
const ASSIGNED_TO_REQUEST: usize = 2;

/// How the built-in variable `name` is worked out.
#[must_use]
pub fn find(name: &[u8]) -> Option<Kind> {
    if let Some(evaluate) = fixed(name) {
        return Some(Kind::Builtin(evaluate));
    }
    PREFIXED
        .iter()
        .copied()
        .flatten()
        .find_map(|(prefix, evaluate)| {
            let suffix = name.strip_prefix(prefix.as_bytes())?;
            Some(Kind::Prefixed(*evaluate, suffix.into()))
        })
}

fn fixed(name: &[u8]) -> Option<Evaluate> {
    let mut rows = FIXED.iter().copied().flatten();
    rows.find(|(fixed, _)| fixed.as_bytes() == name)
        .map(|(_, evaluate)| *evaluate)
}

/// Whether a variable of this name is known and never has a value.
#[must_use]
pub fn is_never_filled(name: &[u8]) -> bool {
    let mut rows = elsewhere::FIXED.iter();
    rows.any(|(empty, _)| empty.as_bytes() == name)
}

/// Whether a variable of this name needs the sent fields to be recorded.
pub use outcome::needs_sent_fields;
/// Whether one needs the fields of what other servers answered.
pub use upstream::needs_upstream_fields;

/// Whether the configuration may define the variable. As in nginx, names with a prefix (`$http_x`) are free, but for
/// those that also stand in a table by themselves.
#[must_use]
pub fn is_assignable(name: &[u8]) -> bool {
    fixed(name).is_none()
        || name.starts_with(b"ssl_")
        || ASSIGNABLE.iter().any(|text| text.as_bytes() == name)
}

/// Whether assigning changes the request, so that the variable goes on being worked out from it.
#[must_use]
pub fn is_assigned_to_request(name: &[u8]) -> bool {
    ASSIGNABLE[..ASSIGNED_TO_REQUEST]
        .iter()
        .any(|text| text.as_bytes() == name)
}

/// Appends the value, if there is one.
fn append(value: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    if let Some(value) = value {
        out.extend_from_slice(value);
    }
    value.is_some()
}

/// Appends a decimal number.
fn append_number(number: u64, out: &mut Vec<u8>) -> bool {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    true
}

/// Appends milliseconds as seconds with three decimals.
fn append_seconds(ms: u64, out: &mut Vec<u8>) -> bool {
    append_number(ms / 1000, out);
    let rest = (ms % 1000) as u16;
    let digit = |place: u16| b'0' + (rest / place % 10) as u8;
    out.extend_from_slice(&[b'.', digit(100), digit(10), digit(1)]);
    true
}

/// Whether a field's name is the one that a variable's suffix means: lower case, with `_` for `-`.
fn names_field(field: &[u8], suffix: &[u8]) -> bool {
    field.len() == suffix.len()
        && field.iter().zip(suffix).all(|(&byte, &wanted)| match byte {
            b'-' => wanted == b'_',
            byte => byte.to_ascii_lowercase() == wanted,
        })
}

/// Appends values with `separator` between them; false if there is none.
fn append_joined<'v>(
    values: impl Iterator<Item = &'v [u8]>,
    separator: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    let mut found = false;
    for value in values {
        if found {
            out.extend_from_slice(separator);
        }
        found = true;
        out.extend_from_slice(value);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_seconds() {
        let text = |append: fn(u64, &mut Vec<u8>) -> bool, number| {
            let mut out = Vec::new();
            assert!(append(number, &mut out));
            String::from_utf8(out).expect("digits")
        };
        assert_eq!(text(append_number, 0), "0");
        assert_eq!(text(append_number, u64::MAX), "18446744073709551615");
        assert_eq!(text(append_seconds, 7), "0.007");
        assert_eq!(text(append_seconds, 12_340), "12.340");
    }

    #[test]
    fn field_names_as_variables_write_them() {
        for (field, suffix, same) in [
            ("User-Agent", "user_agent", true),
            ("x_y", "x_y", true),
            ("X-Y", "x-y", false),
            ("X-Yz", "x_y", false),
        ] {
            assert_eq!(
                names_field(field.as_bytes(), suffix.as_bytes()),
                same,
                "{field}"
            );
        }
    }

    #[test]
    fn names_are_free_as_in_nginx() {
        for (name, free) in [
            ("args", true),
            ("limit_rate", true),
            ("query_string", false),
            ("http_x", true),
            ("http_host", false),
            ("sent_http_x", true),
            ("sent_http_location", false),
            ("upstream_http_x", true),
            ("ssl_cipher", true),
            ("own", true),
            ("uri", false),
        ] {
            assert_eq!(is_assignable(name.as_bytes()), free, "{name}");
        }
    }

    #[test]
    fn no_name_stands_twice() {
        let mut names: Vec<&str> = FIXED.iter().copied().flatten().map(|row| row.0).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
