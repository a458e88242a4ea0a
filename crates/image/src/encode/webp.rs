//! WebP without loss, by image-webp.

use super::{Job, Shot};
use crate::error::Error;
use image_webp::{ColorType, WebPEncoder};

/// A still picture.
pub fn encode(frames: &[Shot], job: &Job) -> Result<Vec<u8>, Error> {
    let first = &frames
        .first()
        .ok_or_else(|| Error::corrupt("no frame"))?
        .raster;
    let kind = match first.channels {
        1 => ColorType::L8,
        3 => ColorType::Rgb8,
        _ => ColorType::Rgba8,
    };
    let mut out = Vec::new();
    let mut encoder = WebPEncoder::new(&mut out);
    if let Some(icc) = &job.profiles.icc {
        encoder.set_icc_profile(icc.clone());
    }
    let (width, height) = (first.width as u32, first.height as u32);
    encoder
        .encode(&first.data, width, height, kind)
        .map_err(Error::corrupt)?;
    Ok(out)
}
