//! JPEG files to planes, at a part of their size: 8 bits, Huffman codes, one channel, Y, Cb and Cr or four inks, baseline and
//! progressive. For an eighth of the size only the first coefficient of each block is needed, so of the others just
//! the lengths are read, or, in progressive files, nothing at all.

use super::huffman::Specification;
use super::inverse::SCALES;
use super::lookup::Table;
use super::plane::Plane;
use super::segments;
use crate::decode::Profiles;
use crate::error::Error;
use crate::limits::{Deadline, Limits, at_most};

/// Scans of a progressive file that are read.
const SCANS_MAX: usize = 200;
/// The most bytes of EXIF, ICC and XMP together that are kept.
const PROFILES_MAX: usize = 4 << 20;

/// One channel of a frame.
#[derive(Debug, Clone)]
pub struct Component {
    /// Its name in scans.
    pub id: u8,
    /// Blocks in a unit of an interleaved scan.
    pub across: usize,
    /// Blocks in a unit of an interleaved scan.
    pub down: usize,
    /// The number of its quantisation table.
    pub quantisation: usize,
    /// Blocks that belong to the picture.
    pub blocks: (usize, usize),
    /// Blocks of whole units.
    pub stored: (usize, usize),
}

/// What the frame header says.
#[derive(Debug, Clone)]
pub struct Frame {
    /// In pixels.
    pub width: usize,
    /// In pixels.
    pub height: usize,
    /// In several scans of parts of the coefficients.
    pub progressive: bool,
    /// One, three or four.
    pub components: Vec<Component>,
    /// The most blocks of a component in a unit.
    pub sampling_max: (usize, usize),
    /// Units of an interleaved scan.
    pub units: (usize, usize),
}

/// What scans are read with; segments between scans may change it.
#[derive(Default)]
pub struct Tables {
    /// DC tables.
    pub dc: [Option<Table>; 4],
    /// AC tables.
    pub ac: [Option<Table>; 4],
    /// Steps, in the order of the file.
    pub quantisation: [Option<[f32; 64]>; 4],
    /// Units between restarts; 0 is none.
    pub restart_interval: usize,
}

/// A scan's header.
pub struct Scan {
    /// Numbers of components, each with its DC and AC table.
    pub components: Vec<(usize, usize, usize)>,
    /// The first coefficient.
    pub first: usize,
    /// The last coefficient.
    pub last: usize,
    /// Bits that are left out of all values so far, in this scan and before it.
    pub low: u32,
    /// Bits that were left out before; 0 in the first scan of a band.
    pub high: u32,
    /// Where its data begins.
    pub start: usize,
}

/// A picture at a part of its size.
pub struct Scaled {
    /// One, three or four.
    pub planes: Vec<Channel>,
    /// Of four: see `Planes`.
    pub transformed: bool,
    /// What else the file holds.
    pub profiles: Profiles,
}

/// A channel of a picture at a part of its size.
pub struct Channel {
    /// Its samples, those at the edges that are only partly of the picture included.
    pub plane: Plane,
    /// The picture's size in this plane's samples; the last one may be part of a sample.
    pub size: (f64, f64),
}

/// Whether the decoder takes a file; what it does not take is for another one. Says how many samples of brightness there
/// are for one of colour, in the direction where there are more.
pub fn takes(source: &[u8]) -> Option<u32> {
    let (mut takes, mut channels, mut plain) = (None, 0, false);
    for segment in segments(source).map_while(Result::ok) {
        match segment.marker {
            0xc0..=0xc2 => {
                let frame = Frame::new(segment.marker == 0xc2, segment.data).ok()?;
                // Channels named R, G and B are those.
                if frame.components.len() == 3 && frame.components[0].id == b'R' {
                    return None;
                }
                let most = |component: &Component| {
                    let across = frame.sampling_max.0 / component.across;
                    across.max(frame.sampling_max.1 / component.down) as u32
                };
                takes = frame.components.iter().map(most).max();
                channels = frame.components.len();
            }
            0xc3 | 0xc5..=0xc7 | 0xc9..=0xcf => return None,
            0xee => plain |= transform(segment.data) == Some(0),
            0xda => break,
            _ => {}
        }
    }
    takes.filter(|_| channels != 3 || !plain)
}

/// What Adobe's segment says of how colours are transformed.
fn transform(data: &[u8]) -> Option<u8> {
    data.starts_with(b"Adobe").then(|| data.get(11).copied())?
}

/// Decodes at `scale` eighths of the size, one of `SCALES`.
pub fn decode(
    source: &[u8],
    scale: usize,
    limits: &Limits,
    deadline: Deadline,
) -> Result<Scaled, Error> {
    match scale {
        1 => run::<1>(source, limits, deadline),
        2 => run::<2>(source, limits, deadline),
        3 => run::<3>(source, limits, deadline),
        4 => run::<4>(source, limits, deadline),
        _ => run::<8>(source, limits, deadline),
    }
}

