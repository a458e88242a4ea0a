//! One encoder for all codings: bytes in, compressed bytes out, flushed where they are to go out at once. A thread keeps
//! the states of encoders that were used, since setting one up costs as much as a small body.

use super::brotli_dictionary::BrotliEncoder;
use super::dictionary::Dictionary;
use super::levels;
use super::negotiate::Coding;
use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use flate2::{Compress, Compression, FlushCompress, Status};
use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use zstd_safe::{
    CCtx, CParameter, InBuffer, OutBuffer, ResetDirective, zstd_sys::ZSTD_EndDirective,
};

/// States of each kind that a thread keeps: 0.4 MB each for gzip, some MB for zstd.
const KEPT_MAX: usize = 8;
/// brotli and zstd streams that a thread has at the same time; with more, responses get gzip or none.
pub const HEAVY_STREAMS_MAX: usize = 32;
/// Room that an encoder's call is given at least. With only a few bytes the libraries repeat marks of flushes.
const ROOM: usize = 4 * 1024;
/// 2^19 bytes of history for a stream of unknown length: what the brotli module's default is, and 1 MB of state for zstd.
const WINDOW_BITS: u32 = 19;
/// zstd's levels above this one take hundreds of megabytes.
const ZSTD_LEVEL_MAX: u8 = 19;
/// gzip's window.
const GZIP_WINDOW_BITS: u8 = 15;
/// brotli's buffer between encoder and output.
const BROTLI_BUFFER: usize = 16 * 1024;

/// What an encoder is told to do with its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Continue,
    /// All that was given so far comes out.
    Flush,
    Finish,
}

