//! Undoes gzip, for clients that do not take it: member after member, in pieces of bounded size.

use flate2::{Decompress, FlushDecompress, Status};
use std::io;

/// The window of any gzip stream.
const WINDOW_BITS: u8 = 15;

/// A gzip stream being read.
pub struct Decoder {
    state: Decompress,
    /// The stream stands at the end of a member.
    at_end: bool,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder {
            state: Decompress::new_gzip(WINDOW_BITS),
            at_end: false,
        }
    }
}

impl Decoder {
    /// Takes what it can of `input` and appends at most `most` bytes; says how much it took. It is done with the input when
    /// it took all of it and appended less than `most`.
    pub fn read(&mut self, input: &[u8], most: usize, out: &mut Vec<u8>) -> io::Result<usize> {
        let start = out.len();
        let mut taken = 0;
        loop {
            let rest = input.get(taken..).unwrap_or_default();
            let room = most.saturating_sub(out.len() - start);
            if room == 0 || (rest.is_empty() && self.at_end) {
                return Ok(taken);
            }
            if self.at_end {
                // As in nginx, another member follows.
                *self = Decoder::default();
            }
            // Room beyond `most` would be used.
            let mut piece = Vec::with_capacity(room);
            let before = self.state.total_in();
            let status = self
                .state
                .decompress_vec(rest, &mut piece, FlushDecompress::None)
                .map_err(io::Error::other)?;
            let read = (self.state.total_in() - before) as usize;
            taken += read;
            out.extend_from_slice(&piece);
            match status {
                Status::StreamEnd => self.at_end = true,
                _ if read == 0 && piece.is_empty() => return Ok(taken),
                _ => {}
            }
        }
    }

    /// Whether what was read is a whole stream.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.at_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::negotiate::Coding;
    use crate::encoding::tests::sample;
    use crate::encoding::whole::encode;

    fn read(coded: &[u8], piece: usize, most: usize) -> io::Result<(Vec<u8>, bool)> {
        let mut decoder = Decoder::default();
        let mut out = Vec::new();
        for mut piece in coded.chunks(piece) {
            loop {
                let before = out.len();
                let taken = decoder.read(piece, most, &mut out)?;
                piece = &piece[taken..];
                assert!(out.len() - before <= most);
                if piece.is_empty() && out.len() - before < most {
                    break;
                }
            }
        }
        Ok((out, decoder.is_complete()))
    }

    #[test]
    fn members_are_read_in_pieces_of_any_size() {
        let body = sample(50_000);
        let coded = encode(Coding::Gzip, 6, &body).unwrap();
        let twice = [&coded[..], &coded].concat();
        for (piece, most) in [(1, 100), (10, 1), (100_000, 4096), (64, 100_000)] {
            assert_eq!(read(&coded, piece, most).unwrap(), (body.clone(), true));
            let (out, complete) = read(&twice, piece, most).unwrap();
            assert!(complete && out == body.repeat(2));
        }
    }

    #[test]
    fn what_is_cut_or_no_gzip_is_noticed() {
        let coded = encode(Coding::Gzip, 6, &sample(5_000)).unwrap();
        let (_, complete) = read(&coded[..coded.len() - 1], 100, 1000).unwrap();
        assert!(!complete);
        assert!(read(b"no gzip at all", 100, 1000).is_err());
        let (out, complete) = read(b"", 100, 1000).unwrap();
        assert!(out.is_empty() && !complete);
        let tail = [&coded[..], b"garbage"].concat();
        assert!(read(&tail, 100_000, 100_000).is_err());
    }
}
