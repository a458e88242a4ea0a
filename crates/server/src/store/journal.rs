//! What a store knows of its entries, kept on the disk as well, so that a start needs no look at every file: a file of
//! records, to which what comes and goes is appended now and then. Each record has a hash of its own: what a crash cut off
//! or the disk has changed ends what is believed.
//!
//! | bytes of a record | what |
//! | --- | --- |
//! | 16 | the key; of a mark, 0 |
//! | 8 | bytes of the entry's file; `GONE`, `SEALED` or `OPENED` |
//! | 8 | the group |
//! | 4 | when it was used last, in seconds since 1970 |
//! | 4 | nothing |
//! | 8 | XXH3 of what stands before |
//!
//! A clean stop ends the file with a seal; whoever opens it writes a mark behind that. So a file that does not end with a
//! seal may lack what came last: the names in the directory are compared with it.

use super::index::{PARTS, Slot};
use super::key::Key;
use super::{Store, format, writer};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The file's name; no entry has such a one.
pub const NAME: &str = "index";
/// Another number for another form: what has it is not read.
const MAGIC: [u8; 16] = *b"GANNET-INDEX-001";
const RECORD: usize = 48;
const HASH_AT: usize = 40;
/// Records that are read at once.
const BATCH: usize = 4096;
/// Bytes that wait to be written at most.
const PENDING_MAX: usize = 1 << 20;
/// Records that may say nothing any more before the file is written anew.
const IDLE_MAX: usize = 65_536;

const GONE: u64 = u64::MAX;
const SEALED: u64 = u64::MAX - 1;
const OPENED: u64 = u64::MAX - 2;

/// The file of a store, and what is not in it yet.
#[derive(Default)]
pub struct Journal {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    file: Option<File>,
    pending: Vec<u8>,
    /// In the file.
    records: usize,
    /// The file is being written anew: what comes waits.
    is_rewriting: bool,
    /// The process ends: nobody will come to write what waits.
    is_closed: bool,
}

/// What a file told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// All there is.
    Everything,
    /// All but what came last, or nothing.
    Something,
}

impl Journal {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an entry that came.
    pub fn came(&self, slot: &Slot) {
        self.note(slot.key, slot.bytes, slot.group, slot.used());
    }

    /// Notes one that went.
    pub fn went(&self, key: Key) {
        self.note(key, GONE, 0, 0);
    }

    fn note(&self, key: Key, bytes: u64, group: u64, used: u64) {
        let mut state = self.lock();
        if state.file.is_none() {
            return;
        }
        append(&mut state.pending, key.bytes(), bytes, group, used);
        if state.is_rewriting && state.pending.len() >= PENDING_MAX {
            // The file lacks something, and is not gone on with; the next look at it writes it anew.
            state.file = None;
            state.pending = Vec::new();
        } else if state.is_closed || state.pending.len() >= PENDING_MAX {
            // An index that cannot be written is missed at the next start only.
            let _lost = state.write_out();
        }
    }
}

impl State {
    fn write_out(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            self.pending.clear();
            return Ok(());
        };
        let written = file.write_all(&self.pending);
        self.records += self.pending.len() / RECORD;
        self.pending.clear();
        if written.is_err() {
            // Half a record may stand there: nothing may follow it.
            self.file = None;
        }
        written
    }
}

