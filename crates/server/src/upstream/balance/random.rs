//! `random`: a server by chance and weight; `random two`: the better of two such.

use super::{LOOKS_MAX, Measure, Open, least_conn, least_time};
use crate::http::thread;
use std::cell::Cell;

pub(super) fn next(open: &Open<'_>, looks: &mut u32) -> Option<usize> {
    while *looks <= LOOKS_MAX {
        let index = any(open);
        if open.has(index) {
            return Some(index);
        }
        *looks += 1;
    }
    None
}

/// Two different ones that are open; the one that is no worse than the other, the first if they are equal.
pub(super) fn better_of_two(open: &Open<'_>, measure: Measure, looks: &mut u32) -> Option<usize> {
    let mut first = None;
    while *looks <= LOOKS_MAX {
        let index = any(open);
        if first != Some(index) && open.has(index) {
            match first {
                None => {
                    first = Some(index);
                    continue;
                }
                Some(first) => return Some(better(open, measure, first, index)),
            }
        }
        *looks += 1;
    }
    None
}

fn better(open: &Open<'_>, measure: Measure, first: usize, second: usize) -> usize {
    let (one, other) = (&open.tier.endpoints[first], &open.tier.endpoints[second]);
    let order = match measure {
        Measure::Connections => least_conn::compare(other, one),
        Measure::Time(by) => least_time::compare(other, one, by, thread::unix_ms()),
    };
    if order.is_gt() { first } else { second }
}

fn any(open: &Open<'_>) -> usize {
    let place = (u128::from(random()) * u128::from(open.tier.total_weight.max(1))) >> 64;
    open.tier.at_weight(place as u64)
}

/// A number that need not surprise anybody: SplitMix64, begun at random on each thread.
#[must_use]
pub fn random() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(seed());
    }
    STATE.with(|state| {
        let next = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.set(next);
        let mixed = (next ^ next >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    })
}

fn seed() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness of the kernel the sequence is the same each time, and good enough.
    let _ = sys::machine::random(&mut bytes);
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::testing::tier;
    use super::*;
    use crate::upstream::group::peers::Tried;

    fn shares(weights: &[u64], mut pick: impl FnMut(&Open<'_>) -> Option<usize>) -> Vec<u32> {
        let tier = tier(weights);
        let mut shares = vec![0; weights.len()];
        for _ in 0..4000 {
            let open = Open {
                tier: &tier,
                tried: &Tried::default(),
                now: 0,
            };
            shares[pick(&open).expect("all are open")] += 1;
        }
        shares
    }

    #[test]
    fn weights_decide_in_the_long_run() {
        let shares = shares(&[1, 3], |open| next(open, &mut 0));
        assert!((800..1200).contains(&shares[0]), "{shares:?}");
    }

    #[test]
    fn of_two_the_less_busy_one_is_taken() {
        let shares = shares(&[1, 1], |open| {
            let index = better_of_two(open, Measure::Connections, &mut 0)?;
            assert!(open.tier.endpoints[index].enter());
            Some(index)
        });
        assert!(shares[0].abs_diff(shares[1]) <= 2, "{shares:?}");
    }
}
