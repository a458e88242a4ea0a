//! What the disk holds when the process starts: one part of the directory at a time, so that others get their turn.

use super::format::Head;
use super::index::Slot;
use super::key::Key;
use super::writer::{TEMPORARY, is_abandoned};
use super::{Reading, Store, unix_seconds};
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
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            self.scan_entry(&entry, &keep);
        }
        if part + 1 >= PARTS {
            self.scanned.store(true, Ordering::Relaxed);
        }
    }

    fn scan_entry(&self, entry: &DirEntry, keep: &impl Fn(&Head) -> bool) {
        // What is not named as an entry is not ours.
        let Some(key) = entry.file_name().to_str().and_then(Key::parse) else {
            return;
        };
        if self.find(key).is_some() {
            return;
        }
        let path = entry.path();
        let Ok(file) = sys::file::open(&path) else {
            return;
        };
        let head = self.read_head(&file, key, Reading::Blocking).ok().flatten();
        match head.filter(|head| keep(head)) {
            Some(head) => {
                let slot = Slot::new(key, head.file_bytes(), head.group, used(entry), false);
                let _known: Arc<Slot> = self.adopt(slot);
            }
            // It was broken, or is no longer wanted; the next scan may try again.
            None => drop(std::fs::remove_file(path)),
        }
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
