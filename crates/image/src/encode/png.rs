//! PNG: grey, RGB and RGBA of 8 bits.

use super::Job;
use crate::decode::Profiles;
use crate::error::Error;
use crate::raster::Raster;
use png::{BitDepth, ColorType, Compression};

/// A still picture.
pub fn encode(raster: &Raster, job: &Job) -> Result<Vec<u8>, Error> {
    file(raster, job.profiles)
}

/// A picture and what is kept beside it. Alpha that hides nothing is left out.
pub fn file(raster: &Raster, profiles: &Profiles) -> Result<Vec<u8>, Error> {
    let opaque;
    let raster = if raster.has_alpha() && raster.is_opaque() {
        opaque = raster.clone().into_rgb();
        &opaque
    } else {
        raster
    };
    let mut out = Vec::with_capacity(raster.data.len() / 2 + 1024);
    let mut info = png::Info::with_size(raster.width as u32, raster.height as u32);
    info.color_type = match raster.channels {
        1 => ColorType::Grayscale,
        3 => ColorType::Rgb,
        _ => ColorType::Rgba,
    };
    info.bit_depth = BitDepth::Eight;
    info.icc_profile = profiles.icc.clone().map(Into::into);
    info.exif_metadata = profiles.exif.clone().map(Into::into);
    let mut encoder = png::Encoder::with_info(&mut out, info).map_err(Error::corrupt)?;
    encoder.set_compression(Compression::Fast);
    let mut writer = encoder.write_header().map_err(Error::corrupt)?;
    writer
        .write_image_data(&raster.data)
        .map_err(Error::corrupt)?;
    writer.finish().map_err(Error::corrupt)?;
    Ok(out)
}
