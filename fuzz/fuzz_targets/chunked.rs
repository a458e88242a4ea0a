#![no_main]
//! Chunked bodies: the same data and the same end however the bytes are cut.

use libfuzzer_sys::fuzz_target;
use wire::http1::chunked::Decoder;

fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<u8>, Vec<u8>, bool, bool) {
    let (mut decoder, mut data) = (Decoder::keeping_trailers(), Vec::new());
    for mut piece in pieces {
        while !piece.is_empty() && !decoder.is_done() {
            let Ok(step) = decoder.decode(piece) else { return (data, Vec::new(), false, true) };
            data.extend_from_slice(&piece[step.data]);
            piece = &piece[step.consumed..];
        }
    }
    (data, decoder.trailers().to_vec(), decoder.is_done(), false)
}

fuzz_target!(|bytes: &[u8]| assert_eq!(decode(std::iter::once(bytes)), decode(bytes.chunks(1))));
