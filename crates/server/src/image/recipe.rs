//! What is to be made of a source, and the making: bytes in, a picture out. Runs on the pool for pictures.

use super::codec_client;
use super::image_filter::{self, Action};
use super::small_light::plan::{EffectsMax, Planned, plan};
use super::small_light::wish::Wish;
use ::image::{
    Aids, Crop, Error, Facts, Foreign, Format, Frames, Limits, Master, Metadata, Output, Plan,
    Quality, Resampling, Rotation, Sampling, Step,
};
use bytes::Bytes;
use std::path::PathBuf;
use std::sync::Arc;

/// What a request wants made.
#[derive(Debug, Clone)]
pub enum Wanted {
    SmallLight {
        wish: Box<Wish>,
        max: EffectsMax,
        icon: Option<PathBuf>,
    },
    Filter(image_filter::Wish),
}

/// What is to be made, and within which bounds.
#[derive(Debug, Clone)]
pub struct Recipe {
    pub wanted: Wanted,
    /// The format that takes the source's place where the client takes it.
    pub negotiated: Option<Negotiated>,
    pub animation: bool,
    pub crop: Crop,
    /// 0: no limit.
    pub max_bytes: u64,
    /// Whether the codecs in another process are fenced in.
    pub sandbox: bool,
    pub limits: Limits,
}

/// What a client takes beside the old formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiated {
    pub webp: bool,
    pub avif: bool,
}

impl Negotiated {
    /// The format for a source of this one.
    fn choose(self, source: Format) -> Format {
        match source {
            // Without loss WebP is the smaller one, and it holds animations.
            Format::Png | Format::Gif if self.webp => Format::Webp,
            _ if self.avif && Format::Avif.can_write() => Format::Avif,
            _ if self.webp => Format::Webp,
            Format::Webp | Format::Avif => Format::Png,
            other => other,
        }
    }
}

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    Picture(Bytes, Format),
    /// The source goes out as it is.
    Passed(Format),
    /// What the source is, as JSON.
    Told(Bytes),
    /// There is no picture: why.
    Refused(Refusal),
}

/// Why there is no picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Not a picture, or a broken one.
    Unsupported,
    /// Beyond a limit.
    TooLarge,
    /// It took too long, or could not be read: it may go well another time.
    Passing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub reason: Reason,
    pub text: String,
}

impl Made {
    #[must_use]
    pub fn refused(reason: Reason, text: impl Into<String>) -> Made {
        let text = text.into();
        Made::Refused(Refusal { reason, text })
    }
}

impl From<Error> for Made {
    fn from(error: Error) -> Made {
        let reason = match error {
            Error::TooLarge { .. } => Reason::TooLarge,
            Error::Timeout | Error::Elsewhere(_) => Reason::Passing,
            _ => Reason::Unsupported,
        };
        Made::refused(reason, error.to_string())
    }
}

impl Recipe {
    /// Makes it, perhaps of the source's master, and a master that reaches further than that one where one is wanted.
    #[must_use]
    pub fn make(
        &self,
        source: &[u8],
        master: Option<&Master>,
        wants_master: bool,
    ) -> (Made, Option<Master>) {
        match self.plan(source) {
            Ok((plan, facts)) => self.render(source, plan, &facts, master, wants_master),
            Err(made) => (made, None),
        }
    }

    /// What is to be done with a source, unless that is clear without.
    fn plan(&self, source: &[u8]) -> Result<(Plan, Facts), Made> {
        let facts = match ::image::probe(source) {
            Ok(facts) => facts,
            Err(_) if self.only_tells() => return Err(Made::Told(Bytes::from_static(b"{}\r\n"))),
            Err(error) => return Err(error.into()),
        };
        let planned = match &self.wanted {
            Wanted::Filter(wish) => match wish.action {
                Action::Off | Action::Test => return Err(Made::Passed(facts.format)),
                Action::Size => return Err(Made::Told(told(&facts))),
                _ => {
                    let chosen = self.negotiated.map(|client| client.choose(facts.format));
                    filter_plan(wish, chosen, &facts, source)
                }
            },
            Wanted::SmallLight { wish, max, icon } => {
                let icon = match icon.as_ref().map(|path| self.read_icon(path)) {
                    Some(Err(refused)) => return Err(refused),
                    Some(Ok(bytes)) => Some(bytes),
                    None => None,
                };
                plan(wish, &facts, *max, self.crop, icon)
            }
        };
        match planned {
            Planned::Passed => Err(Made::Passed(facts.format)),
            Planned::Empty => Err(Made::refused(
                Reason::Unsupported,
                "the wish leads to no pixels".to_owned(),
            )),
            Planned::Made(plan) => Ok((*plan, facts)),
        }
    }

    fn only_tells(&self) -> bool {
        matches!(&self.wanted, Wanted::Filter(wish) if wish.action == Action::Size)
    }

    /// Small, and wanted again and again: the page cache has it.
    fn read_icon(&self, path: &PathBuf) -> Result<Arc<[u8]>, Made> {
        let failed = |why: &dyn std::fmt::Display| {
            let text = format!("embedicon \"{}\": {why}", path.display());
            Made::refused(Reason::Passing, text)
        };
        let status = std::fs::metadata(path).map_err(|error| failed(&error))?;
        if !status.is_file() || status.len() > self.limits.source_bytes {
            return Err(failed(&"not a file of a suitable size"));
        }
        let bytes = std::fs::read(path).map_err(|error| failed(&error))?;
        Ok(bytes.into())
    }

