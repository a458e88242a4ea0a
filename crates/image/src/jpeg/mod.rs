//! JPEG of our own (ITU T.81): a decoder that reads a picture at a part of its size, and an encoder that takes planes.

use crate::error::Error;

/// Planes to a file.
pub mod encoder;
/// Codes of variable length.
pub mod huffman;
/// A picture as planes.
pub mod plane;
/// Tables that scale coefficients.
pub mod quantisation;

/// Files to planes.
pub mod decoder;

mod bits;
mod inverse;
mod lookup;
mod progressive;
mod scaled;
mod scans;
mod transform;

/// A marker and what follows it.
pub struct Segment<'a> {
    /// The byte after 0xff.
    pub marker: u8,
    /// Without the length; empty for markers that have none.
    pub data: &'a [u8],
    /// Where the next byte after the segment stands in the file.
    pub end: usize,
}

/// The segments from the beginning of a file. Between a scan's header and the next marker lies entropy-coded data,
/// which is skipped.
pub fn segments(source: &[u8]) -> impl Iterator<Item = Result<Segment<'_>, Error>> {
    let mut at = 2;
    let mut failed = false;
    std::iter::from_fn(move || {
        if failed {
            return None;
        }
        let segment = next_segment(source, at);
        match &segment {
            Ok(Some(segment)) => at = segment.end,
            Ok(None) => return None,
            Err(_) => failed = true,
        }
        segment.transpose()
    })
}

/// The first segment at or after `at`; none at the end of the picture.
pub fn next_segment(source: &[u8], mut at: usize) -> Result<Option<Segment<'_>>, Error> {
    let early = || Error::corrupt("the file ends too early");
    loop {
        let rest = source.get(at..).ok_or_else(early)?;
        at += memchr::memchr(0xff, rest).ok_or_else(early)? + 1;
        let marker = *source.get(at).ok_or_else(early)?;
        match marker {
            // A stuffed byte, a filling byte, a restart marker: nothing of ours.
            0x00 | 0x01 | 0xd0..=0xd7 => at += 1,
            0xff => {}
            0xd8 => at += 1,
            0xd9 => return Ok(None),
            _ => {
                let length = source.get(at + 1..at + 3).ok_or_else(early)?;
                let length = usize::from(length[0]) << 8 | usize::from(length[1]);
                if length < 2 {
                    return Err(Error::corrupt("a segment without length"));
                }
                let end = at + 1 + length;
                let data = source.get(at + 3..end).ok_or_else(early)?;
                return Ok(Some(Segment { marker, data, end }));
            }
        }
    }
}
