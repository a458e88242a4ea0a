//! Bodies seen before: the compressed bytes of a body, by a keyed hash of it, its coding and its level, so that a page
//! that is made anew each time and comes out the same is compressed once. Each thread has a table of its own; it keeps
//! what it sees the second time, and stops looking for a while where too little comes again.

use super::dictionary::Hash;
use super::levels;
use super::negotiate::Coding;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

/// Smaller bodies cost less to compress than to remember.
pub const BODY_MIN: usize = 256;
/// Places for hashes of bodies that were seen once.
const ONCE: usize = 4096;
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

struct Entry {
    bytes: Bytes,
    used: bool,
}

struct Table {
    secret: [u8; 32],
    entries: HashMap<Key, Entry, foldhash::fast::RandomState>,
    /// For the clock hand.
    order: VecDeque<Key>,
    size: u64,
    /// Keys of bodies that were seen once, by their first bytes.
    once: Vec<Key>,
    looked: u32,
    /// Bodies that are still to go by.
    pause: u32,
    saved_ns: u64,
    spent_ns: u64,
}

/// What all threads' tables did, for the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    pub hits: u64,
    pub misses: u64,
    /// Bodies that no table looked at since that did not pay.
    pub passed: u64,
    /// What the tables hold.
    pub bytes: u64,
}

static HITS: AtomicU64 = AtomicU64::new(0);
static MISSES: AtomicU64 = AtomicU64::new(0);
static PASSED: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// The counts of all threads since the start.
#[must_use]
pub fn totals() -> Totals {
    Totals {
        hits: HITS.load(Ordering::Relaxed),
        misses: MISSES.load(Ordering::Relaxed),
        passed: PASSED.load(Ordering::Relaxed),
        bytes: BYTES.load(Ordering::Relaxed),
    }
}

thread_local! {
    // Without randomness there is no key, and no table.
    static TABLE: RefCell<Option<Table>> = RefCell::new(Table::new());
}

/// Looks for a body that is to be compressed.
#[must_use]
pub fn find(coding: Coding, level: u8, dictionary: Option<&Hash>, body: &[u8]) -> Seen {
    if body.len() < BODY_MIN {
        return Seen::Unseen;
    }
    TABLE.with_borrow_mut(|table| match table {
        Some(table) => table.find(coding, level, dictionary, body),
        None => Seen::Unseen,
    })
}

/// Keeps the compressed bytes of a body that was seen before, within `most` bytes for all.
pub fn keep(key: Key, bytes: &Bytes, most: u64) {
    TABLE.with_borrow_mut(|table| {
        if let Some(table) = table {
            table.keep(key, bytes, most);
        }
    });
}

impl Drop for Table {
    fn drop(&mut self) {
        self.resize(0);
    }
}

impl Table {
    fn new() -> Option<Table> {
        let mut secret = [0; 32];
        sys::machine::random(&mut secret).ok()?;
        Some(Table {
            secret,
            entries: HashMap::default(),
            order: VecDeque::new(),
            size: 0,
            once: Vec::new(),
            looked: 0,
            pause: 0,
            saved_ns: 0,
            spent_ns: 0,
        })
    }

    fn find(&mut self, coding: Coding, level: u8, dictionary: Option<&Hash>, body: &[u8]) -> Seen {
        if self.pause > 0 {
            self.pause -= 1;
            PASSED.fetch_add(1, Ordering::Relaxed);
            return Seen::Unseen;
        }
        let kilobytes = body.len() as u64 / 1024 + 1;
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(&[coding as u8, level, u8::from(dictionary.is_some())]);
        if let Some(dictionary) = dictionary {
            hasher.update(dictionary);
        }
        hasher.update(body);
        let mut key = Key::default();
        hasher.finalize_xof().fill(&mut key);
        self.looked += 1;
        self.spent_ns += kilobytes * HASH_NS;
        let seen = match self.entries.get_mut(&key) {
            Some(entry) => {
                entry.used = true;
                self.saved_ns += kilobytes * levels::nanoseconds_per_kilobyte(coding, level);
                HITS.fetch_add(1, Ordering::Relaxed);
                Seen::Before(entry.bytes.clone())
            }
            None => {
                MISSES.fetch_add(1, Ordering::Relaxed);
                Seen::New(key)
            }
        };
        if self.looked >= TRIAL {
            self.judge();
        }
        seen
    }