enum State {
    Gzip(u8, Compress),
    // Without a value only after `finish`.
    Brotli(Option<Box<CompressorWriter<Vec<u8>>>>),
    BrotliDictionary(BrotliEncoder),
    Zstd(CCtx<'static>),
    /// With a dictionary, which is not kept.
    ZstdDictionary(CCtx<'static>),
}

/// A stream being compressed.
pub struct Encoder {
    state: Option<State>,
    /// What stands before the stream.
    head: Vec<u8>,
}

thread_local! {
    static GZIP: RefCell<Vec<(u8, Compress)>> = const { RefCell::new(Vec::new()) };
    static ZSTD: RefCell<Vec<CCtx<'static>>> = const { RefCell::new(Vec::new()) };
    static HEAVY: Cell<usize> = const { Cell::new(0) };
}

/// A stream in a coding that takes megabytes of state, counted on the thread that sends it.
pub struct Heavy;

impl Heavy {
    /// Counts one more; `None` where there are as many as may be.
    #[must_use]
    pub fn begin() -> Option<Heavy> {
        let count = HEAVY.get();
        if count >= HEAVY_STREAMS_MAX {
            return None;
        }
        HEAVY.set(count + 1);
        Some(Heavy)
    }

    /// Whether another one would be let in.
    #[must_use]
    pub fn has_room() -> bool {
        HEAVY.get() < HEAVY_STREAMS_MAX
    }
}

impl Drop for Heavy {
    fn drop(&mut self) {
        HEAVY.set(HEAVY.get().saturating_sub(1));
    }
}

impl Encoder {
    /// An encoder at a level of the coding's directive, told the length where it is known.
    pub fn new(coding: Coding, level: u8, length: Option<u64>) -> io::Result<Encoder> {
        let state = match coding {
            Coding::Gzip => gzip(levels::gzip_stream(level)),
            Coding::Brotli => brotli(level, length),
            Coding::Zstd => State::Zstd(zstd(level, length)?),
        };
        Ok(Encoder {
            state: Some(state),
            head: Vec::new(),
        })
    }

    /// An encoder over a dictionary, for brotli and zstd; brotli must be told the length.
    pub fn with_dictionary(
        coding: Coding,
        level: u8,
        length: Option<u64>,
        dictionary: &Dictionary,
    ) -> io::Result<Encoder> {
        let state = match (coding, length) {
            (Coding::Brotli, Some(length)) => {
                let quality = level.min(levels::BROTLI_MAX);
                State::BrotliDictionary(BrotliEncoder::new(quality, length, &dictionary.bytes)?)
            }
            (Coding::Zstd, _) => {
                let mut state = zstd(level, length)?;
                state
                    .load_dictionary(&dictionary.bytes)
                    .map_err(zstd_error)?;
                State::ZstdDictionary(state)
            }
            (Coding::Brotli | Coding::Gzip, _) => {
                return Err(io::Error::other("no dictionaries here"));
            }
        };
        let mut head = Vec::new();
        dictionary.write_head(coding, &mut head);
        Ok(Encoder {
            state: Some(state),
            head,
        })
    }

    /// Takes input; what comes out is appended.
    pub fn write(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.run(input, Operation::Continue, out)
    }

    /// Has everything come out that was given so far.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.run(&[], Operation::Flush, out)
    }

    /// Ends the stream.
    pub fn finish(mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.run(&[], Operation::Finish, out)
    }

    fn run(&mut self, input: &[u8], operation: Operation, out: &mut Vec<u8>) -> io::Result<()> {
        out.append(&mut self.head);
        match &mut self.state {
            Some(State::Gzip(_, state)) => deflate(state, input, operation, out),
            Some(State::Brotli(state)) => run_brotli(state, input, operation, out),
            Some(State::BrotliDictionary(state)) => state.run(input, operation, out),
            Some(State::Zstd(state) | State::ZstdDictionary(state)) => {
                run_zstd(state, input, operation, out)
            }
            None => Err(io::Error::other("the stream has ended")),
        }
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        match self.state.take() {
            Some(State::Gzip(level, mut state)) => GZIP.with_borrow_mut(|kept| {
                if kept.len() < KEPT_MAX {
                    state.reset();
                    kept.push((level, state));
                }
            }),
            Some(State::Zstd(mut state)) => ZSTD.with_borrow_mut(|kept| {
                let reset = state.reset(ResetDirective::SessionAndParameters);
                if kept.len() < KEPT_MAX && reset.is_ok() {
                    kept.push(state);
                }
            }),
            _ => {}
        }
    }
}

fn gzip(level: u8) -> State {
    let kept = GZIP.with_borrow_mut(|kept| {
        let place = kept.iter().rposition(|(known, _)| *known == level)?;
        Some(kept.swap_remove(place).1)
    });
    let state = kept.unwrap_or_else(|| {
        Compress::new_gzip(Compression::new(u32::from(level)), GZIP_WINDOW_BITS)
    });
    State::Gzip(level, state)
}

fn brotli(level: u8, length: Option<u64>) -> State {
    let quality = match length {
        Some(_) => level.min(levels::BROTLI_MAX),
        None => levels::brotli_stream(level),
    };
    let parameters = BrotliEncoderParams {
        quality: i32::from(quality),
        lgwin: WINDOW_BITS as i32,
        size_hint: length.map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX)),
        ..BrotliEncoderParams::default()
    };
    let writer = CompressorWriter::with_params(Vec::new(), BROTLI_BUFFER, &parameters);
    State::Brotli(Some(Box::new(writer)))
}

fn zstd(level: u8, length: Option<u64>) -> io::Result<CCtx<'static>> {
    let kept = ZSTD.with_borrow_mut(Vec::pop);
    let mut state = match kept {
        Some(state) => state,
        None => CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?,
    };
    state
        .set_parameter(CParameter::CompressionLevel(i32::from(
            level.min(ZSTD_LEVEL_MAX),
        )))
        .map_err(zstd_error)?;
    match length {
        Some(length) => state.set_pledged_src_size(Some(length)),
        None => state.set_parameter(CParameter::WindowLog(WINDOW_BITS)),
    }
    .map_err(zstd_error)?;
    Ok(state)
}

fn zstd_error(code: usize) -> io::Error {
    io::Error::other(zstd_safe::get_error_name(code))
}

fn deflate(
    state: &mut Compress,
    mut input: &[u8],
    operation: Operation,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let flush = match operation {
        Operation::Continue => FlushCompress::None,
        Operation::Flush => FlushCompress::Sync,
        Operation::Finish => FlushCompress::Finish,
    };
    loop {
        out.reserve(ROOM.max(input.len() / 4));
        let before = state.total_in();
        let status = state
            .compress_vec(input, out, flush)
            .map_err(io::Error::other)?;
        let taken = (state.total_in() - before) as usize;
        input = input.get(taken..).unwrap_or_default();
        let has_room = out.len() < out.capacity();
        match status {
            Status::StreamEnd => return Ok(()),
            _ if operation == Operation::Finish => {}
            // Without room, more may be waiting; with it, all has come out.
            Status::Ok if input.is_empty() && has_room => return Ok(()),
            Status::BufError if input.is_empty() => return Ok(()),
            _ => {}
        }
    }
}

