//! From a wish and what a picture's header says to the steps that make it, in the order of the engine that is asked for.

use super::Settings;
use super::geometry::{self, Geometry, Outcome};
use super::wish::{Coordinate, Effect, Engine, Wanted, Wish};
use ::image::{
    Colour, Crop, Facts, Format, Metadata, Output, Overlay, Plan, Quality, Resampling, Rotation,
    Sampling, Step,
};
use std::sync::Arc;

/// How much an effect may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EffectsMax {
    pub radius: f64,
    pub sigma: f64,
}

impl EffectsMax {
    #[must_use]
    pub fn of(settings: &Settings) -> EffectsMax {
        EffectsMax {
            radius: settings.radius_max as f64,
            sigma: settings.sigma_max as f64,
        }
    }

    /// An effect beyond the limits is left out.
    fn allows(&self, effect: Option<Effect>) -> Option<Effect> {
        effect.filter(|effect| effect.radius <= self.radius && effect.sigma <= self.sigma)
    }
}

/// What becomes of a picture.
#[derive(Debug, Clone, PartialEq)]
pub enum Planned {
    /// It goes out as it came.
    Passed,
    /// No pixels are left.
    Empty,
    Made(Box<Plan>),
}

/// The plan for a picture. `crop`: what is kept where a canvas cuts and no place is given; `icon`: what `embedicon`
/// names, read.
#[must_use]
pub fn plan(
    wish: &Wish,
    facts: &Facts,
    max: EffectsMax,
    crop: Crop,
    icon: Option<Arc<[u8]>>,
) -> Planned {
    let orients = wish.auto_orient && wish.engine == Engine::ImageMagick;
    let (mut width, mut height) = match orients {
        true => facts.upright(),
        false => (facts.width, facts.height),
    };
    if wish.turns_sides() {
        (width, height) = (height, width);
    }
    let is_jpeg = facts.format == Format::Jpeg;
    let geometry = match geometry::outcome(wish, width, height, is_jpeg) {
        Outcome::Passed => return Planned::Passed,
        Outcome::Empty => return Planned::Empty,
        Outcome::Made(geometry) => geometry,
    };
    let mut steps = Vec::new();
    if orients && facts.orientation != 1 {
        steps.push(Step::Orient);
    }
    steps.extend(rotation(wish.angle).map(Step::Rotate));
    scale(&mut steps, wish, &geometry);
    let sharpen = max.allows(wish.sharpen);
    if let (Engine::Gd, Some(sharpen)) = (wish.engine, sharpen) {
        steps.push(Step::SharpenPercent(sharpen.radius as u32));
    }
    canvas(&mut steps, wish, &geometry, crop, (width, height));
    effects(&mut steps, wish, max);
    if wish.border_width >= 1.0 || wish.border_height >= 1.0 {
        steps.push(Step::Border {
            width: wish.border_width as u32,
            height: wish.border_height as u32,
            colour: colour(wish.border_colour),
        });
    }
    if let (Engine::ImageMagick, Some(bytes)) = (wish.engine, icon) {
        steps.push(Step::Overlay(Overlay {
            bytes,
            x: i64::from(wish.icon_x),
            y: i64::from(wish.icon_y),
        }));
    }
    Planned::Made(Box::new(Plan {
        steps,
        animation: false,
        output: output(wish, facts),
    }))
}

fn rotation(angle: u16) -> Option<Rotation> {
    Some(match angle {
        90 => Rotation::Quarter,
        180 => Rotation::Half,
        270 => Rotation::ThreeQuarters,
        _ => return None,
    })
}

fn colour([red, green, blue, alpha]: [u8; 4]) -> Colour {
    Colour {
        red,
        green,
        blue,
        alpha,
    }
}

fn scale(steps: &mut Vec<Step>, wish: &Wish, geometry: &Geometry) {
    let Some(scale) = geometry.scale else { return };
    let part = scale.part;
    let (x, y) = (i64::from(part.x), i64::from(part.y));
    steps.push(Step::Crop {
        from: Crop::At { x, y },
        width: part.width,
        height: part.height,
    });
    steps.push(Step::Resize {
        width: scale.width,
        height: scale.height,
        resampling: match wish.engine {
            Engine::ImageMagick => Resampling::ImageMagick,
            Engine::Gd => Resampling::Gd,
            Engine::Imlib2 => Resampling::Imlib2,
        },
    });
}

