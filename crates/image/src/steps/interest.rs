//! Crops that look for what matters: where most details are, or what the eye goes to. Both look at a small copy.

use crate::error::Error;
use crate::limits::Deadline;
use crate::plan::{Crop, Resampling};
use crate::raster::Raster;

/// The longer side of the copy that is looked at.
const COPY_SIDE: u32 = 128;

/// A picture's small copy in RGB, and how many pixels of the picture one of its pixels is.
struct Copy {
    raster: Raster,
    scale: f64,
}

fn copy(raster: &Raster) -> Result<Copy, Error> {
    let (width, height) = (raster.width as u32, raster.height as u32);
    let longer = width.max(height);
    let size = |side: u32| {
        let small = u64::from(side) * u64::from(COPY_SIDE) / u64::from(longer.max(1));
        (small as u32).clamp(1, side.max(1))
    };
    let small = if longer > COPY_SIDE {
        let size = (size(width), size(height));
        super::resize::raster(raster, (0, 0, width, height), size, Resampling::Gd)?
    } else {
        raster.clone()
    };
    Ok(Copy {
        scale: f64::from(longer) / f64::from(longer.min(COPY_SIDE)).max(1.0),
        raster: small.flattened([255; 4]).into_rgb(),
    })
}

impl Copy {
    /// A length of the picture in the copy's pixels.
    fn length(&self, side: u32, of: usize) -> usize {
        ((f64::from(side) / self.scale).round() as usize).clamp(1, of.max(1))
    }

    /// A place in the copy as one in the picture.
    fn place(&self, (x, y): (usize, usize)) -> Crop {
        let side = |at: usize| (at as f64 * self.scale).round() as i64;
        Crop::At {
            x: side(x),
            y: side(y),
        }
    }
}

fn brightness(pixel: &[u8]) -> i32 {
    (i32::from(pixel[0]) * 77 + i32::from(pixel[1]) * 150 + i32::from(pixel[2]) * 29) >> 8
}

/// The bits that a pixel's brightness tells, on average, in a part of a picture.
fn entropy_of(grey: &[u8], width: usize, (x, y): (usize, usize), size: (usize, usize)) -> f64 {
    let mut counts = [0u32; 64];
    for row in grey.chunks_exact(width.max(1)).skip(y).take(size.1) {
        for value in row.iter().skip(x).take(size.0) {
            counts[usize::from(*value >> 2)] += 1;
        }
    }
    let total = f64::from(counts.iter().sum::<u32>()).max(1.0);
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / total)
        .map(|part| -part * part.log2())
        .sum()
}

/// Cuts strips off that side which tells less, until the size is reached.
pub fn entropy(
    raster: &Raster,
    width: u32,
    height: u32,
    deadline: Deadline,
) -> Result<Crop, Error> {
    let copy = copy(raster)?;
    let grey: Vec<u8> = copy
        .raster
        .data
        .chunks_exact(3)
        .map(|pixel| brightness(pixel) as u8)
        .collect();
    let row = copy.raster.width;
    let (mut x, mut y) = (0, 0);
    let mut size = (row, copy.raster.height);
    let wanted = (copy.length(width, size.0), copy.length(height, size.1));
    while size.0 > wanted.0 || size.1 > wanted.1 {
        deadline.check()?;
        let strip = (size.0 - wanted.0).div_ceil(8);
        if strip > 0 {
            let left = entropy_of(&grey, row, (x, y), (strip, size.1));
            let right = entropy_of(&grey, row, (x + size.0 - strip, y), (strip, size.1));
            x += if left < right { strip } else { 0 };
            size.0 -= strip;
        }
        let strip = (size.1 - wanted.1).div_ceil(8);
        if strip > 0 {
            let top = entropy_of(&grey, row, (x, y), (size.0, strip));
            let bottom = entropy_of(&grey, row, (x, y + size.1 - strip), (size.0, strip));
            y += if top < bottom { strip } else { 0 };
            size.1 -= strip;
        }
    }
    Ok(inside(copy.place((x, y)), raster, width, height))
}

