//! Weighted round robin, smooth: in each round every server gains its weight, and the one with most is chosen and pays
//! for all.

use super::Open;
use crate::upstream::group::endpoint::Endpoint;
use std::sync::atomic::Ordering::Relaxed;

pub(super) fn next(open: &Open<'_>) -> Option<usize> {
    let _turn = open.tier.lock();
    turn(open.iter())
}

/// One round among these; the tier is locked.
pub(super) fn turn<'a>(endpoints: impl Iterator<Item = (usize, &'a Endpoint)>) -> Option<usize> {
    let mut total = 0;
    let mut best: Option<(usize, &Endpoint, i64)> = None;
    for (index, endpoint) in endpoints {
        let gain = endpoint.weigh();
        let account = &endpoint.health.current_weight;
        let current = account.load(Relaxed) + gain;
        account.store(current, Relaxed);
        total += gain;
        if best.is_none_or(|(_, _, most)| current > most) {
            best = Some((index, endpoint, current));
        }
    }
    let (index, endpoint, current) = best?;
    endpoint
        .health
        .current_weight
        .store(current - total, Relaxed);
    Some(index)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{picks, tier};
    use super::*;
    use crate::upstream::group::peers::Tried;

    /// The sequences are those of nginx with the same weights.
    #[test]
    fn turns_are_smooth() {
        for (weights, expected) in [
            (&[1][..], "0000000"),
            (&[1, 1], "0101010"),
            (&[5, 1, 1], "001020000102"),
            (&[1, 2, 3], "210212210212"),
            (&[4, 3, 2, 1], "012013021001"),
            (&[1, 2, 1], "102110211021"),
        ] {
            let picked = picks(&tier(weights), &Tried::default(), expected.len(), next);
            assert_eq!(picked, expected, "{weights:?}");
        }
    }

    #[test]
    fn tried_and_unavailable_ones_are_left_out() {
        let tier = tier(&[1, 1, 1]);
        let mut tried = Tried::default();
        tried.insert(1);
        assert_eq!(picks(&tier, &tried, 4, next), "0202");
        tier.endpoints[0].note_failure(0);
        assert_eq!(picks(&tier, &tried, 2, next), "22");
        tried.insert(2);
        assert_eq!(picks(&tier, &tried, 1, next), "-");
    }

    #[test]
    fn a_server_that_failed_comes_back_slowly() {
        let tier = tier(&[4, 4]);
        tier.endpoints[0].note_failure(0);
        tier.endpoints[0].forgive();
        assert_eq!(picks(&tier, &Tried::default(), 10, next), "1101010101");
    }
}
