//! From source and plan to a picture: limits, decoding, steps, encoding, in this order.

use crate::decode::{self, Profiles, Request};
use crate::encode::{self, Job, Shot};
use crate::error::Error;
use crate::limits::{Deadline, Limits, at_most};
use crate::plan::{Metadata, Plan, Quality};
use crate::probe::{Facts, Format, probe};
use crate::raster::Raster;
use crate::steps;

/// A picture that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// The file.
    pub bytes: Vec<u8>,
    /// Its format.
    pub format: Format,
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
}

/// The header's facts, if the limits allow the picture.
fn admitted(source: &[u8], limits: &Limits) -> Result<Facts, Error> {
    at_most("source_bytes", source.len() as u64, limits.source_bytes)?;
    let facts = probe(source)?;
    let pixels = u64::from(facts.width) * u64::from(facts.height);
    at_most("pixels", pixels, limits.pixels)?;
    Ok(facts)
}

/// Makes a picture. Nothing is decoded unless the header and the plan are within the limits.
pub fn render(source: &[u8], plan: &Plan, limits: &Limits) -> Result<Picture, Error> {
    let deadline = Deadline::new(limits);
    let facts = admitted(source, limits)?;
    let format = plan.output.format;
    if !format.can_write() {
        return Err(Error::Unsupported("a format that is not written"));
    }
    let stored = (facts.width, facts.height);
    let (width, height) = steps::sizes(&plan.steps, facts.orientation, stored, limits)?;
    let side_max = u64::from(encode::side_max(format));
    at_most("output_pixels", u64::from(width.max(height)), side_max)?;
    let lead = steps::lead(&plan.steps, facts.orientation, stored)?;
    let animated =
        plan.animation && facts.frames > 1 && matches!(format, Format::Gif | Format::Webp);
    let request = Request {
        source,
        facts: &facts,
        all_frames: animated,
        limits,
        deadline,
    };
    let mut frames: Vec<Shot> = Vec::new();
    let rest = plan.steps.get(lead.steps..).unwrap_or_default();
    let contents = decode::decode(&request, &mut |frame| {
        deadline.check()?;
        let small = steps::resize::raster(&frame.raster, lead.crop, lead.size, lead.resampling)?;
        let raster = steps::apply(small.turned(lead.turn), rest, limits, deadline)?;
        frames.push(Shot {
            raster,
            delay_ms: frame.delay_ms,
        });
        Ok(())
    })?;
    let profiles = match plan.output.metadata {
        Metadata::Keep => contents.profiles,
        Metadata::Strip | Metadata::Srgb => Profiles::default(),
    };
    let job = Job {
        output: &plan.output,
        quality: quality(plan, &facts),
        profiles: &profiles,
        repeats: contents.repeats,
        full_colour: false,
    };
    deadline.check()?;
    let bytes = encode::encode(&frames, &job)?;
    let raster = frames
        .first()
        .map(|shot| (shot.raster.width, shot.raster.height));
    let (width, height) = raster.unwrap_or_default();
    Ok(Picture {
        bytes,
        format,
        width: width as u32,
        height: height as u32,
    })
}

fn quality(plan: &Plan, facts: &Facts) -> u8 {
    let usual = match plan.output.format {
        Format::Webp => 75,
        _ => 92,
    };
    match plan.output.quality {
        Quality::Percent(quality) => quality.clamp(1, 100),
        Quality::Source | Quality::Auto => facts
            .quality
            .filter(|_| plan.output.format == Format::Jpeg)
            .unwrap_or(usual),
    }
}

/// The first frame of a file, at its full size.
pub(crate) fn first_frame(
    source: &[u8],
    limits: &Limits,
    deadline: Deadline,
) -> Result<Raster, Error> {
    let facts = admitted(source, limits)?;
    let request = Request {
        source,
        facts: &facts,
        all_frames: false,
        limits,
        deadline,
    };
    let mut first = None;
    decode::decode(&request, &mut |frame| {
        first.get_or_insert(frame.raster);
        Ok(())
    })?;
    first.ok_or_else(|| Error::corrupt("no frame"))
}