fn run_brotli(
    state: &mut Option<Box<CompressorWriter<Vec<u8>>>>,
    input: &[u8],
    operation: Operation,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let Some(writer) = state else {
        return Err(io::Error::other("the stream has ended"));
    };
    writer.write_all(input)?;
    match operation {
        Operation::Continue => out.append(writer.get_mut()),
        Operation::Flush => {
            writer.flush()?;
            out.append(writer.get_mut());
        }
        Operation::Finish => {
            if let Some(writer) = state.take() {
                out.append(&mut writer.into_inner());
            }
        }
    }
    Ok(())
}

fn run_zstd(
    state: &mut CCtx<'static>,
    input: &[u8],
    operation: Operation,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let directive = match operation {
        Operation::Continue => ZSTD_EndDirective::ZSTD_e_continue,
        Operation::Flush => ZSTD_EndDirective::ZSTD_e_flush,
        Operation::Finish => ZSTD_EndDirective::ZSTD_e_end,
    };
    let mut input = InBuffer::around(input);
    loop {
        out.reserve(ROOM);
        let at = out.len();
        let mut output = OutBuffer::around_pos(out, at);
        let left = state
            .compress_stream2(&mut output, &mut input, directive)
            .map_err(zstd_error)?;
        let done = match operation {
            Operation::Continue => input.pos() >= input.src.len(),
            Operation::Flush | Operation::Finish => left == 0,
        };
        if done {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::tests::{decode, decode_so_far, sample};

    #[test]
    fn pieces_of_any_size_make_the_same_body() {
        let body = sample(30_000);
        for coding in Coding::ALL {
            for (level, piece) in [(1, 1_000), (6, 7), (5, 30_000)] {
                let mut out = Vec::new();
                let mut encoder = Encoder::new(coding, level, None).unwrap();
                for piece in body.chunks(piece) {
                    encoder.write(piece, &mut out).unwrap();
                }
                encoder.finish(&mut out).unwrap();
                assert!(decode(coding, &out) == body, "{coding:?} {level}");
            }
        }
    }

    #[test]
    fn a_flush_brings_out_all_that_was_given() {
        let body = sample(20_000);
        for coding in Coding::ALL {
            let mut out = Vec::new();
            let mut encoder = Encoder::new(coding, 5, None).unwrap();
            let mut given = 0;
            for piece in body.chunks(999) {
                encoder.write(piece, &mut out).unwrap();
                encoder.flush(&mut out).unwrap();
                given += piece.len();
                let seen = decode_so_far(coding, &out);
                assert!(
                    seen == body[..given],
                    "{coding:?}: {} of {given}",
                    seen.len()
                );
            }
            encoder.finish(&mut out).unwrap();
            assert!(decode(coding, &out) == body, "{coding:?}");
        }
    }

    #[test]
    fn states_are_used_again_and_not_without_end() {
        for round in 0..3 {
            let encoders: Vec<Encoder> = (0..KEPT_MAX + 3)
                .map(|_| Encoder::new(Coding::Gzip, 6, None).unwrap())
                .collect();
            for mut encoder in encoders {
                let mut out = Vec::new();
                encoder.write(b"left in the middle", &mut out).unwrap();
                if round % 2 == 0 {
                    encoder.finish(&mut out).unwrap();
                    assert_eq!(decode(Coding::Gzip, &out), b"left in the middle");
                }
            }
            GZIP.with_borrow(|kept| assert_eq!(kept.len(), KEPT_MAX));
        }
    }

    #[test]
    fn heavy_streams_are_counted() {
        let mut streams: Vec<Heavy> = (0..HEAVY_STREAMS_MAX)
            .filter_map(|_| Heavy::begin())
            .collect();
        assert_eq!(streams.len(), HEAVY_STREAMS_MAX);
        assert!(Heavy::begin().is_none() && !Heavy::has_room());
        streams.pop();
        assert!(Heavy::has_room());
    }
}
