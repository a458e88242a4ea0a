//! `least_time`: the server with the shortest average response time and the fewest tries under way for its weight. nginx
//! publishes no formula; here it is the average, times the tries under way with this one, over the weight.

use super::{Endpoint, Open, least_conn};
use crate::http::thread;
use std::cmp::Ordering;
use std::sync::atomic::Ordering::Relaxed;

/// Which times count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeastTime {
    /// Up to the last byte; otherwise up to the head of the response.
    pub last_byte: bool,
    /// The tries under way count, too, with the time they have taken so far.
    pub inflight: bool,
}

pub(super) fn next(open: &Open<'_>, by: LeastTime) -> Option<usize> {
    let now_ms = thread::unix_ms();
    let _turn = open.tier.lock();
    least_conn::least(open, |one, other| compare(one, other, by, now_ms))
}

/// Which of two is expected to be faster.
pub(super) fn compare(one: &Endpoint, other: &Endpoint, by: LeastTime, now_ms: u64) -> Ordering {
    let cost = |endpoint: &Endpoint, weight: u64| {
        let health = &endpoint.health;
        let tries = health.connections.load(Relaxed);
        let average = match by.last_byte {
            true => health.response_time.load(Relaxed),
            false => health.header_time.load(Relaxed),
        };
        let time = match by.inflight {
            true => average.max(so_far(endpoint, tries, now_ms)),
            false => average,
        };
        u128::from(time) * (u128::from(tries) + 1) * u128::from(weight)
    };
    cost(one, other.parameters.weight).cmp(&cost(other, one.parameters.weight))
}

/// How long the tries under way have taken on average, in 1/16 milliseconds.
fn so_far(endpoint: &Endpoint, tries: u64, now_ms: u64) -> u64 {
    let starts = endpoint.health.starts_ms.load(Relaxed);
    let sum = now_ms.saturating_mul(tries).saturating_sub(starts);
    sum.saturating_mul(16).checked_div(tries).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{picks, tier};
    use super::*;
    use crate::upstream::group::peers::Tried;

    #[test]
    fn the_fastest_is_next_until_it_is_busy() {
        let by = LeastTime {
            last_byte: true,
            inflight: false,
        };
        let tier = tier(&[1, 1, 1]);
        for (endpoint, ms) in tier.endpoints.iter().zip([30, 10, 25]) {
            Endpoint::average(&endpoint.health.response_time, ms);
        }
        let stay_busy = |open: &Open<'_>| {
            let index = next(open, by)?;
            assert!(open.tier.endpoints[index].enter());
            Some(index)
        };
        assert_eq!(picks(&tier, &Tried::default(), 5, stay_busy), "11201");
    }

    #[test]
    fn tries_under_way_may_count() {
        let by = |inflight| LeastTime {
            last_byte: false,
            inflight,
        };
        let tier = tier(&[1, 1]);
        for endpoint in &tier.endpoints {
            Endpoint::average(&endpoint.health.header_time, 10);
            assert!(endpoint.enter());
            endpoint.health.starts_ms.store(1000, Relaxed);
        }
        tier.endpoints[1].health.starts_ms.store(500, Relaxed);
        let (one, other) = (&tier.endpoints[0], &tier.endpoints[1]);
        assert_eq!(compare(one, other, by(false), 1005), Ordering::Equal);
        assert_eq!(compare(one, other, by(true), 1005), Ordering::Less);
    }

    #[test]
    fn averages_follow_what_is_measured() {
        let average = std::sync::atomic::AtomicU64::new(0);
        Endpoint::average(&average, 100);
        assert_eq!(average.load(Relaxed), 1600);
        (0..40).for_each(|_| Endpoint::average(&average, 10));
        assert!((160..=170).contains(&average.load(Relaxed)));
    }
}
