//! Request targets (RFC 3986 as nginx reads it): parts, the normalised path, and host names.
//! Escaping is in `uri::escape`.

use memchr::{memchr, memchr2, memrchr};
use std::borrow::Cow;
use std::ops::Range;

mod escape;
pub use escape::{Class, escape, escape_html, escape_into, hex_value, unescape, unescape_redirect};

/// Why a target or a host was refused; the client sees 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UriError {
    /// Neither `/path` nor `scheme://host`, or a byte that may not stand there.
    Malformed,
    /// `%` without two hexadecimal digits.
    BadEscape,
    /// `%00`.
    Nul,
    /// `..` above the root.
    AboveRoot,
    /// A host name or port against RFC 3986.
    BadHost,
}

impl UriError {
    pub fn as_str(self) -> &'static str {
        match self {
            UriError::Malformed => "invalid URI",
            UriError::BadEscape => "invalid escape in URI",
            UriError::Nul => "zero byte in URI",
            UriError::AboveRoot => "unsafe URI",
            UriError::BadHost => "invalid host",
        }
    }
}

impl std::fmt::Display for UriError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for UriError {}

/// The parts of a target as ranges of its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// From the path (or `?`) to the end: `$request_uri`.
    pub request_uri: Range<usize>,
    /// Starts with `/`; no arguments, no fragment.
    pub path: Range<usize>,
    pub args: Option<Range<usize>>,
    /// `host:port` of the absolute form.
    pub authority: Option<Range<usize>>,
    /// The absolute form had no path: `path` is then one of the slashes of `://`.
    pub path_is_implied: bool,
    pub needs_normalising: bool,
}

/// A target cut into its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    pub raw_path: &'a [u8],
    /// Without the `?`.
    pub args: Option<&'a [u8]>,
    /// `host:port` of the absolute form.
    pub host: Option<&'a [u8]>,
    /// False when `normalise` would give `raw_path` back.
    pub needs_normalising: bool,
}

