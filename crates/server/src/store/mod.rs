//! The variant store (DESIGN decision 8): entries of a key, metadata and a body, each a file of one directory. An entry is
//! whole or not there, whenever the process ends: it gets its name when it is written, and its head and body carry hashes,
//! which are compared before the first use after a start. A size limit is kept by dropping what is used least
//! (`queue.rs`).
//!
//! Nothing here waits for a lock while it touches a file. What calls the disk says so; network threads use `fetch` with
//! `Reading::Cached`, which only takes what the page cache holds.

pub mod format;
pub mod index;
mod journal;
pub mod key;
mod queue;
mod scan;
pub mod table;
mod writer;

pub use format::Head;
pub use index::Slot;
pub use journal::Told;
pub use key::Key;
pub use scan::PARTS as SCAN_PARTS;
pub use writer::Writer;

use bytes::Bytes;
use index::{ENTRIES_MAX, Index};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use sys::io::Cached;

/// Bytes of a head that are read at once; few heads are longer.
const HEAD_READ: usize = 4096;
/// Bytes of a body that are read at once where it is only hashed.
const PIECE: usize = 64 * 1024;

/// What most file systems give out at once.
const BLOCK: u64 = 4096;

/// A directory of entries.
pub struct Store {
    directory: PathBuf,
    bytes_max: AtomicU64,
    entries_max: AtomicUsize,
    /// What files take up is counted in these.
    block: u64,
    index: Index,
    journal: journal::Journal,
    version: AtomicU64,
    scanned: AtomicBool,
    evicted: AtomicU64,
}

/// How far a read may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Only what the page cache holds: for network threads.
    Cached,
    /// Wait for the disk.
    Blocking,
}

/// An entry that was opened, its body known to be whole.
#[derive(Debug)]
pub enum Fetched {
    Memory {
        head: Head,
        body: Bytes,
    },
    /// The body stands in the file from `head.bytes()` on.
    File {
        head: Head,
        file: File,
    },
}

/// The stores of the process by directory; they outlive reloads.
static STORES: Mutex<Option<HashMap<PathBuf, Arc<Store>>>> = Mutex::new(None);

/// The process's store in `directory`, from now on with this limit. Touches no file.
#[must_use]
pub fn open(directory: &Path, bytes_max: u64) -> Arc<Store> {
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    let stores = stores.get_or_insert_default();
    let store = stores
        .entry(directory.to_path_buf())
        .or_insert_with(|| Arc::new(Store::new(directory, bytes_max)));
    store.bytes_max.store(bytes_max, Ordering::Relaxed);
    Arc::clone(store)
}

/// The same for a store whose files count by the blocks they take up.
#[must_use]
pub fn open_in_blocks(directory: &Path, bytes_max: u64) -> Arc<Store> {
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    let stores = stores.get_or_insert_default();
    let store = stores.entry(directory.to_path_buf()).or_insert_with(|| {
        let mut store = Store::new(directory, bytes_max);
        store.block = BLOCK;
        Arc::new(store)
    });
    store.bytes_max.store(bytes_max, Ordering::Relaxed);
    Arc::clone(store)
}

/// The process ends: what the stores know is written down.
pub fn close_all() {
    all().iter().for_each(|store| store.close_journal());
}

/// The process's stores, in the order of their names.
#[must_use]
pub fn all() -> Vec<Arc<Store>> {
    let stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all: Vec<Arc<Store>> = stores
        .iter()
        .flatten()
        .map(|(_, store)| Arc::clone(store))
        .collect();
    all.sort_by(|one, other| one.directory.cmp(&other.directory));
    all
}

