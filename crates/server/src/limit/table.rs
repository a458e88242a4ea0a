//! A table of a fixed number of entries by hashed keys: what both kinds of zones keep their counts in. When it is full, the
//! entry that was longest not used gives its place to a new one.

/// No entry.
const NONE: u32 = u32::MAX;

struct Entry<T> {
    key: u128,
    /// The next entry with the same bucket.
    chained: u32,
    newer: u32,
    older: u32,
    value: T,
}

/// Entries that know when they were last used.
pub struct Table<T> {
    entries: Vec<Entry<T>>,
    buckets: Box<[u32]>,
    capacity: usize,
    newest: u32,
    oldest: u32,
    /// The first of the places given back, which are chained.
    free: u32,
}

impl<T: Default> Table<T> {
    /// A table for up to `capacity` entries, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Table<T> {
        let capacity = capacity.clamp(1, NONE as usize - 1);
        Table {
            entries: Vec::new(),
            buckets: vec![NONE; capacity.next_power_of_two()].into(),
            capacity,
            newest: NONE,
            oldest: NONE,
            free: NONE,
        }
    }

    /// The value of a key, left where it is.
    #[must_use]
    pub fn peek(&self, key: u128) -> Option<&T> {
        self.find(key)
            .map(|index| &self.entries[index as usize].value)
    }

    /// The value of a key, to be changed where it is.
    pub fn find_mut(&mut self, key: u128) -> Option<&mut T> {
        let index = self.find(key)?;
        Some(&mut self.entries[index as usize].value)
    }

    /// Whether a new key would take the place of another one.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.free == NONE && self.entries.len() >= self.capacity
    }

    /// Gives a key's place back.
    pub fn remove(&mut self, key: u128) {
        if let Some(index) = self.find(key) {
            self.unlink(index);
            self.unchain(index);
            let entry = &mut self.entries[index as usize];
            entry.chained = std::mem::replace(&mut self.free, index);
        }
    }

    /// The value of a key, and whether it is new. It is the last used one now.
    pub fn touch(&mut self, key: u128) -> (&mut T, bool) {
        let (index, new) = match self.find(key) {
            Some(index) => {
                self.unlink(index);
                (index, false)
            }
            None => (self.take(key), true),
        };
        self.link_newest(index);
        (&mut self.entries[index as usize].value, new)
    }

    fn bucket(&self, key: u128) -> usize {
        // The low half; the power of two is never 0.
        key as usize & (self.buckets.len() - 1)
    }

    fn find(&self, key: u128) -> Option<u32> {
        let mut at = self.buckets[self.bucket(key)];
        while at != NONE {
            let entry = &self.entries[at as usize];
            if entry.key == key {
                return Some(at);
            }
            at = entry.chained;
        }
        None
    }

    /// A place for a key that has none: a fresh one, or that of the oldest entry.
    fn take(&mut self, key: u128) -> u32 {
        let bucket = self.bucket(key);
        let index = if self.free != NONE {
            let index = self.free;
            self.free = self.entries[index as usize].chained;
            index
        } else if self.entries.len() < self.capacity {
            self.entries.push(Entry {
                key,
                chained: NONE,
                newer: NONE,
                older: NONE,
                value: T::default(),
            });
            (self.entries.len() - 1) as u32
        } else {
            let index = self.oldest;
            self.unlink(index);
            self.unchain(index);
            index
        };
        let chained = std::mem::replace(&mut self.buckets[bucket], index);
        let entry = &mut self.entries[index as usize];
        entry.key = key;
        entry.value = T::default();
        entry.chained = chained;
        index
    }

    /// Takes an entry out of its bucket.
    fn unchain(&mut self, index: u32) {
        let entry = &self.entries[index as usize];
        let (bucket, after) = (self.bucket(entry.key), entry.chained);
        let mut at = self.buckets[bucket];
        if at == index {
            self.buckets[bucket] = after;
            return;
        }
        while at != NONE {
            let entry = &mut self.entries[at as usize];
            if entry.chained == index {
                entry.chained = after;
                return;
            }
            at = entry.chained;
        }
    }

    /// Takes an entry out of the order of use.
    fn unlink(&mut self, index: u32) {
        let entry = &self.entries[index as usize];
        let (newer, older) = (entry.newer, entry.older);
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, index: u32) {
        let before = std::mem::replace(&mut self.newest, index);
        let entry = &mut self.entries[index as usize];
        entry.newer = NONE;
        entry.older = before;
        match before {
            NONE => self.oldest = index,
            before => self.entries[before as usize].newer = index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_that_was_longest_not_used_goes() {
        let mut table: Table<u32> = Table::new(3);
        for key in [1, 2, 3] {
            let (value, new) = table.touch(key);
            assert!(new);
            *value = key as u32;
        }
        assert_eq!(table.touch(1), (&mut 1, false));
        assert_eq!(table.peek(2), Some(&2));
        assert_eq!(table.touch(4), (&mut 0, true));
        assert_eq!(table.peek(2), None);
        for key in [1, 3, 4] {
            assert!(table.peek(key).is_some(), "{key}");
        }
    }

    #[test]
    fn many_keys_in_few_buckets() {
        let mut table: Table<u128> = Table::new(100);
        for key in 0..10_000_u128 {
            // Few different low bits, so that buckets are long.
            let key = key << 60 | (key & 3);
            *table.touch(key).0 = key;
        }
        assert_eq!(table.entries.len(), 100);
        for key in 9_900..10_000_u128 {
            let key = key << 60 | (key & 3);
            assert_eq!(table.peek(key), Some(&key));
        }
        assert_eq!(table.peek(9_899 << 60 | 3), None);
        table.remove(9_999 << 60 | 3);
        assert!(!table.is_full());
        assert!(table.touch(7).1 && table.is_full());
        let mut one: Table<u8> = Table::new(0);
        assert!(one.touch(1).1 && one.touch(2).1 && one.touch(1).1);
    }
}