impl<'a> Target<'a> {
    /// Cuts `raw`, a request line's second word or HTTP/2's `:path`.
    pub fn parse(raw: &'a [u8]) -> Result<Target<'a>, UriError> {
        let parts = split(raw)?;
        Ok(Target {
            raw_path: &raw[parts.path],
            args: parts.args.map(|range| &raw[range]),
            host: parts.authority.map(|range| &raw[range]),
            needs_normalising: parts.needs_normalising,
        })
    }
}

const OTHER: u8 = 0;
/// Controls, space and DEL may not stand in a target.
const BAD: u8 = 1;
const SLASH: u8 = 2;
const DOT: u8 = 3;
const PERCENT: u8 = 4;
/// `?` or `#`: the path ends.
const PATH_END: u8 = 5;

static TARGET_CLASS: [u8; 256] = {
    let mut table = [OTHER; 256];
    let mut b = 0;
    while b <= 0x20 {
        table[b] = BAD;
        b += 1;
    }
    table[0x7f] = BAD;
    table[b'/' as usize] = SLASH;
    table[b'.' as usize] = DOT;
    table[b'%' as usize] = PERCENT;
    table[b'?' as usize] = PATH_END;
    table[b'#' as usize] = PATH_END;
    table
};

/// Cuts a target in origin form or absolute form. `*` and the authority form are refused, as in nginx.
pub fn split(target: &[u8]) -> Result<Parts, UriError> {
    let mut parts = Parts::default();
    let path_start = match target.first() {
        Some(b'/') => 0,
        _ => split_authority(target, &mut parts)?,
    };
    parts.request_uri = path_start..target.len();
    parts.path = path_start..path_start;
    let mut at = path_start;
    // What the last byte was decides whether the next one calls for normalising.
    let mut after_slash = false;
    while let Some(&b) = target.get(at) {
        match TARGET_CLASS[b as usize] {
            OTHER => after_slash = false,
            SLASH => {
                parts.needs_normalising |= after_slash;
                after_slash = true;
            }
            DOT => {
                parts.needs_normalising |= after_slash;
                after_slash = false;
            }
            PERCENT => {
                parts.needs_normalising = true;
                after_slash = false;
            }
            PATH_END => break,
            _ => return Err(UriError::Malformed),
        }
        at += 1;
    }
    parts.path.end = at;
    if target.get(at) == Some(&b'?') {
        let rest = &target[at + 1..];
        let end = memchr(b'#', rest).unwrap_or(rest.len());
        parts.args = Some(at + 1..at + 1 + end);
    }
    if target[at..]
        .iter()
        .any(|b| TARGET_CLASS[*b as usize] == BAD)
    {
        return Err(UriError::Malformed);
    }
    if parts.path.is_empty() {
        imply_path(target, &mut parts);
    }
    Ok(parts)
}

/// Cuts `scheme://host:port` off; gives the offset where the path, `?` or the end follows.
fn split_authority(target: &[u8], parts: &mut Parts) -> Result<usize, UriError> {
    let colon = memchr(b':', target).ok_or(UriError::Malformed)?;
    let scheme = &target[..colon];
    let scheme_byte = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    if !scheme.first().is_some_and(u8::is_ascii_alphabetic) || !scheme.iter().all(scheme_byte) {
        return Err(UriError::Malformed);
    }
    let rest = target[colon..]
        .strip_prefix(b"://")
        .ok_or(UriError::Malformed)?;
    let len = memchr2(b'/', b'?', rest).unwrap_or(rest.len());
    let start = colon + 3;
    validate_host(&rest[..len])?;
    parts.authority = Some(start..start + len);
    Ok(start + len)
}

/// `http://host` and `http://host?args` mean the path `/`; it is found in `://`, so that it has a place in the buffer.
fn imply_path(target: &[u8], parts: &mut Parts) {
    let slash = parts
        .authority
        .as_ref()
        .map_or(0, |authority| authority.start - 1);
    parts.path = slash..slash + 1;
    parts.path_is_implied = true;
    if parts.request_uri.start == target.len() {
        parts.request_uri = parts.path.clone();
    }
}

/// Decodes `%XX` once, resolves `.` and `..`, and merges slashes if told to. What it gives is nginx's `$uri`:
/// it starts with `/` and may hold any byte but NUL. Borrows when there is nothing to do.
pub fn normalise(raw_path: &[u8], merge_slashes: bool) -> Result<Cow<'_, [u8]>, UriError> {
    let path = &raw_path[..memchr(b'#', raw_path).unwrap_or(raw_path.len())];
    if path.first() != Some(&b'/') {
        return Err(UriError::Malformed);
    }
    let Some(start) = first_irregular(path, merge_slashes) else {
        return Ok(Cow::Borrowed(path));
    };
    let mut out = Vec::with_capacity(path.len());
    out.extend_from_slice(&path[..start]);
    let mut at = start;
    while at < path.len() {
        let mut b = path[at];
        at += 1;
        if b == b'%' {
            let digits = path.get(at..at + 2).ok_or(UriError::BadEscape)?;
            b = decode_hex_pair(digits[0], digits[1]).ok_or(UriError::BadEscape)?;
            at += 2;
            if b == 0 {
                return Err(UriError::Nul);
            }
        }
        if b != b'/' {
            out.push(b);
            continue;
        }
        close_segment(&mut out)?;
        if !(merge_slashes && out.last() == Some(&b'/')) || out.is_empty() {
            out.push(b'/');
        }
    }
    close_segment_at_end(&mut out)?;
    Ok(Cow::Owned(out))
}

/// The offset of the `/` before, or the `%` at, the first thing that needs work.
fn first_irregular(path: &[u8], merge_slashes: bool) -> Option<usize> {
    let mut segment = 0;
    for (at, &b) in path.iter().enumerate() {
        match b {
            b'%' => return Some(segment),
            b'/' if merge_slashes && at > 0 && path[at - 1] == b'/' => return Some(segment),
            b'/' => segment = at,
            b'.' if at == segment + 1 => return Some(segment),
            _ => {}
        }
    }
    None
}

/// The segment written last, without the slash before it.
fn last_segment(out: &[u8]) -> &[u8] {
    &out[memrchr(b'/', out).map_or(0, |slash| slash + 1)..]
}

/// Called at a `/`: drops a `.` or `..` segment together with the slash before it, which the caller writes again.
fn close_segment(out: &mut Vec<u8>) -> Result<(), UriError> {
    match last_segment(out) {
        b"." => out.truncate(out.len() - 2),
        b".." => {
            out.truncate(out.len() - 3);
            pop_segment(out)?;
        }
        _ => {}
    }
    Ok(())
}

/// Called at the end: as `close_segment`, but the slash stays.
fn close_segment_at_end(out: &mut Vec<u8>) -> Result<(), UriError> {
    let is_dots = matches!(last_segment(out), b"." | b"..");
    close_segment(out)?;
    if is_dots {
        out.push(b'/');
    }
    Ok(())
}

