//! The steps of a plan on pixels. What can be said of sizes is said before anything is decoded (`sizes`).

use crate::error::Error;
use crate::limits::{Deadline, Limits, at_most};
use crate::plan::{Colour, Crop, Resampling, Step};
use crate::raster::{Raster, Turn};

mod compose;
mod convolve;
mod interest;
/// Changes of size.
pub mod resize;

/// What a plan begins with, said of the picture as it is stored: so decoders can read it at a part of its size, and the
/// turn is done on the small picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lead {
    /// x, y, width, height of what is kept of the source.
    pub crop: (u32, u32, u32, u32),
    /// The size that becomes; that of `crop` where it stays.
    pub size: (u32, u32),
    /// How.
    pub resampling: Resampling,
    /// What is done after that.
    pub turn: Turn,
    /// How many steps these are.
    pub steps: usize,
}

/// Takes turns, a crop and a change of size from the beginning of a plan.
pub fn lead(steps: &[Step], orientation: u8, (width, height): (u32, u32)) -> Result<Lead, Error> {
    let mut lead = Lead {
        crop: (0, 0, width, height),
        size: (width, height),
        resampling: Resampling::Best,
        turn: Turn::default(),
        steps: 0,
    };
    for step in steps {
        match step {
            Step::Orient if lead.steps == 0 => lead.turn = Turn::upright(orientation),
            Step::Rotate(rotation) => lead.turn = lead.turn.then(Turn::rotation(*rotation)),
            Step::Crop {
                from: from @ (Crop::At { .. } | Crop::Centre),
                width: wanted_width,
                height: wanted_height,
            } => {
                // A crop of a crop: within what is kept so far.
                let kept = (lead.crop.2, lead.crop.3);
                let inside = clip(*from, (*wanted_width, *wanted_height), lead.turn.size(kept))?;
                let (x, y, width, height) = lead.turn.rectangle(inside, kept);
                lead.crop = (lead.crop.0 + x, lead.crop.1 + y, width, height);
                lead.size = (width, height);
            }
            Step::Resize {
                width,
                height,
                resampling,
            } => {
                lead.size = lead.turn.size((*width, *height));
                lead.resampling = *resampling;
                lead.steps += 1;
                break;
            }
            _ => break,
        }
        lead.steps += 1;
    }
    Ok(lead)
}

/// The part of a rectangle that lies within a picture: x, y, width, height.
fn clip(
    from: Crop,
    (width, height): (u32, u32),
    (of_width, of_height): (u32, u32),
) -> Result<(u32, u32, u32, u32), Error> {
    let (x, y) = match from {
        Crop::At { x, y } => (x, y),
        _ => (
            (i64::from(of_width) - i64::from(width)) / 2,
            (i64::from(of_height) - i64::from(height)) / 2,
        ),
    };
    let side = |at: i64, length: u32, of: u32| {
        let end = at.saturating_add(i64::from(length)).clamp(0, i64::from(of));
        let start = at.clamp(0, end);
        (start as u32, (end - start) as u32)
    };
    let (x, width) = side(x, width, of_width);
    let (y, height) = side(y, height, of_height);
    if width == 0 || height == 0 {
        return Err(Error::corrupt("nothing is left of the picture"));
    }
    Ok((x, y, width, height))
}

/// The size that the steps lead to. An error when one of them is beyond the limits or leaves nothing.
pub fn sizes(
    steps: &[Step],
    orientation: u8,
    mut size: (u32, u32),
    limits: &Limits,
) -> Result<(u32, u32), Error> {
    for step in steps {
        match step {
            Step::Orient => size = Turn::upright(orientation).size(size),
            Step::Rotate(rotation) => size = Turn::rotation(*rotation).size(size),
            Step::Crop {
                from,
                width,
                height,
            } => {
                let (_, _, width, height) = clip(*from, (*width, *height), size)?;
                size = (width, height);
            }
            Step::Resize { width, height, .. } | Step::Canvas { width, height, .. } => {
                size = (*width, *height);
                if size.0 == 0 || size.1 == 0 {
                    return Err(Error::corrupt("nothing is left of the picture"));
                }
                let pixels = u64::from(size.0) * u64::from(size.1);
                at_most("output_pixels", pixels, limits.output_pixels)?;
            }
            _ => {}
        }
    }
    Ok(size)
}

/// Does the steps one after the other.
pub fn apply(
    mut raster: Raster,
    steps: &[Step],
    limits: &Limits,
    deadline: Deadline,
) -> Result<Raster, Error> {
    for step in steps {
        deadline.check()?;
        raster = one(raster, step, limits, deadline)?;
    }
    Ok(raster)
}

