//! PNG: any depth and colour type becomes 8 bits of grey, RGB or RGBA.

use super::{Contents, Profiles, Request, Take};
use crate::error::Error;
use crate::raster::Raster;
use png::{ColorType, Transformations};

/// The first picture of a file; an animated PNG has a still one for those who know no better.
pub fn decode(request: &Request, take: Take) -> Result<Contents, Error> {
    let facts = request.facts;
    let bytes = usize::try_from(request.limits.memory).unwrap_or(usize::MAX);
    let mut decoder = png::Decoder::new_with_limits(request.reader(), png::Limits { bytes });
    decoder.set_ignore_text_chunk(true);
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let mut reader = decoder.read_info().map_err(Error::corrupt)?;
    let profiles = Profiles {
        icc: reader.info().icc_profile.as_deref().map(<[u8]>::to_vec),
        exif: reader.info().exif_metadata.as_deref().map(<[u8]>::to_vec),
        xmp: None,
    };
    let size = reader
        .output_buffer_size()
        .ok_or_else(|| Error::corrupt("a PNG beyond memory"))?;
    let mut data = vec![0; size];
    let info = reader.next_frame(&mut data).map_err(Error::corrupt)?;
    request.deadline.check()?;
    data.truncate(info.buffer_size());
    let (channels, data) = match info.color_type {
        ColorType::Grayscale => (1, data),
        ColorType::GrayscaleAlpha => {
            let spread = |pixel: &[u8]| [pixel[0], pixel[0], pixel[0], pixel[1]];
            (4, data.chunks_exact(2).flat_map(spread).collect())
        }
        ColorType::Rgb => (3, data),
        ColorType::Rgba => (4, data),
        ColorType::Indexed => return Err(Error::corrupt("a palette that was not resolved")),
    };
    let (width, height) = (info.width as usize, info.height as usize);
    if (info.width, info.height) != (facts.width, facts.height)
        || data.len() != width * height * channels
    {
        return Err(Error::corrupt("a PNG of another size than its header says"));
    }
    let raster = Raster {
        width,
        height,
        channels,
        data,
    };
    Contents::still(raster, profiles, take)
}
