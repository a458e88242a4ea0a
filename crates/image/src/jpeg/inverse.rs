//! The inverse transform to blocks of fewer samples: of an 8 by 8 block the lowest N by N coefficients become N by N
//! samples, each the mean of what it stands for.

use super::quantisation::ZIGZAG;

/// The scales that can be asked for, in eighths.
pub const SCALES: [usize; 5] = [1, 2, 3, 4, 8];

/// `N` rows of coefficients; the first `N` of the eight are used.
pub type Square<const N: usize> = [[f32; 8]; N];

/// The last coefficient in the file's order that a scale needs.
pub const fn last_needed(scale: usize) -> usize {
    match scale {
        1 => 0,
        2 => 4,
        3 => 12,
        4 => 24,
        _ => 63,
    }
}

/// A transform to `N` by `N` samples.
pub struct Inverse<const N: usize> {
    /// For each coefficient its part in each sample of a row.
    waves: [[f32; 8]; 8],
    /// For each coefficient in the file's order: its place, row times eight plus column; 64 where it is not needed.
    pub places: [u8; 64],
}

impl<const N: usize> Default for Inverse<N> {
    fn default() -> Inverse<N> {
        let mut waves = [[0f32; 8]; 8];
        for (u, wave) in waves.iter_mut().enumerate().take(N) {
            let factor = if u == 0 { 0.125f64.sqrt() } else { 0.5 };
            for (x, part) in wave.iter_mut().enumerate().take(N) {
                let angle = (2 * x + 1) as f64 * u as f64 * std::f64::consts::PI / (2 * N) as f64;
                *part = (factor * angle.cos()) as f32;
            }
        }
        let needed = |place: u8| usize::from(place / 8) < N && usize::from(place % 8) < N;
        let places = ZIGZAG.map(|place| if needed(place) { place } else { 64 });
        Inverse { waves, places }
    }
}

/// The nearest sample to a number. With this sum the number's digits before the point are its lowest bits: unlike a cast,
/// that is done for several numbers at once.
#[inline(always)]
fn sample(value: f32) -> u8 {
    const WHOLE: f32 = (1 << 23) as f32;
    (value.clamp(0.0, 255.0) + WHOLE).to_bits() as u8
}

impl<const N: usize> Inverse<N> {
    /// Coefficients, already multiplied with their steps, to samples in `out`, whose rows are `stride` apart.
    #[inline(always)]
    pub fn block(&self, coefficients: &Square<N>, out: &mut [u8], stride: usize) {
        if N <= 4 {
            self.lanes::<4>(coefficients, out, stride);
        } else {
            self.lanes::<8>(coefficients, out, stride);
        }
    }

    #[inline(always)]
    fn lanes<const L: usize>(&self, coefficients: &Square<N>, out: &mut [u8], stride: usize) {
        // Whole rows of `L` numbers at a time, with all bounds known here: these become single instructions.
        let lanes = |row: &[f32; 8]| row.first_chunk::<L>().copied().unwrap_or([0.0; L]);
        // Down the columns, all at once.
        let mut middle = [[0f32; L]; N];
        for (row, wave) in coefficients.iter().zip(&self.waves) {
            let row = lanes(row);
            for (sums, part) in middle.iter_mut().zip(wave) {
                for (sum, value) in sums.iter_mut().zip(row) {
                    *sum += part * value;
                }
            }
        }
        // Along the rows.
        for (y, row) in middle.iter().enumerate() {
            let mut sums = [128f32; L];
            for (value, wave) in row.iter().zip(&self.waves).take(N) {
                for (sum, part) in sums.iter_mut().zip(lanes(wave)) {
                    *sum += value * part;
                }
            }
            let bytes = sums.map(sample);
            if let (Some(out), Some(bytes)) =
                (out.get_mut(y * stride..y * stride + N), bytes.get(..N))
            {
                out.copy_from_slice(bytes);
            }
        }
    }

    /// A block that has no coefficient but the first.
    #[inline(always)]
    pub fn even(&self, first: f32, out: &mut [u8], stride: usize) {
        let byte = sample(first * 0.125 + 128.0);
        for y in 0..N {
            if let Some(out) = out.get_mut(y * stride..y * stride + N) {
                out.fill(byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_a_block_stays_at_every_scale() {
        fn check<const N: usize>() {
            let inverse = Inverse::<N>::default();
            let mut coefficients: Square<N> = [[0.0; 8]; N];
            coefficients[0][0] = 8.0 * 50.0;
            coefficients[0][1] = 90.0;
            let mut out = vec![0; N * N];
            inverse.block(&coefficients, &mut out, N);
            let mean = out.iter().map(|value| u32::from(*value)).sum::<u32>() / (N * N) as u32;
            assert!(mean.abs_diff(178) <= 1, "{N}: {out:?}");
            inverse.even(8.0 * -500.0, &mut out, N);
            assert!(out.iter().all(|value| *value == 0));
        }
        check::<1>();
        check::<2>();
        check::<3>();
        check::<4>();
        check::<8>();
    }
}
