//! Base64 (RFC 4648) as nginx reads it: a text ends at its first `=`, and what is left over at the end is dropped.

/// Which letters stand for 62 and 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// `+` and `/`.
    Standard,
    /// `-` and `_`.
    Url,
}

/// Appends what `text` encodes; `None` if it is no base64, and `out` may then end with a part of it.
pub fn decode_into(text: &[u8], alphabet: Alphabet, out: &mut Vec<u8>) -> Option<()> {
    let text = &text[..memchr::memchr(b'=', text).unwrap_or(text.len())];
    if text.len() % 4 == 1 {
        return None;
    }
    let (mut bits, mut held) = (0u32, 0);
    for &byte in text {
        let six = match (byte, alphabet) {
            (b'A'..=b'Z', _) => byte - b'A',
            (b'a'..=b'z', _) => byte - b'a' + 26,
            (b'0'..=b'9', _) => byte - b'0' + 52,
            (b'+', Alphabet::Standard) | (b'-', Alphabet::Url) => 62,
            (b'/', Alphabet::Standard) | (b'_', Alphabet::Url) => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    Some(())
}

/// What `text` encodes.
#[must_use]
pub fn decode(text: &[u8], alphabet: Alphabet) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    decode_into(text, alphabet, &mut out)?;
    Some(out)
}

/// Appends `bytes` in the standard alphabet, padded.
pub fn encode_into(bytes: &[u8], out: &mut Vec<u8>) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            match place <= chunk.len() {
                true => out.push(LETTERS[(bits >> (18 - 6 * place)) as usize & 63]),
                false => out.push(b'='),
            }
        }
    }
}

/// `bytes` in the standard alphabet, padded.
#[must_use]
pub fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    encode_into(bytes, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_decoded_or_refused() {
        for (text, expected) in [
            ("", Some("")),
            ("YQ==", Some("a")),
            ("YQ", Some("a")),
            ("am9lOng=", Some("joe:x")),
            ("am9l=Ong", Some("joe")),
            ("Y", None),
            ("Y!==", None),
            ("YQ==!", Some("a")),
        ] {
            let decoded = decode(text.as_bytes(), Alphabet::Standard);
            assert_eq!(decoded.as_deref(), expected.map(str::as_bytes), "{text}");
        }
        assert_eq!(decode(b"_-8", Alphabet::Url), Some(vec![0xff, 0xef]));
        assert_eq!(decode(b"_-8", Alphabet::Standard), None);
        assert_eq!(decode(b"/+8", Alphabet::Url), None);
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        assert_eq!(encode(b"joe:x"), b"am9lOng=");
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..bytes.len() {
            let bytes = &bytes[..length];
            let text = encode(bytes);
            assert_eq!(text.len() % 4, 0);
            assert_eq!(decode(&text, Alphabet::Standard).as_deref(), Some(bytes));
        }
    }
}
