//! What the configured levels mean to each library, and about how long each takes. Measured beside nginx's zlib by
//! `./dev bench gzip`, which prints CPU and bytes level by level; the reasons for a row stand beside it.

use super::negotiate::Coding;

/// The highest level that each coding's directive takes.
pub const GZIP_MAX: u8 = 9;
pub const BROTLI_MAX: u8 = 11;
pub const ZSTD_MAX: u8 = 22;

/// libdeflate's level for a body that is whole in memory, by `gzip_comp_level`: at each the bytes of all files together
/// are fewer than zlib's, none is more than 2 % larger, at twice to four times its speed.
const GZIP_WHOLE: [u8; 10] = [1, 1, 1, 2, 3, 5, 6, 7, 7, 7];

/// zlib-rs's level for a stream. Its level 1 is a quarter larger than zlib's, its 9 larger than its 8.
const GZIP_STREAM: [u8; 10] = [2, 2, 2, 3, 4, 5, 6, 7, 8, 8];

/// libdeflate's level for `gzip_comp_level`.
#[must_use]
pub fn gzip_whole(level: u8) -> u8 {
    GZIP_WHOLE.get(level as usize).copied().unwrap_or(7)
}

/// zlib-rs's level for `gzip_comp_level`.
#[must_use]
pub fn gzip_stream(level: u8) -> u8 {
    GZIP_STREAM.get(level as usize).copied().unwrap_or(8)
}

/// brotli's quality for a stream: below 2 its pieces are a fifth larger than the whole.
#[must_use]
pub fn brotli_stream(level: u8) -> u8 {
    level.clamp(2, BROTLI_MAX)
}

/// Nanoseconds that a kilobyte takes on the machine of the measurements: what decides whether a body is compressed on the
/// network thread. Twice as much or half of it elsewhere does no harm.
#[must_use]
pub fn nanoseconds_per_kilobyte(coding: Coding, level: u8) -> u64 {
    const GZIP: [u64; 10] = [
        5_000, 5_000, 5_000, 7_000, 8_000, 10_000, 13_000, 20_000, 32_000, 32_000,
    ];
    const BROTLI: [u64; 12] = [
        5_000, 6_000, 9_000, 10_000, 13_000, 21_000, 24_000, 33_000, 41_000, 98_000, 740_000,
        2_100_000,
    ];
    const ZSTD: [u64; 10] = [
        3_000, 3_000, 3_000, 3_000, 4_500, 7_400, 10_000, 12_000, 14_000, 16_000,
    ];
    let (table, beyond): (&[u64], u64) = match coding {
        Coding::Gzip => (&GZIP, 32_000),
        Coding::Brotli => (&BROTLI, 2_100_000),
        Coding::Zstd => (&ZSTD, 480_000),
    };
    table.get(level as usize).copied().unwrap_or(beyond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_effort_never_maps_to_less() {
        for level in 1..GZIP_MAX {
            assert!(gzip_whole(level) <= gzip_whole(level + 1));
            assert!(gzip_stream(level) <= gzip_stream(level + 1));
        }
        for coding in Coding::ALL {
            for level in 1..ZSTD_MAX {
                let cost = |level| nanoseconds_per_kilobyte(coding, level);
                assert!(cost(level) <= cost(level + 1), "{coding:?} {level}");
            }
        }
    }
}
