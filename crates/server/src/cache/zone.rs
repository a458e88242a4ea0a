//! The responses of a keys_zone: on the disk in a store, small ones in memory as well, and what is being fetched. Zones are
//! the process's: they outlive reloads.

mod removal; // what goes out of it
mod way; // what is on its way to the disk

use super::bans::{self, Bans, Verdict};
use super::entry::{Entry, Facts, variant_text};
use super::flight::{Flight, Lead};
use super::forms;
use super::path::Path;
use crate::http::Body;
use crate::http::body::{FileRange, OpenFile};
use crate::log::error::{Level, write};
use crate::store::{self, Fetched, Key, Reading, Slot, Store, unix_seconds};
use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
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
/// How long the end of the process may be put off for what is on its way to the disk.
const CLOSE_MAX: Duration = Duration::from_secs(5);
/// Bytes of a body that are copied at once.
const PIECE: usize = 64 * 1024;
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

/// What is known of a key without waiting for the disk.
#[derive(Debug)]
pub enum AtOnce {
    Kept(Kept),
    Nothing,
    /// It may be on the disk.
    Cold,
}

impl Kept {
    /// The body, in memory or in its file.
    pub fn body(&self) -> io::Result<Body> {
        Ok(match (&self.entry.body, &self.file) {
            (Some(body), _) => Body::Memory(body.clone()),
            (None, Some(kept)) => Body::File(FileRange {
                file: Rc::new(OpenFile {
                    fd: kept.file.try_clone()?.into(),
                }),
                offset: kept.offset,
                length: kept.length,
            }),
            (None, None) => Body::Empty,
        })
    }
}

