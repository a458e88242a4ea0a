//! `least_conn`: the server with the fewest tries under way for its weight; among equals, the round robin.

use super::{Endpoint, Open, round_robin};
use std::cmp::Ordering;
use std::sync::atomic::Ordering::Relaxed;

pub(super) fn next(open: &Open<'_>) -> Option<usize> {
    let _turn = open.tier.lock();
    least(open, compare)
}

/// Which of two has less to do for its weight.
pub(super) fn compare(one: &Endpoint, other: &Endpoint) -> Ordering {
    let load = |endpoint: &Endpoint, weight: u64| {
        u128::from(endpoint.health.connections.load(Relaxed)) * u128::from(weight)
    };
    load(one, other.parameters.weight).cmp(&load(other, one.parameters.weight))
}

/// The least endpoint, or the next of the least ones by round robin; the tier is locked.
pub(super) fn least(
    open: &Open<'_>,
    compare: impl Fn(&Endpoint, &Endpoint) -> Ordering,
) -> Option<usize> {
    let (mut best, mut many) = (open.iter().next()?, false);
    for candidate in open.iter().skip(1) {
        match compare(candidate.1, best.1) {
            Ordering::Less => (best, many) = (candidate, false),
            Ordering::Equal => many = true,
            Ordering::Greater => {}
        }
    }
    if !many {
        return Some(best.0);
    }
    let equals = open
        .iter()
        .filter(|(_, endpoint)| compare(endpoint, best.1).is_eq());
    round_robin::turn(equals)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{picks, tier};
    use super::*;
    use crate::upstream::group::peers::Tried;

    #[test]
    fn the_least_busy_for_its_weight_is_next() {
        let tier = tier(&[1, 2, 1]);
        // Each stays busy with what it got.
        let stay_busy = |open: &Open<'_>| {
            let index = next(open)?;
            assert!(open.tier.endpoints[index].enter());
            Some(index)
        };
        assert_eq!(picks(&tier, &Tried::default(), 8, stay_busy), "10212011");
    }

    #[test]
    fn equals_take_turns() {
        let tier = tier(&[1, 1]);
        assert_eq!(picks(&tier, &Tried::default(), 4, next), "0101");
    }
}
