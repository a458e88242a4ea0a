//! `gzip_padding`: a gzip stream of random length, so that its length tells less of what is in it (BREACH). The bytes
//! stand in the header's extra field, which readers skip.

use bytes::Bytes;

/// Bytes of a gzip header without optional fields.
pub const HEADER: usize = 10;
/// The most that an extra field holds, less the four bytes of its own head.
pub const PADDING_MAX: u64 = 65_535 - 4;
/// The bit of the header's flags that says there is an extra field.
const EXTRA: u8 = 1 << 2;
/// The two bytes that tell the field's kind; nobody else's.
const KIND: [u8; 2] = *b"GP";

/// A random number of bytes up to `most`, as an extra field; none where there is no randomness.
fn extra_field(most: u64) -> Vec<u8> {
    let mut random = [0; 4];
    if sys::machine::random(&mut random).is_err() {
        return Vec::new();
    }
    let most = u32::try_from(most.min(PADDING_MAX)).unwrap_or(0);
    let length = u16::try_from(u32::from_le_bytes(random) % (most + 1)).unwrap_or(0);
    let mut field = Vec::with_capacity(usize::from(length) + 6);
    field.extend_from_slice(&length.saturating_add(4).to_le_bytes());
    field.extend_from_slice(&KIND);
    field.extend_from_slice(&length.to_le_bytes());
    field.resize(field.len() + usize::from(length), 0);
    field
}

/// The beginning of a gzip stream, or all of it, with padding in its header. What has an optional field already, or no
/// header, stays as it is.
#[must_use]
pub fn pad(stream: Bytes, most: u64) -> Bytes {
    let (Some(header), Some(rest)) = (stream.get(..HEADER), stream.get(HEADER..)) else {
        return stream;
    };
    let field = extra_field(most);
    let [0x1f, 0x8b, 8, 0, after @ ..] = header else {
        return stream;
    };
    if field.is_empty() {
        return stream;
    }
    Bytes::from([&[0x1f, 0x8b, 8, EXTRA], after, &field, rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::negotiate::Coding;
    use crate::encoding::whole::encode;
    use std::collections::HashSet;
    use std::io::Read;

    #[test]
    fn padded_streams_differ_in_length_and_read_the_same() {
        let body = b"the same body each time".repeat(20);
        let coded = encode(Coding::Gzip, 6, &body).unwrap();
        let mut lengths = HashSet::new();
        for most in [1, 64, 65_531, u64::MAX] {
            for _ in 0..20 {
                let padded = pad(coded.clone(), most);
                let mut read = Vec::new();
                let mut reader = flate2::read::GzDecoder::new(&padded[..]);
                reader.read_to_end(&mut read).unwrap();
                assert!(read == body);
                assert!(padded.len() as u64 <= coded.len() as u64 + 6 + most.min(PADDING_MAX));
                lengths.insert(padded.len());
            }
        }
        assert!(lengths.len() > 20, "{lengths:?}");
    }

    #[test]
    fn what_is_no_plain_header_stays() {
        for bytes in [&b""[..], b"\x1f\x8b\x08", b"0123456789abc"] {
            assert_eq!(pad(Bytes::from_static(bytes), 100), bytes);
        }
    }
}
