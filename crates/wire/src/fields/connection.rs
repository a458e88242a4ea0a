//! The Connection field (RFC 9110, 7.6.1): whether the connection stays open, and which fields end at this hop.

use crate::http1::Version;

/// What a Connection field asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    Close,
    KeepAlive,
}

/// Reads one value. As in nginx the words are looked for anywhere in it, and `close` goes first.
pub fn persistence(value: &[u8]) -> Option<Persistence> {
    if contains(value, b"close") {
        Some(Persistence::Close)
    } else if contains(value, b"keep-alive") {
        Some(Persistence::KeepAlive)
    } else {
        None
    }
}

/// Whether a client's connection may stay open after the response: the last Connection field that says something
/// decides (as in nginx), else the version.
pub fn keeps_alive<'a>(values: impl Iterator<Item = &'a [u8]>, version: Version) -> bool {
    match values.filter_map(persistence).last() {
        Some(Persistence::Close) => false,
        Some(Persistence::KeepAlive) => version > Version::Http09,
        None => version == Version::Http11,
    }
}

/// Fields that never go to the next hop, besides those a Connection field names (RFC 9110, 7.6.1).
pub fn is_hop_by_hop(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 9] = [
        b"Connection",
        b"Keep-Alive",
        b"Proxy-Connection",
        b"Proxy-Authenticate",
        b"Proxy-Authorization",
        b"TE",
        b"Trailer",
        b"Transfer-Encoding",
        b"Upgrade",
    ];
    NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn contains(value: &[u8], word: &[u8]) -> bool {
    value
        .windows(word.len())
        .any(|window| window.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row was sent to nginx 1.22.
    #[test]
    fn as_nginx_decides() {
        use Version::*;
        for (version, values, expected) in [
            (Http11, &[][..], true),
            (Http11, &["close"], false),
            (Http11, &["Close"], false),
            (Http11, &["x, close"], false),
            (Http11, &["not-close"], false),
            (Http11, &["keep-alive, close"], false),
            (Http11, &["close, keep-alive"], false),
            (Http11, &["upgrade"], true),
            (Http11, &["close", "keep-alive"], true),
            (Http11, &["keep-alive", "close"], false),
            (Http11, &["x", "close"], false),
            (Http10, &[], false),
            (Http10, &["Keep-Alive"], true),
            (Http10, &["x, keep-alive"], true),
            (Http10, &["keep-alivex"], true),
            (Http10, &["close, keep-alive"], false),
            (Http10, &["keep alive"], false),
            (Http09, &[], false),
        ] {
            let bytes = values.iter().map(|value| value.as_bytes());
            assert_eq!(
                keeps_alive(bytes, version),
                expected,
                "{version:?} {values:?}"
            );
        }
    }

    #[test]
    fn hop_by_hop_names() {
        assert!(is_hop_by_hop(b"connection") && is_hop_by_hop(b"te"));
        assert!(!is_hop_by_hop(b"Content-Length"));
    }
}
