//! What goes out of a zone: by a purge, for want of use or of room.

use super::{Zone, lock};
use crate::background::{self, Urgency};
use crate::cache::bans::{self, Ban, Verdict, What};
use crate::cache::entry::{Entry, Facts, Times, VARIANT};
use crate::store::{Key, Slot, unix_seconds};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The times of what is out of date since a second.
fn out_of_date(times: Times, second: i64) -> Times {
    Times {
        valid_until: times.valid_until.min(second.saturating_sub(1)),
        ..times
    }
}

impl Zone {
    /// Forgets a key; whether there was something.
    pub fn remove(&self, key: Key) -> bool {
        let failure = lock(&self.failures).remove(&key).is_some();
        lock(&self.uses).remove(&key);
        let memory = self.memory.remove(&key).is_some();
        let writing = lock(&self.writing).remove(&key).is_some();
        let slot = self
            .store
            .find(key)
            .or_else(|| self.store.find_on_disk(key));
        if let Some(slot) = &slot {
            self.discard(slot);
        }
        failure || memory || writing || slot.is_some()
    }

    /// Whether an entry may be used as far as purges are concerned; one that was purged softly is out of date from now on.
    pub(super) fn outlives_purges(self: &Arc<Self>, entry: &Arc<Entry>) -> bool {
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
            // What is still on its way to the disk is met there the next time.
            let numbers = |(entry, _): &(Arc<Entry>, u64)| entry.number.load(Ordering::Relaxed);
            let oldest = lock(&self.writing).values().map(numbers).min();
            for (key, entry) in self.memory.iter() {
                self.clear_memory(key, &entry, &all);
            }
            for slot in self.store.slots() {
                self.clear_slot(&slot, &all);
            }
            let is_done = |ban: &Arc<Ban>| oldest.is_none_or(|oldest| ban.number < oldest);
            let done: Vec<Arc<Ban>> = all.into_iter().filter(is_done).collect();
            if done.is_empty() || self.bans.remove(&done) {
                break;
            }
        }
        self.is_clearing.store(false, Ordering::Release);
    }

    /// What is in memory need not be on the disk, where that takes nothing.
    fn clear_memory(&self, key: Key, entry: &Arc<Entry>, all: &[Arc<Ban>]) {
        match bans::verdict(all, entry) {
            Verdict::Holds => {}
            Verdict::Gone => drop(self.memory.remove(&key)),
            Verdict::OutOfDate(second) => entry.set_times(out_of_date(entry.times(), second)),
        }
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
            Verdict::Gone => self.discard(slot),
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
            lock(&self.uses).remove(&slot.key);
            self.discard(&slot);
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

    /// Drops an entry, and the forms of a response.
    pub(super) fn discard(&self, slot: &Arc<Slot>) {
        if slot.group == 0 {
            let forms = self.store.group(slot.key.group());
            forms
                .iter()
                .for_each(|form| drop(self.memory.remove(&form.key)));
        }
        self.memory.remove(&slot.key);
        self.store.remove(slot);
    }
}
