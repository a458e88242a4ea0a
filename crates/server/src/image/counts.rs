//! What was done with pictures, counted; for `image_status`.

use std::sync::atomic::{AtomicU64, Ordering};

/// The process's sums since its start.
#[derive(Default)]
pub struct Counts {
    /// Pictures made.
    pub made: AtomicU64,
    /// Requests answered with what was made before.
    pub found: AtomicU64,
    /// Requests that waited for what another one had made.
    pub joined: AtomicU64,
    /// Sources that were no pictures, broken or beyond a limit.
    pub refused: AtomicU64,
    /// Requests that met a full queue.
    pub busy: AtomicU64,
    /// Pictures that were given to a process that encodes.
    pub given: AtomicU64,
    pub bytes_in: AtomicU64,
    pub bytes_out: AtomicU64,
}

pub static COUNTS: Counts = Counts {
    made: AtomicU64::new(0),
    found: AtomicU64::new(0),
    joined: AtomicU64::new(0),
    refused: AtomicU64::new(0),
    busy: AtomicU64::new(0),
    given: AtomicU64::new(0),
    bytes_in: AtomicU64::new(0),
    bytes_out: AtomicU64::new(0),
};

pub fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

#[must_use]
pub fn value(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
