//! Compresses a body that is whole in memory, with compressors that each thread keeps: libdeflate for gzip, and the
//! stream encoders, told the size, for the others.

use super::dictionary::Dictionary;
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

/// The body over a dictionary, in brotli or zstd.
pub fn encode_with(
    dictionary: &Dictionary,
    coding: Coding,
    level: u8,
    body: &[u8],
) -> io::Result<Bytes> {
    let length = Some(body.len() as u64);
    let mut out = Vec::with_capacity(body.len() / 16 + 64);
    let mut encoder = Encoder::with_dictionary(coding, level, length, dictionary)?;
    encoder.write(body, &mut out)?;
    encoder.finish(&mut out)?;
    Ok(Bytes::from(out))
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

    /// What a client does that has the dictionary.
    fn decode_with(dictionary: &Dictionary, coding: Coding, coded: &[u8]) -> Vec<u8> {
        let mut head = Vec::new();
        dictionary.write_head(coding, &mut head);
        let stream = coded.strip_prefix(&head[..]).expect("the head");
        let mut out = Vec::with_capacity(4 << 20);
        match coding {
            Coding::Zstd => {
                let mut context = zstd_safe::DCtx::create();
                context
                    .decompress_using_dict(&mut out, stream, &dictionary.bytes)
                    .unwrap();
            }
            _ => {
                let mut reader = brotli::Decompressor::new(stream, 4096);
                assert!(reader.attach_dictionary(dictionary.bytes.to_vec().into()));
                std::io::Read::read_to_end(&mut reader, &mut out).unwrap();
            }
        }
        out
    }

    #[test]
    fn a_dictionary_saves_what_it_has() {
        let former = sample(100_000);
        for (level, length) in [
            (1, 0),
            (2, 1),
            (3, 100_000),
            (5, 100_000),
            (6, 500_000),
            (9, 70_000),
        ] {
            let dictionary = Dictionary::new(Bytes::from(former.clone()));
            let mut body = sample(length.max(100));
            body.splice(40..60, b"something new here".iter().copied());
            body.truncate(length);
            for coding in [Coding::Brotli, Coding::Zstd] {
                let coded = encode_with(&dictionary, coding, level, &body).unwrap();
                assert!(
                    decode_with(&dictionary, coding, &coded) == body,
                    "{coding:?} {level}"
                );
                // What the dictionary does not have is compressed as ever.
                let beyond = length.saturating_sub(former.len()) / 3;
                assert!(
                    coded.len() < 700 + length / 200 + beyond,
                    "{coding:?} {level}: {} of {length}",
                    coded.len()
                );
            }
        }
    }

    #[test]
    fn the_far_end_of_the_longest_dictionary_is_reached() {
        use crate::encoding::dictionary::DICTIONARY_MAX;
        let former = sample(DICTIONARY_MAX as usize);
        let body = former[..30_000].to_vec();
        let dictionary = Dictionary::new(Bytes::from(former));
        for (coding, level) in [(Coding::Brotli, 4), (Coding::Zstd, 12)] {
            let coded = encode_with(&dictionary, coding, level, &body).unwrap();
            assert!(
                decode_with(&dictionary, coding, &coded) == body,
                "{coding:?}"
            );
            assert!(coded.len() < 3_000, "{coding:?}: {}", coded.len());
        }
        assert!(encode_with(&dictionary, Coding::Gzip, 3, &body).is_err());
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
