//! What happens to a zone without a request: what the disk holds is read in at the start, what nobody asked for lately
//! goes, and so does what stands in the way of `min_free`. On the background threads.

use super::path::Zones;
use super::zone::Zone;
use crate::background::{self, Urgency};
use crate::store::{SCAN_PARTS, Told};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Between two looks at a zone.
const PERIOD: Duration = Duration::from_secs(5);
/// In so many looks all parts of a store have had their turn at most.
const TURNS_MAX: u64 = 8;

/// The zones of a configuration come into force.
pub fn begin(zones: &Zones) {
    for (path, zone) in &zones.zones {
        zone.set_limits(path.limits);
        if !zone.is_kept_up.swap(true, Ordering::AcqRel) {
            load(Arc::clone(zone));
            later(Arc::clone(zone), 0);
        }
    }
}

/// Takes what the last process knew, and where that may not be all, what the disk holds.
fn load(zone: Arc<Zone>) {
    let job = move || {
        if zone.store.load_journal() == Told::Something {
            scan(zone, 0);
        }
    };
    // Without it each entry is found when it is asked for.
    let _full = background::pool().submit(Urgency::Idle, job);
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

fn later(zone: Arc<Zone>, turn: u64) {
    let job = move || {
        zone.keep_clearing();
        let inactive = zone.inactive.load(Ordering::Relaxed);
        zone.drop_inactive(parts(turn, turns(inactive)));
        zone.keep_free();
        zone.store.keep_journal();
        later(zone, turn.wrapping_add(1));
    };
    let _full = background::pool().later(PERIOD, Urgency::Idle, job);
}

/// In how many looks all parts of a store have their turn: what is to go after a long time can wait a little longer.
fn turns(inactive: u64) -> u64 {
    (inactive / (8 * PERIOD.as_secs())).clamp(1, TURNS_MAX)
}

/// The parts of a store whose turn it is.
fn parts(turn: u64, turns: u64) -> impl Iterator<Item = u16> {
    (0..SCAN_PARTS).filter(move |part| u64::from(*part) % turns == turn % turns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_its_turn() {
        for (inactive, expected) in [(1, 1), (60, 1), (600, 8), (86_400, 8)] {
            let turns = turns(inactive);
            assert_eq!(turns, expected, "{inactive}");
            let mut all: Vec<u16> = (0..turns).flat_map(|turn| parts(turn, turns)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..SCAN_PARTS));
        }
    }
}
