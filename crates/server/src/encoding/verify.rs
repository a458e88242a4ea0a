//! Whether a compressed copy is what it is taken for: unpacked, it is its source, byte for byte.

use super::negotiate::Coding;
use std::io::{self, Read};
use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// Bytes that are compared at a time.
const STEP: usize = 64 * 1024;
/// What a decoder reads ahead.
const BUFFER: usize = 32 * 1024;

/// Whether `copy` unpacks to `source`. A copy that cannot be unpacked does not; errors are those of reading.
pub fn is_copy_of(coding: Coding, copy: impl Read, source: impl Read) -> io::Result<bool> {
    let mut unpacked: Box<dyn Read + '_> = match coding {
        Coding::Gzip => Box::new(flate2::read::MultiGzDecoder::new(copy)),
        Coding::Brotli => Box::new(brotli::Decompressor::new(copy, BUFFER)),
        Coding::Zstd => Box::new(ZstdReader::new(copy)?),
    };
    same(&mut *unpacked, source)
}

fn same(unpacked: &mut dyn Read, mut source: impl Read) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; STEP], vec![0; STEP]);
    loop {
        let count = fill(&mut source, &mut right)?;
        // An error here is a copy that is broken or cut.
        let Ok(unpacked) = fill(unpacked, &mut left) else {
            return Ok(false);
        };
        if left.get(..unpacked) != right.get(..count) {
            return Ok(false);
        }
        if count == 0 {
            return Ok(true);
        }
    }
}

/// Reads until the buffer is full or the source ends.
fn fill(from: &mut (impl Read + ?Sized), buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// A zstd stream as a reader.
struct ZstdReader<R> {
    from: R,
    state: DCtx<'static>,
    input: Vec<u8>,
    /// Where in `input` the rest begins, and how much of it was read.
    at: usize,
    filled: usize,
    /// The stream stands between frames.
    between: bool,
}

impl<R: Read> ZstdReader<R> {
    fn new(from: R) -> io::Result<ZstdReader<R>> {
        Ok(ZstdReader {
            from,
            state: DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?,
            input: vec![0; BUFFER],
            at: 0,
            filled: 0,
            between: true,
        })
    }
}

impl<R: Read> Read for ZstdReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.at == self.filled {
                self.filled = self.from.read(&mut self.input)?;
                self.at = 0;
                if self.filled == 0 && self.between {
                    return Ok(0);
                }
            }
            let cut = self.filled == 0;
            let mut input =
                InBuffer::around(self.input.get(self.at..self.filled).unwrap_or_default());
            let mut output = OutBuffer::around(&mut *out);
            let left = self
                .state
                .decompress_stream(&mut output, &mut input)
                .map_err(|code| io::Error::other(zstd_safe::get_error_name(code)))?;
            self.between = left == 0;
            let (read, written) = (input.pos(), output.pos());
            self.at += read;
            if written > 0 || out.is_empty() {
                return Ok(written);
            }
            if cut {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::tests::sample;
    use crate::encoding::whole::encode;

    #[test]
    fn only_the_very_source_is_one() {
        let body = sample(200_000);
        let mut other = body.clone();
        other[150_000] ^= 1;
        for coding in Coding::ALL {
            let coded = encode(coding, 5, &body).unwrap();
            let is = |copy: &[u8], source: &[u8]| is_copy_of(coding, copy, source).unwrap();
            assert!(is(&coded, &body), "{coding:?}");
            assert!(!is(&coded, &other), "{coding:?}: a byte differs");
            assert!(!is(&coded, &body[..body.len() - 1]), "{coding:?}: shorter");
            assert!(
                !is(&coded, &[&body[..], b"x"].concat()),
                "{coding:?}: longer"
            );
            assert!(!is(&coded[..coded.len() - 1], &body), "{coding:?}: cut");
            assert!(!is(b"", &body) && !is(b"nonsense", &body), "{coding:?}");
            let empty = encode(coding, 5, b"").unwrap();
            assert!(is(&empty, b""), "{coding:?}");
            assert!(!is(&empty, b"x"), "{coding:?}");
        }
    }
}
