#![no_main]
//! FastCGI responses: the same output, errors and end however the bytes are cut.

use libfuzzer_sys::fuzz_target;
use wire::fastcgi::{Decoder, Event};

fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<u8>, Vec<u8>, bool, bool) {
    let (mut decoder, mut stdout, mut stderr) = (Decoder::new(), Vec::new(), Vec::new());
    for mut piece in pieces {
        while !decoder.is_done() {
            let Ok(step) = decoder.decode(piece) else { return (stdout, stderr, false, true) };
            match step.event {
                Event::More => break,
                Event::Stdout(range) => stdout.extend_from_slice(&piece[range]),
                Event::Stderr(range) => stderr.extend_from_slice(&piece[range]),
                Event::StdoutEnd | Event::End { .. } => {}
            }
            piece = &piece[step.consumed..];
        }
    }
    (stdout, stderr, decoder.is_done(), false)
}

fuzz_target!(|bytes: &[u8]| assert_eq!(decode(std::iter::once(bytes)), decode(bytes.chunks(1))));
