//! AVIF's boxes (ISO/IEC 23008-12 and 23000-22): the primary picture's sides, how it is turned, whether it has alpha.
//! Sequences are taken for the still picture that they have, too.

use super::{Facts, Format};
use crate::error::Error;
use crate::plan::Rotation;
use crate::raster::Turn;

/// Boxes that are looked at in one box.
const BOXES_MAX: usize = 256;
/// Alpha is an auxiliary picture of this kind.
const ALPHA: &[u8] = b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha";

/// Whether a file's first box names the format.
pub fn is_avif(source: &[u8]) -> bool {
    let Some((name, brands)) = boxes(source).next() else {
        return false;
    };
    // The major brand, a version, compatible brands.
    let is_brand = |brand: &[u8]| brand == b"avif" || brand == b"avis";
    name == b"ftyp" && brands.chunks(4).take(16).any(is_brand)
}

/// The primary picture as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Before it is turned.
    pub width: u32,
    /// Before it is turned.
    pub height: u32,
    /// How it is turned to be shown.
    pub turn: Turn,
    has_alpha: bool,
}

/// What the header says. The sides are those that are shown: whoever shows the file must turn it.
pub fn facts(source: &[u8]) -> Result<Facts, Error> {
    let stored = stored(source)?;
    let (width, height) = stored.turn.size((stored.width, stored.height));
    let mut facts = Facts::new(Format::Avif, width, height);
    facts.has_alpha = stored.has_alpha;
    Ok(facts)
}

/// The boxes within `bytes`: names and contents. What is cut off or without sense ends them.
fn boxes(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let step = move || {
        let (name, rest) = (bytes.get(4..8)?, bytes.get(8..)?);
        let (content, after) = match number(bytes, 0, 4)? {
            0 => (rest, &rest[rest.len()..]),
            1 => {
                let (high, low) = (number(rest, 0, 4)?, number(rest, 4, 4)?);
                let length = usize::try_from(u64::from(high) << 32 | u64::from(low)).ok()?;
                rest.get(8..)?.split_at_checked(length.checked_sub(16)?)?
            }
            length => rest.split_at_checked((length as usize).checked_sub(8)?)?,
        };
        bytes = after;
        Some((name, content))
    };
    std::iter::from_fn(step).take(BOXES_MAX)
}

fn find<'a>(bytes: &'a [u8], wanted: &[u8]) -> Result<&'a [u8], Error> {
    let mut boxes = boxes(bytes).filter(|(name, _)| *name == wanted);
    let found = boxes.next().map(|(_, content)| content);
    found.ok_or_else(|| Error::corrupt("AVIF without one of its boxes"))
}

/// `count` bytes from `at` on, the most significant first.
fn number(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u32::from(*byte)),
    )
}

/// The primary picture.
pub fn stored(source: &[u8]) -> Result<Stored, Error> {
    // Version and flags come first in these boxes.
    let meta = find(source, b"meta")?.get(4..).unwrap_or_default();
    let properties = find(meta, b"iprp")?;
    let all: Vec<(&[u8], &[u8])> = boxes(find(properties, b"ipco")?).collect();
    let primary = find(meta, b"pitm")?;
    let early = || Error::corrupt("the file ends too early");
    let wide = if primary.first() == Some(&0) { 2 } else { 4 };
    let primary = number(primary, 4, wide).ok_or_else(early)?;
    let places = properties_of(primary, find(properties, b"ipma")?).ok_or_else(early)?;
    let mut stored = Stored {
        width: 0,
        height: 0,
        turn: Turn::default(),
        has_alpha: all.iter().any(|(name, content)| {
            *name == b"auxC" && content.get(4..).is_some_and(|kind| kind.starts_with(ALPHA))
        }),
    };
    let (mut turn, mut mirror) = (Turn::default(), Turn::default());
    for place in places {
        let Some((name, content)) = place.checked_sub(1).and_then(|place| all.get(place)) else {
            continue;
        };
        match *name {
            b"ispe" => {
                stored.width = number(content, 4, 4).ok_or_else(early)?;
                stored.height = number(content, 8, 4).ok_or_else(early)?;
            }
            // Counter-clockwise, in quarters.
            b"irot" => {
                turn = match number(content, 0, 1).unwrap_or(0) & 3 {
                    1 => Turn::rotation(Rotation::ThreeQuarters),
                    2 => Turn::rotation(Rotation::Half),
                    3 => Turn::rotation(Rotation::Quarter),
                    _ => Turn::default(),
                };
            }
            b"imir" => {
                let across = number(content, 0, 1).unwrap_or(0) & 1 == 1;
                mirror.mirror_x = across;
                mirror.mirror_y = !across;
            }
            _ => {}
        }
    }
    stored.turn = turn.then(mirror);
    Ok(stored)
}

