//! RGB to brightness and colour and back (JFIF's full-range BT.601), in integers.

use crate::jpeg::plane::{Plane, Planes};
use crate::raster::Raster;

/// Bits behind the point.
const SHIFT: u32 = 16;

const fn fixed(value: f64) -> i32 {
    (value * (1 << SHIFT) as f64 + 0.5) as i32
}

/// Opaque pixels as planes; colour with all its samples or the mean of two by two pixels.
pub fn from_raster(raster: &Raster, full: bool) -> Planes {
    let (width, height) = (raster.width, raster.height);
    if raster.channels == 1 {
        let planes = vec![Plane::new(width, height, raster.data.clone())];
        return Planes {
            width,
            height,
            planes,
            transformed: false,
        };
    }
    let mut luma = Vec::with_capacity(width * height);
    let (mut blue, mut red) = (Vec::new(), Vec::new());
    let pixels = raster.data.chunks_exact(raster.channels);
    for pixel in pixels.clone() {
        let [r, g, b] = [0, 1, 2].map(|at| i32::from(pixel[at]));
        let y = fixed(0.299) * r + fixed(0.587) * g + fixed(0.114) * b + (1 << (SHIFT - 1));
        luma.push((y >> SHIFT) as u8);
    }
    let (columns, rows) = if full {
        for pixel in pixels {
            let (cb, cr) = colour([0, 1, 2].map(|at| i32::from(pixel[at])), 0);
            blue.push(cb);
            red.push(cr);
        }
        (width, height)
    } else {
        for y in (0..height).step_by(2) {
            let (upper, lower) = (raster.row(y), raster.row((y + 1).min(height - 1)));
            halved(upper, lower, raster.channels, &mut blue, &mut red);
        }
        (width.div_ceil(2), height.div_ceil(2))
    };
    let planes = vec![
        Plane::new(width, height, luma),
        Plane::new(columns, rows, blue),
        Plane::new(columns, rows, red),
    ];
    Planes {
        width,
        height,
        planes,
        transformed: false,
    }
}

/// Cb and Cr of the sum of `1 << shift` pixels.
#[inline]
fn colour([r, g, b]: [i32; 3], shift: u32) -> (u8, u8) {
    let half = (128 << (SHIFT + shift)) + (1 << (SHIFT + shift - 1)) - 1;
    let cb = fixed(0.5) * b - fixed(0.168_735_892) * r - fixed(0.331_264_108) * g + half;
    let cr = fixed(0.5) * r - fixed(0.418_687_589) * g - fixed(0.081_312_411) * b + half;
    let value = |sum: i32| (sum >> (SHIFT + shift)).clamp(0, 255) as u8;
    (value(cb), value(cr))
}

/// The colour of two rows at half their width.
fn halved(upper: &[u8], lower: &[u8], channels: usize, blue: &mut Vec<u8>, red: &mut Vec<u8>) {
    let pair = channels * 2;
    for (upper, lower) in upper.chunks(pair).zip(lower.chunks(pair)) {
        // An odd column stands for two.
        let second = if upper.len() == pair { channels } else { 0 };
        let sum = [0, 1, 2].map(|at| {
            let four = [upper[at], upper[at + second], lower[at], lower[at + second]];
            four.map(i32::from).iter().sum()
        });
        let (cb, cr) = colour(sum, 2);
        blue.push(cb);
        red.push(cr);
    }
}

/// Planes as grey or RGB pixels. Colour of fewer samples has been brought to the picture's size before.
pub fn to_raster(planes: &Planes) -> Raster {
    let (width, height) = (planes.width, planes.height);
    let [luma, blue, red, rest @ ..] = planes.planes.as_slice() else {
        let luma = planes.planes.first();
        let rows = (0..height).flat_map(|y| luma.into_iter().flat_map(move |luma| luma.row(y)));
        return Raster {
            width,
            height,
            channels: 1,
            data: rows.copied().collect(),
        };
    };
    let mut data = vec![0; width * height * 3];
    for (y, out) in data.chunks_exact_mut((width * 3).max(1)).enumerate() {
        let colours = blue.row(y).iter().zip(red.row(y));
        let pixels = out.chunks_exact_mut(3).zip(luma.row(y).iter().zip(colours));
        let Some(black) = rest.first() else {
            pixels.for_each(|(out, (y, (cb, cr)))| out.copy_from_slice(&rgb(*y, *cb, *cr)));
            continue;
        };
        for ((out, (one, (two, three))), black) in pixels.zip(black.row(y)) {
            let inks = match planes.transformed {
                true => rgb(*one, *two, *three).map(|value| 255 - value),
                false => [*one, *two, *three],
            };
            let light = inks.map(|ink| (u16::from(ink) * u16::from(*black) + 127) / 255);
            out.copy_from_slice(&light.map(|light| light as u8));
        }
    }
    Raster {
        width,
        height,
        channels: 3,
        data,
    }
}

#[inline]
fn rgb(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    let (cb, cr) = (i32::from(cb) - 128, i32::from(cr) - 128);
    let y = (i32::from(y) << SHIFT) + (1 << (SHIFT - 1));
    let value = |sum: i32| (sum >> SHIFT).clamp(0, 255) as u8;
    [
        value(y + fixed(1.402) * cr),
        value(y - fixed(0.344_136_286) * cb - fixed(0.714_136_286) * cr),
        value(y + fixed(1.772) * cb),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_come_back() {
        for colour in [
            [0, 0, 0],
            [255, 255, 255],
            [255, 0, 0],
            [0, 255, 0],
            [0, 0, 255],
            [12, 200, 99],
        ] {
            let raster = Raster::filled(3, 3, &colour);
            let back = to_raster(&from_raster(&raster, true));
            for (found, wanted) in back.data.iter().zip(&raster.data) {
                assert!(found.abs_diff(*wanted) <= 1, "{colour:?}");
            }
            let half = from_raster(&raster, false);
            assert_eq!((half.planes[1].width, half.planes[2].height), (2, 2));
            let full = from_raster(&raster, true);
            assert!(half.planes[1].samples[3].abs_diff(full.planes[1].samples[0]) <= 1);
        }
    }
}
