//! The responses of a keys_zone: on the disk in a store, small ones in memory as well, and what is being fetched. Zones are
//! the process's: they outlive reloads.

use super::bans::{self, Ban, Bans, Verdict, What};
use super::entry::{Entry, Facts, Times, VARIANT, variant_text};
use super::flight::{Flight, Lead};
use super::path::Path;
use crate::background::{self, Urgency};
use crate::log::error::{Level, write};
use crate::store::{self, Fetched, Key, Reading, Slot, Store, unix_seconds};
use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use sys::errno::Errno;

/// Bytes of a body that is kept in memory, too.
pub const MEMORY_BODY_MAX: u64 = 256 * 1024;
/// Entries of a zone, however large it is.
pub const ENTRIES_MAX: usize = 16 << 20;
/// What an entry takes of a zone's size: some 8000 of them go into a megabyte, as in nginx.
pub const ENTRY_BYTES: u64 = 128;
/// Keys that are counted before they are kept, and failures that are remembered; beyond them all are forgotten.
const COUNTED_MAX: usize = 65_536;
/// Causes of trouble that are remembered.
const CAUSES_MAX: usize = 64;
/// How often the same trouble is told.
const TOLD_AGAIN: Duration = Duration::from_secs(60);
const PARTS: usize = 16;
/// Bytes of an entry in memory, for the estimate of how many there will be.
const USUAL_BYTES: u64 = 8192;

/// Limits of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of the files.
    pub bytes_max: u64,
    /// As many as the zone's memory has room for.
    pub entries: usize,
    /// Of the file system.
    pub bytes_free_min: u64,
    /// Seconds without use after which an entry goes.
    pub inactive: u64,
    /// Bytes in memory.
    pub memory: u64,
}

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Arc<Entry>> for Weight {
    fn weight(&self, _: &Key, entry: &Arc<Entry>) -> u64 {
        entry.memory()
    }
}

/// An entry that was found, with its body's file where that is not in memory.
#[derive(Debug, Clone)]
pub struct Kept {
    pub entry: Arc<Entry>,
    pub file: Option<Arc<BodyFile>>,
}

/// A body in the store's file.
#[derive(Debug)]
pub struct BodyFile {
    pub file: File,
    pub offset: u64,
    pub length: u64,
}

type Table<T> = HashMap<Key, T, foldhash::fast::RandomState>;

/// The responses of a keys_zone.
pub struct Zone {
    pub name: Box<[u8]>,
    pub store: Arc<Store>,
    pub inactive: AtomicU64,
    pub bytes_free_min: AtomicU64,
    memory: Cache<Key, Arc<Entry>, Weight>,
    flights: [Mutex<Table<Arc<Flight>>>; PARTS],
    /// Failures that are kept, with their time.
    failures: Mutex<Table<(u16, i64)>>,
    uses: Mutex<Table<u64>>,
    bans: Bans,
    is_clearing: AtomicBool,
    told: Mutex<Vec<(String, Instant)>>,
    /// Somebody looks after it.
    pub is_kept_up: AtomicBool,
}

impl std::fmt::Debug for Zone {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Zone({})", String::from_utf8_lossy(&self.name))
    }
}

