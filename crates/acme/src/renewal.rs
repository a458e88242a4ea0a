//! When a certificate is asked for again: after two thirds of its life, and after failures with growing pauses. Pure
//! functions of times in seconds.

use crate::order::Validity;

/// The first pause after a failure.
const RETRY_FIRST: u64 = 60;
/// No pause is longer than this.
const RETRY_MAX: u64 = 6 * 3600;
/// A wait is never longer, so that a clock that was set is noticed.
const WAIT_MAX: u64 = 24 * 3600;

/// Seconds until a certificate is to be renewed; 0: now.
#[must_use]
pub fn wait(validity: Validity, now: i64) -> u64 {
    let life = validity.ends.saturating_sub(validity.begins).max(0);
    let due = validity.begins.saturating_add(life / 3 * 2);
    let left = u64::try_from(due.saturating_sub(now)).unwrap_or(0);
    left.min(WAIT_MAX)
}

/// Whether it is time: shorter waits than asked for are not.
#[must_use]
pub fn is_due(validity: Validity, now: i64) -> bool {
    wait(validity, now) == 0
}

/// Seconds to wait after so many failures in a row.
#[must_use]
pub fn pause(failures: u32) -> u64 {
    let doubled = RETRY_FIRST.checked_shl(failures.saturating_sub(1).min(32));
    doubled.unwrap_or(RETRY_MAX).min(RETRY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600;

    #[test]
    fn a_certificate_is_renewed_after_two_thirds_of_its_life() {
        let validity = Validity {
            begins: 0,
            ends: 90 * DAY,
        };
        for (now, due) in [
            (0, false),
            (60 * DAY - 1, false),
            (60 * DAY, true),
            (91 * DAY, true),
        ] {
            assert_eq!(is_due(validity, now), due, "{now}");
        }
        assert_eq!(wait(validity, 60 * DAY - 5), 5);
        assert_eq!(wait(validity, 0), WAIT_MAX);
    }

    #[test]
    fn times_that_make_no_sense_are_due() {
        let turned = Validity {
            begins: 100,
            ends: 0,
        };
        assert!(is_due(turned, 100));
        let extreme = Validity {
            begins: i64::MIN,
            ends: i64::MAX,
        };
        assert!(is_due(extreme, i64::MAX));
    }

    #[test]
    fn pauses_double_up_to_their_limit() {
        let pauses: Vec<u64> = (1..=10).map(pause).collect();
        assert_eq!(pauses[..4], [60, 120, 240, 480]);
        assert_eq!(pauses[9], RETRY_MAX);
        assert_eq!(pause(u32::MAX), RETRY_MAX);
    }
}
