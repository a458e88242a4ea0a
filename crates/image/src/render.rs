//! From source and plan to a picture: limits, decoding, steps, encoding, in this order.

use crate::colour;
use crate::decode::{self, DecodeElsewhere, Profiles, Request};
use crate::encode::{self, EncodeElsewhere, Job, Shot};
use crate::error::Error;
use crate::jpeg::decoder::{self, Scaled};
use crate::limits::{Deadline, Limits, at_most};
use crate::plan::{Metadata, Plan, Quality, Resampling, Step};
use crate::planar::Planar;
use crate::probe::{Facts, Format, Model, exif, probe};
use crate::raster::Raster;
use crate::steps::{self, Lead};

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

/// A picture at a part of its size, of which smaller pictures of it can be made sooner than of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Master {
    /// Eighths of the size.
    pub scale: u8,
    /// A JPEG of a JPEG, a PNG of all others.
    pub bytes: Vec<u8>,
}

/// What the work gets from outside.
#[derive(Default, Clone, Copy)]
pub struct Aids<'a> {
    /// Encodes WebP with loss, animations, and AVIF; without it WebP is without loss, and still.
    pub encoder: Option<EncodeElsewhere<'a>>,
    /// Decodes AVIF.
    pub decoder: Option<DecodeElsewhere<'a>>,
    /// The source, made smaller before.
    pub master: Option<&'a Master>,
    /// Whether a master is wanted where one comes of the work, and is larger than the one there is.
    pub wants_master: bool,
}

/// What came of the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The picture.
    pub picture: Picture,
    /// For the next one.
    pub master: Option<Master>,
}

/// The quality of masters: what they lose is less than what making them smaller again takes away.
pub(crate) const MASTER_QUALITY: u8 = 97;

/// Pixels of a source that is no JPEG, of which masters are made: smaller ones are read soon enough.
const MASTER_MIN: u64 = 512 * 512;

/// The header's facts, if the limits allow the picture.
fn admitted(source: &[u8], limits: &Limits) -> Result<Facts, Error> {
    at_most("source_bytes", source.len() as u64, limits.source_bytes)?;
    let facts = probe(source)?;
    let pixels = u64::from(facts.width) * u64::from(facts.height);
    at_most("pixels", pixels, limits.pixels)?;
    Ok(facts)
}

/// Makes a picture without help. Nothing is decoded unless the header and the plan are within the limits.
pub fn render(source: &[u8], plan: &Plan, limits: &Limits) -> Result<Picture, Error> {
    Ok(render_with(source, plan, limits, Aids::default())?.picture)
}

/// Makes a picture with help from outside.
pub fn render_with(
    source: &[u8],
    plan: &Plan,
    limits: &Limits,
    aids: Aids<'_>,
) -> Result<Rendered, Error> {
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
    let work = Work {
        source,
        facts: &facts,
        plan,
        lead: &lead,
        rest: plan.steps.get(lead.steps..).unwrap_or_default(),
        limits,
        deadline,
        aids,
    };
    match decoder::takes(source).filter(|_| facts.format == Format::Jpeg) {
        Some(coarseness) => work.render_planes(coarseness),
        None => work.render_pixels(),
    }
}

/// What there is to be done.
struct Work<'a> {
    source: &'a [u8],
    facts: &'a Facts,
    plan: &'a Plan,
    lead: &'a Lead,
    /// The steps that are not in the lead.
    rest: &'a [Step],
    limits: &'a Limits,
    deadline: Deadline,
    aids: Aids<'a>,
}

