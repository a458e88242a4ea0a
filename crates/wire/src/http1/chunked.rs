//! The chunked transfer coding (RFC 9112, 7.1), both ways. Strict: a bare LF, a bare CR or a NUL anywhere in the
//! framing is refused, as in nginx since 1.29.4, because parsers that differ here are how requests are smuggled.

use super::Error;
use crate::uri::hex_value;
use memchr::{memchr, memchr3};
use std::ops::Range;

/// A size line (digits, blanks, extensions) has at most so many bytes.
const SIZE_LINE_MAX: usize = 4096;
/// The trailer section has at most so many bytes.
const TRAILERS_MAX: usize = 8192;
/// nginx counts in signed 64 bits.
const SIZE_MAX: u64 = i64::MAX as u64;

/// What one call of `decode` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that are dealt with, `data` included.
    pub consumed: usize,
    /// The body bytes among them; empty when the input ended first or the body is done.
    pub data: Range<usize>,
    /// The last chunk and the trailers were read; bytes after `consumed` belong to the next message.
    pub done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first digit of a size.
    SizeStart,
    Size,
    /// Blanks after the size.
    Blank,
    Extension,
    /// After the CR of a size line.
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the start of a trailer line, or of the empty line that ends them.
    TrailerStart,
    Trailer,
    TrailerLf,
    EndLf,
    Done,
}

/// The decoder of one body.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    /// The size being read, then the bytes of the chunk still to come.
    remaining: u64,
    /// Bytes of the size line or of the trailer section so far.
    line_len: usize,
    /// Trailer lines with their CRLF, kept only if asked for.
    trailers: Vec<u8>,
    keep_trailers: bool,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    /// A decoder that checks trailers and drops them.
    pub fn new() -> Decoder {
        Decoder {
            state: State::SizeStart,
            remaining: 0,
            line_len: 0,
            trailers: Vec::new(),
            keep_trailers: false,
        }
    }

    /// A decoder that keeps the trailer lines for `trailers`.
    pub fn keeping_trailers() -> Decoder {
        Decoder {
            keep_trailers: true,
            ..Decoder::new()
        }
    }

    /// The trailer lines, each with its CRLF, without the empty line; whole once `done` was reported.
    pub fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    /// Bytes of the current chunk that are announced and have not come.
    pub fn left_in_chunk(&self) -> u64 {
        match self.state {
            State::Data => self.remaining,
            _ => 0,
        }
    }

    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads on in `input`, up to the end of one run of body bytes. Call again with what follows `consumed`.
    /// A step with empty `data` and without `done` took all of the input: more is needed.
    pub fn decode(&mut self, input: &[u8]) -> Result<Step, Error> {
        let mut at = 0;
        while at < input.len() && self.state != State::Done {
            if self.state == State::Data {
                let available = (input.len() - at) as u64;
                let take = self.remaining.min(available);
                self.remaining -= take;
                if self.remaining == 0 {
                    self.state = State::DataCr;
                }
                let end = at + take as usize;
                return Ok(Step {
                    consumed: end,
                    data: at..end,
                    done: false,
                });
            }
            at += match self.state {
                State::Extension | State::Trailer => self.skip_line(&input[at..])?,
                _ => {
                    self.state = self.after(input[at])?;
                    1
                }
            };
        }
        Ok(Step {
            consumed: at,
            data: at..at,
            done: self.state == State::Done,
        })
    }

    /// The state after one byte of framing.
    fn after(&mut self, b: u8) -> Result<State, Error> {
        let next = match (self.state, b) {
            (State::SizeStart, _) => {
                self.remaining = 0;
                self.line_len = 0;
                self.add_digit(b)?;
                State::Size
            }
            (State::Size | State::Blank | State::Extension, b'\r') => State::SizeLf,
            (State::Size | State::Blank, b';') => State::Extension,
            (State::Size | State::Blank, b' ' | b'\t') => State::Blank,
            (State::Size, _) => {
                self.add_digit(b)?;
                State::Size
            }
            (State::SizeLf, b'\n') if self.remaining == 0 => {
                self.line_len = 0;
                State::TrailerStart
            }
            (State::SizeLf, b'\n') => State::Data,
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::SizeStart,
            (State::TrailerStart, b'\r') => State::EndLf,
            (State::EndLf, b'\n') => State::Done,
            (State::TrailerStart, b'\n' | 0) => return Err(Error::InvalidChunk),
            (State::TrailerStart, _) => {
                self.count(1, TRAILERS_MAX)?;
                self.keep(&[b]);
                State::Trailer
            }
            (State::Trailer, b'\r') => State::TrailerLf,
            (State::TrailerLf, b'\n') => {
                self.count(2, TRAILERS_MAX)?;
                self.keep(b"\r\n");
                State::TrailerStart
            }
            _ => return Err(Error::InvalidChunk),
        };
        if matches!(next, State::Size | State::Blank) {
            self.count(1, SIZE_LINE_MAX)?;
        }
        Ok(next)
    }

    /// Skips an extension or a trailer up to its CR, which `after` reads; gives the bytes taken.
    fn skip_line(&mut self, input: &[u8]) -> Result<usize, Error> {
        let end = memchr3(b'\r', b'\n', 0, input).unwrap_or(input.len());
        if self.state == State::Trailer {
            self.count(end, TRAILERS_MAX)?;
            self.keep(&input[..end]);
        } else {
            self.count(end, SIZE_LINE_MAX)?;
        }
        let Some(&b) = input.get(end) else {
            return Ok(end);
        };
        self.state = self.after(b)?;
        Ok(end + 1)
    }

    fn add_digit(&mut self, b: u8) -> Result<(), Error> {
        let digit = hex_value(b).ok_or(Error::InvalidChunk)?;
        if self.remaining > SIZE_MAX >> 4 {
            return Err(Error::InvalidChunk);
        }
        self.remaining = self.remaining << 4 | u64::from(digit);
        Ok(())
    }

    fn count(&mut self, bytes: usize, max: usize) -> Result<(), Error> {
        self.line_len += bytes;
        if self.line_len > max {
            Err(Error::InvalidChunk)
        } else {
            Ok(())
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.keep_trailers {
            self.trailers.extend_from_slice(bytes);
        }
    }
}