/// The smallest scale at which a picture still has one and a half times the samples that are wanted, each way.
pub fn scale_for(source: (u32, u32), wanted: (u32, u32)) -> usize {
    let enough = |scale: &usize| {
        let side = |source: u32, wanted: u32| {
            u64::from(source) * *scale as u64 * 2 + 16 >= u64::from(wanted) * 8 * 3
        };
        side(source.0, wanted.0) && side(source.1, wanted.1)
    };
    SCALES.into_iter().find(enough).unwrap_or(8)
}

fn run<const N: usize>(
    source: &[u8],
    limits: &Limits,
    deadline: Deadline,
) -> Result<Scaled, Error> {
    let mut tables = Tables::default();
    let mut frame: Option<Frame> = None;
    let mut picture: Option<super::scaled::Picture<N>> = None;
    let mut profiles = Collected::default();
    let (mut scans, mut transformed) = (0, false);
    for segment in segments(source) {
        let segment = match segment {
            Ok(segment) => segment,
            // Nothing but an end is missing.
            Err(_) if scans > 0 => break,
            Err(error) => return Err(error),
        };
        match segment.marker {
            0xc0..=0xc2 => {
                if frame.is_some() {
                    return Err(Error::corrupt("two frames"));
                }
                let found = Frame::new(segment.marker == 0xc2, segment.data)?;
                picture = Some(super::scaled::Picture::new(&found, source, limits)?);
                frame = Some(found);
            }
            0xc4 => tables.add_codes(segment.data)?,
            0xdb => tables.add_quantisation(segment.data)?,
            0xdd => {
                let interval = number(segment.data, 0)?;
                tables.restart_interval = interval;
            }
            0xe1 | 0xe2 => profiles.add(segment.marker, segment.data),
            0xee => transformed |= transform(segment.data) == Some(2),
            0xda => {
                scans += 1;
                at_most("scans", scans as u64, SCANS_MAX as u64)?;
                let (Some(frame), Some(picture)) = (&frame, &mut picture) else {
                    return Err(Error::corrupt("a scan before its frame"));
                };
                let scan = Scan::new(frame, segment.data, segment.end)?;
                picture.scan(source, frame, &scan, &tables, deadline)?;
            }
            _ => {}
        }
    }
    match (frame, picture) {
        (Some(frame), Some(picture)) if scans > 0 => Ok(Scaled {
            planes: picture.finish(&frame, deadline)?,
            transformed,
            profiles: profiles.finish(),
        }),
        _ => Err(Error::corrupt("the file ends too early")),
    }
}

fn number(data: &[u8], at: usize) -> Result<usize, Error> {
    match data.get(at..at + 2) {
        Some([high, low]) => Ok(usize::from(*high) << 8 | usize::from(*low)),
        _ => Err(Error::corrupt("a segment that is too short")),
    }
}

fn byte(data: &[u8], at: usize) -> Result<usize, Error> {
    data.get(at)
        .map(|byte| usize::from(*byte))
        .ok_or_else(|| Error::corrupt("a segment that is too short"))
}

impl Frame {
    fn new(progressive: bool, data: &[u8]) -> Result<Frame, Error> {
        let (height, width, count) = (number(data, 1)?, number(data, 3)?, byte(data, 5)?);
        if byte(data, 0)? != 8 || !matches!(count, 1 | 3 | 4) || width == 0 || height == 0 {
            return Err(Error::Unsupported("JPEG of an unusual kind"));
        }
        let mut components = Vec::with_capacity(count);
        for at in (6..).step_by(3).take(count) {
            let sampling = byte(data, at + 1)?;
            // A single channel is never interleaved, whatever its sampling says.
            let (across, down) = if count == 1 {
                (1, 1)
            } else {
                (sampling >> 4, sampling & 15)
            };
            if !(1..=4).contains(&across) || !(1..=4).contains(&down) {
                return Err(Error::corrupt("a sampling that cannot be"));
            }
            components.push(Component {
                id: byte(data, at)? as u8,
                across,
                down,
                quantisation: byte(data, at + 2)? & 3,
                blocks: (0, 0),
                stored: (0, 0),
            });
        }
        let most = |of: fn(&Component) -> usize| components.iter().map(of).max().unwrap_or(1);
        let sampling_max = (most(|c| c.across), most(|c| c.down));
        let units = (
            width.div_ceil(8 * sampling_max.0),
            height.div_ceil(8 * sampling_max.1),
        );
        for component in &mut components {
            component.blocks = (
                (width * component.across).div_ceil(8 * sampling_max.0),
                (height * component.down).div_ceil(8 * sampling_max.1),
            );
            component.stored = (units.0 * component.across, units.1 * component.down);
        }
        Ok(Frame {
            width,
            height,
            progressive,
            components,
            sampling_max,
            units,
        })
    }
}

