//! Entries on their way to the disk, counted: there is an end to how many wait for it.

use super::Zone;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of entries on their way to the disk; what comes beyond them is written at once, so that a slow disk slows down
/// who fills the zone and the memory does not grow.
const WRITING_MAX: u64 = 16 * 1024 * 1024;

/// An entry's way to the disk; its bytes count until it is over.
pub struct Way {
    pub zone: Arc<Zone>,
    bytes: u64,
}

impl Way {
    #[must_use]
    pub fn begin(zone: &Arc<Zone>, bytes: u64) -> Way {
        zone.writing_bytes.fetch_add(bytes, Ordering::Relaxed);
        Way {
            zone: Arc::clone(zone),
            bytes,
        }
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        let sum = &self.zone.writing_bytes;
        sum.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Zone {
    /// Whether further entries are to be written by who brings them.
    pub fn has_too_many_on_their_way(&self) -> bool {
        self.writing_bytes.load(Ordering::Relaxed) > WRITING_MAX
    }
}
