//! Sharpening and blurring, with the arithmetic of ImageMagick 6 and of GD. ImageMagick's kernels are Gaussian, so all of
//! them come down to two passes with one row of weights.

use crate::error::Error;
use crate::limits::Deadline;
use crate::raster::Raster;

/// The largest radius in pixels: beyond it the kernel is cut.
const RADIUS_MAX: f64 = 300.0;
/// ImageMagick's smallest step of brightness: where a kernel's weights are below it, the kernel ends.
const QUANTUM: f64 = 1.0 / 65_535.0;

/// The number of weights: from the radius where it is given, else as many as count.
fn kernel_width(radius: f64, sigma: f64, dimensions: i32) -> usize {
    if radius > 0.0 {
        return 2 * radius.min(RADIUS_MAX).ceil() as usize + 1;
    }
    let weight = |at: i32| (-f64::from(at * at) / (2.0 * sigma * sigma)).exp();
    let mut width = 5usize;
    while width < 2 * RADIUS_MAX as usize {
        let half = (width as i32 - 1) / 2;
        let sum: f64 = (-half..=half).map(weight).sum();
        // The outermost weight of a row, or of the middle row of a square.
        let value = weight(half) / sum.powi(dimensions);
        if value < QUANTUM {
            break;
        }
        width += 2;
    }
    width - 2
}

/// Weights that sum to one. `rank` is how many samples a weight is the sum of.
fn gaussian(width: usize, sigma: f64, rank: i32) -> Vec<f32> {
    let sigma = sigma * f64::from(rank);
    let half = (width as i32 * rank - 1) / 2;
    let mut weights = vec![0f64; width];
    for at in -half..=half {
        let place = ((at + half) / rank) as usize;
        if let Some(weight) = weights.get_mut(place) {
            *weight += (-f64::from(at * at) / (2.0 * sigma * sigma)).exp();
        }
    }
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| (weight / sum) as f32).collect()
}

/// Whether these can be a radius and a sigma that change anything.
fn acts(radius: f64, sigma: f64) -> bool {
    radius.is_finite() && sigma.is_finite() && sigma > 0.001
}

/// Pixels as numbers; colours are multiplied with alpha, so that what cannot be seen has no say.
fn numbers(raster: &Raster) -> Vec<f32> {
    let mut values: Vec<f32> = raster.data.iter().map(|value| f32::from(*value)).collect();
    if raster.has_alpha() {
        for pixel in values.chunks_exact_mut(4) {
            let alpha = pixel[3] / 255.0;
            pixel[..3].iter_mut().for_each(|value| *value *= alpha);
        }
    }
    values
}

fn store(raster: &mut Raster, values: &mut [f32]) {
    if raster.has_alpha() {
        for pixel in values.chunks_exact_mut(4) {
            let part = if pixel[3] > 0.0 {
                255.0 / pixel[3]
            } else {
                0.0
            };
            pixel[..3].iter_mut().for_each(|value| *value *= part);
        }
    }
    for (to, from) in raster.data.iter_mut().zip(values) {
        *to = (*from + 0.5).clamp(0.0, 255.0) as u8;
    }
}

/// Both passes; beyond the edges the edge goes on.
fn convolved(raster: &Raster, weights: &[f32], deadline: Deadline) -> Result<Vec<f32>, Error> {
    let source = numbers(raster);
    let stride = raster.width * raster.channels;
    let half = weights.len() / 2;
    let mut across = vec![0f32; source.len()];
    let mut padded = vec![0f32; stride + 2 * half * raster.channels];
    for (row, out) in source
        .chunks_exact(stride.max(1))
        .zip(across.chunks_exact_mut(stride.max(1)))
    {
        deadline.check()?;
        let (first, last) = (&row[..raster.channels], &row[stride - raster.channels..]);
        for (at, pixel) in padded.chunks_exact_mut(raster.channels).enumerate() {
            let from = at.saturating_sub(half) * raster.channels;
            let inside = row.get(from..from + raster.channels).unwrap_or(last);
            pixel.copy_from_slice(if at < half { first } else { inside });
        }
        for (at, weight) in weights.iter().enumerate() {
            let shifted = &padded[at * raster.channels..];
            for (out, value) in out.iter_mut().zip(shifted) {
                *out += weight * value;
            }
        }
    }
    let mut down = vec![0f32; source.len()];
    for (y, out) in down.chunks_exact_mut(stride.max(1)).enumerate() {
        deadline.check()?;
        for (at, weight) in weights.iter().enumerate() {
            let row = (y + at).saturating_sub(half).min(raster.height - 1);
            for (out, value) in out.iter_mut().zip(&across[row * stride..]) {
                *out += weight * value;
            }
        }
    }
    Ok(down)
}

/// ImageMagick's blur.
pub fn blur(
    mut raster: Raster,
    radius: f64,
    sigma: f64,
    deadline: Deadline,
) -> Result<Raster, Error> {
    if acts(radius, sigma) {
        let weights = gaussian(kernel_width(radius, sigma, 1), sigma, 3);
        let mut values = convolved(&raster, &weights, deadline)?;
        store(&mut raster, &mut values);
    }
    Ok(raster)
}

