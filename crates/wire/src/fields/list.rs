//! Comma-separated lists (RFC 9110, 5.6.1): elements without the blanks around them, empty ones left out.

use memchr::memchr2;

/// The elements of a list. A comma inside a quoted string does not separate.
pub fn elements(value: &[u8]) -> Elements<'_> {
    Elements { rest: value }
}

/// See `elements`.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let end = element_end(self.rest);
            let element = trim(&self.rest[..end]);
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if !element.is_empty() {
                return Some(element);
            }
        }
        None
    }
}

/// The offset of the first comma outside quotes, or the length.
fn element_end(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = memchr2(b',', b'"', &bytes[at..]) {
        at += found;
        if bytes[at] == b',' {
            return at;
        }
        at = quoted_end(bytes, at);
    }
    bytes.len()
}

/// The offset after the quoted string that starts at `at`; one that does not end goes on to the end.
pub(super) fn quoted_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(found) = memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

/// Takes spaces and tabs off both ends.
pub(super) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// Whether the list has the token, whatever its case.
pub fn has_token(value: &[u8], token: &str) -> bool {
    elements(value).any(|element| element.eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_cut_at_commas() {
        for (value, expected) in [
            ("", &[][..]),
            (" , ,", &[]),
            ("a", &["a"]),
            (" a ,\tb,,c ", &["a", "b", "c"]),
            ("a=\"x,y\", b", &["a=\"x,y\"", "b"]),
            ("\"a\\\",b\",c", &["\"a\\\",b\"", "c"]),
            ("\"open, a", &["\"open, a"]),
            ("\"open\\", &["\"open\\"]),
        ] {
            let found: Vec<_> = elements(value.as_bytes()).collect();
            let expected: Vec<_> = expected.iter().map(|e| e.as_bytes()).collect();
            assert_eq!(found, expected, "{value}");
        }
        assert!(has_token(b"keep-alive, Upgrade", "upgrade"));
        assert!(!has_token(b"keep-alive, upgraded", "upgrade"));
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut random = crate::testing::Random::new(2);
        for _ in 0..50_000 {
            let bytes = random.bytes(20);
            assert!(elements(&bytes).all(|element| !element.is_empty()));
        }
    }
}
