//! Pixels to files.

use crate::decode::Profiles;
use crate::error::Error;
use crate::jpeg::encoder;
use crate::jpeg::plane::Planes;
use crate::plan::{Output, Sampling};
use crate::probe::Format;
use crate::raster::Raster;
use std::time::Instant;

mod auto;
mod avif;
mod gif;
/// Planes and pixels.
pub mod planes;
mod png;
mod webp;

/// What an encoder outside this crate is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frames {
    /// What is to be written: WebP with loss, or AVIF.
    pub format: Format,
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// How long each is shown, in milliseconds, and red, green, blue and alpha of its pixels.
    pub frames: Vec<(u32, Vec<u8>)>,
    /// 1 to 100.
    pub quality: u8,
    /// How often an animation is shown; 0 is for ever.
    pub repeats: u16,
    /// What goes into the file besides; of AVIF only.
    pub profiles: Profiles,
    /// By when it has to be done.
    pub until: Option<Instant>,
}

/// An encoder outside this crate: frames to a file.
pub type EncodeElsewhere<'a> = &'a dyn Fn(&Frames) -> Result<Vec<u8>, Error>;

/// A frame of the result.
pub struct Shot {
    /// Its pixels.
    pub raster: Raster,
    /// How long it is shown.
    pub delay_ms: u32,
}

/// What is known of the result besides its pixels.
pub struct Job<'a> {
    /// What is asked for.
    pub output: &'a Output,
    /// 1 to 100.
    pub quality: u8,
    /// What goes into the file.
    pub profiles: &'a Profiles,
    /// How often an animation is shown; 0 is for ever.
    pub repeats: u16,
    /// Whether the quality is to be looked for (JPEG).
    pub auto: bool,
    /// By when it has to be done.
    pub until: Option<Instant>,
    /// Encodes WebP with loss, and AVIF.
    pub elsewhere: Option<EncodeElsewhere<'a>>,
    /// Whether a JPEG's colour has all its samples where that follows the source.
    pub full_colour: bool,
}

/// The largest width and height of a format.
pub fn side_max(format: Format) -> u32 {
    match format {
        Format::Webp => 16_383,
        Format::Jpeg | Format::Gif | Format::Avif => encoder::SIDE_MAX as u32,
        Format::Png => i32::MAX as u32,
    }
}

/// A file of these frames, of which formats without animations keep the first one.
pub fn encode(frames: &[Shot], job: &Job) -> Result<Vec<u8>, Error> {
    let first = &frames
        .first()
        .ok_or_else(|| Error::corrupt("no frame"))?
        .raster;
    match job.output.format {
        Format::Jpeg => Ok(jpeg(&planes_of(first, job), job)),
        Format::Png => png::encode(first, job),
        Format::Gif => gif::encode(frames, job),
        Format::Webp => webp::encode(frames, job),
        Format::Avif => avif::encode(first, job),
    }
}

/// A picture as a JPEG's planes.
pub fn planes_of(raster: &Raster, job: &Job) -> Planes {
    let full = match job.output.sampling {
        Sampling::Full => true,
        Sampling::Half => false,
        Sampling::Source => job.full_colour,
    };
    let flat = raster.clone().flattened(job.output.background.rgba());
    planes::from_raster(&flat, full)
}

/// The lowest quality of a JPEG that has to fit into a number of bytes.
const QUALITY_MIN: u8 = 10;

/// A JPEG of planes, of the best quality up to the one asked for at which it fits; nothing goes below `QUALITY_MIN`.
pub fn jpeg(planes: &Planes, job: &Job) -> Vec<u8> {
    let bytes = match job.auto {
        true => auto::jpeg(planes, job),
        false => jpeg_of(planes, job, job.quality),
    };
    let Some(most) = job.output.max_bytes else {
        return bytes;
    };
    if bytes.len() as u64 <= most || job.quality <= QUALITY_MIN {
        return bytes;
    }
    let (mut low, mut high) = (QUALITY_MIN, job.quality);
    let mut best = jpeg_of(planes, job, low);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let tried = jpeg_of(planes, job, middle);
        if tried.len() as u64 <= most {
            (low, best) = (middle, tried);
        } else {
            high = middle;
        }
    }
    best
}

/// Pixels that are to be read again, with all that their source held.
pub fn master_of_pixels(raster: &Raster, profiles: &Profiles) -> Result<Vec<u8>, Error> {
    png::file(raster, profiles)
}

/// A picture in memory that is to be read again, with all that its source held.
pub fn master(planes: &Planes, profiles: &Profiles, quality: u8) -> Vec<u8> {
    let options = encoder::Options {
        quality,
        progressive: false,
        segments: &segments(profiles),
    };
    encoder::encode(planes, &options)
}

fn jpeg_of(planes: &Planes, job: &Job, quality: u8) -> Vec<u8> {
    let options = encoder::Options {
        quality,
        progressive: job.output.progressive,
        segments: &segments(job.profiles),
    };
    encoder::encode(planes, &options)
}

/// The most bytes of a profile in one segment.
const PART_MAX: usize = 65_519;

/// Profiles as a JPEG's application segments.
fn segments(profiles: &Profiles) -> Vec<(u8, Vec<u8>)> {
    let mut segments = Vec::new();
    let mut add = |marker: u8, head: &[u8], data: &[u8]| {
        segments.push((marker, [head, data].concat()));
    };
    if let Some(exif) = &profiles.exif {
        add(0xe1, b"Exif\0\0", exif);
    }
    if let Some(xmp) = &profiles.xmp {
        add(0xe1, b"http://ns.adobe.com/xap/1.0/\0", xmp);
    }
    if let Some(icc) = &profiles.icc {
        let parts = icc.chunks(PART_MAX);
        if let Ok(count) = u8::try_from(parts.len()) {
            for (number, part) in (1..=count).zip(parts) {
                let head = [&b"ICC_PROFILE\0"[..], &[number, count]].concat();
                add(0xe2, &head, part);
            }
        }
    }
    segments
}
