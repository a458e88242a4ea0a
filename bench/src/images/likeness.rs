//! How unlike a small picture is to a reduction of the large one in full precision: structural similarity at several scales
//! on L*a*b*, as 1 / similarity - 1. 0 is the same; below 0.001 nobody sees a difference.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;

/// How much each scale counts, the finest first (Wang, Simoncelli and Bovik, 2003).
const WEIGHTS: [f64; 5] = [0.0448, 0.2856, 0.3001, 0.2363, 0.1333];
/// The window's standard deviation.
const SIGMA: f32 = 1.5;
/// Stabilisers, for channels between 0 and 1.
const C1: f32 = 0.01 * 0.01;
const C2: f32 = 0.03 * 0.03;

/// Three channels of the same size.
#[derive(Clone)]
struct Planes {
    width: usize,
    height: usize,
    channels: [Vec<f32>; 3],
}

/// The large picture, in linear order of rows, 0 to 255.
pub struct Reference(Planes);

impl Reference {
    pub fn of(path: &Path) -> Result<Reference> {
        Ok(Reference(decoded(path)?))
    }

    /// Of the file at `path` to this one at its size.
    pub fn unlikeness(&self, path: &Path) -> Result<f64> {
        let made = decoded(path)?;
        let wanted = reduced(&self.0, made.width, made.height);
        Ok(1.0 / similarity(&lab(&wanted), &lab(&made)).max(1e-6) - 1.0)
    }
}

fn decoded(path: &Path) -> Result<Planes> {
    let bytes = fs::read(path)?;
    let (width, height, count, data) = if bytes.starts_with(&[0xff, 0xd8]) {
        let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(&bytes), options);
        let data = decoder.decode().map_err(|error| anyhow!("{error:?}"))?;
        let (width, height) = decoder.dimensions().context("a size")?;
        (width, height, 3, data)
    } else if bytes.starts_with(b"\x89PNG") {
        let mut decoder = png::Decoder::new(Cursor::new(&bytes));
        decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::STRIP_16);
        let mut reader = decoder.read_info()?;
        let mut data = vec![0; reader.output_buffer_size().context("a size")?];
        let info = reader.next_frame(&mut data)?;
        let (width, height) = (info.width as usize, info.height as usize);
        (width, height, info.color_type.samples(), data)
    } else {
        let mut decoder = image_webp::WebPDecoder::new(Cursor::new(&bytes))?;
        let mut data = vec![0; decoder.output_buffer_size().context("a size")?];
        let (width, height) = decoder.dimensions();
        decoder.read_image(&mut data)?;
        (
            width as usize,
            height as usize,
            if decoder.has_alpha() { 4 } else { 3 },
            data,
        )
    };
    ensure!(data.len() >= width * height * count, "{}", path.display());
    let channel = |number: usize| {
        // Grey is all three; alpha is laid on white.
        let place = if count < 3 { 0 } else { number };
        let pixels = data.chunks_exact(count).take(width * height);
        pixels.map(|pixel| over_white(pixel, place)).collect()
    };
    if width == 0 || height == 0 {
        bail!("an empty picture");
    }
    Ok(Planes {
        width,
        height,
        channels: [channel(0), channel(1), channel(2)],
    })
}

fn over_white(pixel: &[u8], place: usize) -> f32 {
    let value = f32::from(pixel[place]);
    match pixel {
        [.., alpha] if pixel.len().is_multiple_of(2) => {
            255.0 + (value - 255.0) * f32::from(*alpha) / 255.0
        }
        _ => value,
    }
}

/// By Lanczos of three lobes over the whole picture, in floating point.
fn reduced(source: &Planes, width: usize, height: usize) -> Planes {
    let across = weights(source.width, width);
    let down = weights(source.height, height);
    let channels = [0, 1, 2].map(|number: usize| {
        let channel: &[f32] = &source.channels[number];
        let mut narrow = vec![0.0f32; width * source.height];
        for (row, out) in channel
            .chunks_exact(source.width)
            .zip(narrow.chunks_exact_mut(width))
        {
            for (out, (first, weights)) in out.iter_mut().zip(&across) {
                *out = row[*first..]
                    .iter()
                    .zip(weights)
                    .map(|(value, weight)| value * weight)
                    .sum();
            }
        }
        let mut small = vec![0.0f32; width * height];
        for (out, (first, weights)) in small.chunks_exact_mut(width).zip(&down) {
            for (row, weight) in narrow.chunks_exact(width).skip(*first).zip(weights) {
                out.iter_mut()
                    .zip(row)
                    .for_each(|(out, value)| *out += value * weight);
            }
        }
        small
            .iter_mut()
            .for_each(|value| *value = value.clamp(0.0, 255.0));
        small
    });
    Planes {
        width,
        height,
        channels,
    }
}

/// For each new sample: the first old one that counts, and how much it and those after it do.
fn weights(from: usize, to: usize) -> Vec<(usize, Vec<f32>)> {
    let scale = from as f64 / to as f64;
    let reach = 3.0 * scale.max(1.0);
    let lanczos = |x: f64| match x.abs() {
        x if x < 1e-9 => 1.0,
        x if x < 3.0 => {
            let angle = std::f64::consts::PI * x;
            3.0 * angle.sin() * (angle / 3.0).sin() / (angle * angle)
        }
        _ => 0.0,
    };
    let one = |at: usize| {
        let centre = (at as f64 + 0.5) * scale;
        let first = (centre - reach).floor().max(0.0) as usize;
        let last = ((centre + reach).ceil() as usize).min(from);
        let weights =
            (first..last).map(|place| lanczos((place as f64 + 0.5 - centre) / scale.max(1.0)));
        let weights: Vec<f64> = weights.collect();
        let sum: f64 = weights.iter().sum();
        (
            first,
            weights
                .into_iter()
                .map(|weight| (weight / sum) as f32)
                .collect(),
        )
    };
    (0..to).map(one).collect()
}

