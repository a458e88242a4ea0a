//! The endpoints of a group at one moment: the servers of the first choice, and those that stand by for them.

use super::endpoint::{Endpoint, Parameters};
use crate::upstream::balance::ring::Ring;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The endpoints of a group. A request keeps those it began with, however the group changes meanwhile.
#[derive(Debug, Default)]
pub struct Peers {
    pub primary: Tier,
    pub backup: Tier,
}

/// Endpoints that are chosen among.
#[derive(Debug, Default)]
pub struct Tier {
    pub endpoints: Vec<Arc<Endpoint>>,
    pub total_weight: u64,
    /// How many are not down.
    pub usable: usize,
    /// By endpoint: the sum of the weights up to and including its own.
    pub reach: Vec<u64>,
    /// For `hash … consistent`.
    pub ring: Option<Ring>,
    turn: Mutex<()>,
}

impl Peers {
    #[must_use]
    pub fn new(primary: Vec<Arc<Endpoint>>, backup: Vec<Arc<Endpoint>>, ring: bool) -> Peers {
        let mut primary = Tier::new(primary);
        if ring {
            primary.ring = Some(Ring::new(&primary.endpoints));
        }
        Peers {
            primary,
            backup: Tier::new(backup),
        }
    }

    /// The only endpoint of a group that has no other: it is never unavailable.
    #[must_use]
    pub fn single(&self) -> Option<&Arc<Endpoint>> {
        match (&self.primary.endpoints[..], self.backup.is_empty()) {
            ([only], true) => Some(only),
            _ => None,
        }
    }

    /// How many endpoints a request may try.
    #[must_use]
    pub fn tries(&self) -> usize {
        self.primary.usable + self.backup.usable
    }

    pub fn endpoints(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.primary.endpoints.iter().chain(&self.backup.endpoints)
    }
}

impl Tier {
    #[must_use]
    pub fn new(endpoints: Vec<Arc<Endpoint>>) -> Tier {
        let mut total_weight = 0u64;
        let reach = endpoints.iter().map(|endpoint| {
            total_weight = total_weight.saturating_add(endpoint.parameters.weight);
            total_weight
        });
        Tier {
            reach: reach.collect(),
            total_weight,
            usable: endpoints.iter().filter(|e| !e.parameters.down).count(),
            endpoints,
            ring: None,
            turn: Mutex::default(),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty()
    }

    /// Held while an endpoint is chosen, or a failure is noted: a few loads and stores.
    pub fn lock(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The endpoint at a place among the weights, from 0 to `total_weight`.
    #[must_use]
    pub fn at_weight(&self, place: u64) -> usize {
        let index = self.reach.partition_point(|&reach| reach <= place);
        index.min(self.endpoints.len().saturating_sub(1))
    }
}

/// The endpoints of a tier that a request tried.
#[derive(Debug, Clone, Default)]
pub struct Tried {
    first: u64,
    more: Vec<u64>,
}

impl Tried {
    #[must_use]
    pub fn contains(&self, index: usize) -> bool {
        let (word, bit) = (index / 64, index % 64);
        let bits = match word {
            0 => self.first,
            word => self.more.get(word - 1).copied().unwrap_or(0),
        };
        bits >> bit & 1 == 1
    }

    pub fn insert(&mut self, index: usize) {
        let (word, bit) = (index / 64, index % 64);
        match word {
            0 => self.first |= 1 << bit,
            word => {
                if self.more.len() < word {
                    self.more.resize(word, 0);
                }
                self.more[word - 1] |= 1 << bit;
            }
        }
    }

    pub fn remove(&mut self, index: usize) {
        let (word, bit) = (index / 64, index % 64);
        let bits = match word {
            0 => Some(&mut self.first),
            word => self.more.get_mut(word - 1),
        };
        if let Some(bits) = bits {
            *bits &= !(1 << bit);
        }
    }

    pub fn clear(&mut self) {
        self.first = 0;
        self.more.clear();
    }
}

/// Whether two endpoints are the same server under the same conditions, so that what is known of one holds for the other.
#[must_use]
pub fn is_same(one: &Endpoint, other: &Endpoint) -> bool {
    let known = |parameters: &Parameters| (parameters.weight, parameters.max_fails);
    one.address == other.address
        && one.server == other.server
        && known(&one.parameters) == known(&other.parameters)
}

/// Gives endpoints the health of those in `before` that are the same.
#[must_use]
pub fn inherit(endpoints: Vec<Endpoint>, before: &mut Vec<Arc<Endpoint>>) -> Vec<Arc<Endpoint>> {
    let inherited = endpoints.into_iter().map(|mut endpoint| {
        if let Some(at) = before.iter().position(|old| is_same(old, &endpoint)) {
            endpoint.health = Arc::clone(&before.remove(at).health);
        }
        Arc::new(endpoint)
    });
    inherited.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tried_endpoints_are_remembered_however_many() {
        let mut tried = Tried::default();
        for index in [0, 63, 64, 200] {
            assert!(!tried.contains(index));
            tried.insert(index);
            assert!(tried.contains(index));
        }
        assert!(!tried.contains(1) && !tried.contains(65) && !tried.contains(1000));
        tried.remove(200);
        tried.remove(1000);
        assert!(!tried.contains(200) && tried.contains(64));
        tried.clear();
        assert!(!tried.contains(0) && !tried.contains(200));
    }

    #[test]
    fn health_follows_the_same_server() {
        let endpoint = |port: u16, weight| {
            let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
            let parameters = Parameters {
                weight,
                ..Parameters::default()
            };
            Endpoint::new(address.into(), format!("a:{port}").into(), parameters)
        };
        let mut before: Vec<_> = [endpoint(1, 1), endpoint(2, 1), endpoint(3, 1)]
            .map(Arc::new)
            .into();
        for old in &before {
            assert!(old.note_failure(5));
        }
        let after = inherit(
            vec![endpoint(3, 1), endpoint(1, 7), endpoint(4, 1)],
            &mut before,
        );
        let available: Vec<bool> = after.iter().map(|new| new.is_available(6)).collect();
        assert_eq!(available, [false, true, true]);
    }
}
