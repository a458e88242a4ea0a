//! Bodies compressed once and sent many times: more effort than a request could wait for, in the background. The figures
//! behind the choices: libdeflate 12 is 5 % smaller than zlib 9, and zopfli saves half a percent more for ten times the
//! CPU; brotli 11 is 22 % smaller than gzip 6.

use super::negotiate::Coding;
use libdeflater::{CompressionLvl, Compressor, Decompressor};
use std::io::Read;
use zstd_safe::{CCtx, CParameter, DCtx};

/// `precompress_level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    Fast,
    Best,
    Max,
}

/// brotli's best quality takes two seconds a megabyte: beyond this, `best` takes the one before, of a tenth of that.
const BROTLI_BEST_BYTES: usize = 8 << 20;
/// What every browser takes: 16 MB of window.
const BROTLI_WINDOW_LOG: std::ops::RangeInclusive<u32> = 16..=24;
/// What RFC 9659 allows for content codings: 8 MB of window.
const ZSTD_WINDOW_LOG: std::ops::RangeInclusive<u32> = 10..=23;

impl Effort {
    pub const ALL: [Effort; 3] = [Effort::Fast, Effort::Best, Effort::Max];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Effort::Fast => "fast",
            Effort::Best => "best",
            Effort::Max => "max",
        }
    }

    fn gzip(self) -> i32 {
        match self {
            Effort::Fast => 7,
            Effort::Best | Effort::Max => 12,
        }
    }

    fn brotli(self, size: usize) -> i32 {
        match self {
            Effort::Fast => 6,
            Effort::Best if size > BROTLI_BEST_BYTES => 9,
            Effort::Best | Effort::Max => 11,
        }
    }

    fn zstd(self) -> i32 {
        match self {
            Effort::Fast => 7,
            Effort::Best => 19,
            Effort::Max => 22,
        }
    }
}

/// A body in one coding; `None` where the library refused, for want of memory.
#[must_use]
pub fn compress(coding: Coding, effort: Effort, body: &[u8]) -> Option<Vec<u8>> {
    match coding {
        Coding::Gzip => gzip(effort, body),
        Coding::Brotli => brotli(effort, body),
        Coding::Zstd => zstd(effort, body),
    }
}

fn gzip(effort: Effort, body: &[u8]) -> Option<Vec<u8>> {
    let mut compressor = Compressor::new(CompressionLvl::new(effort.gzip()).ok()?);
    let mut out = vec![0; compressor.gzip_compress_bound(body.len())];
    let length = compressor.gzip_compress(body, &mut out).ok()?;
    out.truncate(length);
    Some(out)
}

fn brotli(effort: Effort, body: &[u8]) -> Option<Vec<u8>> {
    let window = window_log(body.len(), BROTLI_WINDOW_LOG);
    let parameters = brotli::enc::BrotliEncoderParams {
        quality: effort.brotli(body.len()),
        lgwin: i32::try_from(window).ok()?,
        size_hint: body.len(),
        ..Default::default()
    };
    let mut out = Vec::with_capacity(body.len() / 4);
    brotli::BrotliCompress(&mut &*body, &mut out, &parameters).ok()?;
    Some(out)
}

fn zstd(effort: Effort, body: &[u8]) -> Option<Vec<u8>> {
    let mut context = CCtx::try_create()?;
    for parameter in [
        CParameter::CompressionLevel(effort.zstd()),
        CParameter::WindowLog(window_log(body.len(), ZSTD_WINDOW_LOG)),
    ] {
        context.set_parameter(parameter).ok()?;
    }
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(body.len()));
    context.compress2(&mut out, body).ok()?;
    Some(out)
}

/// A window that holds the whole body, if it may be so large.
fn window_log(size: usize, allowed: std::ops::RangeInclusive<u32>) -> u32 {
    let log = usize::BITS - size.saturating_sub(1).leading_zeros();
    log.clamp(*allowed.start(), *allowed.end())
}

/// Whether `compressed` stands for `body`.
#[must_use]
pub fn is_of(coding: Coding, compressed: &[u8], body: &[u8]) -> bool {
    // One byte more than there should be, so that a longer body is seen.
    let mut out = vec![0; body.len() + 1];
    let length = match coding {
        // Most files have one member, which libdeflate undoes in one go.
        Coding::Gzip => match Decompressor::new().gzip_decompress(compressed, &mut out) {
            Ok(length) if length == body.len() => Some(length),
            _ => fill(flate2::read::MultiGzDecoder::new(compressed), &mut out),
        },
        Coding::Brotli => fill(brotli::Decompressor::new(compressed, 4096), &mut out),
        Coding::Zstd => DCtx::try_create()
            .and_then(|mut context| context.decompress(&mut out[..], compressed).ok()),
    };
    length.is_some_and(|length| out.get(..length) == Some(body))
}

/// Reads as much as the buffer takes; `None` where it cannot be read to its end.
fn fill(mut source: impl Read, buffer: &mut [u8]) -> Option<usize> {
    let mut filled = 0;
    loop {
        match source.read(buffer.get_mut(filled..)?) {
            Ok(0) => return Some(filled),
            Ok(count) => filled += count,
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: usize) -> Vec<u8> {
        let line = |number| format!("<li>item {number}, {}</li>\n", number * 7919 % 1000);
        (0..lines).map(line).collect::<String>().into_bytes()
    }

    #[test]
    fn every_coding_is_undone_at_every_effort() {
        for body in [
            Vec::new(),
            b"x".to_vec(),
            text(10),
            text(20_000),
            vec![0; 100_000],
        ] {
            for coding in Coding::ALL {
                let mut last = usize::MAX;
                for effort in Effort::ALL {
                    let made = compress(coding, effort, &body).unwrap();
                    assert!(
                        is_of(coding, &made, &body),
                        "{coding:?} {effort:?} {}",
                        body.len()
                    );
                    // Where there is next to nothing to save, more effort saves nothing.
                    let worse = made.len() > last.saturating_add(8);
                    assert!(!worse, "{coding:?} {effort:?} is larger");
                    last = made.len();
                }
            }
        }
    }

    #[test]
    fn what_is_not_of_the_body_is_told() {
        let (body, other) = (text(50), text(51));
        for coding in Coding::ALL {
            let made = compress(coding, Effort::Fast, &body).unwrap();
            assert!(!is_of(coding, &made, &other) && !is_of(coding, &made, &body[1..]));
            assert!(
                !is_of(coding, &made[..made.len() - 1], &body),
                "{coding:?} cut"
            );
            assert!(!is_of(coding, b"", &body) && !is_of(coding, &body, &body));
        }
        let halves = [&body[..100], &body[100..]]
            .map(|half| compress(Coding::Gzip, Effort::Fast, half).unwrap());
        assert!(is_of(Coding::Gzip, &halves.concat(), &body), "two members");
    }

    #[test]
    fn windows_hold_the_body_and_no_more_than_is_allowed() {
        for (size, log) in [
            (0, 16),
            (65536, 16),
            (65537, 17),
            (1 << 24, 24),
            (1 << 30, 24),
        ] {
            assert_eq!(window_log(size, BROTLI_WINDOW_LOG), log);
        }
    }
}