impl Store {
    #[must_use]
    pub fn new(directory: &Path, bytes_max: u64) -> Store {
        Store {
            directory: directory.to_path_buf(),
            bytes_max: AtomicU64::new(bytes_max),
            entries_max: AtomicUsize::new(ENTRIES_MAX),
            block: 1,
            index: Index::default(),
            journal: journal::Journal::default(),
            version: AtomicU64::new(0),
            scanned: AtomicBool::new(false),
            evicted: AtomicU64::new(0),
        }
    }

    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// From now on with these limits.
    pub fn set_limits(&self, bytes_max: u64, entries_max: usize) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        self.entries_max.store(entries_max, Ordering::Relaxed);
        self.make_room();
    }

    /// Every entry of a part that was not used since `second`, counted since 1970.
    #[must_use]
    pub fn unused_since(&self, part: u16, second: u64) -> Vec<Arc<Slot>> {
        let is_old = |slot: &Slot| slot.used() < second;
        self.index.of_part(usize::from(part), is_old)
    }

    /// Every entry.
    #[must_use]
    pub fn slots(&self) -> Vec<Arc<Slot>> {
        let parts = 0..index::PARTS;
        parts
            .flat_map(|part| self.index.of_part(part, |_| true))
            .collect()
    }

    /// Drops what is used least until so many bytes are free that were not, or there is nothing left.
    pub fn free_up(&self, bytes: u64) {
        let most = self.bytes().saturating_sub(bytes);
        while let Some(slot) = self.index.surplus(most, usize::MAX) {
            self.remove(&slot);
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn slot(&self, key: Key, bytes: u64, group: u64, used: u64, checked: bool) -> Arc<Slot> {
        Slot::in_blocks(key, bytes, group, used, checked, self.block)
    }

    /// Changes whenever an entry comes: what was not found need not be looked for again before that.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    #[must_use]
    pub fn entries(&self) -> usize {
        self.index.entries()
    }

    /// Of the entries' files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.index.bytes()
    }

    /// Entries that went to make room.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Whether all that was on the disk at the start is in the index.
    #[must_use]
    pub fn is_scanned(&self) -> bool {
        self.scanned.load(Ordering::Relaxed)
    }

    /// What is known of a key; no look at the disk.
    #[must_use]
    pub fn find(&self, key: Key) -> Option<Arc<Slot>> {
        self.index.find(key)
    }

    /// Whether the directory is there and can be written to; it is made if it is missing. Blocks on the disk.
    pub fn prepare(&self) -> io::Result<()> {
        writer::probe(&self.directory)
    }

    /// Begins an entry; blocks on the disk.
    pub fn writer(&self, text: &[u8], metadata: &[u8], group: u64) -> io::Result<Writer> {
        Writer::create(self, text, metadata, group)
    }

    /// Writes an entry; blocks on the disk.
    pub fn put(
        &self,
        text: &[u8],
        metadata: &[u8],
        group: u64,
        body: &[u8],
    ) -> io::Result<Arc<Slot>> {
        let mut writer = self.writer(text, metadata, group)?;
        writer.write(body)?;
        writer.finish(self)
    }

    /// An entry that the scan has not come to yet, if the disk has it; blocks on the disk.
    #[must_use]
    pub fn find_on_disk(&self, key: Key) -> Option<Arc<Slot>> {
        if let Some(slot) = self.find(key) {
            return Some(slot);
        }
        if self.is_scanned() {
            return None;
        }
        let file = sys::file::open(&self.path(key)).ok()?;
        let head = self.read_head(&file, key, Reading::Blocking).ok()??;
        let slot = self.slot(key, head.file_bytes(), head.group, unix_seconds(), false);
        Some(self.adopt(slot))
    }

    /// Opens an entry, with its body in memory if the whole file has at most `memory_max` bytes. `Ok(None)`: not without
    /// waiting for the disk. After an error the entry is gone: its file was missing or broken.
    pub fn fetch(
        &self,
        slot: &Arc<Slot>,
        memory_max: u64,
        reading: Reading,
    ) -> io::Result<Option<Fetched>> {
        let fetched = self.try_fetch(slot, memory_max, reading);
        if fetched.is_err() {
            self.remove(slot);
        }
        fetched
    }

    fn try_fetch(
        &self,
        slot: &Arc<Slot>,
        memory_max: u64,
        reading: Reading,
    ) -> io::Result<Option<Fetched>> {
        let file = sys::file::open(&self.path(slot.key))?;
        if slot.bytes > memory_max {
            let Some(head) = self.read_head(&file, slot.key, reading)? else {
                return Ok(None);
            };
            if !slot.is_checked() {
                if reading == Reading::Cached {
                    return Ok(None);
                }
                check_body(&file, &head)?;
                slot.set_checked();
            }
            return Ok(Some(Fetched::File { head, file }));
        }
        let size = usize::try_from(slot.bytes).map_err(io::Error::other)?;
        let mut bytes = vec![0; size];
        if !read_at(&file, &mut bytes, 0, reading)? {
            return Ok(None);
        }
        let head = decode(&bytes, slot.key, slot.bytes)?;
        let body = Bytes::from(bytes).slice(head.bytes() as usize..);
        if !slot.is_checked() {
            if format::hash(&body) != head.body_hash {
                return Err(broken());
            }
            slot.set_checked();
        }
        Ok(Some(Fetched::Memory { head, body }))
    }

    /// `None`: not without waiting for the disk.
    fn read_head(&self, file: &File, key: Key, reading: Reading) -> io::Result<Option<Head>> {
        let size = sys::file::status(file)?.identity.size;
        let mut bytes = vec![0; HEAD_READ.min(usize::try_from(size).unwrap_or(HEAD_READ))];
        if !read_at(file, &mut bytes, 0, reading)? {
            return Ok(None);
        }
        let length = Head::length(&bytes).map_err(|_| broken())?;
        if length > bytes.len() {
            bytes.resize(length, 0);
            if !read_at(file, &mut bytes, 0, reading)? {
                return Ok(None);
            }
        }
        decode(&bytes, key, size).map(Some)
    }

    /// The head of an entry; blocks on the disk.
    pub fn head_of(&self, slot: &Slot) -> io::Result<Option<Head>> {
        let file = sys::file::open(&self.path(slot.key))?;
        self.read_head(&file, slot.key, Reading::Blocking)
    }

    /// Changes the metadata of an entry to others of the same length; blocks on the disk. An entry that a crash leaves
    /// half changed is broken, and found so by its hash.
    pub fn change(&self, slot: &Slot, metadata: &[u8]) -> io::Result<()> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(self.path(slot.key))?;
        let head = self.read_head(&file, slot.key, Reading::Blocking)?;
        let Some(mut head) = head.filter(|head| head.metadata.len() == metadata.len()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        head.metadata = metadata.into();
        let bytes = head.encode().ok_or(io::ErrorKind::InvalidInput)?;
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0)
    }

    /// Drops an entry, and with one that belongs to no group those of its key's group.
    pub fn remove(&self, slot: &Arc<Slot>) {
        if !self.index.remove(slot) {
            return;
        }
        self.journal.went(slot.key);
        // One that is not there needs no removing; one that cannot be removed is overwritten or found by a scan.
        let _gone = std::fs::remove_file(self.path(slot.key));
        if slot.group == 0 {
            self.remove_group(slot.key.group(), |_| true);
        }
    }

    /// The entries of a group.
    #[must_use]
    pub fn group(&self, group: u64) -> Vec<Arc<Slot>> {
        self.index.group(group)
    }

    /// Drops the entries of a group; how many there were.
    pub fn remove_group(&self, group: u64, which: impl Fn(&Slot) -> bool) -> usize {
        let slots = self.index.group(group);
        let doomed = slots.iter().filter(|slot| which(slot));
        doomed.map(|slot| self.remove(slot)).count()
    }

    fn path(&self, key: Key) -> PathBuf {
        let name = key.name();
        let mut path = self.directory.join(name.get(..2).unwrap_or_default());
        path.push(name);
        path
    }

    fn adopt(&self, slot: Arc<Slot>) -> Arc<Slot> {
        self.journal.came(&slot);
        let slot = self.index.adopt(slot);
        self.make_room();
        self.version.fetch_add(1, Ordering::AcqRel);
        slot
    }

    fn added(&self, slot: Arc<Slot>) {
        self.index.insert(Arc::clone(&slot));
        self.journal.came(&slot);
        self.make_room();
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    fn make_room(&self) {
        let entries_max = self.entries_max.load(Ordering::Relaxed);
        while let Some(slot) = self.index.surplus(self.bytes_max(), entries_max) {
            self.remove(&slot);
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Seconds since 1970: what uses are noted in.
#[must_use]
pub fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the entry is broken")
}

fn decode(bytes: &[u8], key: Key, file_bytes: u64) -> io::Result<Head> {
    match Head::decode(bytes) {
        Ok(head) if head.has_key(key) && head.file_bytes() == file_bytes => Ok(head),
        _ => Err(broken()),
    }
}

/// Fills `buffer`; false if that would mean to wait for the disk. A file that is too short is an error.
fn read_at(file: &File, buffer: &mut [u8], offset: u64, reading: Reading) -> io::Result<bool> {
    if reading == Reading::Cached {
        return match sys::io::pread_cached(file, buffer, offset)? {
            Cached::Read(count) if count == buffer.len() => Ok(true),
            _ => Ok(false),
        };
    }
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match sys::io::pread(file, rest, offset + filled as u64)? {
            0 => return Err(broken()),
            count => filled += count,
        }
    }
    Ok(true)
}

/// Compares the body's hash, piece by piece.
fn check_body(file: &File, head: &Head) -> io::Result<()> {
    let mut hasher = twox_hash::XxHash3_64::with_seed(0);
    let mut piece = vec![0; PIECE];
    let (mut at, end) = (head.bytes(), head.file_bytes());
    while at < end {
        let count = PIECE.min(usize::try_from(end - at).unwrap_or(PIECE));
        read_at(file, &mut piece[..count], at, Reading::Blocking)?;
        std::hash::Hasher::write(&mut hasher, &piece[..count]);
        at += count as u64;
    }
    match std::hash::Hasher::finish(&hasher) == head.body_hash {
        true => Ok(()),
        false => Err(broken()),
    }
}

#[cfg(test)]
mod tests;
