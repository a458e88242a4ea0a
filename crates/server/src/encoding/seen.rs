//! Bodies seen before: the compressed bytes of a body, by a keyed hash of it, its coding and its level, so that a page
//! that is made anew each time and comes out the same is compressed once, whichever thread it comes to. The table keeps
//! what it sees the second time, and stops looking for a while where too little comes again.

use super::dictionary::Hash;
use super::levels;
use super::negotiate::Coding;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Smaller bodies cost less to compress than to remember.
pub const BODY_MIN: usize = 256;
/// Locks of the table; the first byte of a key chooses.
const SHARDS: usize = 16;
/// Places of a shard for keys of bodies that were seen once.
const ONCE: usize = 512;
/// Bytes that an entry takes beside the body.
const ENTRY_BYTES: u64 = 128;
/// After so many bodies the table asks whether it pays.
const TRIAL: u32 = 512;
/// So many bodies go by unseen when it does not.
const PAUSE: u32 = 8192;
/// Nanoseconds that hashing a kilobyte takes, about.
const HASH_NS: u64 = 400;

/// What a body is known by.
pub type Key = [u8; 16];

/// What the table knows of a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// The compressed bytes.
    Before(Bytes),
    /// To be kept under this key once it is compressed, if `keep` takes it.
    New(Key),
    /// The table does not look at it.
    Unseen,
}

/// What the table did since the start, for the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    pub hits: u64,
    pub misses: u64,
    /// Bodies that the table did not look at since that did not pay.
    pub passed: u64,
    /// What the table holds.
    pub bytes: u64,
}

// Without randomness there is no key, and no table.
static TABLE: LazyLock<Option<Table>> = LazyLock::new(Table::new);

/// The counts since the start.
#[must_use]
pub fn totals() -> Totals {
    TABLE.as_ref().map(Table::totals).unwrap_or_default()
}

/// Looks for a body that is to be compressed.
#[must_use]
pub fn find(coding: Coding, level: u8, dictionary: Option<&Hash>, body: &[u8]) -> Seen {
    match &*TABLE {
        Some(table) if body.len() >= BODY_MIN => table.find(coding, level, dictionary, body),
        _ => Seen::Unseen,
    }
}

/// Keeps the compressed bytes of a body that was seen before, within `most` bytes for all.
pub fn keep(key: Key, bytes: &Bytes, most: u64) {
    if let Some(table) = &*TABLE {
        table.keep(key, bytes, most);
    }
}

struct Table {
    secret: [u8; 32],
    shards: [Mutex<Shard>; SHARDS],
    /// Whose turn it is to give something up.
    hand: AtomicUsize,
    bytes: AtomicU64,
    judge: Judge,
    hits: AtomicU64,
    misses: AtomicU64,
    passed: AtomicU64,
}

/// The entries of some keys.
#[derive(Default)]
struct Shard {
    entries: HashMap<Key, Entry, foldhash::fast::RandomState>,
    /// For the clock hand.
    order: VecDeque<Key>,
    /// Keys of bodies that were seen once, by their last bytes.
    once: Vec<Key>,
}

struct Entry {
    bytes: Bytes,
    used: bool,
}

/// Whether the table pays.
#[derive(Default)]
struct Judge {
    looked: AtomicU32,
    /// Bodies that are still to go by.
    pause: AtomicU32,
    saved_ns: AtomicU64,
    spent_ns: AtomicU64,
}

impl Table {
    fn new() -> Option<Table> {
        let mut secret = [0; 32];
        sys::machine::random(&mut secret).ok()?;
        Some(Table {
            secret,
            shards: std::array::from_fn(|_| Mutex::default()),
            hand: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            judge: Judge::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            passed: AtomicU64::new(0),
        })
    }

