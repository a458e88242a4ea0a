//! Changes of size, by fast_image_resize, with the filters whose pictures are asked for.

use crate::error::Error;
use crate::jpeg::plane::Plane;
use crate::plan::Resampling;
use crate::raster::Raster;
use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};

/// x, y, width and height of a part of a picture, in its pixels or parts of them.
pub type Part = (f64, f64, f64, f64);

fn filter(resampling: Resampling, shrinks: bool, alpha: bool) -> FilterType {
    match resampling {
        Resampling::Best => FilterType::Lanczos3,
        Resampling::ImageMagick if alpha || !shrinks => FilterType::Mitchell,
        Resampling::ImageMagick => FilterType::Lanczos3,
        Resampling::Gd => FilterType::Box,
        Resampling::Imlib2 if shrinks => FilterType::Box,
        Resampling::Imlib2 => FilterType::Bilinear,
    }
}

fn options(part: Part, size: (u32, u32), resampling: Resampling, alpha: bool) -> ResizeOptions {
    let shrinks = part.2 * part.3 >= f64::from(size.0) * f64::from(size.1);
    ResizeOptions::new()
        .resize_alg(ResizeAlg::Convolution(filter(resampling, shrinks, alpha)))
        .crop(part.0, part.1, part.2, part.3)
        .use_alpha(alpha)
}

/// A part of a picture at another size. Alpha is taken into account, so that what cannot be seen has no say in colours.
pub fn raster(
    source: &Raster,
    (x, y, width, height): (u32, u32, u32, u32),
    size: (u32, u32),
    resampling: Resampling,
) -> Result<Raster, Error> {
    let whole =
        (x, y) == (0, 0) && (width as usize, height as usize) == (source.width, source.height);
    if size == (width, height) {
        return if whole {
            Ok(source.clone())
        } else {
            source.cropped(x as usize, y as usize, width as usize, height as usize)
        };
    }
    let kind = match source.channels {
        1 => PixelType::U8,
        3 => PixelType::U8x3,
        _ => PixelType::U8x4,
    };
    let part = (
        f64::from(x),
        f64::from(y),
        f64::from(width),
        f64::from(height),
    );
    let options = options(part, size, resampling, source.has_alpha());
    let data = run(
        &source.data,
        (source.width, source.height),
        kind,
        size,
        &options,
    )?;
    Ok(Raster {
        width: size.0 as usize,
        height: size.1 as usize,
        channels: source.channels,
        data,
    })
}

/// A part of a plane at another size; the plane's rows may be further apart than they are long.
#[expect(dead_code)]
pub fn plane(
    source: &Plane,
    part: Part,
    size: (u32, u32),
    resampling: Resampling,
) -> Result<Plane, Error> {
    let options = options(part, size, resampling, false);
    let rows = (source.stride, source.height);
    let samples = run(&source.samples, rows, PixelType::U8, size, &options)?;
    Ok(Plane::new(size.0 as usize, size.1 as usize, samples))
}

fn run(
    data: &[u8],
    (width, height): (usize, usize),
    kind: PixelType,
    size: (u32, u32),
    options: &ResizeOptions,
) -> Result<Vec<u8>, Error> {
    let data = data.get(..width * height * kind.size()).unwrap_or(data);
    let source = ImageRef::new(width as u32, height as u32, data, kind).map_err(Error::corrupt)?;
    let mut out = Image::new(size.0, size.1, kind);
    Resizer::new()
        .resize(&source, &mut out, options)
        .map_err(Error::corrupt)?;
    Ok(out.into_vec())
}
