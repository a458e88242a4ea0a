//! A JPEG's markers up to the first scan (ITU T.81, annex B).

use super::{Facts, Format, Model, bytes, exif, truncated};
use crate::error::Error;
use crate::jpeg::quantisation;

/// Walks the segments. A file that is cut after its frame header still has facts.
pub fn facts(source: &[u8]) -> Result<Facts, Error> {
    let mut facts: Option<Facts> = None;
    let mut orientation = None;
    let mut metadata_bytes = 0;
    let mut quality = None;
    for segment in crate::jpeg::segments(source) {
        let segment = match segment {
            Ok(segment) => segment,
            Err(_) if facts.is_some() => break,
            Err(error) => return Err(error),
        };
        match segment.marker {
            0xc4 | 0xc8 | 0xcc => {}
            0xc0..=0xcf if facts.is_none() => facts = Some(frame(segment.marker, segment.data)?),
            0xdb => quality = quality.or_else(|| quantisation::quality(segment.data)),
            0xe0..=0xef | 0xfe => {
                metadata_bytes += segment.data.len() as u64 + 4;
                if segment.marker == 0xe1 && segment.data.starts_with(b"Exif\0\0") {
                    orientation.get_or_insert_with(|| exif::orientation(segment.data));
                }
            }
            0xda => break,
            _ => {}
        }
    }
    let mut facts = facts.ok_or_else(truncated)?;
    facts.orientation = orientation.unwrap_or(1);
    facts.metadata_bytes = metadata_bytes;
    facts.quality = quality;
    Ok(facts)
}

fn frame(marker: u8, data: &[u8]) -> Result<Facts, Error> {
    let head = bytes(data, 0, 6)?;
    let number = |at: usize| u32::from(head[at]) << 8 | u32::from(head[at + 1]);
    let mut facts = Facts::new(Format::Jpeg, number(3), number(1));
    facts.bits = head[0];
    facts.progressive = matches!(marker, 0xc2 | 0xc6 | 0xca | 0xce);
    facts.model = match head[5] {
        1 => Model::Grey,
        3 => Model::Colour,
        4 => Model::Cmyk,
        _ => return Err(Error::Unsupported("JPEG of an unusual number of channels")),
    };
    Ok(facts)
}
