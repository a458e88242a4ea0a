//! JPEG at full size by zune-jpeg: what our own decoder does not take.

use super::{Contents, Request, Take};
use crate::error::Error;
use crate::jpeg::decoder;
use crate::probe::Model;
use crate::raster::Raster;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;

/// Scans of a progressive file that are read.
const SCANS_MAX: usize = 100;

/// Grey stays grey, all else becomes RGB.
pub fn decode(request: &Request, take: Take) -> Result<Contents, Error> {
    let facts = request.facts;
    let grey = facts.model == Model::Grey;
    let options = DecoderOptions::default()
        .set_max_width(facts.width as usize)
        .set_max_height(facts.height as usize)
        .set_strict_mode(false)
        .jpeg_set_max_scans(SCANS_MAX)
        .jpeg_set_out_colorspace(if grey {
            ColorSpace::Luma
        } else {
            ColorSpace::RGB
        });
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(request.reader(), options);
    let data = decoder.decode().map_err(Error::corrupt)?;
    let channels = if grey { 1 } else { 3 };
    let (width, height) = (facts.width as usize, facts.height as usize);
    if data.len() != width * height * channels {
        return Err(Error::corrupt(
            "a JPEG of another size than its header says",
        ));
    }
    let raster = Raster {
        width,
        height,
        channels,
        data,
    };
    Contents::still(raster, decoder::profiles(request.source), take)
}
