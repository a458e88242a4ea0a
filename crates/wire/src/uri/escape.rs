//! Percent escapes and HTML escapes with nginx's sets, one table per place they are used.

use std::borrow::Cow;

/// Where the escaped bytes will stand; decides which bytes are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A path: in proxied requests and redirects.
    Uri,
    /// An argument's name or value: captures put behind a `?`.
    Args,
    /// A part of a path or argument that may hold anything: only RFC 3986's unreserved bytes stay.
    UriComponent,
    /// A link in a generated page.
    Html,
    /// A variable in a page (`echo`).
    Echo,
    /// A Refresh field.
    Refresh,
    /// A memcached key.
    Memcached,
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

const fn bytes_in(set: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut b = 0;
    while b <= 0x20 {
        table[b] = true;
        b += 1;
    }
    let mut i = 0;
    while i < set.len() {
        table[set[i] as usize] = true;
        i += 1;
    }
    table
}

/// Adds DEL and everything above ASCII.
const fn and_high(mut table: [bool; 256]) -> [bool; 256] {
    let mut b = 0x7f;
    while b < 256 {
        table[b] = true;
        b += 1;
    }
    table
}

const fn all_but_unreserved() -> [bool; 256] {
    let mut table = [true; 256];
    let mut b = 0u8;
    while b < 128 {
        if b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~') {
            table[b as usize] = false;
        }
        b += 1;
    }
    table
}

static URI: [bool; 256] = and_high(bytes_in(b"\"#%<>?\\^`{|}"));
static ARGS: [bool; 256] = and_high(bytes_in(b"\"#%&+;<>?\\^`{|}"));
static URI_COMPONENT: [bool; 256] = all_but_unreserved();
static HTML: [bool; 256] = and_high(bytes_in(b"\"#%'<>?\\^`{|}"));
static ECHO: [bool; 256] = and_high(bytes_in(b"\"#%'<>\\^`{|}"));
static REFRESH: [bool; 256] = and_high(bytes_in(b"\"%'<>\\^`{|}"));
static MEMCACHED: [bool; 256] = bytes_in(b"%");

impl Class {
    fn table(self) -> &'static [bool; 256] {
        match self {
            Class::Uri => &URI,
            Class::Args => &ARGS,
            Class::UriComponent => &URI_COMPONENT,
            Class::Html => &HTML,
            Class::Echo => &ECHO,
            Class::Refresh => &REFRESH,
            Class::Memcached => &MEMCACHED,
        }
    }
}

/// Replaces the class's bytes by `%XX` (capitals); borrows when there are none.
pub fn escape(src: &[u8], class: Class) -> Cow<'_, [u8]> {
    let table = class.table();
    let Some(first) = src.iter().position(|b| table[*b as usize]) else {
        return Cow::Borrowed(src);
    };
    let mut out = Vec::with_capacity(src.len() + 2 * (src.len() - first));
    out.extend_from_slice(&src[..first]);
    escape_into(&src[first..], class, &mut out);
    Cow::Owned(out)
}

/// As `escape`, appending to `out`.
pub fn escape_into(src: &[u8], class: Class, out: &mut Vec<u8>) {
    let table = class.table();
    for &b in src {
        if table[b as usize] {
            out.extend_from_slice(&[b'%', HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)]]);
        } else {
            out.push(b);
        }
    }
}

/// Replaces `%XX` by its byte; anything else, a lone `%` too, stays as it is.
pub fn unescape(src: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr(b'%', src) else {
        return Cow::Borrowed(src);
    };
    let mut out = Vec::with_capacity(src.len());
    out.extend_from_slice(&src[..first]);
    let mut at = first;
    while let Some(&b) = src.get(at) {
        let pair = src
            .get(at + 1..at + 3)
            .and_then(|d| Some(hex_value(d[0])? << 4 | hex_value(d[1])?));
        match pair {
            Some(decoded) if b == b'%' => {
                out.push(decoded);
                at += 3;
            }
            _ => {
                out.push(b);
                at += 1;
            }
        }
    }
    Cow::Owned(out)
}

