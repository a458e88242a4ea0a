//! A table of limited size in a thread's memory, by path or another name. What was used since the clock's hand last passed
//! it gets a second chance; all else makes room. Every operation takes constant time (eviction: on average).

use std::collections::HashMap;
use std::rc::Rc;

/// How many slots the hand passes at most to find room; then whatever it points at goes.
const PROBES_MAX: usize = 16;

/// Limits of a table.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub entries: usize,
    pub bytes: u64,
}

/// A value that knows whether it was used; some are used without being looked up here.
pub trait Used {
    fn note_use(&self);
    /// Whether it was used since this was last asked.
    fn take_use(&self) -> bool;
}

struct Slot<T> {
    path: Rc<[u8]>,
    value: T,
    bytes: u64,
}

/// Values by path.
pub struct Table<T> {
    numbers: HashMap<Rc<[u8]>, usize, foldhash::fast::RandomState>,
    slots: Vec<Option<Slot<T>>>,
    free: Vec<usize>,
    hand: usize,
    bytes: u64,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table {
            numbers: HashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            bytes: 0,
        }
    }
}

impl<T: Used> Table<T> {
    /// The value of a path, which counts as a use.
    pub fn find(&mut self, path: &[u8]) -> Option<&mut T> {
        let number = *self.numbers.get(path)?;
        let slot = self.slots[number].as_mut()?;
        slot.value.note_use();
        Some(&mut slot.value)
    }

    /// Keeps a value of so many bytes, in place of the path's former one; one larger than all of the table is dropped.
    pub fn insert(&mut self, path: Rc<[u8]>, value: T, bytes: u64, limits: Limits) {
        self.remove(&path);
        if limits.entries == 0 || bytes > limits.bytes {
            return;
        }
        while self.numbers.len() >= limits.entries || self.bytes + bytes > limits.bytes {
            self.evict();
        }
        let slot = Some(Slot {
            path: Rc::clone(&path),
            value,
            bytes,
        });
        self.bytes += bytes;
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[number] = slot;
                number
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        self.numbers.insert(path, number);
    }

    pub fn remove(&mut self, path: &[u8]) {
        if let Some(number) = self.numbers.remove(path) {
            self.vacate(number);
        }
    }

    /// Lets the hand pass `count` slots and drops those whose value `expired` says is over.
    pub fn sweep(&mut self, count: usize, expired: impl Fn(&T) -> bool) {
        for _ in 0..count.min(self.slots.len()) {
            let number = self.advance();
            if self.slots[number]
                .as_ref()
                .is_some_and(|slot| expired(&slot.value))
            {
                self.drop_slot(number);
            }
        }
    }

    /// Drops one value that was not used lately.
    fn evict(&mut self) {
        for probe in 1.. {
            let number = self.advance();
            match &self.slots[number] {
                Some(slot) if probe <= PROBES_MAX && slot.value.take_use() => {}
                Some(_) => return self.drop_slot(number),
                None => {}
            }
        }
    }

    fn advance(&mut self) -> usize {
        self.hand = (self.hand + 1) % self.slots.len();
        self.hand
    }

    fn drop_slot(&mut self, number: usize) {
        if let Some(slot) = &self.slots[number] {
            self.numbers.remove(&slot.path);
            self.vacate(number);
        }
    }

    fn vacate(&mut self, number: usize) {
        if let Some(slot) = self.slots[number].take() {
            self.bytes -= slot.bytes;
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const LIMITS: Limits = Limits {
        entries: 4,
        bytes: 100,
    };

    struct Value(u32, Cell<bool>);

    impl Used for Value {
        fn note_use(&self) {
            self.1.set(true);
        }

        fn take_use(&self) -> bool {
            self.1.replace(false)
        }
    }

    fn insert(table: &mut Table<Value>, path: &str, value: u32, bytes: u64) {
        let value = Value(value, Cell::new(false));
        table.insert(path.as_bytes().into(), value, bytes, LIMITS);
    }

    #[test]
    fn what_is_used_stays() {
        let mut table = Table::default();
        insert(&mut table, "/hot", 7, 1);
        for round in 0..100 {
            assert!(table.find(b"/hot").is_some(), "dropped in round {round}");
            insert(&mut table, &format!("/once/{round}"), round, 1);
        }
        assert_eq!(table.numbers.len(), LIMITS.entries);
        assert_eq!(table.slots.len(), LIMITS.entries);
    }

    #[test]
    fn bytes_are_limited_and_given_back() {
        let mut table = Table::default();
        insert(&mut table, "a", 1, 60);
        insert(&mut table, "b", 2, 30);
        insert(&mut table, "a", 3, 70);
        assert_eq!(table.bytes, 100);
        insert(&mut table, "c", 4, 100);
        assert_eq!(table.numbers.len(), 1);
        insert(&mut table, "large", 5, 101);
        assert!(table.find(b"large").is_none());
        table.remove(b"c");
        table.remove(b"c");
        assert_eq!((table.bytes, table.numbers.len()), (0, 0));
    }

    #[test]
    fn the_sweep_drops_what_is_over() {
        let mut table = Table::default();
        for number in 0..4 {
            insert(&mut table, &number.to_string(), number, 1);
        }
        table.sweep(4, |value| value.0 % 2 == 0);
        assert!(table.find(b"0").is_none() && table.find(b"1").is_some());
        assert_eq!(table.bytes, 2);
    }
}
