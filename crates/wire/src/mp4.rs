//! MP4 films (ISO/IEC 14496-12): boxes, and what becomes of a film's description when a part of it is sent. A box is what
//! nginx calls an atom: a size, a name of four letters, data.

mod chunks;
mod crop;
mod description;
mod table;
mod write;

pub use description::Description;

use std::fmt;

/// Bytes of a box's head with a size of 32 bits, and with one of 64.
pub const HEAD: u64 = 8;
const WIDE_HEAD: u64 = 16;

/// The part of a film that is asked for, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Section {
    pub start: u64,
    /// 0: to the end.
    pub length: u64,
    /// Begin at the key frame before `start`.
    pub from_key_frame: bool,
}

/// Why no part of a film can be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<&str> for Malformed {
    fn from(text: &str) -> Malformed {
        Malformed(text.to_owned())
    }
}

/// The head of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub name: [u8; 4],
    /// Bytes before the data.
    pub length: u64,
    /// Bytes of the whole box.
    pub size: u64,
}

impl Head {
    /// Reads what begins with a box of which `left` bytes can follow; `None` at a size of 0, where a list of boxes ends.
    pub fn read(bytes: &[u8], left: u64) -> Result<Option<Head>, Malformed> {
        let truncated = || Malformed::from("mp4 file truncated");
        let mut length = HEAD;
        let mut size = u64::from(number(bytes, 0).ok_or_else(truncated)?);
        if size == 0 {
            return Ok(None);
        }
        if size == 1 {
            size = wide_number(bytes, 8).ok_or_else(truncated)?;
            length = WIDE_HEAD;
        }
        if size < length {
            return Err(Malformed(format!("mp4 atom is too small:{size}")));
        }
        let name = bytes
            .get(4..8)
            .and_then(|name| name.try_into().ok())
            .ok_or_else(truncated)?;
        if size > left {
            return Err(Malformed(format!("mp4 atom too large:{size}")));
        }
        Ok(Some(Head { name, length, size }))
    }

    /// Bytes of data.
    #[must_use]
    pub fn data(&self) -> u64 {
        self.size - self.length
    }
}

/// A film of which a part is sent: what comes before its samples, and which bytes of the file these are.
#[derive(Debug, PartialEq, Eq)]
pub struct Cut {
    pub head: Vec<u8>,
    pub start: u64,
    pub end: u64,
}

/// What is known of a file besides its description.
#[derive(Debug, Clone, Copy)]
pub struct File<'f> {
    /// The box of the file's type, without its head.
    pub kind: Option<&'f [u8]>,
    /// Where the box of samples ends.
    pub samples_end: u64,
    pub length: u64,
}

/// A number of 32 bits at a place.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(four.try_into().ok()?))
}

/// A number of 64 bits at a place.
fn wide_number(bytes: &[u8], at: usize) -> Option<u64> {
    let eight = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_be_bytes(eight.try_into().ok()?))
}
