//! One address of a server of a group, and its health, which all threads share and which outlives a reload.

use bytes::Bytes;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use sys::address::SocketAddress;

/// What the `server` line says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    pub weight: u64,
    /// 0: any number.
    pub max_conns: u64,
    /// 0: never counted.
    pub max_fails: u64,
    /// Seconds.
    pub fail_timeout: u64,
    pub down: bool,
    /// Only requests that are bound to it.
    pub drain: bool,
    /// What `sticky` knows it by; empty: the digest of its address.
    pub route: Bytes,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            weight: 1,
            max_conns: 0,
            max_fails: 1,
            fail_timeout: 10,
            down: false,
            drain: false,
            route: Bytes::new(),
        }
    }
}

/// An address that requests are passed to.
#[derive(Debug)]
pub struct Endpoint {
    pub address: SocketAddress,
    /// The address as `$upstream_addr` and the logs have it.
    pub name: Bytes,
    /// The server's address as it was written.
    pub server: Bytes,
    pub parameters: Parameters,
    /// What `sticky` knows it by without a route, once asked for.
    pub digest: OnceLock<Bytes>,
    pub health: Arc<Health>,
}

/// What is known of an endpoint. Each number is right by itself; those that must agree are changed under the lock of the
/// endpoint's tier.
#[derive(Debug, Default)]
pub struct Health {
    /// Tries under way.
    pub connections: AtomicU64,
    pub fails: AtomicU64,
    /// When it failed last, and when a try was last allowed to find out: seconds since 1970.
    accessed: AtomicU64,
    checked: AtomicU64,
    /// The round robin's account, and the weight it goes by: less after failures.
    pub current_weight: AtomicI64,
    lost_weight: AtomicI64,
    /// Averages in 1/16 milliseconds; 0 before the first response.
    pub header_time: AtomicU64,
    pub response_time: AtomicU64,
    /// The sum of the starts of the tries under way, in milliseconds since 1970.
    pub starts_ms: AtomicU64,
}

impl Endpoint {
    #[must_use]
    pub fn new(address: SocketAddress, server: Bytes, parameters: Parameters) -> Endpoint {
        Endpoint {
            name: address.to_string().into(),
            address,
            server,
            parameters,
            digest: OnceLock::new(),
            health: Arc::default(),
        }
    }

    /// Whether a request may go there now: it did not fail too often of late, and has room.
    #[must_use]
    pub fn is_available(&self, now: u64) -> bool {
        !self.parameters.down && self.is_healthy(now) && self.has_room()
    }

    /// The same for a request that is bound to no server.
    #[must_use]
    pub fn takes_new(&self, now: u64) -> bool {
        !self.parameters.drain && self.is_available(now)
    }

    fn is_healthy(&self, now: u64) -> bool {
        let Parameters {
            max_fails,
            fail_timeout,
            ..
        } = self.parameters;
        let health = &self.health;
        max_fails == 0
            || health.fails.load(Relaxed) < max_fails
            || now.saturating_sub(health.checked.load(Relaxed)) > fail_timeout
    }

    fn has_room(&self) -> bool {
        let most = self.parameters.max_conns;
        most == 0 || self.health.connections.load(Relaxed) < most
    }

    /// Counts a try; false if there are as many as may be.
    #[must_use]
    pub fn enter(&self) -> bool {
        let connections = &self.health.connections;
        match self.parameters.max_conns {
            0 => {
                connections.fetch_add(1, Relaxed);
                true
            }
            most => connections
                .fetch_update(Relaxed, Relaxed, |now| (now < most).then_some(now + 1))
                .is_ok(),
        }
    }

    /// Ends a try.
    pub fn leave(&self) {
        self.health.connections.fetch_sub(1, Relaxed);
    }

