//! The name of an entry: a hash of the text that tells it from all others. The text itself is kept in the entry, so that
//! two texts with one hash are never taken for each other.

use twox_hash::XxHash3_128;

/// The hash of an entry's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(u128);

/// Hexadecimal digits of a key's file name.
pub const NAME_LENGTH: usize = 32;

impl Key {
    #[must_use]
    pub fn of(text: &[u8]) -> Key {
        Key(XxHash3_128::oneshot(text))
    }

    #[must_use]
    pub fn bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// The file name; its first two digits name the directory.
    #[must_use]
    pub fn name(self) -> String {
        format!("{:0width$x}", self.0, width = NAME_LENGTH)
    }

    /// The key of a file name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Key> {
        let digits = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if name.len() != NAME_LENGTH || !name.bytes().all(digits) {
            return None;
        }
        u128::from_str_radix(name, 16).ok().map(Key)
    }

    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Key {
        Key(u128::from_le_bytes(bytes))
    }

    /// The number that its file's directory has for a name: the first two digits.
    #[must_use]
    pub fn directory(self) -> usize {
        (self.0 >> 120) as usize
    }

    /// The number of the group that belongs to an entry of this key, never 0.
    #[must_use]
    pub fn group(self) -> u64 {
        (self.0 as u64).max(1)
    }

    /// One of `count` parts of a table.
    #[must_use]
    pub fn part(self, count: usize) -> usize {
        (self.0 >> 64) as usize % count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_back_to_its_key() {
        for text in [&b""[..], b"a", b"/srv/www/index.html"] {
            let key = Key::of(text);
            assert_eq!(Key::parse(&key.name()), Some(key));
            assert!(key.part(16) < 16);
            assert_eq!(Key::from_bytes(key.bytes()), key);
            assert!(key.name().starts_with(&format!("{:02x}", key.directory())));
        }
        assert_ne!(Key::of(b"a"), Key::of(b"b"));
        for name in ["", "a", &"g".repeat(32), &"A".repeat(32), &"0".repeat(33)] {
            assert_eq!(Key::parse(name), None, "{name}");
        }
    }
}
