//! A response's body: nothing, memory, a piece of a file, or a stream. A file that no filter touched stays a file, so
//! that the connection can hand it to the kernel (DESIGN decision 9).

use crate::net::tunnel::Tunnel;
use bytes::Bytes;
use std::fmt;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll};

/// An open regular file, shared by the requests that read it.
pub struct OpenFile {
    pub fd: OwnedFd,
}

/// `length` bytes of a file from `offset`.
#[derive(Clone)]
pub struct FileRange {
    pub file: Rc<OpenFile>,
    pub offset: u64,
    pub length: u64,
}

impl fmt::Debug for FileRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "File({}+{})", self.offset, self.length)
    }
}

/// One piece of a body whose length is known.
#[derive(Debug, Clone)]
pub enum Part {
    Memory(Bytes),
    File(FileRange),
}

impl Part {
    /// Bytes in this part.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Part::Memory(bytes) => bytes.len() as u64,
            Part::File(range) => range.length,
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part from `offset`, `length` bytes long; both must lie inside.
    #[must_use]
    pub fn slice(&self, offset: u64, length: u64) -> Part {
        match self {
            Part::Memory(bytes) => {
                Part::Memory(bytes.slice(offset as usize..(offset + length) as usize))
            }
            Part::File(range) => Part::File(FileRange {
                file: Rc::clone(&range.file),
                offset: range.offset + offset,
                length,
            }),
        }
    }
}

/// A piece of a streamed body.
#[derive(Debug)]
pub struct Chunk {
    pub bytes: Bytes,
    /// Send what has been collected so far at once.
    pub flush: bool,
}

/// Why a stream ended before its end; the connection is closed so that the client sees the truncation.
#[derive(Debug)]
pub struct BodyError {
    pub reason: String,
}

/// A body that is produced while it is sent (an upstream, a filter). Open at run time, hence `dyn`.
pub trait BodyStream {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>>;

    /// Called while the client takes nothing: the source may collect what comes meanwhile.
    fn poll_fill(&mut self, _: &mut Context<'_>) {}

    /// Leaves out so many bytes at the beginning, as far as the source can do without them; how many are left for the
    /// reader to leave out.
    fn leave_out(&mut self, bytes: u64) -> u64 {
        bytes
    }

    /// Trailer fields, once `poll_chunk` has said that the body is whole.
    fn trailers(&mut self) -> Vec<(Bytes, Bytes)> {
        Vec::new()
    }
}

/// A response's body.
#[derive(Default)]
pub enum Body {
    #[default]
    Empty,
    Memory(Bytes),
    File(FileRange),
    /// Several parts in order (multipart ranges).
    Parts(Vec<Part>),
    Stream(Box<dyn BodyStream>),
    /// After the head the connection belongs to another protocol (101).
    Tunnel(Box<Tunnel>),
}

impl Body {
    /// The length in bytes, when it is known before the body is produced.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        match self {
            Body::Empty => Some(0),
            Body::Memory(bytes) => Some(bytes.len() as u64),
            Body::File(range) => Some(range.length),
            Body::Parts(parts) => Some(parts.iter().map(Part::len).sum()),
            Body::Stream(_) | Body::Tunnel(_) => None,
        }
    }

    /// The body as one part, if it is one.
    #[must_use]
    pub fn as_part(&self) -> Option<Part> {
        match self {
            Body::Memory(bytes) => Some(Part::Memory(bytes.clone())),
            Body::File(range) => Some(Part::File(range.clone())),
            _ => None,
        }
    }
}

impl From<Part> for Body {
    fn from(part: Part) -> Body {
        match part {
            Part::Memory(bytes) => Body::Memory(bytes),
            Part::File(range) => Body::File(range),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Empty => formatter.write_str("Empty"),
            Body::Memory(bytes) => write!(formatter, "Memory({})", bytes.len()),
            Body::File(range) => write!(formatter, "File({}+{})", range.offset, range.length),
            Body::Parts(parts) => write!(formatter, "Parts({})", parts.len()),
            Body::Stream(_) => formatter.write_str("Stream"),
            Body::Tunnel(_) => formatter.write_str("Tunnel"),
        }
    }
}