impl Work<'_> {
    /// A JPEG that our own decoder takes.
    fn render_planes(&self, coarseness: u32) -> Result<Rendered, Error> {
        // Colour that is coarser than usual needs more of it.
        let more = coarseness.div_ceil(2);
        let size = self.lead.size;
        let wanted = (size.0.saturating_mul(more), size.1.saturating_mul(more));
        let (scaled, scale) = self.decoded(wanted)?;
        let mut planar = Planar::new(scaled, self.facts, self.lead);
        self.deadline.check()?;
        let profiles = std::mem::take(&mut planar.scaled.profiles);
        let of_master = self.master_profiles(scale, &profiles);
        let picture = self.of_planes(&planar, profiles)?;
        let master = of_master.and_then(|profiles| planar.master(scale, &profiles));
        Ok(Rendered { picture, master })
    }

    /// The source at a part of its size, or its master, and how many eighths of the size; 8 for what no master is to be
    /// made of.
    fn decoded(&self, wanted: (u32, u32)) -> Result<(Scaled, usize), Error> {
        let crop = (self.lead.crop.2, self.lead.crop.3);
        let scale = decoder::scale_for(crop, wanted);
        if let Some(master) = self.aids.master
            && scale <= usize::from(master.scale)
            && let Some(scaled) = self.of_master(master, wanted)
        {
            return Ok((scaled, 8));
        }
        let scaled = decoder::decode(self.source, scale, self.limits, self.deadline)?;
        Ok((scaled, scale))
    }

    /// `None`: there is something wrong with the master.
    fn of_master(&self, master: &Master, wanted: (u32, u32)) -> Option<Scaled> {
        let facts = probe(&master.bytes).ok()?;
        let part = f64::from(master.scale) / 8.0;
        // The master's last column may be partly beyond the picture's edge.
        let size = (
            f64::from(self.facts.width) * part,
            f64::from(self.facts.height) * part,
        );
        if (size.0.ceil(), size.1.ceil()) != (f64::from(facts.width), f64::from(facts.height)) {
            return None;
        }
        let side = |length: u32| (f64::from(length) * part) as u32;
        let crop = (side(self.lead.crop.2), side(self.lead.crop.3));
        let scale = decoder::scale_for(crop, wanted);
        let decoded = decoder::decode(&master.bytes, scale, self.limits, self.deadline);
        let mut scaled = decoded.ok()?;
        for channel in &mut scaled.planes {
            channel.size.0 *= size.0 / f64::from(facts.width);
            channel.size.1 *= size.1 / f64::from(facts.height);
        }
        Some(scaled)
    }

    /// What goes into a master, if one is to be made.
    fn master_profiles(&self, scale: usize, profiles: &Profiles) -> Option<Profiles> {
        (self.aids.wants_master && scale < 8).then(|| profiles.clone())
    }

    fn of_planes(&self, planar: &Planar, profiles: Profiles) -> Result<Picture, Error> {
        let output = &self.plan.output;
        let converts =
            self.converts(&profiles).is_some() || planar.has_inks() && !output.keeps_inks;
        if self.rest.is_empty() && output.format == Format::Jpeg && !converts {
            let planes = planar.planes(output.sampling)?;
            let (width, height) = (planes.width, planes.height);
            let profiles = self.kept(profiles, true);
            let job = self.job(&profiles, 0, planar.full_colour());
            let bytes = encode::jpeg(&planes, &job);
            return Ok(self.picture(bytes, width, height));
        }
        let shot = Shot {
            raster: self.finished(planar.raster()?, &profiles)?,
            delay_ms: 0,
        };
        let full_colour = planar.full_colour();
        self.encoded(vec![shot], profiles, 0, full_colour)
    }

    /// Everything else.
    fn render_pixels(&self) -> Result<Rendered, Error> {
        let animations = match self.plan.output.format {
            Format::Gif => true,
            Format::Webp => self.aids.encoder.is_some(),
            _ => false,
        };
        let request = Request {
            source: self.source,
            facts: self.facts,
            all_frames: self.plan.animation && self.facts.frames > 1 && animations,
            limits: self.limits,
            deadline: self.deadline,
            elsewhere: self.aids.decoder,
        };
        let lead = self.lead;
        let opaque = self.plan.output.opaque && self.facts.model == Model::Palette;
        let scale = decoder::scale_for((lead.crop.2, lead.crop.3), lead.size);
        let may_reduce = scale < 8 && !opaque && !request.all_frames;
        if let Some(master) = self.aids.master
            && may_reduce
            && scale <= usize::from(master.scale)
            && let Some((raster, profiles)) = self.master_pixels(master)
        {
            let small = self.of_reduced(&raster)?;
            let raster = self.finished(small, &profiles)?;
            let shot = Shot {
                raster,
                delay_ms: 0,
            };
            let picture = self.encoded(vec![shot], profiles, 0, false)?;
            return Ok(Rendered {
                picture,
                master: None,
            });
        }
        let pixels = u64::from(self.facts.width) * u64::from(self.facts.height);
        let reduces = may_reduce && self.aids.wants_master && pixels >= MASTER_MIN;
        let mut master = None;
        let mut frames: Vec<Shot> = Vec::new();
        let contents = decode::decode(&request, &mut |frame, profiles| {
            self.deadline.check()?;
            let raster = match opaque {
                true => frame.raster.into_rgb(),
                false => frame.raster,
            };
            let small = match reduces {
                true => {
                    let reduced = self.reduced(&raster, scale)?;
                    master = self.reduced_file(&reduced, scale, profiles)?;
                    self.of_reduced(&reduced)?
                }
                false => steps::resize::raster(&raster, lead.crop, lead.size, lead.resampling)?
                    .turned(lead.turn),
            };
            frames.push(Shot {
                raster: self.finished(small, profiles)?,
                delay_ms: frame.delay_ms,
            });
            Ok(())
        })?;
        let picture = self.encoded(frames, contents.profiles, contents.repeats, false)?;
        Ok(Rendered { picture, master })
    }

    /// The sides of the source at so many eighths.
    fn reduced_size(&self, scale: usize) -> (u32, u32) {
        let side = |length: u32| (u64::from(length) * scale as u64).div_ceil(8) as u32;
        (side(self.facts.width), side(self.facts.height))
    }

    /// All of the source at so many eighths of its size: what a master holds, and what the picture is made of, so that
    /// it is the same whether there was a master or not.
    fn reduced(&self, raster: &Raster, scale: usize) -> Result<Raster, Error> {
        let whole = (0, 0, raster.width as u32, raster.height as u32);
        steps::resize::raster(raster, whole, self.reduced_size(scale), Resampling::Best)
    }

    /// A master of it; none where a PNG cannot hold all that belongs to it.
    fn reduced_file(
        &self,
        reduced: &Raster,
        scale: usize,
        profiles: &Profiles,
    ) -> Result<Option<Master>, Error> {
        if profiles.xmp.is_some() {
            return Ok(None);
        }
        Ok(Some(Master {
            scale: scale as u8,
            bytes: encode::master_of_pixels(reduced, profiles)?,
        }))
    }

    /// The lead of the plan on the source at a part of its size.
    fn of_reduced(&self, reduced: &Raster) -> Result<Raster, Error> {
        let lead = self.lead;
        let across = reduced.width as f64 / f64::from(self.facts.width);
        let down = reduced.height as f64 / f64::from(self.facts.height);
        let (x, y, width, height) = lead.crop;
        let part = (
            f64::from(x) * across,
            f64::from(y) * down,
            f64::from(width) * across,
            f64::from(height) * down,
        );
        let small = steps::resize::part(reduced, part, lead.size, lead.resampling)?;
        Ok(small.turned(lead.turn))
    }

    /// A master's pixels and profiles. `None`: there is something wrong with it.
    fn master_pixels(&self, master: &Master) -> Option<(Raster, Profiles)> {
        let facts = probe(&master.bytes).ok()?;
        if (facts.width, facts.height) != self.reduced_size(usize::from(master.scale)) {
            return None;
        }
        let request = Request {
            source: &master.bytes,
            facts: &facts,
            all_frames: false,
            limits: self.limits,
            deadline: self.deadline,
            elsewhere: None,
        };
        let mut first = None;
        let take = &mut |frame: decode::Frame, _: &Profiles| {
            first = Some(frame.raster);
            Ok(())
        };
        let contents = decode::decode(&request, take).ok()?;
        Some((first?, contents.profiles))
    }

    /// The steps after the lead, and the colours.
    fn finished(&self, raster: Raster, profiles: &Profiles) -> Result<Raster, Error> {
        let raster = match self.converts(profiles) {
            Some(icc) => colour::to_srgb(raster, icc),
            None => raster,
        };
        steps::apply(raster, self.rest, self.limits, self.deadline)
    }

    fn encoded(
        &self,
        frames: Vec<Shot>,
        profiles: Profiles,
        repeats: u16,
        full_colour: bool,
    ) -> Result<Picture, Error> {
        self.deadline.check()?;
        let profiles = self.kept(profiles, false);
        let bytes = encode::encode(&frames, &self.job(&profiles, repeats, full_colour))?;
        let size = frames
            .first()
            .map(|shot| (shot.raster.width, shot.raster.height));
        let (width, height) = size.unwrap_or_default();
        Ok(self.picture(bytes, width, height))
    }

    /// The colour profile by which colours are converted.
    fn converts<'a>(&self, profiles: &'a Profiles) -> Option<&'a [u8]> {
        let wanted = self.plan.output.metadata == Metadata::Srgb;
        profiles
            .icc
            .as_deref()
            .filter(|icc| wanted && colour::differs(icc))
    }

    /// What goes into the file. A profile of inks says nothing of what became RGB.
    fn kept(&self, mut profiles: Profiles, inks_stay: bool) -> Profiles {
        if self.plan.output.metadata != Metadata::Keep {
            return Profiles::default();
        }
        if self.facts.model == Model::Cmyk && !inks_stay {
            profiles.icc = None;
        }
        let upright = matches!(self.plan.steps.first(), Some(Step::Orient));
        if let (true, Some(exif)) = (upright, &mut profiles.exif) {
            exif::set_upright(exif);
        }
        profiles
    }

    fn job<'a>(&'a self, profiles: &'a Profiles, repeats: u16, full_colour: bool) -> Job<'a> {
        Job {
            output: &self.plan.output,
            quality: quality(self.plan, self.facts),
            profiles,
            repeats,
            full_colour,
            auto: self.plan.output.quality == Quality::Auto,
            until: self.deadline.until(),
            elsewhere: self.aids.encoder,
        }
    }

    fn picture(&self, bytes: Vec<u8>, width: usize, height: usize) -> Picture {
        Picture {
            bytes,
            format: self.plan.output.format,
            width: width as u32,
            height: height as u32,
        }
    }
}

fn quality(plan: &Plan, facts: &Facts) -> u8 {
    let usual = match plan.output.format {
        Format::Webp => 75,
        Format::Avif => 60,
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
        elsewhere: None,
    };
    let mut first = None;
    decode::decode(&request, &mut |frame, _| {
        first.get_or_insert(frame.raster);
        Ok(())
    })?;
    first.ok_or_else(|| Error::corrupt("no frame"))
}
