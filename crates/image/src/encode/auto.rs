//! The smallest JPEG that is hardly told from its picture: the quality is searched for at which brightness, decoded again,
//! is still alike.

use super::{Job, jpeg_of};
use crate::jpeg::decoder;
use crate::jpeg::plane::{Plane, Planes};
use crate::limits::{Deadline, Limits};

/// Where the search begins and ends.
const LOW: u8 = 40;
const HIGH: u8 = 95;
/// Structural similarity of brightness that is enough: a difference is found only by comparing closely.
const ENOUGH: f64 = 0.97;
/// Pixels of a window's side.
const WINDOW: usize = 8;
/// Pixels from one window to the next.
const STEP: usize = 4;

/// The file; six files are tried at most.
pub fn jpeg(planes: &Planes, job: &Job) -> Vec<u8> {
    let (mut low, mut high) = (LOW, HIGH);
    let mut best = None;
    while low < high {
        let middle = low + (high - low) / 2;
        let tried = jpeg_of(planes, job, middle);
        if job
            .until
            .is_some_and(|until| std::time::Instant::now() >= until)
        {
            return tried;
        }
        if is_alike(planes, &tried) {
            (high, best) = (middle, Some(tried));
        } else {
            low = middle + 1;
        }
    }
    best.unwrap_or_else(|| jpeg_of(planes, job, HIGH))
}

fn is_alike(planes: &Planes, file: &[u8]) -> bool {
    let limits = Limits::default();
    let Ok(decoded) = decoder::decode(file, 8, &limits, Deadline::new(&limits)) else {
        return false;
    };
    match (planes.planes.first(), decoded.planes.first()) {
        (Some(one), Some(other)) => similarity(one, &other.plane) >= ENOUGH,
        _ => false,
    }
}

/// The mean of structural similarity (Wang and others, 2004) over windows of two planes of the same size.
fn similarity(one: &Plane, other: &Plane) -> f64 {
    const C1: f64 = (0.01 * 255.0) * (0.01 * 255.0);
    const C2: f64 = (0.03 * 255.0) * (0.03 * 255.0);
    let (width, height) = (one.width.min(other.width), one.height.min(other.height));
    let (mut sum, mut count) = (0.0, 0u32);
    for top in (0..height.saturating_sub(WINDOW - 1).max(1)).step_by(STEP) {
        for left in (0..width.saturating_sub(WINDOW - 1).max(1)).step_by(STEP) {
            let right = (left + WINDOW).min(width);
            let (mut a, mut b, mut aa, mut bb, mut ab, mut n) = (0u32, 0u32, 0u32, 0u32, 0u32, 0);
            for y in top..(top + WINDOW).min(height) {
                let rows = (one.row(y).get(left..right), other.row(y).get(left..right));
                let (Some(first), Some(second)) = rows else {
                    continue;
                };
                for (x, y) in first.iter().zip(second) {
                    let (x, y) = (u32::from(*x), u32::from(*y));
                    (a, b, aa, bb, ab, n) =
                        (a + x, b + y, aa + x * x, bb + y * y, ab + x * y, n + 1);
                }
            }
            let n = f64::from(n.max(1));
            let mean = |sum: u32| f64::from(sum) / n;
            let (ma, mb) = (mean(a), mean(b));
            let (va, vb, cov) = (mean(aa) - ma * ma, mean(bb) - mb * mb, mean(ab) - ma * mb);
            sum += (2.0 * ma * mb + C1) * (2.0 * cov + C2)
                / ((ma * ma + mb * mb + C1) * (va + vb + C2));
            count += 1;
        }
    }
    sum / f64::from(count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plane(value: impl Fn(usize, usize) -> u8) -> Plane {
        let samples = (0..40 * 30).map(|at| value(at % 40, at / 40)).collect();
        Plane::new(40, 30, samples)
    }

    #[test]
    fn a_plane_is_like_itself_and_less_like_others() {
        let own = plane(|x, y| (x * 6 + (y * y) % 50) as u8);
        let near = plane(|x, y| (x * 6 + (y * y) % 50) as u8 ^ 1);
        let far = plane(|x, y| (x * 6 + (y * y) % 50) as u8 ^ 32);
        assert!((similarity(&own, &own) - 1.0).abs() < 1e-9);
        assert!(similarity(&own, &near) > similarity(&own, &far));
        let tiny = Plane::new(1, 1, vec![9]);
        assert!((similarity(&tiny, &tiny) - 1.0).abs() < 1e-9);
    }
}