impl Store {
    fn journal_path(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    /// Takes into the index what the file of the last process tells, and goes on with the file. Blocks on the disk.
    pub fn load_journal(&self) -> Told {
        let told = self.read_journal().unwrap_or(Told::Something);
        let mut file = match told {
            Told::Everything => File::options().append(true).open(self.journal_path()).ok(),
            Told::Something => None,
        };
        if let Some(open) = &mut file {
            let mut mark = Vec::with_capacity(RECORD);
            append(&mut mark, [0; 16], OPENED, 0, 0);
            if open.write_all(&mark).is_err() {
                file = None;
            }
        }
        if file.is_some() {
            let mut state = self.journal.lock();
            state.file = file;
            state.records = self.entries();
            drop(state);
            self.scanned.store(true, Ordering::Release);
            return Told::Everything;
        }
        // From now on it is written anew; a seal of before must not be believed any more.
        let _unwritable = self.rewrite_journal();
        Told::Something
    }

    fn read_journal(&self) -> io::Result<Told> {
        let mut file = File::open(self.journal_path())?;
        let mut magic = [0; MAGIC.len()];
        file.read_exact(&mut magic)?;
        if magic != MAGIC {
            return Ok(Told::Something);
        }
        let mut told = Told::Something;
        let mut batch = vec![0; BATCH * RECORD];
        loop {
            let filled = fill(&mut file, &mut batch)?;
            let (records, cut) = batch
                .get(..filled)
                .unwrap_or_default()
                .as_chunks::<RECORD>();
            for record in records {
                match self.take_record(record) {
                    Some(now) => told = now,
                    None => return Ok(Told::Something),
                }
            }
            if !cut.is_empty() {
                return Ok(Told::Something);
            }
            if filled < batch.len() {
                return Ok(told);
            }
        }
    }

    /// What is known when this record is the last one; `None`: it is broken.
    fn take_record(&self, record: &[u8; RECORD]) -> Option<Told> {
        if number(record, HASH_AT)? != format::hash(record.get(..HASH_AT)?) {
            return None;
        }
        let key = Key::from_bytes(*record.first_chunk()?);
        match number(record, 16)? {
            SEALED => return Some(Told::Everything),
            OPENED => {}
            GONE => {
                if let Some(slot) = self.find(key) {
                    self.index.remove(&slot);
                }
            }
            bytes => {
                let group = number(record, 24)?;
                let used = number(record, 32)? & u64::from(u32::MAX);
                let slot = self.slot(key, bytes, group, used, false);
                // What this process wrote meanwhile is newer.
                if self.find(key).is_none_or(|known| !known.is_checked()) {
                    self.index.insert(slot);
                }
            }
        }
        Some(Told::Something)
    }

    /// Writes what waits, and the whole file anew where most of it says nothing any more. Blocks on the disk.
    pub fn keep_journal(&self) {
        let mut state = self.journal.lock();
        if state.is_closed {
            return;
        }
        let _lost = state.write_out();
        let is_long = state.records > 2 * self.entries() + IDLE_MAX;
        let is_missing = state.file.is_none() && self.is_scanned();
        drop(state);
        if is_long || is_missing {
            let _unwritable = self.rewrite_journal();
        }
    }

    /// Writes the file anew: under another name first, so that there is always a whole one. Blocks on the disk.
    pub fn rewrite_journal(&self) -> io::Result<()> {
        // What comes from here on is noted behind what is written now, and counts.
        {
            let mut state = self.journal.lock();
            if state.is_closed {
                return Ok(());
            }
            state.file = None;
            state.pending.clear();
        }
        let (mut file, path) = writer::create_file(&self.directory)?;
        let written = file.try_clone().and_then(|clone| {
            let mut state = self.journal.lock();
            state.file = Some(clone);
            state.is_rewriting = true;
            drop(state);
            self.write_all(&mut file)
        });
        let named = written.and_then(|records| {
            std::fs::rename(&path, self.journal_path())?;
            Ok(records)
        });
        let mut state = self.journal.lock();
        state.is_rewriting = false;
        match named {
            Ok(records) => {
                state.records = records;
                state.write_out()
            }
            Err(error) => {
                state.file = None;
                state.pending.clear();
                drop(state);
                // The next scan removes what could not be removed now.
                let _left = std::fs::remove_file(path);
                Err(error)
            }
        }
    }

    fn write_all(&self, file: &mut File) -> io::Result<usize> {
        file.write_all(&MAGIC)?;
        let mut records = 0;
        let mut bytes = Vec::new();
        for part in 0..PARTS {
            bytes.clear();
            for slot in self.index.of_part(part, |_| true) {
                append(
                    &mut bytes,
                    slot.key.bytes(),
                    slot.bytes,
                    slot.group,
                    slot.used(),
                );
                records += 1;
            }
            file.write_all(&bytes)?;
        }
        Ok(records)
    }

    /// The process ends: what is known is on the disk, and sealed if it is all there is. What is noted from now on is
    /// written at once, and breaks the seal.
    pub fn close_journal(&self) {
        let mut state = self.journal.lock();
        if state.file.is_none() || state.is_closed {
            return;
        }
        if self.is_scanned() {
            append(&mut state.pending, [0; 16], SEALED, 0, 0);
        }
        let _lost = state.write_out();
        state.is_closed = true;
    }
}

fn append(out: &mut Vec<u8>, key: [u8; 16], bytes: u64, group: u64, used: u64) {
    let start = out.len();
    out.extend_from_slice(&key);
    out.extend_from_slice(&bytes.to_le_bytes());
    out.extend_from_slice(&group.to_le_bytes());
    out.extend_from_slice(&(used & u64::from(u32::MAX)).to_le_bytes());
    let own = format::hash(out.get(start..).unwrap_or_default());
    out.extend_from_slice(&own.to_le_bytes());
}

fn number(record: &[u8], at: usize) -> Option<u64> {
    let field = record.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*field))
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Folder;
    use super::*;

    fn names(store: &Store) -> Vec<String> {
        let mut names: Vec<String> = store.slots().iter().map(|slot| slot.key.name()).collect();
        names.sort();
        names
    }

    fn put(store: &Store, number: u32) {
        let body = vec![0; number as usize % 50];
        store
            .put(&number.to_le_bytes(), b"", 3, &body)
            .expect("room");
    }

    fn stopped(folder: &Folder) -> (Store, Vec<String>) {
        let store = Store::new(&folder.0, 1 << 30);
        assert_eq!(store.load_journal(), Told::Something, "there was none");
        super::super::tests::scan(&store);
        (0..300).for_each(|number| put(&store, number));
        (0..100).for_each(|number| put(&store, number));
        for number in 50..80u32 {
            let slot = store.find(Key::of(&number.to_le_bytes())).expect("kept");
            store.remove(&slot);
        }
        let known = names(&store);
        assert_eq!(known.len(), 270);
        store.close_journal();
        (store, known)
    }

    #[test]
    fn a_start_after_a_clean_stop_knows_everything() {
        let folder = Folder::new("journal");
        let (store, known) = stopped(&folder);
        let next = Store::new(&folder.0, 1 << 30);
        assert_eq!(next.load_journal(), Told::Everything);
        assert!(next.is_scanned());
        assert_eq!((names(&next), next.bytes()), (known.clone(), store.bytes()));
        assert_eq!(next.index.group(3).len(), 270);
        // It was not stopped: the seal is broken, but what was known still is.
        drop(next);
        let last = Store::new(&folder.0, 1 << 30);
        assert_eq!(last.load_journal(), Told::Something);
        assert!(!last.is_scanned());
        assert_eq!(names(&last), known);
        super::super::tests::scan(&last);
        assert!(last.is_scanned());
        assert_eq!(names(&last), known);
    }

    #[test]
    fn what_is_noted_after_the_end_breaks_the_seal() {
        let folder = Folder::new("journal-late");
        let (store, known) = stopped(&folder);
        put(&store, 1000);
        let next = Store::new(&folder.0, 1 << 30);
        assert_eq!(next.load_journal(), Told::Something);
        assert_eq!(names(&next).len(), known.len() + 1);
    }

    #[test]
    fn a_broken_file_is_believed_up_to_the_break() {
        let folder = Folder::new("journal-broken");
        let (_store, known) = stopped(&folder);
        let path = folder.0.join(NAME);
        let whole = std::fs::read(&path).expect("written");
        let mut broken: Vec<Vec<u8>> = Vec::new();
        for at in (0..whole.len()).step_by(977) {
            broken.push(whole[..at].to_vec());
            let mut changed = whole.clone();
            changed[at] ^= 16;
            broken.push(changed);
        }
        for bytes in broken {
            std::fs::write(&path, &bytes).expect("writable");
            let store = Store::new(&folder.0, 1 << 30);
            assert_eq!(
                store.load_journal(),
                Told::Something,
                "{} bytes",
                bytes.len()
            );
            super::super::tests::scan(&store);
            assert_eq!(names(&store), known, "{} bytes", bytes.len());
        }
    }

    #[test]
    fn the_file_does_not_grow_without_end() {
        let folder = Folder::new("journal-long");
        let store = Store::new(&folder.0, 1 << 30);
        store.load_journal();
        put(&store, 1);
        let slot = store.find(Key::of(&1u32.to_le_bytes())).expect("kept");
        for _ in 0..2 * IDLE_MAX {
            store.journal.came(&slot);
        }
        store.keep_journal();
        let size = std::fs::metadata(folder.0.join(NAME)).expect("there").len();
        assert_eq!(size, (MAGIC.len() + RECORD) as u64);
        put(&store, 2);
        store.keep_journal();
        let next = Store::new(&folder.0, 1 << 30);
        assert_eq!(next.load_journal(), Told::Something);
        assert_eq!(next.entries(), 2);
    }
}
