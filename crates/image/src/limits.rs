//! What a picture may cost. The defaults suit photographs of cameras; a server sets them from its configuration.

use crate::error::Error;
use std::time::{Duration, Instant};

/// Bounds of one picture's work; checked from the header, before anything is decoded, where a header tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the source.
    pub source_bytes: u64,
    /// Pixels of a source's frame.
    pub pixels: u64,
    /// Frames that are kept of an animation.
    pub frames: u32,
    /// Pixels of the result, of one frame.
    pub output_pixels: u64,
    /// Bytes of memory for pixels and coefficients.
    pub memory: u64,
    /// How long the work may take.
    pub deadline: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            source_bytes: 64 << 20,
            pixels: 50_000_000,
            frames: 500,
            output_pixels: 25_000_000,
            memory: 512 << 20,
            deadline: Duration::from_secs(10),
        }
    }
}

/// Complains when `found` is beyond `limit`.
pub(crate) fn at_most(what: &'static str, found: u64, limit: u64) -> Result<(), Error> {
    if found > limit {
        Err(Error::TooLarge { what, found, limit })
    } else {
        Ok(())
    }
}

/// The time by which the work has to be done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// Begins now. A deadline beyond what the clock can tell is none.
    pub(crate) fn new(limits: &Limits) -> Deadline {
        Deadline(Instant::now().checked_add(limits.deadline))
    }

    /// When it is over.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.0
    }

    /// An error once the time is over.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.0 {
            Some(at) if Instant::now() >= at => Err(Error::Timeout),
            _ => Ok(()),
        }
    }
}
