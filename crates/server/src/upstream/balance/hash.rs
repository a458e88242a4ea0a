//! `hash KEY`: the servers that Cache::Memcached takes for a key.

use super::{LOOKS_MAX, Open};
use bytes::Bytes;
use flate2::Crc;

/// A request's way along the servers.
#[derive(Debug)]
pub struct Walk {
    key: Bytes,
    hash: u64,
    rehash: u32,
    looks: u32,
}

impl Walk {
    #[must_use]
    pub fn new(key: Bytes) -> Walk {
        Walk {
            key,
            hash: 0,
            rehash: 0,
            looks: 0,
        }
    }

    pub(super) fn next(&mut self, open: &Open<'_>) -> Option<usize> {
        let total = open.tier.total_weight.max(1);
        while self.looks <= LOOKS_MAX {
            let mut crc = Crc::new();
            if self.rehash > 0 {
                crc.update(self.rehash.to_string().as_bytes());
            }
            crc.update(&self.key);
            self.hash += u64::from(crc.sum() >> 16 & 0x7fff);
            self.rehash += 1;
            let index = open.tier.at_weight(self.hash % total);
            if open.has(index) {
                return Some(index);
            }
            self.looks += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{KEYS, picks, tier};
    use super::*;
    use crate::upstream::group::peers::Tried;

    /// The picks are nginx's for the same keys.
    #[test]
    fn keys_keep_their_server() {
        for (weights, tried, expected) in [
            (&[1, 1, 1][..], None, "121221221200"),
            (&[1, 1, 1], Some(0), "121221221222"),
            (&[1, 2, 3], None, "222112122202"),
            (&[1, 2, 3], Some(0), "222112122222"),
            (&[5, 1, 1, 1, 2], None, "004004240404"),
            (&[5, 1, 1, 1, 2], Some(0), "134214241414"),
        ] {
            let mut seen = Tried::default();
            tried.into_iter().for_each(|index| seen.insert(index));
            let pick = |key: &'static str| {
                let mut walk = Walk::new(key.into());
                picks(&tier(weights), &seen, 1, |open| walk.next(open))
            };
            assert_eq!(KEYS.map(pick).concat(), expected, "{weights:?} {tried:?}");
        }
    }

    #[test]
    fn where_none_is_open_the_search_ends() {
        let mut tried = Tried::default();
        (0..3).for_each(|index| tried.insert(index));
        let mut walk = Walk::new("/a".into());
        let picked = picks(&tier(&[1, 1, 1]), &tried, 2, |open| walk.next(open));
        assert_eq!(picked, "--");
    }
}
