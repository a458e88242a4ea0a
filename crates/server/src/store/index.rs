//! What a store knows of its entries: in memory, in parts with a lock each that is held for a look or a change and never
//! while a file is touched.

use super::key::Key;
use super::queue::Queue;
use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Entries of a store at most, some 25 MB of memory.
pub const ENTRIES_MAX: usize = 262_144;
/// As many as a directory has: what is looked for in one of them stands in one of these.
pub const PARTS: usize = 256;

/// Uses of an entry are counted up to here.
const FREQUENCY_MAX: u8 = 3;
const CHECKED: u8 = 1;
const GONE: u8 = 2;
const IN_MAIN: u8 = 4;

/// What is known of an entry without looking at its file.
#[derive(Debug)]
pub struct Slot {
    pub key: Key,
    /// Of its file.
    pub bytes: u64,
    /// What the file takes up.
    pub space: u64,
    /// 0: it belongs to none.
    pub group: u64,
    /// When it was used last, in seconds since 1970.
    used: AtomicU32,
    /// How often since the queue last looked.
    frequency: AtomicU8,
    state: AtomicU8,
}

impl Slot {
    /// `checked`: the body is known to be what was written, by this process or by its hash.
    #[must_use]
    pub fn new(key: Key, bytes: u64, group: u64, used: u64, checked: bool) -> Arc<Slot> {
        Slot::in_blocks(key, bytes, group, used, checked, 1)
    }

    /// The same on a disk of such blocks.
    #[must_use]
    pub fn in_blocks(
        key: Key,
        bytes: u64,
        group: u64,
        used: u64,
        checked: bool,
        block: u64,
    ) -> Arc<Slot> {
        Arc::new(Slot {
            key,
            bytes,
            space: bytes.checked_next_multiple_of(block).unwrap_or(bytes),
            group,
            used: AtomicU32::new(u32::try_from(used).unwrap_or(u32::MAX)),
            frequency: AtomicU8::new(0),
            state: AtomicU8::new(if checked { CHECKED } else { 0 }),
        })
    }

    fn has(&self, state: u8) -> bool {
        self.state.load(Ordering::Relaxed) & state != 0
    }

    /// Whether it was so before.
    fn set(&self, state: u8) -> bool {
        self.state.fetch_or(state, Ordering::Relaxed) & state != 0
    }

    pub fn is_checked(&self) -> bool {
        self.has(CHECKED)
    }

    pub fn set_checked(&self) {
        self.set(CHECKED);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.has(GONE)
    }

    /// False if it was gone before.
    pub(super) fn set_gone(&self) -> bool {
        !self.set(GONE)
    }

    pub(super) fn is_in_main(&self) -> bool {
        self.has(IN_MAIN)
    }

    pub(super) fn set_in_main(&self) {
        self.set(IN_MAIN);
    }

    pub(super) fn frequency(&self) -> u8 {
        self.frequency.load(Ordering::Relaxed)
    }

    pub(super) fn set_frequency(&self, frequency: u8) {
        self.frequency
            .store(frequency.min(FREQUENCY_MAX), Ordering::Relaxed);
    }

    /// Seconds since 1970.
    #[must_use]
    pub fn used(&self) -> u64 {
        u64::from(self.used.load(Ordering::Relaxed))
    }

    /// Notes a use in a second; threads share this memory, so it is written only where that changes something.
    pub fn note_use(&self, second: u64) {
        let second = u32::try_from(second).unwrap_or(u32::MAX);
        if self.used.load(Ordering::Relaxed) != second {
            self.used.store(second, Ordering::Relaxed);
        }
        let frequency = self.frequency();
        if frequency < FREQUENCY_MAX {
            self.set_frequency(frequency + 1);
        }
    }
}

impl crate::http::file::LastUse for Slot {
    fn note(&self, second: u64) {
        self.note_use(second);
    }
}

/// A slot in a set of slots by key.
struct ByKey(Arc<Slot>);

impl Borrow<Key> for ByKey {
    fn borrow(&self) -> &Key {
        &self.0.key
    }
}

impl Hash for ByKey {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.key.hash(hasher);
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &ByKey) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for ByKey {}

type Slots = HashSet<ByKey, foldhash::fast::RandomState>;
type Groups = HashMap<u64, Vec<Key>, foldhash::fast::RandomState>;

/// The slots of a store, by key and by group, and the order in which they go.
pub struct Index {
    parts: Box<[Mutex<Slots>]>,
    groups: Mutex<Groups>,
    queue: Mutex<Queue>,
    entries: AtomicUsize,
    bytes: AtomicU64,
}

