//! An entry's file: a head that can be checked by itself, then the body. Numbers are little-endian.
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | `MAGIC` |
//! | 4 | bytes of the whole head: where the body begins |
//! | 4 | bytes of the key's text |
//! | 8 | bytes of the body |
//! | 8 | XXH3 of the body |
//! | 8 | the group |
//! | 8 | XXH3 of the head without this field |
//! | … | the key's text, then the metadata |

use super::key::Key;
use twox_hash::XxHash3_64;

/// Another number for another form: what has it is removed and made anew.
const MAGIC: [u8; 8] = *b"GANNET01";
/// Bytes before the key's text.
pub const FIXED: usize = 48;
/// Where the head's hash stands.
const HASH_AT: usize = 40;
/// Bytes of a whole head.
pub const HEAD_MAX: usize = 64 * 1024;

/// What stands before an entry's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub text: Box<[u8]>,
    pub metadata: Box<[u8]>,
    /// Entries of one group can be dropped together.
    pub group: u64,
    pub body_bytes: u64,
    pub body_hash: u64,
}

/// What is wrong with an entry's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

/// The hash of a body.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

impl Head {
    /// Where the body begins.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (FIXED + self.text.len() + self.metadata.len()) as u64
    }

    /// Bytes of the whole file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.bytes() + self.body_bytes
    }

    /// Whether the head belongs to a file of this name.
    #[must_use]
    pub fn has_key(&self, key: Key) -> bool {
        Key::of(&self.text) == key
    }

    /// `None`: the head would be longer than any may be.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        let total = FIXED + self.text.len() + self.metadata.len();
        if total > HEAD_MAX {
            return None;
        }
        let mut out = Vec::with_capacity(total);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&(total as u32).to_le_bytes());
        out.extend_from_slice(&(self.text.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.body_bytes.to_le_bytes());
        out.extend_from_slice(&self.body_hash.to_le_bytes());
        out.extend_from_slice(&self.group.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&self.text);
        out.extend_from_slice(&self.metadata);
        let own = head_hash(&out);
        out[HASH_AT..FIXED].copy_from_slice(&own.to_le_bytes());
        Some(out)
    }

    /// How long the head is that begins with these bytes, of which there are `FIXED` or more.
    pub fn length(bytes: &[u8]) -> Result<usize, Broken> {
        if bytes.get(..8) != Some(&MAGIC) {
            return Err(Broken);
        }
        let total = number_u32(bytes, 8)? as usize;
        match (FIXED..=HEAD_MAX).contains(&total) {
            true => Ok(total),
            false => Err(Broken),
        }
    }

    /// Reads a head from the beginning of a file's bytes.
    pub fn decode(bytes: &[u8]) -> Result<Head, Broken> {
        let total = Head::length(bytes)?;
        let head = bytes.get(..total).ok_or(Broken)?;
        if number_u64(head, HASH_AT)? != head_hash(head) {
            return Err(Broken);
        }
        let text_end = FIXED.saturating_add(number_u32(head, 12)? as usize);
        Ok(Head {
            text: head.get(FIXED..text_end).ok_or(Broken)?.into(),
            metadata: head.get(text_end..).ok_or(Broken)?.into(),
            group: number_u64(head, 32)?,
            body_bytes: number_u64(head, 16)?,
            body_hash: number_u64(head, 24)?,
        })
    }
}

fn head_hash(head: &[u8]) -> u64 {
    let mut hasher = XxHash3_64::with_seed(0);
    std::hash::Hasher::write(&mut hasher, head.get(..HASH_AT).unwrap_or_default());
    std::hash::Hasher::write(&mut hasher, head.get(FIXED..).unwrap_or_default());
    std::hash::Hasher::finish(&hasher)
}

fn number_u32(bytes: &[u8], at: usize) -> Result<u32, Broken> {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.copied().map(u32::from_le_bytes).ok_or(Broken)
}

fn number_u64(bytes: &[u8], at: usize) -> Result<u64, Broken> {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.copied().map(u64::from_le_bytes).ok_or(Broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &[u8], metadata: &[u8]) -> Head {
        Head {
            text: text.into(),
            metadata: metadata.into(),
            group: 7,
            body_bytes: 5,
            body_hash: hash(b"hello"),
        }
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        for (text, metadata) in [
            (&b""[..], &b""[..]),
            (b"key", b""),
            (b"", b"x"),
            (b"key", b"facts"),
        ] {
            let head = head(text, metadata);
            let mut bytes = head.encode().unwrap();
            assert_eq!(bytes.len() as u64, head.bytes());
            bytes.extend_from_slice(b"hello");
            assert_eq!(Head::decode(&bytes), Ok(head.clone()));
            assert_eq!(head.file_bytes(), bytes.len() as u64);
        }
        assert!(head(&[b'x'; HEAD_MAX], b"").encode().is_none());
    }

    #[test]
    fn whatever_is_changed_or_cut_is_seen() {
        let bytes = head(b"key", b"facts").encode().unwrap();
        for cut in 0..bytes.len() {
            assert_eq!(Head::decode(&bytes[..cut]), Err(Broken), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x80] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                assert_eq!(Head::decode(&changed), Err(Broken), "byte {at}");
            }
        }
    }
}
