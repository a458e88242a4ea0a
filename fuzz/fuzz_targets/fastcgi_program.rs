#![no_main]
//! FastCGI requests as a program reads them: the same parameters, body and end however the bytes are cut.

use libfuzzer_sys::fuzz_target;
use wire::fastcgi::program::{Asked, Reader};

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<u8>, Vec<u8>, Vec<Asked>, bool) {
    let (mut reader, mut body, mut told) = (Reader::default(), Vec::new(), Vec::new());
    for mut piece in pieces {
        loop {
            let Ok(step) = reader.read(piece) else { return (reader.params().to_vec(), body, told, true) };
            match step.asked {
                Asked::More => break,
                Asked::Body(range) => body.extend_from_slice(&piece[range]),
                asked => told.push(asked),
            }
            piece = &piece[step.consumed..];
        }
    }
    (reader.params().to_vec(), body, told, false)
}

fuzz_target!(|bytes: &[u8]| assert_eq!(read(std::iter::once(bytes)), read(bytes.chunks(1))));
