//! A zone: counts by key, shared by all network threads and kept over reloads. A key is kept as a hash, so that an entry has
//! one size however long its key is.

use super::table::Table;
use crate::config::setting::Complaint;
use crate::http::Request;
use crate::variables::Template;
use foldhash::fast::RandomState;
use std::cell::Cell;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Bytes of a zone's declared size that an entry stands for; what it takes is a little less.
const ENTRY_BYTES: u64 = 64;
/// Parts of a zone with a lock each, so that threads seldom meet.
const SHARDS_MAX: usize = 16;
/// A zone of fewer entries has fewer parts: the oldest entry of a small part would not be old.
const SHARD_ENTRIES_MIN: usize = 1024;

/// A zone by name, as the configuration has it.
pub struct Zone<T> {
    pub name: String,
    declared: OnceLock<Declared>,
    entries: OnceLock<Arc<Entries<T>>>,
}

/// What the zone's own directive says.
struct Declared {
    /// The key as it is written, and compiled.
    text: String,
    key: Template,
    size: u64,
    /// Thousandths of a request in a second; for zones that count requests.
    rate: u64,
}

/// The entries of a zone.
pub struct Entries<T> {
    hashers: [RandomState; 2],
    shards: Box<[Mutex<Table<T>>]>,
    /// How many entries the zone has room for.
    pub capacity: usize,
}

thread_local! {
    /// Room for a key.
    static KEY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl<T> std::fmt::Debug for Zone<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Zone({})", self.name)
    }
}

impl<T: Default> Zone<T> {
    #[must_use]
    pub fn new(name: &[u8]) -> Zone<T> {
        Zone {
            name: String::from_utf8_lossy(name).into_owned(),
            declared: OnceLock::new(),
            entries: OnceLock::new(),
        }
    }

    /// Gives the zone its key, size and rate; `directive` is said where it has them already.
    pub fn declare(
        &self,
        directive: &str,
        text: &[u8],
        key: Template,
        size: u64,
        rate: u64,
    ) -> Result<(), Complaint> {
        let declared = Declared {
            text: String::from_utf8_lossy(text).into_owned(),
            key,
            size,
            rate,
        };
        match self.declared.set(declared) {
            Ok(()) => Ok(()),
            Err(_) => Err(format!(
                "{directive} \"{}\" is already bound to key \"{}\"",
                self.name,
                self.key_text()
            )
            .into()),
        }
    }

    /// The key as it is written.
    #[must_use]
    pub fn key_text(&self) -> &str {
        self.declared.get().map_or("", |declared| &declared.text)
    }

    #[must_use]
    pub fn rate(&self) -> u64 {
        self.declared.get().map_or(0, |declared| declared.rate)
    }

    /// Has `use_key` look at the key of a request.
    pub fn with_key<R>(&self, request: &Request, use_key: impl FnOnce(&[u8]) -> R) -> R {
        let mut key = KEY.take();
        key.clear();
        if let Some(declared) = self.declared.get() {
            declared.key.append(request, &mut key);
        }
        let result = use_key(&key);
        KEY.set(key);
        result
    }

    /// Why the zone cannot go on with the entries of `before`, a zone of its name.
    pub fn conflict(&self, before: &Zone<T>, directive: &str) -> Option<String> {
        (self.key_text() != before.key_text() && self.size() == before.size()).then(|| {
            format!(
                "{directive} \"{}\" uses the \"{}\" key while previously it used the \"{}\" key",
                self.name,
                self.key_text(),
                before.key_text()
            )
        })
    }

    /// Goes on with the entries of a zone of an earlier configuration. As in nginx, one of another size begins anew.
    pub fn inherit(&self, before: &Zone<T>) {
        if self.size() == before.size()
            && let Some(entries) = before.entries.get()
        {
            let _has_its_own = self.entries.set(Arc::clone(entries));
        }
    }

    fn size(&self) -> u64 {
        self.declared.get().map_or(0, |declared| declared.size)
    }

    /// The entries; made when the first request asks for them.
    pub fn entries(&self) -> &Arc<Entries<T>> {
        self.entries
            .get_or_init(|| Arc::new(Entries::new((self.size() / ENTRY_BYTES) as usize)))
    }
}