impl Tables {
    fn add_codes(&mut self, mut data: &[u8]) -> Result<(), Error> {
        while let Some((head, rest)) = data.split_first() {
            let counts: [u8; 16] = rest
                .first_chunk()
                .copied()
                .ok_or_else(|| Error::corrupt("a table that is too short"))?;
            let total = counts
                .iter()
                .map(|count| usize::from(*count))
                .sum::<usize>();
            let symbols = rest
                .get(16..16 + total)
                .ok_or_else(|| Error::corrupt("a table that is too short"))?;
            let table = Table::new(&Specification {
                counts,
                symbols: symbols.to_vec(),
            })?;
            let number = usize::from(head & 3);
            if head >> 4 == 0 {
                self.dc[number] = Some(table);
            } else {
                self.ac[number] = Some(table.with_values());
            }
            data = rest.get(16 + total..).unwrap_or_default();
        }
        Ok(())
    }

    fn add_quantisation(&mut self, mut data: &[u8]) -> Result<(), Error> {
        while let Some((head, rest)) = data.split_first() {
            let wide = head >> 4 != 0;
            let mut table = [0f32; 64];
            for (at, step) in table.iter_mut().enumerate() {
                *step = if wide {
                    number(rest, at * 2)? as f32
                } else {
                    byte(rest, at)? as f32
                };
            }
            self.quantisation[usize::from(head & 3)] = Some(table);
            data = rest.get(if wide { 128 } else { 64 }..).unwrap_or_default();
        }
        Ok(())
    }
}

impl Scan {
    /// Reads a header; an error unless it can be of this frame.
    pub fn new(frame: &Frame, data: &[u8], start: usize) -> Result<Scan, Error> {
        let count = byte(data, 0)?;
        let mut components = Vec::with_capacity(count.min(4));
        for at in (1..).step_by(2).take(count.min(4)) {
            let (id, tables) = (byte(data, at)? as u8, byte(data, at + 1)?);
            let place = frame
                .components
                .iter()
                .position(|component| component.id == id);
            let place = place.ok_or_else(|| Error::corrupt("a scan of an unknown channel"))?;
            if components.iter().any(|(other, _, _)| *other == place) {
                return Err(Error::corrupt("a scan with a channel twice"));
            }
            components.push((place, tables >> 4 & 3, tables & 3));
        }
        let at = 1 + count * 2;
        let (first, last, bits) = (byte(data, at)?, byte(data, at + 1)?, byte(data, at + 2)?);
        let (first, last, high, low) = if frame.progressive {
            (first, last, bits as u32 >> 4, bits as u32 & 15)
        } else {
            (0, 63, 0, 0)
        };
        let bands = match first {
            0 => !frame.progressive || last == 0,
            _ => first <= last && last < 64 && components.len() == 1,
        };
        let blocks: usize = components
            .iter()
            .map(|(place, _, _)| frame.components[*place].across * frame.components[*place].down)
            .sum();
        if components.is_empty() || !bands || low > 13 || (components.len() > 1 && blocks > 10) {
            return Err(Error::corrupt("a scan that cannot be"));
        }
        Ok(Scan {
            components,
            first,
            last,
            low,
            high,
            start,
        })
    }
}

/// Profiles as they are found.
#[derive(Default)]
struct Collected {
    profiles: Profiles,
    /// Parts of the colour profile by number.
    icc: Vec<(u8, Vec<u8>)>,
    bytes: usize,
}

impl Collected {
    fn add(&mut self, marker: u8, data: &[u8]) {
        self.bytes = self.bytes.saturating_add(data.len());
        if self.bytes > PROFILES_MAX {
            return;
        }
        if let (0xe2, Some(part)) = (marker, data.strip_prefix(b"ICC_PROFILE\0")) {
            if let [number, _, part @ ..] = part {
                self.icc.push((*number, part.to_vec()));
            }
        } else if let Some(exif) = data.strip_prefix(b"Exif\0\0") {
            self.profiles.exif.get_or_insert_with(|| exif.to_vec());
        } else if let Some(xmp) = data.strip_prefix(b"http://ns.adobe.com/xap/1.0/\0") {
            self.profiles.xmp.get_or_insert_with(|| xmp.to_vec());
        }
    }

    fn finish(mut self) -> Profiles {
        self.icc.sort_by_key(|(number, _)| *number);
        let icc: Vec<u8> = self.icc.into_iter().flat_map(|(_, part)| part).collect();
        self.profiles.icc = Some(icc).filter(|icc| !icc.is_empty());
        self.profiles
    }
}

/// The profiles of a file, whatever its pixels are.
pub fn profiles(source: &[u8]) -> Profiles {
    let mut collected = Collected::default();
    for segment in segments(source).map_while(Result::ok) {
        match segment.marker {
            0xe1 | 0xe2 => collected.add(segment.marker, segment.data),
            0xda => break,
            _ => {}
        }
    }
    collected.finish()
}