/// What nginx does to the target of a `rewrite` that answers with a redirect: up to the `?`, escapes of printable
/// bytes above `%` are decoded, the others stay. Of a malformed escape only what does not belong to it is kept.
pub fn unescape_redirect(src: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'%', src).is_none() {
        return Cow::Borrowed(src);
    }
    let mut out = Vec::with_capacity(src.len());
    let mut at = 0;
    while let Some(&b) = src.get(at) {
        at += 1;
        let decoded = match b {
            b'%' => {
                let Some(high) = src.get(at).copied().and_then(hex_value) else {
                    continue;
                };
                let low = src.get(at + 1).copied().and_then(hex_value);
                at += 2;
                let Some(low) = low else { continue };
                high << 4 | low
            }
            _ => b,
        };
        if b == b'%' && !(b'&'..0x7f).contains(&decoded) {
            out.extend_from_slice(&src[at - 3..at]);
            continue;
        }
        out.push(decoded);
        if decoded == b'?' {
            out.extend_from_slice(&src[at..]);
            break;
        }
    }
    Cow::Owned(out)
}

/// The value of a hexadecimal digit.
pub fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Replaces `<`, `>`, `&` and `"` by their entities: text in a generated page.
pub fn escape_html(src: &[u8]) -> Cow<'_, [u8]> {
    if !src.iter().any(|b| matches!(b, b'<' | b'>' | b'&' | b'"')) {
        return Cow::Borrowed(src);
    }
    let mut out = Vec::with_capacity(src.len() + 16);
    for &b in src {
        match b {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            _ => out.push(b),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped_printable(class: Class) -> String {
        let table = class.table();
        (0x21u8..0x7f)
            .filter(|b| table[*b as usize])
            .map(char::from)
            .collect()
    }

    #[test]
    fn sets_as_measured_on_nginx() {
        assert_eq!(escaped_printable(Class::Uri), "\"#%<>?\\^`{|}");
        assert_eq!(escaped_printable(Class::Args), "\"#%&+;<>?\\^`{|}");
        assert_eq!(
            escaped_printable(Class::UriComponent),
            "!\"#$%&'()*+,/:;<=>?@[\\]^`{|}"
        );
        assert_eq!(escaped_printable(Class::Memcached), "%");
        assert_eq!(
            escape(b"\x7f\x80\0", Class::Memcached).as_ref(),
            b"\x7f\x80%00"
        );
        assert_eq!(
            escape("/a b/é?x".as_bytes(), Class::Uri).as_ref(),
            b"/a%20b/%C3%A9%3Fx"
        );
        assert!(matches!(
            escape(b"/plain/path", Class::Uri),
            Cow::Borrowed(_)
        ));
    }

    #[test]
    fn unescape_undoes_every_class() {
        let all: Vec<u8> = (0..=255).collect();
        for class in [
            Class::Uri,
            Class::Args,
            Class::UriComponent,
            Class::Html,
            Class::Refresh,
            Class::Memcached,
        ] {
            let escaped = escape(&all, class);
            assert_eq!(unescape(&escaped).as_ref(), &all[..], "{class:?}");
        }
        for (raw, decoded) in [
            ("a%", "a%"),
            ("a%4", "a%4"),
            ("%zz%41", "%zzA"),
            ("%%41", "%A"),
            ("a", "a"),
        ] {
            assert_eq!(
                unescape(raw.as_bytes()).as_ref(),
                decoded.as_bytes(),
                "{raw}"
            );
        }
    }

    /// Each row stood in a `rewrite ... permanent` of nginx 1.22.
    #[test]
    fn redirects_as_nginx_unescapes_them() {
        for (target, expected) in [
            ("/plain", "/plain"),
            ("/x\"y%41 z<>?q=a b%20", "/x\"yA z<>?q=a b%20"),
            ("/%01%20%22%25%26%2f%7e", "/%01%20%22%25&/~"),
            ("/%7f%80%fF", "/%7f%80%fF"),
            ("/%3e%3f%41", "/>?%41"),
            ("/a?%41", "/a?%41"),
            ("/a%zz%4%", "/azz"),
            ("/a%", "/a"),
            ("/a%4", "/a"),
        ] {
            assert_eq!(
                unescape_redirect(target.as_bytes()).as_ref(),
                expected.as_bytes(),
                "{target}"
            );
        }
    }

    #[test]
    fn html_text() {
        assert_eq!(
            escape_html(b"a<b>&\"c'").as_ref(),
            b"a&lt;b&gt;&amp;&quot;c'"
        );
        assert!(matches!(escape_html(b"abc"), Cow::Borrowed(_)));
    }
}