/// The numbers of a picture's properties, counted from 1.
fn properties_of(wanted: u32, associations: &[u8]) -> Option<Vec<usize>> {
    let (version, flags) = (number(associations, 0, 1)?, number(associations, 1, 3)?);
    let wide_items = if version == 0 { 2 } else { 4 };
    let wide_places = if flags & 1 == 0 { 1 } else { 2 };
    let entries = number(associations, 4, 4)?;
    let mut at = 8;
    for _ in 0..entries {
        let item = number(associations, at, wide_items)?;
        at += wide_items;
        let count = number(associations, at, 1)? as usize;
        at += 1;
        if item == wanted {
            // The highest bit says that it must be understood.
            let essential = 1u32 << (wide_places * 8 - 1);
            let place = |index: usize| {
                let place = number(associations, at + index * wide_places, wide_places)?;
                Some((place & !essential) as usize)
            };
            return (0..count).map(place).collect();
        }
        at += count * wide_places;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(name: &[u8], content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u32 + 8).to_be_bytes();
        [&length, name, content].concat()
    }

    /// A file's header; `more` are properties of the primary picture besides its sides.
    fn header(more: &[Vec<u8>]) -> Vec<u8> {
        let sides = [[0, 0, 0, 0], 640u32.to_be_bytes(), 427u32.to_be_bytes()].concat();
        let properties = [boxed(b"ispe", &sides), more.concat()].concat();
        let mut places = vec![0, 0, 0, 0, 0, 0, 0, 2, 0, 9, 1, 1, 0, 7];
        places.push(more.len() as u8 + 1);
        places.extend((1..=more.len() as u8 + 1).map(|place| place | 0x80));
        let inside = [boxed(b"ipco", &properties), boxed(b"ipma", &places)].concat();
        let meta = [
            vec![0; 4],
            boxed(b"pitm", &[0, 0, 0, 0, 0, 7]),
            boxed(b"iprp", &inside),
        ];
        let brands = boxed(b"ftyp", b"mif1\0\0\0\0miafavif");
        [brands, boxed(b"meta", &meta.concat())].concat()
    }

    #[test]
    fn the_header_tells_sides_and_turns() {
        let alpha = boxed(b"auxC", &[&[0; 4], ALPHA, b"\0"].concat());
        for (more, size, has_alpha) in [
            (vec![], (640, 427), false),
            (vec![boxed(b"irot", &[1])], (427, 640), false),
            (vec![boxed(b"irot", &[2]), alpha], (640, 427), true),
            (
                vec![boxed(b"irot", &[3]), boxed(b"imir", &[0])],
                (427, 640),
                false,
            ),
        ] {
            let source = header(&more);
            assert!(is_avif(&source));
            let found = facts(&source).expect("facts");
            assert_eq!((found.width, found.height), size);
            assert_eq!(found.has_alpha, has_alpha);
        }
    }

    #[test]
    fn headers_that_are_cut_or_changed_are_errors_at_most() {
        let source = header(&[boxed(b"irot", &[1])]);
        for end in 0..source.len() {
            let _ = is_avif(&source[..end]);
            assert!(facts(&source[..end]).is_err(), "{end}");
        }
        for at in 0..source.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = source.clone();
                changed[at] = value;
                let _ = facts(&changed);
            }
        }
    }
}
