//! brotli over a dictionary (RFC 9842): the encoder takes the dictionary as what was sent before, which is the same to a
//! decoder that has it attached as long as dictionary and body fit the window together.

use super::dictionary::{BODY_MAX, DICTIONARY_MAX};
use super::stream::Operation;
use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderStateStruct};
use std::io;

/// Every decoder has room for a window of 2^23 bytes; what does not count for distances is this much at most.
const WINDOW_BITS: i32 = 23;
const WINDOW_GAP: u64 = 16;
const _: () = assert!(DICTIONARY_MAX + BODY_MAX + WINDOW_GAP <= 1 << WINDOW_BITS);
/// Room that a call is given.
const ROOM: usize = 16 * 1024;
/// Below this quality the encoder does not look at dictionaries.
const QUALITY_MIN: u8 = 2;

/// A stream over a dictionary.
pub struct BrotliEncoder(Box<BrotliEncoderStateStruct<StandardAlloc>>);

impl BrotliEncoder {
    /// `length` is the body's, which must not be more than `BODY_MAX`.
    pub fn new(quality: u8, length: u64, dictionary: &[u8]) -> io::Result<BrotliEncoder> {
        let together = dictionary.len() as u64 + length + WINDOW_GAP;
        let bits = (i64::BITS - (together as i64).leading_zeros()) as i32;
        if bits > WINDOW_BITS {
            return Err(io::Error::other(
                "dictionary and body do not fit the window",
            ));
        }
        let mut state = Box::new(BrotliEncoderStateStruct::new(StandardAlloc::default()));
        state.params.quality = i32::from(quality.max(QUALITY_MIN));
        state.params.lgwin = bits.max(16);
        state.params.size_hint = usize::try_from(length).unwrap_or(usize::MAX);
        state.set_custom_dictionary(dictionary.len(), dictionary);
        Ok(BrotliEncoder(state))
    }

    pub fn run(&mut self, input: &[u8], operation: Operation, out: &mut Vec<u8>) -> io::Result<()> {
        let operation = match operation {
            Operation::Continue => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
            Operation::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
            Operation::Finish => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
        };
        let (mut left, mut taken) = (input.len(), 0);
        loop {
            let at = out.len();
            out.resize(at + ROOM, 0);
            let (mut room, mut written) = (ROOM, 0);
            let target = out.get_mut(at..).unwrap_or_default();
            let fine = self.0.compress_stream(
                operation,
                &mut left,
                input,
                &mut taken,
                &mut room,
                target,
                &mut written,
                &mut None,
                &mut |_, _, _, _| (),
            );
            out.truncate(at + written);
            if !fine {
                return Err(io::Error::other("brotli failed"));
            }
            if left == 0 && !self.0.has_more_output() {
                return Ok(());
            }
        }
    }
}
