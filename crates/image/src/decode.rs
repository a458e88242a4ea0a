//! Files to pixels: which decoder reads what, and what it is told of limits.

use crate::error::Error;
use crate::limits::{Deadline, Limits, at_most};
use crate::probe::{Facts, Format};
use crate::raster::Raster;
use std::time::Instant;
use timed::Timed;

mod avif;
mod gif;
mod jpeg;
mod png;
mod timed;
mod webp;

/// One picture of a file.
pub struct Frame {
    /// Its pixels.
    pub raster: Raster,
    /// How long it is shown.
    pub delay_ms: u32,
}

/// What a file holds besides pixels.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Profiles {
    /// A colour profile.
    pub icc: Option<Vec<u8>>,
    /// TIFF data, without a prefix.
    pub exif: Option<Vec<u8>>,
    /// XML.
    pub xmp: Option<Vec<u8>>,
}

/// What takes the frames, one after the other, so that only one of them is in memory at its full size.
pub type Take<'a> = &'a mut dyn FnMut(Frame, &Profiles) -> Result<(), Error>;

/// What a file says of all its frames.
#[derive(Debug, Default)]
pub struct Contents {
    /// How often an animation is shown; 0 is for ever.
    pub repeats: u16,
    /// The rest.
    pub profiles: Profiles,
}

impl Contents {
    /// A file of one frame: hands it over.
    fn still(raster: Raster, profiles: Profiles, take: Take) -> Result<Contents, Error> {
        let delay_ms = 0;
        take(Frame { raster, delay_ms }, &profiles)?;
        Ok(Contents {
            repeats: 0,
            profiles,
        })
    }
}

/// A file that a decoder outside this crate is given.
#[derive(Debug, Clone, Copy)]
pub struct Foreign<'a> {
    /// The file.
    pub source: &'a [u8],
    /// As stored, in pixels.
    pub width: u32,
    /// As stored, in pixels.
    pub height: u32,
    /// By when it has to be done.
    pub until: Option<Instant>,
}

/// What it makes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// Red, green, blue and alpha of each pixel.
    pub rgba: Vec<u8>,
    /// What else the file holds.
    pub profiles: Profiles,
}

/// A decoder outside this crate: an AVIF file to pixels.
pub type DecodeElsewhere<'a> = &'a dyn Fn(&Foreign<'_>) -> Result<Decoded, Error>;

/// What a decoder is asked for.
pub struct Request<'a> {
    /// The file.
    pub source: &'a [u8],
    /// What its header says.
    pub facts: &'a Facts,
    /// All frames of an animation, not the first one alone.
    pub all_frames: bool,
    /// What it may cost.
    pub limits: &'a Limits,
    /// By when it has to be done.
    pub deadline: Deadline,
    /// Decodes AVIF.
    pub elsewhere: Option<DecodeElsewhere<'a>>,
}

impl<'a> Request<'a> {
    /// The file, as long as there is time.
    fn reader(&self) -> Timed<'a> {
        Timed::new(self.source, self.deadline)
    }
}

/// Decodes at full size, and hands over the first frame, or all of them.
pub fn decode(request: &Request, take: Take) -> Result<Contents, Error> {
    let facts = request.facts;
    let frames = if request.all_frames { facts.frames } else { 1 };
    let (limits, pixels) = (
        request.limits,
        u64::from(facts.width) * u64::from(facts.height),
    );
    at_most("frames", u64::from(frames), u64::from(limits.frames))?;
    // A frame, and the canvas of an animation and what it was before.
    let canvases = match frames {
        // The picture in the other process, and what came of it.
        1 if facts.format == Format::Avif => 2,
        1 => 1,
        _ => 3,
    };
    at_most("memory", pixels.saturating_mul(4 * canvases), limits.memory)?;
    let decoder = match facts.format {
        Format::Jpeg => jpeg::decode,
        Format::Png => png::decode,
        Format::Gif => gif::decode,
        Format::Webp => webp::decode,
        Format::Avif => avif::decode,
    };
    // The decoders are other people's: should one panic over a hostile file, that file is broken.
    let work = std::panic::AssertUnwindSafe(|| decoder(request, take));
    let decoded = std::panic::catch_unwind(work);
    let decoded = decoded.unwrap_or_else(|_| Err(Error::corrupt("the decoder gave up")));
    // Whatever a decoder makes of a reader that fails, the reason is the time.
    decoded.map_err(|error| match request.deadline.check() {
        Err(late) if matches!(error, Error::Corrupt(_)) => late,
        _ => error,
    })
}
