//! From JPEG to JPEG without pixels: brightness and colour stay in their planes, at the number of samples they have.

use crate::decode::Profiles;
use crate::encode;
use crate::encode::planes::to_raster;
use crate::error::Error;
use crate::jpeg::decoder::{Channel, Scaled};
use crate::jpeg::plane::{Plane, Planes};
use crate::plan::{Resampling, Sampling};
use crate::probe::Facts;
use crate::raster::Raster;
use crate::render::{MASTER_QUALITY, Master};
use crate::steps::Lead;
use crate::steps::resize;

/// A decoded JPEG, and what a plan's beginning makes of it.
pub struct Planar<'a> {
    /// Its planes.
    pub scaled: Scaled,
    facts: &'a Facts,
    lead: &'a Lead,
}

impl<'a> Planar<'a> {
    /// Planes at any scale.
    pub fn new(scaled: Scaled, facts: &'a Facts, lead: &'a Lead) -> Planar<'a> {
        Planar {
            scaled,
            facts,
            lead,
        }
    }

    /// A channel cropped, resized and turned. A divisor of 2 halves the number of samples.
    fn channel(&self, channel: &Channel, divisors: (u32, u32)) -> Result<Plane, Error> {
        let (crop, wanted) = (self.lead.crop, self.lead.size);
        let size = (wanted.0.div_ceil(divisors.0), wanted.1.div_ceil(divisors.1));
        let across = channel.size.0 / f64::from(self.facts.width);
        let down = channel.size.1 / f64::from(self.facts.height);
        let x = (f64::from(crop.0) * across).min(channel.plane.width as f64 - 0.5);
        let y = (f64::from(crop.1) * down).min(channel.plane.height as f64 - 0.5);
        // The last sample of an odd width stands for a column beyond the edge, too.
        let more = |size: u32, divisor: u32, of: u32| f64::from(size * divisor) / f64::from(of);
        let width = f64::from(crop.2) * across * more(size.0, divisors.0, wanted.0);
        let height = f64::from(crop.3) * down * more(size.1, divisors.1, wanted.1);
        let width = width.min(channel.plane.width as f64 - x);
        let height = height.min(channel.plane.height as f64 - y);
        // Colour that grows is drawn out evenly: a sharper filter would ring at edges.
        let grows = width < f64::from(size.0) && channel.size.0 < f64::from(self.facts.width);
        let resampling = match self.lead.resampling {
            Resampling::Best if grows => Resampling::Imlib2,
            resampling => resampling,
        };
        let plane = resize::plane(&channel.plane, (x, y, width, height), size, resampling)?;
        let turn = self.lead.turn;
        if turn == Default::default() {
            return Ok(plane);
        }
        let (width, height) = turn.size((plane.width, plane.height));
        let samples = turn.apply(&plane.samples, (plane.width, plane.height), plane.stride, 1);
        Ok(Plane::new(width, height, samples))
    }

    /// Whether colour has half the samples of brightness, each way.
    fn halves(&self) -> (bool, bool) {
        if self.has_plain_inks() {
            return (false, false);
        }
        match self.scaled.planes.as_slice() {
            [luma, colour, ..] => (
                colour.size.0 < luma.size.0 * 0.75,
                colour.size.1 < luma.size.1 * 0.75,
            ),
            _ => (false, false),
        }
    }

    /// Whether there are four inks.
    pub fn has_inks(&self) -> bool {
        self.scaled.planes.len() == 4
    }

    /// Whether they are nothing but inks, so that none is coarser than another.
    fn has_plain_inks(&self) -> bool {
        self.has_inks() && !self.scaled.transformed
    }

    /// Whether colour has as many samples as brightness.
    pub fn full_colour(&self) -> bool {
        self.halves() == (false, false)
    }

    /// The planes as they were decoded, as a file; none where an encoder cannot tell their form.
    pub fn master(&self, scale: usize, profiles: &Profiles) -> Option<Master> {
        let planes: Vec<Plane> = self.scaled.planes.iter().map(|c| c.plane.clone()).collect();
        let (width, height) = planes.first().map(|plane| (plane.width, plane.height))?;
        let halves = |of: usize, side: usize| side == of || side == of.div_ceil(2);
        let first = planes.get(1).map(|plane| (plane.width, plane.height));
        let fits = |plane: &Plane| {
            halves(width, plane.width)
                && halves(height, plane.height)
                && Some((plane.width, plane.height)) == first
        };
        if !planes.iter().skip(1).all(fits) {
            return None;
        }
        let planes = Planes {
            width,
            height,
            planes,
            transformed: self.scaled.transformed,
        };
        Some(Master {
            scale: u8::try_from(scale).ok()?,
            bytes: encode::master(&planes, profiles, MASTER_QUALITY),
        })
    }

    /// The planes of the result.
    pub fn planes(&self, sampling: Sampling) -> Result<Planes, Error> {
        let halves = match sampling {
            Sampling::Source => self.halves(),
            Sampling::Half => (!self.has_plain_inks(), !self.has_plain_inks()),
            Sampling::Full => (false, false),
        };
        let divisor = |half: bool| if half { 2 } else { 1 };
        self.with_divisors((divisor(halves.0), divisor(halves.1)))
    }

    /// The pixels of the result.
    pub fn raster(&self) -> Result<Raster, Error> {
        Ok(to_raster(&self.with_divisors((1, 1))?))
    }

    fn with_divisors(&self, divisors: (u32, u32)) -> Result<Planes, Error> {
        let (width, height) = self.lead.turn.size(self.lead.size);
        let mut planes = Vec::with_capacity(3);
        for (number, channel) in self.scaled.planes.iter().enumerate() {
            let divisors = match number {
                1 | 2 => divisors,
                _ => (1, 1),
            };
            planes.push(self.channel(channel, divisors)?);
        }
        Ok(Planes {
            width: width as usize,
            height: height as usize,
            planes,
            transformed: self.scaled.transformed,
        })
    }
}