/// The end of a body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// What follows the data of every chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// The line before a chunk's data; lives on the stack.
#[derive(Clone, Copy, Debug)]
pub struct ChunkHead {
    bytes: [u8; 18],
    start: usize,
}

impl ChunkHead {
    /// The head for `size` bytes of data. A size of 0 would end the body: use `LAST_CHUNK` for that.
    pub fn new(size: u64) -> ChunkHead {
        debug_assert!(size > 0, "a chunk of size 0 ends the body");
        let mut bytes = [0; 18];
        bytes[16..].copy_from_slice(CHUNK_END);
        let mut start = 16;
        let mut rest = size;
        loop {
            start -= 1;
            bytes[start] = b"0123456789abcdef"[(rest & 15) as usize];
            rest >>= 4;
            if rest == 0 {
                return ChunkHead { bytes, start };
            }
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// Appends one chunk to `out`; nothing for empty data, which would end the body.
pub fn encode(data: &[u8], out: &mut Vec<u8>) {
    if data.is_empty() {
        return;
    }
    out.extend_from_slice(ChunkHead::new(data.len() as u64).as_bytes());
    out.extend_from_slice(data);
    out.extend_from_slice(CHUNK_END);
}

/// Cuts trailer lines into names and values without the blanks around them; lines without a colon are left out.
pub fn trailer_fields(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines.split(|b| *b == b'\n').filter_map(|line| {
        let colon = memchr(b':', line)?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

#[cfg(test)]
#[path = "chunked_tests.rs"]
mod tests;
