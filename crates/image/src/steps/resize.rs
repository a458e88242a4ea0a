//! Changes of size, by fast_image_resize, with the filters whose pictures are asked for.

use crate::error::Error;
use crate::jpeg::plane::Plane;
use crate::plan::Resampling;
use crate::raster::Raster;
use fast_image_resize::images::{TypedCroppedImage, TypedImage, TypedImageRef};
use fast_image_resize::pixels::{U8, U8x3, U8x4};
use fast_image_resize::{FilterType, PixelTrait, PixelType, ResizeAlg, ResizeOptions, Resizer};

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

/// What is asked of the library.
struct Wanted {
    part: Part,
    filter: FilterType,
    alpha: bool,
}

impl Wanted {
    fn new(part: Part, size: (u32, u32), resampling: Resampling, alpha: bool) -> Wanted {
        let shrinks = part.2 * part.3 >= f64::from(size.0) * f64::from(size.1);
        Wanted {
            part,
            filter: filter(resampling, shrinks, alpha),
            alpha,
        }
    }
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
    let numbers = (x.into(), y.into(), width.into(), height.into());
    part(source, numbers, size, resampling)
}

/// A part of a picture that may begin and end within pixels.
pub fn part(
    source: &Raster,
    part: Part,
    size: (u32, u32),
    resampling: Resampling,
) -> Result<Raster, Error> {
    let kind = match source.channels {
        1 => PixelType::U8,
        3 => PixelType::U8x3,
        _ => PixelType::U8x4,
    };
    let wanted = Wanted::new(part, size, resampling, source.has_alpha());
    let data = run(
        &source.data,
        (source.width, source.height),
        kind,
        size,
        wanted,
    )?;
    Ok(Raster {
        width: size.0 as usize,
        height: size.1 as usize,
        channels: source.channels,
        data,
    })
}

/// A part of a plane at another size; the plane's rows may be further apart than they are long.
pub fn plane(
    source: &Plane,
    part: Part,
    size: (u32, u32),
    resampling: Resampling,
) -> Result<Plane, Error> {
    let wanted = Wanted::new(part, size, resampling, false);
    let rows = (source.stride, source.height);
    if part == (0.0, 0.0, f64::from(size.0), f64::from(size.1)) {
        let rows = (0..source.height).flat_map(|y| source.row(y).get(..size.0 as usize));
        let samples = rows.take(size.1 as usize).flatten().copied().collect();
        return Ok(Plane::new(size.0 as usize, size.1 as usize, samples));
    }
    let samples = run(&source.samples, rows, PixelType::U8, size, wanted)?;
    Ok(Plane::new(size.0 as usize, size.1 as usize, samples))
}

/// Goes to the library for one of three kinds of pixels: its own choice among eighteen takes minutes to compile.
fn run(
    data: &[u8],
    source: (usize, usize),
    kind: PixelType,
    size: (u32, u32),
    wanted: Wanted,
) -> Result<Vec<u8>, Error> {
    let data = data
        .get(..source.0 * source.1 * kind.size())
        .unwrap_or(data);
    let mut out = vec![0; size.0 as usize * size.1 as usize * kind.size()];
    match kind {
        PixelType::U8 => typed::<U8>(data, source, &mut out, size, wanted),
        PixelType::U8x3 => typed::<U8x3>(data, source, &mut out, size, wanted),
        _ => typed::<U8x4>(data, source, &mut out, size, wanted),
    }?;
    Ok(out)
}

fn typed<P: PixelTrait>(
    data: &[u8],
    (width, height): (usize, usize),
    out: &mut [u8],
    size: (u32, u32),
    wanted: Wanted,
) -> Result<(), Error> {
    let whole = TypedImageRef::<P>::from_buffer(width as u32, height as u32, data)
        .map_err(Error::corrupt)?;
    // Only the part is looked at: what lies beside it has no say at its edges.
    let (x, y, part_width, part_height) = wanted.part;
    let (left, top) = (x.floor(), y.floor());
    let right = (x + part_width).ceil().min(width as f64);
    let bottom = (y + part_height).ceil().min(height as f64);
    let (columns, rows) = (right - left, bottom - top);
    let place = (left as u32, top as u32, columns as u32, rows as u32);
    let source = TypedCroppedImage::new(whole, place.0, place.1, place.2, place.3)
        .map_err(Error::corrupt)?;
    let options = ResizeOptions::new()
        .resize_alg(ResizeAlg::Convolution(wanted.filter))
        .use_alpha(wanted.alpha)
        .crop(
            x - left,
            y - top,
            part_width.min(columns - (x - left)),
            part_height.min(rows - (y - top)),
        );
    let mut out = TypedImage::<P>::from_buffer(size.0, size.1, out).map_err(Error::corrupt)?;
    Resizer::new()
        .resize_typed(&source, &mut out, &options)
        .map_err(Error::corrupt)
}