/// sRGB to L*a*b*, all channels brought to about 0 to 1.
fn lab(rgb: &Planes) -> Planes {
    let mut out = rgb.clone();
    for at in 0..rgb.width * rgb.height {
        let [red, green, blue] = [0, 1, 2].map(|number: usize| {
            let value = rgb.channels[number][at] / 255.0;
            if value <= 0.04045 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        });
        let x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505;
        let y = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
        let z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089;
        let [x, y, z] = [x, y, z].map(|value| {
            if value > 216.0 / 24389.0 {
                value.cbrt()
            } else {
                value * 841.0 / 108.0 + 16.0 / 116.0
            }
        });
        out.channels[0][at] = 1.16 * y - 0.16;
        out.channels[1][at] = (86.2 / 220.0) + (5.0 / 2.2) * (x - y);
        out.channels[2][at] = (107.9 / 220.0) + (2.0 / 2.2) * (y - z);
    }
    // Eyes see colour coarsely.
    for number in [1, 2] {
        out.channels[number] = blurred(&out.channels[number], out.width, out.height);
    }
    out
}

fn similarity(one: &Planes, other: &Planes) -> f64 {
    let (mut one, mut other) = (one.clone(), other.clone());
    let (mut sum, mut all) = (0.0, 0.0);
    for weight in WEIGHTS {
        if one.width.min(one.height) < 8 {
            break;
        }
        sum += weight * at_one_scale(&one, &other);
        all += weight;
        (one, other) = (halved(&one), halved(&other));
    }
    sum / all
}

fn at_one_scale(one: &Planes, other: &Planes) -> f64 {
    let (width, height) = (one.width, one.height);
    let mut total = 0.0;
    for (a, b) in one.channels.iter().zip(&other.channels) {
        let product = |x: &[f32], y: &[f32]| -> Vec<f32> {
            let products: Vec<f32> = x.iter().zip(y).map(|(x, y)| x * y).collect();
            blurred(&products, width, height)
        };
        let (mean_a, mean_b) = (blurred(a, width, height), blurred(b, width, height));
        let (aa, bb, ab) = (product(a, a), product(b, b), product(a, b));
        let sum: f64 = (0..width * height)
            .map(|at| {
                let (ma, mb) = (mean_a[at], mean_b[at]);
                let (va, vb, cov) = (aa[at] - ma * ma, bb[at] - mb * mb, ab[at] - ma * mb);
                let value = (2.0 * ma * mb + C1) * (2.0 * cov + C2)
                    / ((ma * ma + mb * mb + C1) * (va + vb + C2));
                f64::from(value)
            })
            .sum();
        total += sum / (width * height) as f64;
    }
    total / 3.0
}

fn blurred(values: &[f32], width: usize, height: usize) -> Vec<f32> {
    let kernel: Vec<f32> = (-4i32..=4)
        .map(|x| (-(x * x) as f32 / (2.0 * SIGMA * SIGMA)).exp())
        .collect();
    let sum: f32 = kernel.iter().sum();
    let pass = |values: &[f32], step: usize, along: usize, across: usize, stride: usize| {
        let mut out = vec![0.0; values.len()];
        for line in 0..across {
            for at in 0..along {
                let mut value = 0.0;
                for (weight, offset) in kernel.iter().zip(-4i64..) {
                    let from = (at as i64 + offset).clamp(0, along as i64 - 1) as usize;
                    value += weight * values[line * stride + from * step];
                }
                out[line * stride + at * step] = value / sum;
            }
        }
        out
    };
    let rows = pass(values, 1, width, height, width);
    pass(&rows, width, height, width, 1)
}

fn halved(planes: &Planes) -> Planes {
    let (width, height) = (planes.width / 2, planes.height / 2);
    let channels = [0, 1, 2].map(|number: usize| {
        let channel: &[f32] = &planes.channels[number];
        let at = |x: usize, y: usize| channel[y * planes.width + x];
        let mean =
            |x: usize, y: usize| (at(x, y) + at(x + 1, y) + at(x, y + 1) + at(x + 1, y + 1)) / 4.0;
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (x * 2, y * 2)));
        places.map(|(x, y)| mean(x, y)).collect()
    });
    Planes {
        width,
        height,
        channels,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planes(width: usize, height: usize, value: impl Fn(usize, usize) -> f32) -> Planes {
        let channel: Vec<f32> = (0..width * height)
            .map(|at| value(at % width, at / width))
            .collect();
        Planes {
            width,
            height,
            channels: [channel.clone(), channel.clone(), channel],
        }
    }

    #[test]
    fn a_picture_is_like_itself_and_less_like_a_worse_one() {
        let own = planes(64, 48, |x, y| ((x * 7 + y * 13) % 256) as f32);
        let noisy = |by: f32| {
            planes(64, 48, |x, y| {
                ((x * 7 + y * 13) % 256) as f32 + by * ((x ^ y) & 1) as f32
            })
        };
        let to = |other: &Planes| 1.0 / similarity(&lab(&own), &lab(other)) - 1.0;
        assert!(to(&own).abs() < 1e-6);
        assert!(to(&noisy(4.0)) > to(&noisy(1.0)) && to(&noisy(1.0)) > 1e-7);
    }

    #[test]
    fn a_reduction_keeps_even_areas_and_slopes() {
        let slope = planes(400, 30, |x, _| x as f32 / 2.0);
        let small = reduced(&slope, 40, 3);
        for x in 4..36 {
            assert!(
                (small.channels[0][40 + x] - (x as f32 * 5.0 + 2.25)).abs() < 0.01,
                "{x}"
            );
        }
    }
}
