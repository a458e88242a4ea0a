//! What the disk holds when the process starts: one part of the directory at a time, so that others get their turn.

use super::format::Head;
use super::index::Slot;
use super::key::Key;
use super::writer::{TEMPORARY, is_abandoned};
use super::{Reading, Store, unix_seconds};
use std::collections::HashSet;
use std::fs::DirEntry;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Parts of a directory: its subdirectories.
pub const PARTS: u16 = 256;

impl Store {
    /// Takes into the index what lies in one part of the directory and `keep` wants, and removes all else there that is
    /// the store's. The last part makes the scan whole. Blocks on the disk.
    pub fn scan_part(&self, part: u16, keep: impl Fn(&Head) -> bool) {
        if part == 0 {
            self.remove_abandoned();
        }
        let directory = self.directory.join(format!("{part:02x}"));
        let mut seen = HashSet::new();
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            seen.extend(self.scan_entry(&entry, &keep));
        }
        // What an index told of that is not there. What this process wrote or has looked at is.
        let is_missing = |slot: &Slot| !slot.is_checked() && !seen.contains(&slot.key);
        for slot in self.index.of_part(usize::from(part), is_missing) {
            self.index.remove(&slot);
            self.journal.went(slot.key);
        }
        if part + 1 >= PARTS {
            self.scanned.store(true, Ordering::Relaxed);
        }
    }

    /// The key of an entry's file.
    fn scan_entry(&self, entry: &DirEntry, keep: &impl Fn(&Head) -> bool) -> Option<Key> {
        // What is not named as an entry is not ours.
        let key = entry.file_name().to_str().and_then(Key::parse)?;
        if self.find(key).is_some() {
            return Some(key);
        }
        let path = entry.path();
        let file = sys::file::open(&path).ok()?;
        let head = self.read_head(&file, key, Reading::Blocking).ok().flatten();
        match head.filter(|head| keep(head)) {
            Some(head) => {
                let slot = self.slot(key, head.file_bytes(), head.group, used(entry), false);
                let _known: Arc<Slot> = self.adopt(slot);
            }
            // It was broken, or is no longer wanted; the next scan may try again.
            None => drop(std::fs::remove_file(path)),
        }
        Some(key)
    }

    fn remove_abandoned(&self) {
        let now = unix_seconds();
        for entry in std::fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| name.starts_with(TEMPORARY)) else {
                continue;
            };
            if is_abandoned(name, now.saturating_sub(used(&entry))) {
                // The next scan may try again.
                let _left = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// When an entry was written, which is as near to its last use as the disk knows; in seconds since 1970.
fn used(entry: &DirEntry) -> u64 {
    let status = entry.metadata().map(|data| sys::file::Status::from(&data));
    status.map_or(0, |status| {
        status.identity.modified_seconds().max(0).unsigned_abs()
    })
}
