//! The discrete cosine transform: forward on whole blocks, inverse to blocks of fewer samples.

use super::encoder::Block;
use super::quantisation::ZIGZAG;

/// The factors of Arai, Agui and Nakajima's transform, which the quantisation takes in.
const AAN: [f32; 8] = [
    1.0,
    1.387_039_8,
    1.306_563,
    1.175_875_6,
    1.0,
    0.785_694_96,
    0.541_196_1,
    0.275_899_38,
];

/// What the transform's results are multiplied with for this table; both transposed.
pub fn reciprocals(table: &[u8; 64]) -> [f32; 64] {
    let mut out = [0f32; 64];
    for (at, out) in out.iter_mut().enumerate() {
        let (row, column) = (at % 8, at / 8);
        *out = 1.0 / (f32::from(table[row * 8 + column]) * AAN[row] * AAN[column] * 8.0);
    }
    out
}

/// Samples around zero to quantised coefficients in the order of the file. `reciprocals` are `reciprocals` of the table.
pub fn forward(samples: &mut [f32; 64], reciprocals: &[f32; 64]) -> Block {
    columns(samples);
    let mut turned = [0f32; 64];
    for y in 0..8 {
        for x in 0..8 {
            turned[x * 8 + y] = samples[y * 8 + x];
        }
    }
    columns(&mut turned);
    let mut rounded = [0i16; 64];
    for ((out, value), reciprocal) in rounded.iter_mut().zip(&turned).zip(reciprocals) {
        // A large integer is added and taken away again: rounds without a branch.
        let scaled = (value * reciprocal).clamp(-2047.0, 2047.0);
        *out = ((scaled + 16384.5) as i32 - 16384) as i16;
    }
    let mut block = [0i16; 64];
    for (out, at) in block.iter_mut().zip(ZIGZAG_TURNED) {
        *out = rounded[usize::from(at & 63)];
    }
    block
}

/// The file's order in a transposed block.
const ZIGZAG_TURNED: [u8; 64] = {
    let mut out = [0u8; 64];
    let mut at = 0;
    while at < 64 {
        let place = ZIGZAG[at];
        out[at] = place % 8 * 8 + place / 8;
        at += 1;
    }
    out
};

/// One pass over all eight columns at once, so that the compiler uses vectors.
#[inline]
#[expect(clippy::needless_range_loop, reason = "eight rows are walked at once")]
fn columns(data: &mut [f32; 64]) {
    let (rows, _) = data.as_chunks_mut::<8>();
    for x in 0..8 {
        let s: [f32; 8] = [
            rows[0][x] + rows[7][x],
            rows[1][x] + rows[6][x],
            rows[2][x] + rows[5][x],
            rows[3][x] + rows[4][x],
            rows[3][x] - rows[4][x],
            rows[2][x] - rows[5][x],
            rows[1][x] - rows[6][x],
            rows[0][x] - rows[7][x],
        ];
        let (a, b, c, d) = (s[0] + s[3], s[1] + s[2], s[1] - s[2], s[0] - s[3]);
        rows[0][x] = a + b;
        rows[4][x] = a - b;
        let z = (c + d) * std::f32::consts::FRAC_1_SQRT_2;
        rows[2][x] = d + z;
        rows[6][x] = d - z;
        let (e, f, g) = (s[4] + s[5], s[5] + s[6], s[6] + s[7]);
        let z5 = (e - g) * 0.382_683_43;
        let z2 = 0.541_196_1 * e + z5;
        let z4 = 1.306_563 * g + z5;
        let z3 = f * std::f32::consts::FRAC_1_SQRT_2;
        let (z11, z13) = (s[7] + z3, s[7] - z3);
        rows[5][x] = z13 + z2;
        rows[3][x] = z13 - z2;
        rows[1][x] = z11 + z4;
        rows[7][x] = z11 - z4;
    }
}