impl BodyFile {
    /// Makes another entry with this body. Waits for the disk.
    fn copy_to(&self, store: &Store, entry: &Entry) -> io::Result<Arc<Slot>> {
        let mut writer = store.writer(&entry.text, &entry.facts.encode(), 0)?;
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while at < self.length {
            let count = PIECE.min(usize::try_from(self.length - at).unwrap_or(PIECE));
            let read = sys::io::pread(&self.file, &mut piece[..count], self.offset + at)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            writer.write(&piece[..read])?;
            at += read as u64;
        }
        writer.finish(store)
    }
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
    /// Entries on their way to the disk, with their groups.
    writing: Mutex<Table<(Arc<Entry>, u64)>>,
    /// What they take in memory.
    writing_bytes: AtomicU64,
    /// Forms that are being made in pieces.
    making: Mutex<HashSet<Key, foldhash::fast::RandomState>>,
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

/// The process ends: what is on its way to the disk is written, as far as that takes no time.
pub fn close_all() {
    let end = Instant::now() + CLOSE_MAX;
    let zones: Vec<Arc<Zone>> = lock(&ZONES)
        .iter()
        .flat_map(|zones| zones.values().cloned())
        .collect();
    for zone in zones {
        let left: Vec<(Arc<Entry>, u64)> = lock(&zone.writing).values().cloned().collect();
        for (entry, group) in left {
            if Instant::now() < end {
                zone.write(&entry, group);
            }
        }
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
            writing: Mutex::default(),
            writing_bytes: AtomicU64::new(0),
            making: Mutex::default(),
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
        let first = self.find_text(text).await;
        let first = first.filter(|first| first.entry.facts.status != forms::STATUS);
        let Some(first) = first else {
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
        match self.find_at_once(text) {
            AtOnce::Kept(kept) => Some(kept),
            AtOnce::Nothing => None,
            AtOnce::Cold => self.find_on_disk(text).await,
        }
    }

    /// The entry of exactly this text, as far as memory and the page cache know it.
    #[must_use]
    pub fn find_at_once(self: &Arc<Self>, text: &Bytes) -> AtOnce {
        if let Some(entry) = self.in_memory(text) {
            return match self.outlives_purges(&entry) {
                true => AtOnce::Kept(Kept { entry, file: None }),
                false => {
                    self.remove(entry.key());
                    AtOnce::Nothing
                }
            };
        }
        let Some(slot) = self.store.find(Key::of(text)) else {
            return match self.store.is_scanned() {
                true => AtOnce::Nothing,
                false => AtOnce::Cold,
            };
        };
        match self.store.fetch(&slot, MEMORY_BODY_MAX, Reading::Cached) {
            Ok(None) => AtOnce::Cold,
            Ok(Some(fetched)) => {
                let kept = self.adopt(text, slot, fetched);
                kept.map_or(AtOnce::Nothing, AtOnce::Kept)
            }
            Err(error) => {
                self.complain("read", &error);
                AtOnce::Nothing
            }
        }
    }

    /// The entry of exactly this text, as the disk has it; waits for it off the thread.
    pub async fn find_on_disk(self: &Arc<Self>, text: &Bytes) -> Option<Kept> {
        let (zone, key) = (Arc::clone(self), Key::of(text));
        let look = move || {
            let slot = zone.store.find_on_disk(key)?;
            let fetched = zone.store.fetch(&slot, MEMORY_BODY_MAX, Reading::Blocking);
            Some((slot, fetched))
        };
        let (slot, fetched) = tokio::task::spawn_blocking(look).await.ok()??;
        match fetched {
            Ok(fetched) => self.adopt(text, slot, fetched?),
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
        let former = self.forms_before(&entry);
        self.put(entry, 0, former);
    }

    /// Keeps a form in the group of its response; what is large, on the disk alone.
    pub fn keep_form(self: &Arc<Self>, entry: Arc<Entry>, group: u64) {
        self.put(entry, group, Vec::new());
    }

    /// Puts an entry in memory and on the disk, and takes others off it.
    fn put(self: &Arc<Self>, entry: Arc<Entry>, group: u64, former: Vec<Arc<Slot>>) {
        let key = entry.key();
        lock(&self.failures).remove(&key);
        entry.number.store(bans::next_number(), Ordering::Relaxed);
        let length = entry.body.as_ref().map_or(0, Bytes::len) as u64;
        if group == 0 || length <= MEMORY_BODY_MAX {
            self.memory.insert(key, Arc::clone(&entry));
        }
        lock(&self.writing).insert(key, (Arc::clone(&entry), group));
        let way = way::Way::begin(self, entry.memory());
        let write = move || {
            way.zone.write(&entry, group);
            former.iter().for_each(|slot| way.zone.discard(slot));
        };
        if self.has_too_many_on_their_way() {
            return write();
        }
        // Nobody waits for it.
        drop(tokio::task::spawn_blocking(write));
    }

    /// Writes an entry to the disk, unless it was purged or another one came in its place.
    fn write(&self, entry: &Arc<Entry>, group: u64) {
        let key = entry.key();
        let own =
            |known: Option<&(Arc<Entry>, u64)>| known.map(|(known, _)| Arc::ptr_eq(known, entry));
        if own(lock(&self.writing).get(&key)) != Some(true) {
            return;
        }
        let body = entry.body.as_deref().unwrap_or_default();
        let written = self
            .store
            .put(&entry.text, &entry.facts.encode(), group, body);
        let mut writing = lock(&self.writing);
        let is_own = own(writing.get(&key));
        if is_own == Some(true) {
            writing.remove(&key);
        }
        drop(writing);
        match written {
            // Purged meanwhile.
            Ok(slot) if is_own.is_none() => self.store.remove(&slot),
            Ok(slot) => drop(entry.slot.set(slot)),
            Err(error) => self.complain("write", &error),
        }
    }

    /// Writes an entry anew with another head, its body as it stands in the file of the former one; off the thread.
    pub fn rewrite(self: &Arc<Self>, entry: &Arc<Entry>, body: &Arc<BodyFile>) {
        let (zone, entry, body) = (Arc::clone(self), Arc::clone(entry), Arc::clone(body));
        drop(tokio::task::spawn_blocking(move || {
            match body.copy_to(&zone.store, &entry) {
                Ok(slot) => {
                    entry.number.store(bans::next_number(), Ordering::Relaxed);
                    let _first = entry.slot.set(slot);
                }
                Err(error) => zone.complain("write", &error),
            }
        }));
    }

    /// The forms of the response whose place an entry takes, unless it is the same one with other fields.
    fn forms_before(&self, entry: &Entry) -> Vec<Arc<Slot>> {
        let key = entry.key();
        let is_same = |known: &Arc<Entry>| known.facts.version == entry.facts.version;
        match self.memory.get(&key).is_some_and(|known| is_same(&known)) {
            true => Vec::new(),
            false => self.store.group(key.group()),
        }
    }

    /// Keeps a form whose file was written while it was made.
    pub fn adopt_form(&self, entry: &Arc<Entry>, slot: Arc<Slot>) {
        let key = slot.key;
        entry.number.store(bans::next_number(), Ordering::Relaxed);
        let _first = entry.slot.set(slot);
        if entry.body.is_some() {
            self.memory.insert(key, Arc::clone(entry));
        }
    }

    /// Somebody begins to make a form in pieces; false if somebody does so already.
    pub fn begin_form(&self, key: Key) -> bool {
        lock(&self.making).insert(key)
    }

    /// The making of a form has ended.
    pub fn end_form(&self, key: Key) {
        lock(&self.making).remove(&key);
    }

    /// Keeps a response whose file was written while it came.
    pub fn adopt_written(&self, entry: &Arc<Entry>, slot: Arc<Slot>) {
        let key = slot.key;
        let former = self.forms_before(entry);
        former.iter().for_each(|slot| self.discard(slot));
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
            self.discard(&slot);
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
