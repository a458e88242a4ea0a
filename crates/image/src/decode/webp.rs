//! WebP, with and without loss, still and animated.

use super::{Contents, Frame, Profiles, Request, Take};
use crate::error::Error;
use crate::raster::Raster;
use image_webp::{LoopCount, WebPDecoder};

/// The first frame, or all of them.
pub fn decode(request: &Request, take: Take) -> Result<Contents, Error> {
    let facts = request.facts;
    let mut decoder = WebPDecoder::new(request.reader()).map_err(Error::corrupt)?;
    decoder.set_memory_limit(usize::try_from(request.limits.memory).unwrap_or(usize::MAX));
    if decoder.dimensions() != (facts.width, facts.height) {
        return Err(Error::corrupt(
            "a WebP of another size than its header says",
        ));
    }
    let profiles = Profiles {
        icc: decoder.icc_profile().map_err(Error::corrupt)?,
        exif: decoder.exif_metadata().map_err(Error::corrupt)?,
        xmp: decoder.xmp_metadata().map_err(Error::corrupt)?,
    };
    let channels = if decoder.has_alpha() { 4 } else { 3 };
    let size = decoder
        .output_buffer_size()
        .ok_or_else(|| Error::corrupt("a WebP beyond memory"))?;
    let raster = |data| Raster {
        width: facts.width as usize,
        height: facts.height as usize,
        channels,
        data,
    };
    let mut data = vec![0; size];
    if !decoder.is_animated() {
        decoder.read_image(&mut data).map_err(Error::corrupt)?;
        request.deadline.check()?;
        return Contents::still(raster(data), profiles, take);
    }
    let wanted = if request.all_frames {
        decoder.num_frames()
    } else {
        1
    };
    for _ in 0..wanted {
        let delay_ms = decoder.read_frame(&mut data).map_err(Error::corrupt)?;
        request.deadline.check()?;
        let raster = raster(data.clone());
        take(Frame { raster, delay_ms }, &profiles)?;
    }
    let repeats = match decoder.loop_count() {
        LoopCount::Forever => 0,
        LoopCount::Times(times) => times.get(),
    };
    Ok(Contents { repeats, profiles })
}