impl<T: Default> Entries<T> {
    fn new(capacity: usize) -> Entries<T> {
        let count = (capacity / SHARD_ENTRIES_MIN).clamp(1, SHARDS_MAX);
        let shards = (0..count).map(|_| Mutex::new(Table::new(capacity / count)));
        Entries {
            hashers: [RandomState::default(), RandomState::default()],
            shards: shards.collect(),
            capacity,
        }
    }

    /// What stands for a key.
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> u128 {
        let [high, low] = &self.hashers;
        u128::from(high.hash_one(key)) << 64 | u128::from(low.hash_one(key))
    }

    /// The part of the zone that a key belongs to, locked.
    pub fn shard(&self, key: u128) -> MutexGuard<'_, Table<T>> {
        let shard = (key >> 64) as usize % self.shards.len();
        self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The zones of one kind in a configuration.
#[derive(Debug)]
pub struct Zones<T>(pub Vec<Arc<Zone<T>>>);

impl<T> Default for Zones<T> {
    fn default() -> Zones<T> {
        Zones(Vec::new())
    }
}

impl<T: Default> Zones<T> {
    /// The zone of a name, which may be declared later.
    pub fn named(&mut self, name: &[u8]) -> Arc<Zone<T>> {
        let shown = String::from_utf8_lossy(name);
        if let Some(zone) = self.0.iter().find(|zone| zone.name == shown) {
            return Arc::clone(zone);
        }
        let zone = Arc::new(Zone::new(name));
        self.0.push(Arc::clone(&zone));
        zone
    }

    /// The zones that both configurations have, the new one's first.
    fn common<'a>(
        &'a self,
        before: &'a Zones<T>,
    ) -> impl Iterator<Item = (&'a Arc<Zone<T>>, &'a Arc<Zone<T>>)> {
        self.0.iter().filter_map(|zone| {
            let same = before.0.iter().find(|before| before.name == zone.name)?;
            Some((zone, same))
        })
    }

    /// Why a configuration with these zones cannot follow one with those.
    pub fn check_successor(&self, before: &Zones<T>, directive: &str) -> Result<(), String> {
        let conflict = self
            .common(before)
            .find_map(|(zone, before)| zone.conflict(before, directive));
        conflict.map_or(Ok(()), Err)
    }

    /// Takes over what the zones of the configuration before have counted.
    pub fn inherit(&self, before: &Zones<T>) {
        for (zone, before) in self.common(before) {
            zone.inherit(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(key: &[u8], size: u64) -> Zone<u32> {
        let zone = Zone::new(b"a");
        zone.declare("limit_x_zone", key, Template::literal("k"), size, 0)
            .expect("the first time");
        zone
    }

    #[test]
    fn entries_stay_while_the_size_does() {
        let first = zone(b"$a", 65536);
        let key = first.entries().hash(b"x");
        *first.entries().shard(key).touch(key).0 = 7;
        let second = zone(b"$a", 65536);
        assert!(second.conflict(&first, "limit_x").is_none());
        second.inherit(&first);
        assert_eq!(second.entries().shard(key).peek(key), Some(&7));
        let larger = zone(b"$a", 1 << 20);
        larger.inherit(&second);
        assert_eq!(larger.entries().shard(key).peek(key), None);
        let other = zone(b"$b", 65536);
        assert_eq!(
            other.conflict(&first, "limit_x").as_deref(),
            Some("limit_x \"a\" uses the \"$b\" key while previously it used the \"$a\" key")
        );
        let complaint = other.declare("limit_x_zone", b"$c", Template::default(), 1, 0);
        assert_eq!(
            complaint.expect_err("a second time").text,
            "limit_x_zone \"a\" is already bound to key \"$b\""
        );
    }

    #[test]
    fn memory_is_bounded() {
        let zone = zone(b"$a", 1 << 20);
        let entries = zone.entries();
        for number in 0..200_000_u32 {
            let key = entries.hash(&number.to_ne_bytes());
            entries.shard(key).touch(key);
        }
        assert_eq!(entries.capacity, 16_384);
        assert_eq!(entries.shards.len(), 16);
    }
}
