//! What happens to a zone without a request: what the disk holds is read in at the start, what nobody asked for lately
//! goes, and so does what stands in the way of `min_free`. On the background threads.

use super::path::Zones;
use super::zone::Zone;
use crate::background::{self, Urgency};
use crate::store::SCAN_PARTS;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Seconds between two looks at a zone.
const PERIOD: Duration = Duration::from_secs(5);

/// The zones of a configuration come into force.
pub fn begin(zones: &Zones) {
    for (path, zone) in &zones.zones {
        zone.set_limits(path.limits);
        if !zone.is_kept_up.swap(true, Ordering::AcqRel) {
            scan(Arc::clone(zone), 0);
            later(Arc::clone(zone));
        }
    }
}

/// Reads in a part of the disk, and then the next one.
fn scan(zone: Arc<Zone>, part: u16) {
    if part >= SCAN_PARTS {
        return;
    }
    let job = move || {
        zone.store.scan_part(part, |_| true);
        scan(zone, part + 1);
    };
    // A full queue leaves the rest to be found when it is asked for.
    let _full = background::pool().submit(Urgency::Idle, job);
}

fn later(zone: Arc<Zone>) {
    let job = move || {
        zone.keep_clearing();
        zone.drop_inactive();
        later(zone);
    };
    let _full = background::pool().later(PERIOD, Urgency::Idle, job);
}
