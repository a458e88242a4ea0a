//! AVIF: the primary picture of a file, by a decoder that the caller brings, turned as the file says.

use super::{Contents, Foreign, Request, Take};
use crate::error::Error;
use crate::probe::avif;
use crate::raster::Raster;

/// The picture.
pub fn decode(request: &Request, take: Take) -> Result<Contents, Error> {
    let elsewhere = request.elsewhere.ok_or(Error::Unsupported("AVIF"))?;
    let stored = avif::stored(request.source)?;
    let decoded = elsewhere(&Foreign {
        source: request.source,
        width: stored.width,
        height: stored.height,
        until: request.deadline.until(),
    })?;
    let (width, height) = (stored.width as usize, stored.height as usize);
    if decoded.rgba.len() != width * height * 4 {
        return Err(Error::corrupt(
            "an AVIF of another size than its header says",
        ));
    }
    let raster = Raster {
        width,
        height,
        channels: 4,
        data: decoded.rgba,
    };
    let raster = match request.facts.has_alpha {
        true => raster,
        false => raster.into_rgb(),
    };
    Contents::still(raster.turned(stored.turn), decoded.profiles, take)
}
