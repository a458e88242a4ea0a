//! What was done in the background, counted; for `precompress_status`.

use crate::encoding::negotiate::CODINGS;
use std::sync::atomic::{AtomicU64, Ordering};

/// The process's sums since its start.
#[derive(Default)]
pub struct Counts {
    /// Copies made, by coding.
    pub made: [AtomicU64; CODINGS],
    /// Copies that were not smaller by enough.
    pub useless: AtomicU64,
    /// Files whose copies could not be made or kept.
    pub failed: AtomicU64,
    /// Copies dropped because their source changed.
    pub stale: AtomicU64,
    pub bytes_in: AtomicU64,
    pub bytes_out: AtomicU64,
    /// Directories that are watched.
    pub watched: AtomicU64,
    /// Files that scans have met.
    pub scanned: AtomicU64,
}

pub static COUNTS: Counts = Counts {
    made: [const { AtomicU64::new(0) }; CODINGS],
    useless: AtomicU64::new(0),
    failed: AtomicU64::new(0),
    stale: AtomicU64::new(0),
    bytes_in: AtomicU64::new(0),
    bytes_out: AtomicU64::new(0),
    watched: AtomicU64::new(0),
    scanned: AtomicU64::new(0),
};

pub fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

#[must_use]
pub fn value(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