impl Default for Index {
    fn default() -> Index {
        Index {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            groups: Mutex::default(),
            queue: Mutex::default(),
            entries: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Index {
    fn part(&self, key: Key) -> MutexGuard<'_, Slots> {
        lock(&self.parts[key.directory()])
    }

    #[must_use]
    pub fn find(&self, key: Key) -> Option<Arc<Slot>> {
        self.part(key).get(&key).map(|found| Arc::clone(&found.0))
    }

    /// Takes the place of the former slot of the key.
    pub fn insert(&self, slot: Arc<Slot>) {
        let (key, group) = (slot.key, slot.group);
        // Counted before anybody can find it and take it out again.
        self.bytes.fetch_add(slot.space, Ordering::Relaxed);
        let former = {
            let mut part = self.part(key);
            let former = part.replace(ByKey(Arc::clone(&slot)));
            let former = former.map(|former| former.0);
            // Who finds the slot and removes it finds it in the queue.
            lock(&self.queue).insert(slot, former.as_deref());
            former
        };
        match former {
            Some(former) => drop(self.bytes.fetch_sub(former.space, Ordering::Relaxed)),
            None => drop(self.entries.fetch_add(1, Ordering::Relaxed)),
        }
        if group == 0 {
            return;
        }
        let mut groups = lock(&self.groups);
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
            let is_it = |known: &ByKey| Arc::ptr_eq(&known.0, slot);
            if !part.get(&slot.key).is_some_and(is_it) {
                return false;
            }
            part.remove(&slot.key);
            if part.capacity() > 4 * part.len() + 1024 {
                part.shrink_to_fit();
            }
        }
        lock(&self.queue).forget(slot);
        self.bytes.fetch_sub(slot.space, Ordering::Relaxed);
        self.entries.fetch_sub(1, Ordering::Relaxed);
        if slot.group == 0 {
            return true;
        }
        let mut groups = lock(&self.groups);
        if let Some(keys) = groups.get_mut(&slot.group) {
            keys.retain(|key| *key != slot.key);
            if keys.is_empty() {
                groups.remove(&slot.group);
            }
        }
        true
    }

    /// The slots of a group.
    #[must_use]
    pub fn group(&self, group: u64) -> Vec<Arc<Slot>> {
        let keys = lock(&self.groups).get(&group).cloned().unwrap_or_default();
        keys.into_iter().filter_map(|key| self.find(key)).collect()
    }

    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// What the entries' files take up.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The slots of a part that `which` names; the lock is held for a part only.
    #[must_use]
    pub fn of_part(&self, part: usize, which: impl Fn(&Slot) -> bool) -> Vec<Arc<Slot>> {
        let Some(part) = self.parts.get(part) else {
            return Vec::new();
        };
        let part = lock(part);
        let named = part.iter().filter(|slot| which(&slot.0));
        named.map(|slot| Arc::clone(&slot.0)).collect()
    }

    /// The next one to go, if without it the index would still be beyond one of the limits; it is to be removed.
    #[must_use]
    pub fn surplus(&self, bytes_max: u64, entries_max: usize) -> Option<Arc<Slot>> {
        if self.bytes() <= bytes_max && self.entries() <= entries_max {
            return None;
        }
        lock(&self.queue).evict()
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
    fn no_more_goes_than_has_to() {
        let index = Index::default();
        for number in 0..20 {
            index.insert(slot(&number.to_string(), 10, 100 + number));
        }
        let used = index.find(Key::of(b"0")).expect("kept");
        used.note_use(500);
        assert_eq!(used.used(), 500);
        assert!(index.surplus(200, 20).is_none());
        for (bytes_max, entries_max, left) in [(160, 20, 16), (159, 20, 15), (1000, 10, 10)] {
            while let Some(slot) = index.surplus(bytes_max, entries_max) {
                assert!(index.remove(&slot));
            }
            assert_eq!((index.entries(), index.bytes()), (left, 10 * left as u64));
        }
        assert!(index.find(Key::of(b"0")).is_some(), "it was used");
    }

    #[test]
    fn files_take_up_whole_blocks() {
        for (bytes, block, space) in [
            (1, 4096, 4096),
            (4096, 4096, 4096),
            (4097, 4096, 8192),
            (5, 1, 5),
        ] {
            let slot = Slot::in_blocks(Key::of(b"k"), bytes, 0, 0, true, block);
            assert_eq!((slot.bytes, slot.space), (bytes, space));
        }
    }

    #[test]
    fn parts_are_those_of_the_directory() {
        let index = Index::default();
        for number in 0..50 {
            index.insert(slot(&number.to_string(), 1, number));
        }
        let all: usize = (0..PARTS)
            .map(|part| index.of_part(part, |_| true).len())
            .sum();
        let old = |slot: &Slot| slot.used() < 20;
        let few: usize = (0..PARTS).map(|part| index.of_part(part, old).len()).sum();
        assert_eq!((all, few), (50, 20));
        let key = Key::of(b"7");
        let found = index.of_part(key.directory(), |slot| slot.key == key);
        assert_eq!(format!("{:02x}", key.directory()), key.name()[..2]);
        assert_eq!(found.len(), 1);
    }
}
