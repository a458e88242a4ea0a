//! Compresses a body that is whole in memory, with compressors that each thread keeps: libdeflate for gzip, and the
//! stream encoders, told the size, for the others.

use super::levels;
use super::negotiate::Coding;
use super::stream::Encoder;
use bytes::Bytes;
use libdeflater::{CompressionLvl, Compressor};
use std::cell::RefCell;
use std::io;

/// Compressors of different levels that a thread keeps, 0.7 MB each.
const KEPT_MAX: usize = 2;
/// A larger scratch buffer is not kept.
const SCRATCH_KEEP_MAX: usize = 2 * 1024 * 1024;

/// What a thread keeps for gzip.
#[derive(Default)]
struct Gzip {
    /// By level, the one used last at the end.
    compressors: Vec<(u8, Compressor)>,
    scratch: Vec<u8>,
}

thread_local! {
    static GZIP: RefCell<Gzip> = RefCell::default();
}

/// The body in a coding, at a level of its directive.
pub fn encode(coding: Coding, level: u8, body: &[u8]) -> io::Result<Bytes> {
    match coding {
        Coding::Gzip => GZIP.with_borrow_mut(|gzip| gzip.encode(levels::gzip_whole(level), body)),
        Coding::Brotli | Coding::Zstd => {
            let mut out = Vec::with_capacity(body.len() / 3 + 64);
            let mut encoder = Encoder::new(coding, level, Some(body.len() as u64))?;
            encoder.write(body, &mut out)?;
            encoder.finish(&mut out)?;
            Ok(Bytes::from(out))
        }
    }
}

impl Gzip {
    fn encode(&mut self, level: u8, body: &[u8]) -> io::Result<Bytes> {
        let place = self.compressors.iter().position(|(kept, _)| *kept == level);
        let entry = match place {
            Some(place) => self.compressors.remove(place),
            None => {
                let wanted = CompressionLvl::new(i32::from(level))
                    .map_err(|_| io::Error::other("no such level"))?;
                (level, Compressor::new(wanted))
            }
        };
        if self.compressors.len() >= KEPT_MAX {
            self.compressors.remove(0);
        }
        self.compressors.push(entry);
        let Some((_, compressor)) = self.compressors.last_mut() else {
            return Err(io::Error::other("no compressor"));
        };
        let bound = compressor.gzip_compress_bound(body.len());
        if self.scratch.len() < bound {
            self.scratch.resize(bound, 0);
        }
        let length = compressor
            .gzip_compress(body, &mut self.scratch)
            .map_err(|_| io::Error::other("no room for the compressed body"))?;
        let coded = Bytes::copy_from_slice(self.scratch.get(..length).unwrap_or_default());
        if self.scratch.len() > SCRATCH_KEEP_MAX {
            self.scratch = Vec::new();
        }
        Ok(coded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::tests::{decode, sample};

    #[test]
    fn what_was_encoded_decodes_to_itself() {
        for coding in Coding::ALL {
            for length in [0, 1, 100, 20_000] {
                let body = sample(length);
                for level in 1..=6 {
                    let coded = encode(coding, level, &body).unwrap();
                    assert!(
                        decode(coding, &coded) == body,
                        "{coding:?} {level} {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_level_of_gzip_is_there() {
        let body = sample(5_000);
        for level in 0..=12 {
            let coded = encode(Coding::Gzip, level, &body).unwrap();
            assert!(decode(Coding::Gzip, &coded) == body, "{level}");
        }
        GZIP.with_borrow(|gzip| assert!(gzip.compressors.len() <= KEPT_MAX));
    }
}