fn canvas(steps: &mut Vec<Step>, wish: &Wish, geometry: &Geometry, crop: Crop, sides: (u32, u32)) {
    let Some(canvas) = geometry.canvas else {
        return;
    };
    let (width, height) = geometry
        .scale
        .map_or(sides, |scale| (scale.width, scale.height));
    let is_placed = wish.x != Coordinate::None || wish.y != Coordinate::None;
    if crop != Crop::Centre && !is_placed && canvas.width <= width && canvas.height <= height {
        steps.push(Step::Crop {
            from: crop,
            width: canvas.width,
            height: canvas.height,
        });
        return;
    }
    steps.push(Step::Canvas {
        width: canvas.width,
        height: canvas.height,
        x: i64::from(canvas.x),
        y: i64::from(canvas.y),
        background: colour(wish.canvas_colour),
    });
}

/// What ImageMagick and Imlib2 do after the canvas.
fn effects(steps: &mut Vec<Step>, wish: &Wish, max: EffectsMax) {
    let sharpen = max.allows(wish.sharpen);
    let blur = max.allows(wish.blur);
    // Imlib2 knows a radius only.
    let sigma = |effect: Effect| match wish.engine {
        Engine::Imlib2 => effect.radius / 2.0,
        _ => effect.sigma,
    };
    if wish.engine == Engine::Gd {
        return;
    }
    if let (Engine::ImageMagick, Some(unsharp)) = (wish.engine, max.allows(wish.unsharp)) {
        steps.push(Step::Unsharp {
            radius: unsharp.radius,
            sigma: unsharp.sigma,
            amount: unsharp.amount,
            threshold: unsharp.threshold,
        });
    }
    if let Some(sharpen) = sharpen {
        let (radius, sigma) = (sharpen.radius, sigma(sharpen));
        steps.push(Step::Sharpen { radius, sigma });
    }
    if let Some(blur) = blur {
        let (radius, sigma) = (blur.radius, sigma(blur));
        steps.push(Step::Blur { radius, sigma });
    }
}

/// The format of the result where no client is asked.
fn format(wish: &Wish, facts: &Facts) -> Format {
    let asked = match wish.format {
        Wanted::Source | Wanted::Auto => facts.format,
        Wanted::Jpeg => Format::Jpeg,
        Wanted::Png => Format::Png,
        Wanted::Gif => Format::Gif,
        Wanted::WebP => Format::Webp,
        Wanted::Avif => Format::Avif,
    };
    match asked.can_write() {
        true => asked,
        false => facts.format,
    }
}

fn output(wish: &Wish, facts: &Facts) -> Output {
    let quality = match wish.quality {
        _ if wish.auto_quality => Quality::Auto,
        quality if quality >= 1.0 => Quality::Percent(quality.min(100.0) as u8),
        _ => match wish.engine {
            Engine::ImageMagick => Quality::Source,
            Engine::Gd => Quality::Percent(100),
            Engine::Imlib2 => Quality::Percent(75),
        },
    };
    // GD keeps all of the colours from this quality on.
    let is_fine = matches!(quality, Quality::Percent(90..));
    Output {
        quality,
        progressive: match wish.engine {
            Engine::ImageMagick => wish.progressive,
            Engine::Gd => true,
            Engine::Imlib2 => false,
        },
        sampling: match wish.engine {
            Engine::ImageMagick => Sampling::Source,
            Engine::Gd if is_fine => Sampling::Full,
            Engine::Gd | Engine::Imlib2 => Sampling::Half,
        },
        metadata: match wish.engine {
            Engine::ImageMagick if !wish.remove_profiles => Metadata::Keep,
            Engine::ImageMagick => Metadata::Strip,
            Engine::Gd | Engine::Imlib2 => Metadata::Srgb,
        },
        keeps_inks: wish.engine == Engine::ImageMagick && !wish.cmyk_to_rgb,
        ..Output::new(format(wish, facts))
    }
}