    /// Notes that it was chosen: after `fail_timeout` this try tells whether it works again, and others wait.
    pub fn note_chosen(&self, now: u64) {
        let checked = &self.health.checked;
        if now.saturating_sub(checked.load(Relaxed)) > self.parameters.fail_timeout {
            checked.store(now, Relaxed);
        }
    }

    /// Notes a failure; true if it is unavailable from now on.
    pub fn note_failure(&self, now: u64) -> bool {
        let Parameters {
            weight, max_fails, ..
        } = self.parameters;
        let health = &self.health;
        let fails = health.fails.fetch_add(1, Relaxed) + 1;
        health.accessed.store(now, Relaxed);
        health.checked.store(now, Relaxed);
        if max_fails == 0 {
            return false;
        }
        let weight = weight.cast_signed();
        let lost = health.lost_weight.load(Relaxed) + weight / max_fails.cast_signed().max(1);
        health.lost_weight.store(lost.min(weight), Relaxed);
        fails >= max_fails
    }

    /// Notes that it worked: earlier failures are forgotten, if this try began after them.
    pub fn note_success(&self) {
        let health = &self.health;
        if health.fails.load(Relaxed) > 0
            && health.accessed.load(Relaxed) < health.checked.load(Relaxed)
        {
            health.fails.store(0, Relaxed);
        }
    }

    /// Forgets all failures.
    pub fn forgive(&self) {
        if self.health.fails.load(Relaxed) > 0 {
            self.health.fails.store(0, Relaxed);
        }
    }

    /// The weight that the round robin goes by in this round; what failures took of it comes back step by step.
    #[must_use]
    pub fn weigh(&self) -> i64 {
        let lost = self.health.lost_weight.load(Relaxed);
        if lost > 0 {
            self.health.lost_weight.store(lost - 1, Relaxed);
        }
        self.parameters.weight.cast_signed() - lost
    }

    /// Adds a measured time to an average: a quarter of the new one, three of what was.
    pub fn average(average: &AtomicU64, ms: u64) {
        let new = ms.saturating_mul(16).max(1);
        let value = match average.load(Relaxed) {
            0 => new,
            old => old - old / 4 + new / 4,
        };
        average.store(value.max(1), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(parameters: Parameters) -> Endpoint {
        let address = SocketAddress::Ip("127.0.0.1:80".parse().expect("an address"));
        Endpoint::new(address, "a".into(), parameters)
    }

    #[test]
    fn failures_make_it_unavailable_for_a_time() {
        let endpoint = endpoint(Parameters {
            max_fails: 2,
            ..Parameters::default()
        });
        assert!(!endpoint.note_failure(100) && endpoint.is_available(100));
        assert!(endpoint.note_failure(100));
        for (now, available) in [(100, false), (110, false), (111, true)] {
            assert_eq!(endpoint.is_available(now), available, "{now}");
        }
        // One try finds out, the others wait for it.
        endpoint.note_chosen(111);
        assert!(!endpoint.is_available(112));
        endpoint.note_success();
        assert!(endpoint.is_available(112));
    }

    #[test]
    fn a_success_that_began_before_the_failure_proves_nothing() {
        let endpoint = endpoint(Parameters::default());
        endpoint.note_failure(100);
        endpoint.note_success();
        assert!(!endpoint.is_available(101));
    }

    #[test]
    fn room_is_taken_and_given_back() {
        let endpoint = endpoint(Parameters {
            max_conns: 1,
            ..Parameters::default()
        });
        assert!(endpoint.enter() && !endpoint.enter() && !endpoint.is_available(0));
        endpoint.leave();
        assert!(endpoint.is_available(0));
    }

    #[test]
    fn weight_is_lost_and_regained() {
        let endpoint = endpoint(Parameters {
            weight: 4,
            max_fails: 2,
            ..Parameters::default()
        });
        endpoint.note_failure(1);
        let weights: Vec<i64> = (0..4).map(|_| endpoint.weigh()).collect();
        assert_eq!(weights, [2, 3, 4, 4]);
    }
}