/// ImageMagick's sharpen: a square kernel of negative Gaussian weights around a middle of twice their sum.
pub fn sharpen(
    mut raster: Raster,
    radius: f64,
    sigma: f64,
    deadline: Deadline,
) -> Result<Raster, Error> {
    if !acts(radius, sigma) {
        return Ok(raster);
    }
    let weights = gaussian(kernel_width(radius, sigma, 2), sigma, 1);
    let middle = weights[weights.len() / 2].powi(2);
    let blurred = convolved(&raster, &weights, deadline)?;
    let mut values = numbers(&raster);
    for (value, blurred) in values.iter_mut().zip(&blurred) {
        *value = ((2.0 + middle) * *value - blurred) / (1.0 + middle);
    }
    store(&mut raster, &mut values);
    Ok(raster)
}

/// ImageMagick's unsharp mask: what blurring takes away is added.
pub fn unsharp(
    mut raster: Raster,
    (radius, sigma): (f64, f64),
    amount: f64,
    threshold: f64,
    deadline: Deadline,
) -> Result<Raster, Error> {
    if !acts(radius, sigma) || !amount.is_finite() || threshold.is_nan() {
        return Ok(raster);
    }
    let weights = gaussian(kernel_width(radius, sigma, 1), sigma, 3);
    let blurred = convolved(&raster, &weights, deadline)?;
    let mut values = numbers(&raster);
    let (amount, threshold) = (amount as f32, threshold as f32 * 255.0);
    for (value, blurred) in values.iter_mut().zip(&blurred) {
        let difference = *value - blurred;
        if (2.0 * difference).abs() >= threshold {
            *value += amount * difference;
        }
    }
    store(&mut raster, &mut values);
    Ok(raster)
}

/// GD's sharpen: -p, 1 + 2p, -p down the columns and then along the rows, where p is a 400th of the per cents. Alpha stays.
pub fn sharpen_percent(
    mut raster: Raster,
    percent: u32,
    deadline: Deadline,
) -> Result<Raster, Error> {
    if percent == 0 {
        return Ok(raster);
    }
    let outer = -(percent as f32) / 400.0;
    let inner = 1.0 - 2.0 * outer;
    let (channels, stride) = (raster.channels, raster.width * raster.channels);
    for step in [stride, channels] {
        deadline.check()?;
        let source = raster.data.clone();
        for (at, value) in raster.data.iter_mut().enumerate() {
            if channels == 4 && at % 4 == 3 {
                continue;
            }
            let here = source[at];
            let edge_before = step != stride && at % stride < step;
            let edge_after = step != stride && at % stride + step >= stride;
            let before = at.checked_sub(step).filter(|_| !edge_before);
            let before = before.map_or(here, |at| source[at]);
            let after = source.get(at + step).filter(|_| !edge_after);
            let after = *after.unwrap_or(&here);
            let sum = outer * (f32::from(before) + f32::from(after)) + inner * f32::from(here);
            *value = (sum + 0.5).clamp(0.0, 255.0) as u8;
        }
    }
    Ok(raster)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    fn dot() -> Raster {
        let mut raster = Raster::filled(9, 9, &[100]);
        raster.data[40] = 200;
        raster
    }

    #[test]
    fn kernels_are_as_wide_as_they_count() {
        for (radius, sigma, dimensions, width) in [
            (0.0, 1.0, 1, 9),
            (2.0, 1.0, 1, 5),
            (1.5, 1.0, 2, 5),
            (0.0, 0.5, 1, 3),
        ] {
            let found = kernel_width(radius, sigma, dimensions);
            assert!(found.abs_diff(width) <= 2, "{radius} {sigma}: {found}");
        }
        assert!(kernel_width(0.0, 1e9, 1) < 700);
    }

    #[test]
    fn effects_leave_what_is_even_and_change_a_dot() {
        let deadline = Deadline::new(&Limits::default());
        let even = Raster::filled(5, 3, &[10, 200, 30, 128]);
        for effect in [
            |r, d| blur(r, 0.0, 1.0, d),
            |r, d| sharpen(r, 0.0, 1.0, d),
            |r, d| unsharp(r, (0.0, 1.0), 1.0, 0.02, d),
            |r, d| sharpen_percent(r, 50, d),
        ] {
            let same: Raster = effect(even.clone(), deadline).expect("in time");
            assert!(
                same.data
                    .iter()
                    .zip(&even.data)
                    .all(|(a, b)| a.abs_diff(*b) <= 1)
            );
        }
        let blurred = blur(dot(), 0.0, 1.0, deadline).expect("in time");
        assert!(blurred.data[40] < 130 && blurred.data[41] > 105);
        let sharper = sharpen(dot(), 0.0, 1.0, deadline).expect("in time");
        assert!(sharper.data[40] == 255 && sharper.data[41] < 100);
    }

    #[test]
    fn numbers_that_make_no_sense_change_nothing() {
        let deadline = Deadline::new(&Limits::default());
        for (radius, sigma) in [
            (f64::NAN, 1.0),
            (1.0, f64::INFINITY),
            (0.0, 0.0),
            (0.0, -1.0),
        ] {
            let same = blur(dot(), radius, sigma, deadline).expect("in time");
            assert_eq!(same, dot());
        }
    }
}