/// The place where most edges, saturated colours and skin are.
pub fn attention(raster: &Raster, width: u32, height: u32) -> Result<Crop, Error> {
    let copy = copy(raster)?;
    let (columns, rows) = (copy.raster.width, copy.raster.height);
    // Sums over all rectangles from the upper left corner, with a row and a column of zeros before.
    let mut sums = vec![0u64; (columns + 1) * (rows + 1)];
    for y in 0..rows {
        let mut line = 0;
        for x in 0..columns {
            line += u64::from(weight(&copy.raster, x, y));
            sums[(y + 1) * (columns + 1) + x + 1] = sums[y * (columns + 1) + x + 1] + line;
        }
    }
    let (w, h) = (copy.length(width, columns), copy.length(height, rows));
    let sum = |x: usize, y: usize| {
        let at = |x: usize, y: usize| sums[y * (columns + 1) + x];
        at(x + w, y + h) + at(x, y) - at(x, y + h) - at(x + w, y)
    };
    let middle = ((columns - w) / 2, (rows - h) / 2);
    let away = |(x, y): (usize, usize)| x.abs_diff(middle.0) + y.abs_diff(middle.1);
    let places = (0..=rows - h).flat_map(|y| (0..=columns - w).map(move |x| (x, y)));
    // Of places that weigh the same, the one nearest to the middle.
    let best = places.max_by_key(|place| (sum(place.0, place.1), std::cmp::Reverse(away(*place))));
    Ok(inside(
        copy.place(best.unwrap_or(middle)),
        raster,
        width,
        height,
    ))
}

/// How much a pixel draws the eye.
fn weight(raster: &Raster, x: usize, y: usize) -> u32 {
    let at = |x: usize, y: usize| {
        let (x, y) = (x.min(raster.width - 1), y.min(raster.height - 1));
        let start = (y * raster.width + x) * 3;
        raster.data.get(start..start + 3).unwrap_or(&[0; 3])
    };
    let pixel = at(x, y);
    let here = brightness(pixel);
    let around = brightness(at(x.saturating_sub(1), y))
        + brightness(at(x + 1, y))
        + brightness(at(x, y.saturating_sub(1)))
        + brightness(at(x, y + 1));
    let edge = (4 * here - around).unsigned_abs();
    let (red, green, blue) = (pixel[0], pixel[1], pixel[2]);
    let most = red.max(green).max(blue);
    let spread = u32::from(most - red.min(green).min(blue));
    // Dark and glaring parts hardly show their colours.
    let shows = (40..=230).contains(&here);
    let saturation = if shows {
        spread * 255 / u32::from(most).max(1)
    } else {
        0
    };
    let skin = red > 95
        && green > 40
        && blue > 20
        && spread > 15
        && most == red
        && red - green.min(red) > 15
        && green > blue;
    edge + saturation / 4 + if skin && shows { 60 } else { 0 }
}

/// Moves a crop that stands out over the right or lower edge.
fn inside(crop: Crop, raster: &Raster, width: u32, height: u32) -> Crop {
    let Crop::At { x, y } = crop else {
        return crop;
    };
    let side = |at: i64, length: u32, of: usize| at.min((of as i64 - i64::from(length)).max(0));
    Crop::At {
        x: side(x, width, raster.width),
        y: side(y, height, raster.height),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    /// Grey, with noise in a square of 50 pixels from this corner on.
    fn noise_at(left: usize, top: usize) -> Raster {
        let mut raster = Raster::filled(300, 200, &[90, 90, 90]);
        let mut state = 7u32;
        for y in top..top + 50 {
            for x in left..left + 50 {
                for channel in 0..3 {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    raster.data[(y * 300 + x) * 3 + channel] = (state >> 24) as u8;
                }
            }
        }
        raster
    }

    #[test]
    fn both_ways_find_what_there_is() {
        let deadline = Deadline::new(&Limits::default());
        for (left, top) in [(0, 0), (240, 140), (120, 10), (10, 90)] {
            let raster = noise_at(left, top);
            let found = [
                entropy(&raster, 100, 100, deadline).expect("a place"),
                attention(&raster, 100, 100).expect("a place"),
            ];
            for crop in found {
                let Crop::At { x, y } = crop else {
                    panic!("no place")
                };
                let (left, top) = (left as i64, top as i64);
                assert!(
                    x <= left + 8 && x + 100 >= left + 42,
                    "{crop:?} for {left}, {top}"
                );
                assert!(
                    y <= top + 8 && y + 100 >= top + 42,
                    "{crop:?} for {left}, {top}"
                );
            }
        }
    }

    #[test]
    fn sizes_beyond_the_picture_are_taken() {
        let deadline = Deadline::new(&Limits::default());
        let raster = noise_at(0, 0);
        for (width, height) in [(1, 1), (300, 200), (1000, 1000), (1, 1000)] {
            entropy(&raster, width, height, deadline).expect("a place");
            attention(&raster, width, height).expect("a place");
        }
    }
}
