//! What a store knows of its entries: in memory, in parts with a lock each that is held for a look or a change and never
//! while a file is touched.

use super::key::Key;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Entries of a store at most, some 40 MB of memory.
pub const ENTRIES_MAX: usize = 262_144;
const PARTS: usize = 16;

/// What is known of an entry without looking at its file.
#[derive(Debug)]
pub struct Slot {
    pub key: Key,
    /// Of its file.
    pub bytes: u64,
    /// 0: it belongs to none.
    pub group: u64,
    /// When it was used last, in seconds since 1970. Whoever keeps the body in memory shares it.
    pub used: Arc<AtomicU64>,
    /// The body is known to be what was written: this process wrote it, or has compared its hash.
    checked: AtomicBool,
}

impl Slot {
    #[must_use]
    pub fn new(key: Key, bytes: u64, group: u64, used: u64, checked: bool) -> Arc<Slot> {
        Arc::new(Slot {
            key,
            bytes,
            group,
            used: Arc::new(AtomicU64::new(used)),
            checked: AtomicBool::new(checked),
        })
    }

    pub fn is_checked(&self) -> bool {
        self.checked.load(Ordering::Relaxed)
    }

    pub fn set_checked(&self) {
        self.checked.store(true, Ordering::Relaxed);
    }
}

/// The slots of a store, by key and by group.
#[derive(Default)]
pub struct Index {
    parts: [Mutex<HashMap<Key, Arc<Slot>, foldhash::fast::RandomState>>; PARTS],
    groups: Mutex<HashMap<u64, Vec<Key>, foldhash::fast::RandomState>>,
    entries: AtomicUsize,
    bytes: AtomicU64,
}

type Part<'a> = MutexGuard<'a, HashMap<Key, Arc<Slot>, foldhash::fast::RandomState>>;

impl Index {
    fn part(&self, key: Key) -> Part<'_> {
        self.parts[key.part(PARTS)]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    #[must_use]
    pub fn find(&self, key: Key) -> Option<Arc<Slot>> {
        self.part(key).get(&key).cloned()
    }

    /// Takes the place of the former slot of the key.
    pub fn insert(&self, slot: Arc<Slot>) {
        let (key, group, bytes) = (slot.key, slot.group, slot.bytes);
        // Counted before anybody can find it and take it out again.
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let former = self.part(key).insert(key, slot);
        match former {
            Some(former) => self.subtract(&former),
            None => drop(self.entries.fetch_add(1, Ordering::Relaxed)),
        }
        if group == 0 {
            return;
        }
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = groups.entry(group).or_default();
        if !keys.contains(&key) {
            keys.push(key);
        }
    }

    /// Inserts a slot that was found on the disk, unless one is known that is newer.
    pub fn adopt(&self, slot: Arc<Slot>) -> Arc<Slot> {
        if let Some(known) = self.find(slot.key) {
            return known;
        }
        self.insert(Arc::clone(&slot));
        slot
    }

    /// Forgets a slot; false if the key has another one by now, or none.
    pub fn remove(&self, slot: &Arc<Slot>) -> bool {
        {
            let mut part = self.part(slot.key);
            if !part
                .get(&slot.key)
                .is_some_and(|known| Arc::ptr_eq(known, slot))
            {
                return false;
            }
            part.remove(&slot.key);
        }
        self.subtract(slot);
        self.entries.fetch_sub(1, Ordering::Relaxed);
        if slot.group == 0 {
            return true;
        }
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keys) = groups.get_mut(&slot.group) {
            keys.retain(|key| *key != slot.key);
            if keys.is_empty() {
                groups.remove(&slot.group);
            }
        }
        true
    }

    fn subtract(&self, slot: &Slot) {
        self.bytes.fetch_sub(slot.bytes, Ordering::Relaxed);
    }

    /// The slots of a group.
    #[must_use]
    pub fn group(&self, group: u64) -> Vec<Arc<Slot>> {
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = groups.get(&group).cloned().unwrap_or_default();
        drop(groups);
        keys.into_iter().filter_map(|key| self.find(key)).collect()
    }

    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Of the entries' files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The slots that were not used since `second`.
    #[must_use]
    pub fn unused_since(&self, second: u64) -> Vec<Arc<Slot>> {
        let mut unused = Vec::new();
        for part in &self.parts {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            let old = |slot: &&Arc<Slot>| slot.used.load(Ordering::Relaxed) < second;
            unused.extend(part.values().filter(old).cloned());
        }
        unused
    }

    /// The slots that were not used for longest: so many of them that without them the index would be within both limits,
    /// with a sixteenth to spare so that not every new entry has to ask.
    #[must_use]
    pub fn surplus(&self, bytes_max: u64, entries_max: usize) -> Vec<Arc<Slot>> {
        if self.bytes() <= bytes_max && self.entries() <= entries_max {
            return Vec::new();
        }
        let (bytes_max, entries_max) = (bytes_max - bytes_max / 16, entries_max - entries_max / 16);
        let mut slots: Vec<(u64, Arc<Slot>)> = Vec::with_capacity(self.entries());
        for part in &self.parts {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            slots.extend(
                part.values()
                    .map(|slot| (slot.used.load(Ordering::Relaxed), Arc::clone(slot))),
            );
        }
        slots.sort_by_key(|(used, _)| *used);
        let (mut bytes, mut entries) = (self.bytes(), slots.len());
        slots
            .into_iter()
            .map(|(_, slot)| slot)
            .take_while(|slot| {
                let over = bytes > bytes_max || entries > entries_max;
                bytes = bytes.saturating_sub(slot.bytes);
                entries = entries.saturating_sub(1);
                over
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(name: &str, bytes: u64, used: u64) -> Arc<Slot> {
        Slot::new(Key::of(name.as_bytes()), bytes, 1, used, true)
    }

    #[test]
    fn sums_follow_what_is_kept() {
        let index = Index::default();
        let (first, second) = (slot("a", 10, 0), slot("a", 30, 0));
        index.insert(Arc::clone(&first));
        index.insert(slot("b", 5, 0));
        index.insert(Arc::clone(&second));
        assert_eq!((index.entries(), index.bytes()), (2, 35));
        assert_eq!(index.group(1).len(), 2);
        assert!(!index.remove(&first), "another one is in its place");
        assert!(index.remove(&second) && !index.remove(&second));
        assert_eq!((index.entries(), index.bytes()), (1, 5));
        assert_eq!(index.group(1).len(), 1);
        assert_eq!(index.adopt(slot("b", 7, 9)).bytes, 5);
        assert_eq!(index.adopt(slot("c", 7, 9)).bytes, 7);
    }

    #[test]
    fn the_least_recently_used_go() {
        let index = Index::default();
        for number in 0..20 {
            index.insert(slot(&number.to_string(), 10, 100 + number));
        }
        index
            .find(Key::of(b"0"))
            .unwrap()
            .used
            .store(500, Ordering::Relaxed);
        assert!(index.surplus(200, 20).is_empty());
        let keys = |slots: Vec<Arc<Slot>>| slots.iter().map(|slot| slot.key).collect::<Vec<_>>();
        // 160 less a sixteenth is 150: five go.
        let expected: Vec<Key> = (1..6)
            .map(|number: u32| Key::of(number.to_string().as_bytes()))
            .collect();
        assert_eq!(keys(index.surplus(160, 20)), expected);
        assert_eq!(keys(index.surplus(1000, 16)), expected);
    }
}