/// The process's zones by family, name and directory.
type ByName = HashMap<(&'static str, Box<[u8]>, PathBuf), Arc<Zone>>;
static ZONES: Mutex<Option<ByName>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The times of what is out of date since a second.
fn out_of_date(times: Times, second: i64) -> Times {
    Times {
        valid_until: times.valid_until.min(second.saturating_sub(1)),
        ..times
    }
}

impl Zone {
    /// The process's zone of this path. Touches no file.
    #[must_use]
    pub fn of(path: &Path) -> Arc<Zone> {
        let mut zones = lock(&ZONES);
        let zones = zones.get_or_insert_default();
        let name = (path.family, path.name.clone(), path.directory.clone());
        let zone = zones.entry(name).or_insert_with(|| {
            let store = store::open_in_blocks(&path.directory, path.limits.bytes_max);
            Arc::new(Zone::new(path.name.clone(), store, path.limits))
        });
        Arc::clone(zone)
    }

    fn new(name: Box<[u8]>, store: Arc<Store>, limits: Limits) -> Zone {
        store.set_limits(limits.bytes_max, limits.entries);
        let expected = usize::try_from(limits.memory / USUAL_BYTES).unwrap_or(usize::MAX);
        Zone {
            name,
            store,
            inactive: AtomicU64::new(limits.inactive),
            bytes_free_min: AtomicU64::new(limits.bytes_free_min),
            memory: Cache::with_weighter(expected.max(16), limits.memory, Weight),
            flights: Default::default(),
            failures: Mutex::default(),
            uses: Mutex::default(),
            bans: Bans::default(),
            is_clearing: AtomicBool::new(false),
            told: Mutex::default(),
            is_kept_up: AtomicBool::new(false),
        }
    }

    /// From now on with these limits.
    pub fn set_limits(&self, limits: Limits) {
        self.store.set_limits(limits.bytes_max, limits.entries);
        self.inactive.store(limits.inactive, Ordering::Relaxed);
        self.bytes_free_min
            .store(limits.bytes_free_min, Ordering::Relaxed);
        if self.memory.capacity() != limits.memory {
            self.memory.set_capacity(limits.memory);
        }
    }

    /// The response of a key, in the variant that `variant_of` makes of a Vary, and the key of that variant, under which
    /// it is or would be. Waits for the disk off the thread.
    pub async fn find(
        self: &Arc<Self>,
        text: &Bytes,
        variant_of: impl Fn(&[u8]) -> u64,
    ) -> (Option<Kept>, Bytes) {
        let Some(first) = self.find_text(text).await else {
            return (None, text.clone());
        };
        let facts = &first.entry.facts;
        if facts.vary.is_empty() {
            return (Some(first), text.clone());
        }
        let variant = variant_of(&facts.vary);
        if variant == facts.variant {
            return (Some(first), text.clone());
        }
        let own_text = variant_text(text, variant);
        let other = self.find_text(&own_text).await;
        let other = other.filter(|other| other.entry.facts.variant == variant);
        (other, own_text)
    }

    /// The entry of exactly this text, if it is in memory whole.
    #[must_use]
    pub fn in_memory(&self, text: &[u8]) -> Option<Arc<Entry>> {
        let entry = self.memory.get(&Key::of(text))?;
        (entry.text == text && entry.body.is_some()).then_some(entry)
    }

    /// The entry of a key in memory, unless it was purged.
    #[must_use]
    pub fn current(&self, key: Key) -> Option<Arc<Entry>> {
        let entry = self.memory.get(&key)?;
        (self.bans.verdict(&entry) == Verdict::Holds).then_some(entry)
    }

    async fn find_text(self: &Arc<Self>, text: &Bytes) -> Option<Kept> {
        if let Some(entry) = self.in_memory(text) {
            return match self.outlives_purges(&entry) {
                true => Some(Kept { entry, file: None }),
                false => {
                    self.remove(entry.key());
                    None
                }
            };
        }
        let key = Key::of(text);
        let slot = match self.store.find(key) {
            Some(slot) => slot,
            None if self.store.is_scanned() => return None,
            None => {
                let zone = Arc::clone(self);
                let look = move || zone.store.find_on_disk(key);
                tokio::task::spawn_blocking(look).await.ok()??
            }
        };
        let fetched = match self.store.fetch(&slot, MEMORY_BODY_MAX, Reading::Cached) {
            Ok(None) => {
                let (zone, slot) = (Arc::clone(self), Arc::clone(&slot));
                let cold = move || zone.store.fetch(&slot, MEMORY_BODY_MAX, Reading::Blocking);
                tokio::task::spawn_blocking(cold).await.ok()?
            }
            other => other,
        };
        match fetched {
            Ok(Some(fetched)) => self.adopt(text, slot, fetched),
            Ok(None) => None,
            Err(error) => {
                self.complain("read", &error);
                None
            }
        }
    }

    /// Makes an entry of what the store gave.
    fn adopt(self: &Arc<Self>, text: &[u8], slot: Arc<Slot>, fetched: Fetched) -> Option<Kept> {
        let (head, body, file) = match fetched {
            Fetched::Memory { head, body } => (head, Some(body), None),
            Fetched::File { head, file } => {
                let file = BodyFile {
                    file,
                    offset: head.bytes(),
                    length: head.body_bytes,
                };
                (head, None, Some(Arc::new(file)))
            }
        };
        if *head.text != *text {
            return None;
        }
        let facts = Facts::decode(&head.metadata);
        let entry = facts.and_then(|facts| Entry::new(Bytes::from(head.text), facts, body));
        let Some(entry) = entry else {
            self.store.remove(&slot);
            return None;
        };
        let key = slot.key;
        let _first = entry.slot.set(slot);
        let entry = Arc::new(entry);
        if !self.outlives_purges(&entry) {
            self.remove(key);
            return None;
        }
        if file.is_none() {
            self.memory.insert(key, Arc::clone(&entry));
        }
        Some(Kept { entry, file })
    }

    /// Keeps a response that is whole in memory; the disk gets it off the thread.
    pub fn keep(self: &Arc<Self>, entry: Arc<Entry>) {
        let key = entry.key();
        lock(&self.failures).remove(&key);
        entry.number.store(bans::next_number(), Ordering::Relaxed);
        self.memory.insert(key, Arc::clone(&entry));
        let zone = Arc::clone(self);
        // Nobody waits for it.
        drop(tokio::task::spawn_blocking(move || {
            let body = entry.body.as_deref().unwrap_or_default();
            match zone.store.put(&entry.text, &entry.facts.encode(), 0, body) {
                Ok(slot) => drop(entry.slot.set(slot)),
                Err(error) => zone.complain("write", &error),
            }
        }));
    }

    /// Keeps a response whose file was written while it came.
    pub fn adopt_written(&self, entry: &Arc<Entry>, slot: Arc<Slot>) {
        let key = slot.key;
        lock(&self.failures).remove(&key);
        entry.number.store(bans::next_number(), Ordering::Relaxed);
        let _first = entry.slot.set(slot);
        match entry.body.is_some() {
            true => self.memory.insert(key, Arc::clone(entry)),
            false => drop(self.memory.remove(&key)),
        }
    }

    /// Writes the times of an entry that was found to hold; off the thread.
    pub fn freshened(self: &Arc<Self>, entry: &Arc<Entry>) {
        let Some(slot) = entry.slot.get().cloned() else {
            return;
        };
        let mut facts = entry.facts.clone();
        facts.times = entry.times();
        let zone = Arc::clone(self);
        drop(tokio::task::spawn_blocking(move || {
            if let Err(error) = zone.store.change(&slot, &facts.encode()) {
                zone.complain("update", &error);
            }
        }));
    }

    /// Forgets a key; whether there was something.
    pub fn remove(&self, key: Key) -> bool {
        let failure = lock(&self.failures).remove(&key).is_some();
        lock(&self.uses).remove(&key);
        let memory = self.memory.remove(&key).is_some();
        let slot = self
            .store
            .find(key)
            .or_else(|| self.store.find_on_disk(key));
        if let Some(slot) = &slot {
            self.store.remove(slot);
        }
        failure || memory || slot.is_some()
    }

    /// Whether an entry may be used as far as purges are concerned; one that was purged softly is out of date from now on.
    fn outlives_purges(self: &Arc<Self>, entry: &Arc<Entry>) -> bool {
        match self.bans.verdict(entry) {
            Verdict::Holds => true,
            Verdict::Gone => false,
            Verdict::OutOfDate(second) => {
                entry.set_times(out_of_date(entry.times(), second));
                self.freshened(entry);
                true
            }
        }
    }

    /// Drops a key, in all its variants; whether there was something.
    pub fn purge(self: &Arc<Self>, text: &[u8]) -> bool {
        let key = Key::of(text);
        let varies = (self.memory.get(&key)).is_none_or(|entry| !entry.facts.vary.is_empty());
        let was = self.remove(key);
        if was && varies {
            self.purge_prefix(&[text, VARIANT].concat());
        }
        was
    }

    /// Whether something is kept under a key, as far as that is known at once.
    #[must_use]
    pub fn knows(&self, text: &[u8]) -> bool {
        let key = Key::of(text);
        self.memory.get(&key).is_some()
            || self.store.find(key).is_some()
            || self.store.find_on_disk(key).is_some()
    }

    /// Drops all keys that begin so.
    pub fn purge_prefix(self: &Arc<Self>, prefix: &[u8]) {
        self.ban(What::Prefix(prefix.into()), false);
    }

    /// From now on nothing that is meant is used, or if it is `soft`, only as what is out of date; the disk follows in
    /// the background.
    pub fn ban(self: &Arc<Self>, what: What, soft: bool) {
        let second = i64::try_from(unix_seconds()).unwrap_or(i64::MAX);
        let number = bans::next_number();
        self.bans.add(Ban {
            what,
            second,
            number,
            soft,
        });
        lock(&self.failures).clear();
        if self.is_clearing.swap(true, Ordering::AcqRel) {
            return;
        }
        let zone = Arc::clone(self);
        let cleared = background::pool().submit(Urgency::Asked, move || zone.clear_banned());
        if cleared.is_err() {
            self.is_clearing.store(false, Ordering::Release);
        }
    }

    /// Takes off the disk what was purged, until there is nothing left that was. Blocks on the disk.
    fn clear_banned(&self) {
        loop {
            let all = self.bans.all();
            if all.is_empty() || !self.store.is_scanned() {
                // What has not been read in yet is met when it is asked for; the upkeep comes back to it.
                break;
            }
            for slot in self.store.slots() {
                self.clear_slot(&slot, &all);
            }
            if self.bans.remove(&all) {
                break;
            }
        }
        self.is_clearing.store(false, Ordering::Release);
    }

    fn clear_slot(&self, slot: &Arc<Slot>, all: &[Arc<Ban>]) {
        let Ok(Some(head)) = self.store.head_of(slot) else {
            return;
        };
        let Some(facts) = Facts::decode(&head.metadata) else {
            return;
        };
        let Some(entry) = Entry::new(Bytes::from(head.text), facts, None) else {
            return;
        };
        let in_memory = self.memory.get(&slot.key);
        if let Some(known) = &in_memory {
            let number = known.number.load(Ordering::Relaxed);
            entry.number.store(number, Ordering::Relaxed);
        }
        match bans::verdict(all, &entry) {
            Verdict::Holds => {}
            Verdict::Gone => {
                self.memory.remove(&slot.key);
                self.store.remove(slot);
            }
            Verdict::OutOfDate(second) => {
                let mut facts = entry.facts.clone();
                facts.times = out_of_date(facts.times, second);
                if let Some(entry) = in_memory {
                    entry.set_times(facts.times);
                }
                if let Err(error) = self.store.change(slot, &facts.encode()) {
                    self.complain("update", &error);
                }
            }
        }
    }

    /// Goes on with clearing where it was put off.
    pub fn keep_clearing(self: &Arc<Self>) {
        if self.bans.any() && !self.is_clearing.swap(true, Ordering::AcqRel) {
            self.clear_banned();
        }
    }

    /// Drops what was not used for `inactive`, of some parts of the store: all have had their turn in a part of that
    /// time. A part is looked at without touching the disk.
    pub fn drop_inactive(&self, parts: impl Iterator<Item = u16>) {
        let inactive = self.inactive.load(Ordering::Relaxed);
        let since = unix_seconds().saturating_sub(inactive);
        for slot in parts.flat_map(|part| self.store.unused_since(part, since)) {
            self.memory.remove(&slot.key);
            lock(&self.uses).remove(&slot.key);
            self.store.remove(&slot);
        }
        let now = i64::try_from(unix_seconds()).unwrap_or(i64::MAX);
        lock(&self.failures).retain(|_, (_, until)| *until >= now);
    }

    /// Drops what is used least where the file system has less than `min_free` left.
    pub fn keep_free(&self) {
        let least = self.bytes_free_min.load(Ordering::Relaxed);
        if least == 0 {
            return;
        }
        if let Ok(free) = sys::file::free_bytes(self.store.directory())
            && free < least
        {
            self.store.free_up(least - free);
        }
    }

    /// The failure that is kept for a key.
    #[must_use]
    pub fn failure(&self, key: Key, now: i64) -> Option<u16> {
        let failures = lock(&self.failures);
        let (status, until) = *failures.get(&key)?;
        (until >= now).then_some(status)
    }

    /// Keeps a failure, in place of the response that was kept before.
    pub fn keep_failure(&self, key: Key, status: u16, until: i64) {
        drop(self.memory.remove(&key));
        if let Some(slot) = self.store.find(key) {
            self.store.remove(&slot);
        }
        let mut failures = lock(&self.failures);
        if failures.len() >= COUNTED_MAX {
            failures.clear();
        }
        failures.insert(key, (status, until));
    }

    /// Counts a use of a key that is not kept; how many there were.
    pub fn count_use(&self, key: Key) -> u64 {
        let mut uses = lock(&self.uses);
        if uses.len() >= COUNTED_MAX {
            uses.clear();
        }
        let count = uses.entry(key).or_insert(0);
        *count += 1;
        *count
    }

    fn flights(&self, key: Key) -> MutexGuard<'_, Table<Arc<Flight>>> {
        lock(&self.flights[key.part(PARTS)])
    }

    /// Who fetches a key, if anybody does.
    #[must_use]
    pub fn flight(&self, key: Key) -> Option<Arc<Flight>> {
        self.flights(key).get(&key).cloned()
    }

    /// Begins to lead the fetch of a key; `None` if somebody else does, unless he is to be `replaced`.
    pub fn lead(self: &Arc<Self>, key: Key, replaces: bool) -> Option<Lead> {
        let mut flights = self.flights(key);
        if !replaces && flights.contains_key(&key) {
            return None;
        }
        let flight = Flight::new();
        flights.insert(key, Arc::clone(&flight));
        Some(Lead::new(Arc::clone(self), key, flight))
    }

    /// A fetch has come to its end.
    pub fn land(&self, key: Key, flight: &Arc<Flight>) {
        let mut flights = self.flights(key);
        if flights
            .get(&key)
            .is_some_and(|known| Arc::ptr_eq(known, flight))
        {
            flights.remove(&key);
        }
    }

    /// Says what the disk refused, once a minute for each cause.
    pub fn complain(&self, what: &str, error: &io::Error) {
        let cause = format!("{what}: {}", Errno(error));
        let now = Instant::now();
        let mut told = lock(&self.told);
        told.retain(|(_, since)| now.duration_since(*since) < TOLD_AGAIN);
        if told.iter().any(|(known, _)| *known == cause) || told.len() >= CAUSES_MAX {
            return;
        }
        told.push((cause, now));
        drop(told);
        let name = String::from_utf8_lossy(&self.name);
        let directory = self.store.directory().display();
        write(
            Level::Critical,
            format_args!(
                "cache \"{name}\" could not {what} an entry in \"{directory}\" ({})",
                Errno(error)
            ),
        );
    }

    /// Seconds of the clock that uses are noted in.
    #[must_use]
    pub fn now() -> u64 {
        unix_seconds()
    }
}