    /// Stops for a while where the table costs more than it saves.
    fn judge(&mut self) {
        if self.saved_ns < self.spent_ns * 2 {
            self.pause = PAUSE;
            self.entries.clear();
            self.order.clear();
            self.once = Vec::new();
            self.resize(0);
        }
        (self.looked, self.saved_ns, self.spent_ns) = (0, 0, 0);
    }

    fn keep(&mut self, key: Key, bytes: &Bytes, most: u64) {
        let cost = bytes.len() as u64 + ENTRY_BYTES;
        if self.pause > 0 || cost > most / 4 || self.entries.contains_key(&key) {
            return;
        }
        if !self.is_second(key) {
            return;
        }
        while self.size + cost > most {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            match self.entries.get_mut(&oldest) {
                Some(entry) if entry.used => {
                    entry.used = false;
                    self.order.push_back(oldest);
                }
                Some(entry) => {
                    let size = self.size - (entry.bytes.len() as u64 + ENTRY_BYTES);
                    self.entries.remove(&oldest);
                    self.resize(size);
                }
                None => {}
            }
        }
        self.resize(self.size + cost);
        self.order.push_back(key);
        let bytes = bytes.clone();
        self.entries.insert(key, Entry { bytes, used: false });
    }

    /// Notes what the table holds now, also for the sum of all.
    fn resize(&mut self, size: u64) {
        // Wraps where it shrinks.
        BYTES.fetch_add(size.wrapping_sub(self.size), Ordering::Relaxed);
        self.size = size;
    }

    /// Whether a body was seen before; if not, it has been now.
    fn is_second(&mut self, key: Key) -> bool {
        if self.once.is_empty() {
            self.once.resize(ONCE, Key::default());
        }
        let place = usize::from(u16::from_le_bytes([key[0], key[1]])) % ONCE;
        let Some(kept) = self.once.get_mut(place) else {
            return false;
        };
        std::mem::replace(kept, key) == key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::tests::sample;

    fn table() -> Table {
        Table::new().unwrap()
    }

    fn see(table: &mut Table, body: &[u8], most: u64) -> bool {
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

    #[test]
    fn the_third_of_a_kind_is_known() {
        let mut table = table();
        let body = sample(10_000);
        assert!(!see(&mut table, &body, 1 << 20));
        assert!(!see(&mut table, &body, 1 << 20));
        assert!(see(&mut table, &body, 1 << 20));
        let seen = table.find(Coding::Gzip, 5, None, &body);
        assert!(matches!(seen, Seen::New(_)), "another level");
        let seen = table.find(Coding::Zstd, 6, None, &body);
        assert!(matches!(seen, Seen::New(_)), "another coding");
        assert!(!see(&mut table, &body[1..], 1 << 20));
    }

    #[test]
    fn it_keeps_within_its_limit_and_prefers_what_is_used() {
        let mut table = table();
        let most = 50_000;
        let often = vec![b'x'; 9_000];
        for round in 0_u32..40 {
            let mut body = sample(9_000);
            body[..4].copy_from_slice(&round.to_le_bytes());
            for _ in 0..3 {
                see(&mut table, &body, most);
                see(&mut table, &often, most);
            }
            assert!(table.size <= most);
            assert_eq!(table.entries.len(), table.order.len());
        }
        assert!(see(&mut table, &often, most));
        table.keep([7; 16], &Bytes::from(vec![0; 20_000]), most);
        assert!(!table.entries.contains_key(&[7; 16]), "more than its share");
    }

    #[test]
    fn where_nothing_comes_again_it_stops_looking_for_a_while() {
        let mut table = table();
        let mut body = sample(1_000);
        let mut unseen = 0;
        for round in 0..TRIAL + PAUSE + 10 {
            body[..4].copy_from_slice(&round.to_le_bytes());
            unseen += u32::from(table.find(Coding::Gzip, 1, None, &body) == Seen::Unseen);
        }
        assert_eq!(unseen, PAUSE);
        for _ in 0..3 {
            see(&mut table, &body, 1 << 20);
        }
        assert!(see(&mut table, &body, 1 << 20), "it looks again");
    }
}