fn one(raster: Raster, step: &Step, limits: &Limits, deadline: Deadline) -> Result<Raster, Error> {
    let size = (raster.width as u32, raster.height as u32);
    Ok(match step {
        // The orientation is done with the first step, or there is none.
        Step::Orient => raster,
        Step::Rotate(rotation) => raster.turned(Turn::rotation(*rotation)),
        Step::Crop {
            from,
            width,
            height,
        } => {
            let from = match from {
                Crop::Entropy => interest::entropy(&raster, *width, *height, deadline)?,
                Crop::Attention => interest::attention(&raster, *width, *height)?,
                from => *from,
            };
            let (x, y, width, height) = clip(from, (*width, *height), size)?;
            raster.cropped(x as usize, y as usize, width as usize, height as usize)?
        }
        Step::Resize {
            width,
            height,
            resampling,
        } => resize::raster(
            &raster,
            (0, 0, size.0, size.1),
            (*width, *height),
            *resampling,
        )?,
        Step::Canvas {
            width,
            height,
            x,
            y,
            background,
        } => compose::canvas(&raster, (*width, *height), (*x, *y), *background),
        Step::Border {
            width,
            height,
            colour,
        } => compose::border(raster, *width, *height, *colour),
        Step::Sharpen { radius, sigma } => convolve::sharpen(raster, *radius, *sigma, deadline)?,
        Step::SharpenPercent(percent) => convolve::sharpen_percent(raster, *percent, deadline)?,
        Step::Unsharp {
            radius,
            sigma,
            amount,
            threshold,
        } => convolve::unsharp(raster, (*radius, *sigma), *amount, *threshold, deadline)?,
        Step::Blur { radius, sigma } => convolve::blur(raster, *radius, *sigma, deadline)?,
        Step::Overlay(overlay) => {
            let icon = crate::render::first_frame(&overlay.bytes, limits, deadline)?;
            compose::over(raster, icon.into_rgba(), (overlay.x, overlay.y))
        }
    })
}

/// A colour as a pixel of a picture with `channels` bytes; none when the picture cannot show it.
fn pixel(colour: Colour, channels: usize) -> Option<Vec<u8>> {
    let [red, green, blue, alpha] = colour.rgba();
    match channels {
        4 => Some(vec![red, green, blue, alpha]),
        3 if alpha == 255 => Some(vec![red, green, blue]),
        1 if alpha == 255 && red == green && green == blue => Some(vec![red]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Rotation;

    #[test]
    fn the_lead_of_a_plan_is_said_of_the_source() {
        let resize = Step::Resize {
            width: 10,
            height: 20,
            resampling: Resampling::Best,
        };
        let crop = Step::Crop {
            from: Crop::At { x: 5, y: 10 },
            width: 30,
            height: 20,
        };
        let quarter = Step::Rotate(Rotation::Quarter);
        for (steps, orientation, crop, size, count) in [
            (vec![], 1, (0, 0, 100, 50), (100, 50), 0),
            (vec![resize.clone()], 1, (0, 0, 100, 50), (10, 20), 1),
            (vec![resize.clone()], 6, (0, 0, 100, 50), (10, 20), 1),
            (
                vec![Step::Orient, resize.clone()],
                6,
                (0, 0, 100, 50),
                (20, 10),
                2,
            ),
            (
                vec![crop.clone(), resize.clone()],
                1,
                (5, 10, 30, 20),
                (10, 20),
                2,
            ),
            (
                vec![quarter.clone(), crop.clone()],
                1,
                (10, 15, 20, 30),
                (20, 30),
                2,
            ),
            (
                vec![crop.clone(), crop.clone()],
                1,
                (10, 20, 25, 10),
                (25, 10),
                2,
            ),
            (vec![resize.clone(), crop], 1, (0, 0, 100, 50), (10, 20), 1),
            (
                vec![quarter.clone(), Step::Orient],
                6,
                (0, 0, 100, 50),
                (100, 50),
                1,
            ),
        ] {
            let lead = lead(&steps, orientation, (100, 50)).expect("a plan");
            assert_eq!(
                (lead.crop, lead.size, lead.steps),
                (crop, size, count),
                "{steps:?}"
            );
        }
    }

    #[test]
    fn clips_keep_what_lies_inside() {
        let at = |x, y| Crop::At { x, y };
        for (from, size, expected) in [
            (at(0, 0), (10, 10), Some((0, 0, 10, 10))),
            (at(-5, 2), (10, 10), Some((0, 2, 5, 8))),
            (at(15, 0), (10, 10), Some((15, 0, 5, 10))),
            (at(20, 0), (10, 10), None),
            (at(i64::MAX, i64::MIN), (10, 10), None),
            (Crop::Centre, (10, 4), Some((5, 3, 10, 4))),
            (Crop::Centre, (30, 4), Some((0, 3, 20, 4))),
        ] {
            assert_eq!(
                clip(from, size, (20, 10)).ok(),
                expected,
                "{from:?} {size:?}"
            );
        }
    }
}