    fn render(
        &self,
        source: &[u8],
        mut plan: Plan,
        facts: &Facts,
        master: Option<&Master>,
        wants_master: bool,
    ) -> (Made, Option<Master>) {
        if let Some(negotiated) = self.negotiated {
            plan.output.format = negotiated.choose(facts.format);
            // What loses nothing stays so, unless a quality is asked for.
            let asks = matches!(&self.wanted, Wanted::SmallLight { .. })
                && matches!(plan.output.quality, Quality::Percent(_));
            plan.output.lossless = matches!(facts.format, Format::Png | Format::Gif) && !asks;
        }
        plan.animation = self.animation && facts.frames > 1;
        plan.output.max_bytes = (self.max_bytes > 0).then_some(self.max_bytes);
        for step in &mut plan.steps {
            if let Step::Crop { from, .. } = step
                && *from == Crop::Centre
            {
                *from = self.crop;
            }
        }
        let encoder = |frames: &Frames| codec_client::encode(frames, self.sandbox);
        let decoder = |foreign: &Foreign<'_>| codec_client::decode(foreign, self.sandbox);
        let aids = Aids {
            encoder: Some(&encoder),
            decoder: Some(&decoder),
            master,
            wants_master,
        };
        match ::image::render_with(source, &plan, &self.limits, aids) {
            Ok(rendered) => {
                let picture = rendered.picture;
                let made = Made::Picture(Bytes::from(picture.bytes), picture.format);
                (made, rendered.master)
            }
            Err(error) => (error.into(), None),
        }
    }
}

/// What `image_filter size` says of a picture.
fn told(facts: &Facts) -> Bytes {
    let kind = facts.format.mime().trim_start_matches("image/");
    let (width, height) = (facts.width, facts.height);
    Bytes::from(format!(
        "{{ \"img\" : {{ \"width\": {width}, \"height\": {height}, \"type\": \"{kind}\" }} }}\r\n"
    ))
}

/// A JPEG of which more than this share is no picture is drawn anew, be it small enough or not.
const BLOAT: u64 = 20;

/// Bytes of a JPEG's EXIF and Photoshop segments.
fn bloat(source: &[u8], facts: &Facts) -> u64 {
    const EXIF: u8 = 0xe1;
    const PHOTOSHOP: u8 = 0xed;
    const START_OF_SCAN: u8 = 0xda;
    let (mut at, mut bytes) = (2, 0);
    if facts.format != Format::Jpeg {
        return 0;
    }
    while let Some(&[0xff, marker, high, low]) = source.get(at..at + 4) {
        let length = u16::from_be_bytes([high, low]);
        match marker {
            EXIF | PHOTOSHOP => bytes += u64::from(length),
            START_OF_SCAN => break,
            _ => {}
        }
        at += 2 + usize::from(length);
    }
    bytes
}

/// `chosen`: the format that the client is to have, where none is asked for.
fn filter_plan(
    wish: &image_filter::Wish,
    chosen: Option<Format>,
    facts: &Facts,
    source: &[u8],
) -> Planned {
    let (width, height) = (facts.width, facts.height);
    let is_bloated = bloat(source, facts) > source.len() as u64 / BLOAT;
    let format = wish.convert.or(chosen).unwrap_or(facts.format);
    let converts = format != facts.format;
    if !converts && (wish.passes(width, height, is_bloated) || wish.action == Action::Convert) {
        return Planned::Passed;
    }
    let quality = match format {
        Format::Jpeg => wish.jpeg_quality,
        Format::Webp => wish.webp_quality,
        Format::Avif => wish.avif_quality,
        _ => 100,
    };
    if quality == 0 {
        return Planned::Empty;
    }
    let quality = quality.min(100) as u8;
    let sizes = wish.sizes(width, height);
    let mut steps = Vec::new();
    if let Some((width, height)) = sizes.scaled {
        let resampling = Resampling::Gd;
        steps.push(Step::Resize {
            width,
            height,
            resampling,
        });
    }
    // The directive turns the other way round.
    steps.extend(match wish.angle {
        90 => Some(Step::Rotate(Rotation::ThreeQuarters)),
        180 => Some(Step::Rotate(Rotation::Half)),
        270 => Some(Step::Rotate(Rotation::Quarter)),
        _ => None,
    });
    if let Some((_, _, width, height)) = sizes.kept {
        steps.push(Step::Crop {
            from: Crop::Centre,
            width,
            height,
        });
    }
    if wish.sharpen > 0 {
        steps.push(Step::SharpenPercent(wish.sharpen));
    }
    Planned::Made(Box::new(Plan {
        steps,
        animation: false,
        output: Output {
            quality: Quality::Percent(quality),
            progressive: wish.interlace,
            sampling: if quality >= 90 {
                Sampling::Full
            } else {
                Sampling::Half
            },
            metadata: Metadata::Srgb,
            opaque: !wish.transparency,
            ..Output::new(format)
        },
    }))
}
