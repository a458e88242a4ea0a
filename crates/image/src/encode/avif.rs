//! AVIF: still pictures, by an encoder that the caller brings.

use super::{Frames, Job};
use crate::error::Error;
use crate::probe::Format;
use crate::raster::Raster;

/// A still picture.
pub fn encode(raster: &Raster, job: &Job) -> Result<Vec<u8>, Error> {
    let elsewhere = job.elsewhere.ok_or(Error::Unsupported("AVIF"))?;
    elsewhere(&Frames {
        format: Format::Avif,
        width: raster.width as u32,
        height: raster.height as u32,
        frames: vec![(0, raster.clone().into_rgba().data)],
        quality: job.quality,
        repeats: 0,
        profiles: job.profiles.clone(),
        until: job.until,
    })
}