    fn totals(&self) -> Totals {
        Totals {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            passed: self.passed.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    fn find(&self, coding: Coding, level: u8, dictionary: Option<&Hash>, body: &[u8]) -> Seen {
        if self.judge.passes_by() {
            self.passed.fetch_add(1, Ordering::Relaxed);
            return Seen::Unseen;
        }
        let key = self.key(coding, level, dictionary, body);
        let found = self.shard(&key).find(&key);
        let kilobytes = body.len() as u64 / 1024 + 1;
        let saved_ns = match &found {
            Some(_) => {
                self.hits.fetch_add(1, Ordering::Relaxed);
                kilobytes * levels::nanoseconds_per_kilobyte(coding, level)
            }
            None => {
                self.misses.fetch_add(1, Ordering::Relaxed);
                0
            }
        };
        if !self.judge.pays(saved_ns, kilobytes * HASH_NS) {
            self.clear();
        }
        found.map_or(Seen::New(key), Seen::Before)
    }

    fn key(&self, coding: Coding, level: u8, dictionary: Option<&Hash>, body: &[u8]) -> Key {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(&[coding as u8, level, u8::from(dictionary.is_some())]);
        if let Some(dictionary) = dictionary {
            hasher.update(dictionary);
        }
        hasher.update(body);
        let mut key = Key::default();
        hasher.finalize_xof().fill(&mut key);
        key
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        lock(&self.shards[usize::from(key[0]) % SHARDS])
    }

    fn keep(&self, key: Key, bytes: &Bytes, most: u64) {
        let cost = cost(bytes);
        if self.judge.is_pausing() || cost > most / 4 || !self.shard(&key).is_second(&key) {
            return;
        }
        self.bytes.fetch_add(cost, Ordering::Relaxed);
        let kept = self.make_room(most) && self.shard(&key).insert(key, bytes.clone());
        if !kept {
            self.bytes.fetch_sub(cost, Ordering::Relaxed);
        }
    }

    /// Gives up entries, shard by shard, until the table is within `most` bytes; the second time round also such that
    /// were used.
    fn make_room(&self, most: u64) -> bool {
        let mut fruitless = 0;
        while self.bytes.load(Ordering::Relaxed) > most {
            let number = self.hand.fetch_add(1, Ordering::Relaxed) % SHARDS;
            let freed = lock(&self.shards[number]).evict();
            self.bytes.fetch_sub(freed, Ordering::Relaxed);
            fruitless = if freed == 0 { fruitless + 1 } else { 0 };
            if fruitless > 2 * SHARDS {
                return false;
            }
        }
        true
    }

    fn clear(&self) {
        for shard in &self.shards {
            let former = std::mem::take(&mut *lock(shard));
            let freed = former
                .entries
                .values()
                .map(|entry| cost(&entry.bytes))
                .sum();
            self.bytes.fetch_sub(freed, Ordering::Relaxed);
        }
    }
}

/// What an entry takes.
fn cost(bytes: &Bytes) -> u64 {
    bytes.len() as u64 + ENTRY_BYTES
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    fn find(&mut self, key: &Key) -> Option<Bytes> {
        let entry = self.entries.get_mut(key)?;
        entry.used = true;
        Some(entry.bytes.clone())
    }

    /// Whether a body was seen before and is not kept; if it was not seen, it has been now.
    fn is_second(&mut self, key: &Key) -> bool {
        if self.entries.contains_key(key) {
            return false;
        }
        if self.once.is_empty() {
            self.once.resize(ONCE, Key::default());
        }
        let place = usize::from(u16::from_le_bytes([key[14], key[15]])) % ONCE;
        let Some(kept) = self.once.get_mut(place) else {
            return false;
        };
        std::mem::replace(kept, *key) == *key
    }

    fn insert(&mut self, key: Key, bytes: Bytes) -> bool {
        // Another thread may have been quicker.
        if self.entries.contains_key(&key) {
            return false;
        }
        self.order.push_back(key);
        self.entries.insert(key, Entry { bytes, used: false });
        true
    }

    /// Gives up the oldest entry that was not used since the hand last passed; how much that frees.
    fn evict(&mut self) -> u64 {
        for _ in 0..self.order.len() {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            match self.entries.get_mut(&oldest) {
                Some(entry) if entry.used => {
                    entry.used = false;
                    self.order.push_back(oldest);
                }
                _ => {
                    return self
                        .entries
                        .remove(&oldest)
                        .map_or(0, |entry| cost(&entry.bytes));
                }
            }
        }
        0
    }
}

impl Judge {
    fn is_pausing(&self) -> bool {
        self.pause.load(Ordering::Relaxed) > 0
    }

    /// Whether a body goes by unseen.
    fn passes_by(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        self.is_pausing()
            && self
                .pause
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
                .is_ok()
    }

    /// Counts a body that was looked at; false at the end of a trial that saved too little.
    fn pays(&self, saved_ns: u64, spent_ns: u64) -> bool {
        let saved_ns = self.saved_ns.fetch_add(saved_ns, Ordering::Relaxed) + saved_ns;
        let spent_ns = self.spent_ns.fetch_add(spent_ns, Ordering::Relaxed) + spent_ns;
        // Of several threads that come here at the end of a trial, one ends it.
        if self.looked.fetch_add(1, Ordering::Relaxed) + 1 != TRIAL {
            return true;
        }
        let pays = saved_ns >= spent_ns * 2;
        if !pays {
            self.pause.store(PAUSE, Ordering::Relaxed);
        }
        self.saved_ns.store(0, Ordering::Relaxed);
        self.spent_ns.store(0, Ordering::Relaxed);
        self.looked.store(0, Ordering::Relaxed);
        pays
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::tests::sample;

    fn table() -> Table {
        Table::new().unwrap()
    }

    fn see(table: &Table, body: &[u8], most: u64) -> bool {
        match table.find(Coding::Gzip, 6, None, body) {
            Seen::Before(bytes) => {
                assert_eq!(bytes, body[..body.len() / 2]);
                true
            }
            Seen::New(key) => {
                table.keep(key, &Bytes::copy_from_slice(&body[..body.len() / 2]), most);
                false
            }
            Seen::Unseen => false,
        }
    }

    /// What a shard takes, counted anew.
    fn held_by(shard: &Mutex<Shard>) -> u64 {
        let shard = lock(shard);
        assert_eq!(shard.entries.len(), shard.order.len());
        shard.entries.values().map(|entry| cost(&entry.bytes)).sum()
    }

    #[test]
    fn the_third_of_a_kind_is_known() {
        let table = table();
        let body = sample(10_000);
        assert!(!see(&table, &body, 1 << 20));
        assert!(!see(&table, &body, 1 << 20));
        assert!(see(&table, &body, 1 << 20));
        let seen = table.find(Coding::Gzip, 5, None, &body);
        assert!(matches!(seen, Seen::New(_)), "another level");
        let seen = table.find(Coding::Zstd, 6, None, &body);
        assert!(matches!(seen, Seen::New(_)), "another coding");
        assert!(!see(&table, &body[1..], 1 << 20));
    }

    #[test]
    fn it_keeps_within_its_limit_and_prefers_what_is_used() {
        let table = table();
        let most = 50_000;
        let often = vec![b'x'; 9_000];
        for round in 0_u32..40 {
            let mut body = sample(9_000);
            body[..4].copy_from_slice(&round.to_le_bytes());
            for _ in 0..3 {
                see(&table, &body, most);
                see(&table, &often, most);
            }
            let held = table.totals().bytes;
            assert!(held <= most, "{held}");
            assert_eq!(held, table.shards.iter().map(held_by).sum::<u64>());
        }
        assert!(see(&table, &often, most));
        for _ in 0..3 {
            table.keep([7; 16], &Bytes::from(vec![0; 20_000]), most);
        }
        assert!(
            table.shard(&[7; 16]).find(&[7; 16]).is_none(),
            "more than its share"
        );
    }

    #[test]
    fn where_nothing_comes_again_it_stops_looking_for_a_while() {
        let table = table();
        let mut body = sample(1_000);
        let mut unseen = 0;
        for round in 0..TRIAL + PAUSE + 10 {
            body[..4].copy_from_slice(&round.to_le_bytes());
            unseen += u32::from(table.find(Coding::Gzip, 1, None, &body) == Seen::Unseen);
        }
        assert_eq!(unseen, PAUSE);
        for _ in 0..3 {
            see(&table, &body, 1 << 20);
        }
        assert!(see(&table, &body, 1 << 20), "it looks again");
    }
    #[test]
    fn what_one_thread_kept_another_finds() {
        let table = table();
        let bodies: Vec<Vec<u8>> = (0..40)
            .map(|number| {
                let mut body = sample(2_000);
                body[0] = number;
                body
            })
            .collect();
        let most = 60_000;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for body in bodies.iter().cycle().take(1_000) {
                        see(&table, body, most);
                    }
                });
            }
        });
        let totals = table.totals();
        assert_eq!(totals.hits + totals.misses + totals.passed, 4_000);
        assert!(totals.hits > 3_000, "{totals:?}");
        assert!(totals.bytes <= most);
        assert_eq!(totals.bytes, table.shards.iter().map(held_by).sum::<u64>());
    }
}
