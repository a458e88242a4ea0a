//! What a copy carries: the identity of the file it was made of, and how. A copy is of a file only where the identities
//! are the same: device, inode, size, time of modification and of change in nanoseconds.

use crate::encoding::best::Effort;
use crate::encoding::negotiate::Coding;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use sys::file::Identity;

/// Bytes of an identity.
pub const IDENTITY_BYTES: usize = 40;
/// Bytes of the mark that a copy beside its source carries.
pub const BESIDE_BYTES: usize = 2 + IDENTITY_BYTES + 16;
/// The form of both marks. What has another one is made anew.
const FORM: u8 = 1;

/// The file's identity as bytes, which differ for different identities.
#[must_use]
pub fn identity_bytes(identity: &Identity) -> [u8; IDENTITY_BYTES] {
    let mut bytes = [0; IDENTITY_BYTES];
    let numbers = [
        identity.device,
        identity.inode,
        identity.size,
        identity.modified_ns as u64,
        identity.changed_ns as u64,
    ];
    for (field, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        field.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// What tells an entry of the store from all others.
#[must_use]
pub fn key_text(identity: &Identity, coding: Coding) -> Vec<u8> {
    let mut text = Vec::with_capacity(64);
    text.extend_from_slice(b"precompress ");
    text.extend_from_slice(coding.as_str().as_bytes());
    text.push(b' ');
    text.extend_from_slice(&identity_bytes(identity));
    text
}

/// The identity in an entry's text.
#[must_use]
pub fn identity_of_text(text: &[u8]) -> Option<&[u8; IDENTITY_BYTES]> {
    text.last_chunk()
}

/// The entries made of one path belong together.
#[must_use]
pub fn group(path: &Path) -> u64 {
    crate::store::format::hash(path.as_os_str().as_bytes())
}

/// What an entry of the store says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark<'a> {
    pub effort: Effort,
    /// False: the copy was not smaller by enough, and there is none.
    pub useful: bool,
    /// The path that the file was found at.
    pub path: &'a [u8],
}

impl<'a> Mark<'a> {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORM, self.effort as u8, u8::from(self.useful)];
        bytes.extend_from_slice(self.path);
        bytes
    }

    #[must_use]
    pub fn decode(bytes: &'a [u8]) -> Option<Mark<'a>> {
        match bytes {
            [FORM, effort, useful, path @ ..] => Some(Mark {
                effort: effort_of(*effort)?,
                useful: *useful != 0,
                path,
            }),
            _ => None,
        }
    }
}

fn effort_of(number: u8) -> Option<Effort> {
    Effort::ALL
        .into_iter()
        .find(|effort| *effort as u8 == number)
}

/// What a copy beside its source says of itself, in an attribute of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BesideMark {
    pub effort: Effort,
    pub source: [u8; IDENTITY_BYTES],
    pub length: u64,
    pub hash: u64,
}

impl BesideMark {
    #[must_use]
    pub fn encode(&self) -> [u8; BESIDE_BYTES] {
        let mut bytes = [0; BESIDE_BYTES];
        bytes[0] = FORM;
        bytes[1] = self.effort as u8;
        bytes[2..2 + IDENTITY_BYTES].copy_from_slice(&self.source);
        bytes[2 + IDENTITY_BYTES..][..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[2 + IDENTITY_BYTES + 8..].copy_from_slice(&self.hash.to_le_bytes());
        bytes
    }

    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<BesideMark> {
        let bytes: &[u8; BESIDE_BYTES] = bytes.try_into().ok()?;
        let [FORM, effort, rest @ ..] = bytes else {
            return None;
        };
        let (source, rest) = rest.split_first_chunk::<IDENTITY_BYTES>()?;
        let (length, hash) = rest.split_first_chunk::<8>()?;
        Some(BesideMark {
            effort: effort_of(*effort)?,
            source: *source,
            length: u64::from_le_bytes(*length),
            hash: u64::from_le_bytes(hash.try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            device: 1,
            inode: 2,
            size: 3,
            modified_ns: -4,
            changed_ns: 5,
        }
    }

    #[test]
    fn each_part_of_an_identity_tells() {
        let one = identity();
        let others = [
            Identity { device: 9, ..one },
            Identity { inode: 9, ..one },
            Identity { size: 9, ..one },
            Identity {
                modified_ns: 9,
                ..one
            },
            Identity {
                changed_ns: 9,
                ..one
            },
        ];
        let text = key_text(&one, Coding::Gzip);
        assert_eq!(identity_of_text(&text), Some(&identity_bytes(&one)));
        for other in others {
            assert_ne!(key_text(&other, Coding::Gzip), text);
        }
        assert_ne!(key_text(&one, Coding::Brotli), text);
    }

    #[test]
    fn marks_are_read_as_they_were_written() {
        for (effort, useful) in [(Effort::Fast, true), (Effort::Max, false)] {
            let mark = Mark {
                effort,
                useful,
                path: b"/a",
            };
            assert_eq!(Mark::decode(&mark.encode()), Some(mark));
            let beside = BesideMark {
                effort,
                source: identity_bytes(&identity()),
                length: 7,
                hash: u64::MAX,
            };
            let bytes = beside.encode();
            assert_eq!(BesideMark::decode(&bytes), Some(beside));
            for cut in 0..bytes.len() {
                assert_eq!(BesideMark::decode(&bytes[..cut]), None);
            }
        }
        assert_eq!(Mark::decode(&[FORM, 9, 1]), None);
        assert_eq!(Mark::decode(&[9, 0, 1]), None);
        assert_eq!(Mark::decode(b""), None);
    }
}