/// Takes `/segment` off the end.
fn pop_segment(out: &mut Vec<u8>) -> Result<(), UriError> {
    let slash = memrchr(b'/', out).ok_or(UriError::AboveRoot)?;
    out.truncate(slash);
    Ok(())
}

fn decode_hex_pair(high: u8, low: u8) -> Option<u8> {
    Some(hex_value(high)? << 4 | hex_value(low)?)
}

/// A host as `validate_host` cleaned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host<'a> {
    /// Lower case, without port and without one trailing dot; IPv6 addresses keep their brackets.
    pub name: Cow<'a, [u8]>,
    pub port: Option<u16>,
}

/// Judges a Host field, the authority of an absolute URI, or HTTP/2's `:authority` (RFC 3986, 3.2.2 and 3.2.3).
/// nginx before 1.29.4 let more through (`a:x`, `a"b`, `[x]y`); we are as strict as it is now.
pub fn validate_host(raw: &[u8]) -> Result<Host<'_>, UriError> {
    let (name, port) = if raw.first() == Some(&b'[') {
        let close = memchr(b']', raw).ok_or(UriError::BadHost)?;
        if !is_ip_literal(&raw[1..close]) {
            return Err(UriError::BadHost);
        }
        (&raw[..=close], &raw[close + 1..])
    } else {
        let end = memchr(b':', raw).unwrap_or(raw.len());
        let name = &raw[..end];
        let name_without_dot = name.strip_suffix(b".").unwrap_or(name);
        if !is_registered_name(name_without_dot) {
            return Err(UriError::BadHost);
        }
        (name_without_dot, &raw[end..])
    };
    let name = match name.iter().any(u8::is_ascii_uppercase) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    };
    Ok(Host {
        name,
        port: parse_port(port)?,
    })
}

/// Reads nothing, `:` or `:digits`.
fn parse_port(port: &[u8]) -> Result<Option<u16>, UriError> {
    let digits = match port {
        [] | [b':'] => return Ok(None),
        [b':', digits @ ..] => digits,
        _ => return Err(UriError::BadHost),
    };
    let mut value: u16 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return Err(UriError::BadHost);
        }
        let next = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(u16::from(digit - b'0')));
        value = next.ok_or(UriError::BadHost)?;
    }
    Ok(Some(value))
}

/// Unreserved and sub-delims bytes of RFC 3986.
fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric()
        || matches!(
            b,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
        )
}

/// A name that is not empty, without empty labels after the first one (nginx takes `.a` but not `a..b`).
fn is_registered_name(name: &[u8]) -> bool {
    let mut at = 0;
    while let Some(&b) = name.get(at) {
        let good = match b {
            b'%' => {
                let digits = name.get(at + 1..at + 3);
                at += 2;
                digits.is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit))
            }
            b'.' => name.get(at + 1).is_some_and(|next| *next != b'.'),
            _ => is_name_byte(b),
        };
        if !good {
            return false;
        }
        at += 1;
    }
    !name.is_empty()
}

/// An IPv6 address, or the `v1.anything` that RFC 3986 keeps for the future.
fn is_ip_literal(literal: &[u8]) -> bool {
    if let [b'v' | b'V', rest @ ..] = literal {
        let dot = memchr(b'.', rest).unwrap_or(0);
        let (version, address) = rest.split_at(dot);
        return !version.is_empty()
            && version.iter().all(u8::is_ascii_hexdigit)
            && address.len() > 1
            && address.iter().all(|b| is_name_byte(*b) || *b == b':');
    }
    std::str::from_utf8(literal).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
}

/// The decoded path and the arguments of a target that the server names itself (`include`, `error_page`'s kin). `None`: it
/// is empty, goes up or holds a zero byte.
#[must_use]
pub fn split_inside(target: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let (path, args) = match memchr::memchr(b'?', target) {
        Some(mark) => (&target[..mark], &target[mark + 1..]),
        None => (target, &[][..]),
    };
    let is_unsafe = |path: &[u8]| {
        path.is_empty()
            || path.contains(&0)
            || path.split(|&byte| byte == b'/').any(|part| part == b"..")
    };
    let decoded = unescape(path);
    (!is_unsafe(path) && !is_unsafe(&decoded)).then_some((decoded, args))
}

#[cfg(test)]
#[path = "uri_tests.rs"]
mod tests;
