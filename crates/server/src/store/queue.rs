//! Which entry goes when room is needed: S3-FIFO (Yang et al., SOSP 2023). What is new stands in a small queue; what was used
//! there goes on to the main one, all else goes, and is remembered for a while: if it comes back, it goes to the main
//! queue at once. There, what was used since it came to the front goes round again. Each step takes constant time.

use super::index::Slot;
use super::key::Key;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// The small queue's share of all bytes: one of so many.
const SMALL_SHARE: u64 = 10;
/// Slots that are gone may wait in the queues until they are as many as the others, and so many.
const GONE_MIN: usize = 1024;
/// Keys that are remembered at least.
const REMEMBERED_MIN: usize = 1024;

/// The order of a store's entries.
#[derive(Default)]
pub struct Queue {
    small: VecDeque<Arc<Slot>>,
    main: VecDeque<Arc<Slot>>,
    /// Of the small queue's files.
    small_bytes: u64,
    bytes: u64,
    /// How many slots in the queues are gone.
    gone: usize,
    remembered: VecDeque<u32>,
    known: HashSet<u32, foldhash::fast::RandomState>,
}

impl Queue {
    /// A slot that came, perhaps in place of a former one.
    pub fn insert(&mut self, slot: Arc<Slot>, former: Option<&Slot>) {
        let was_in_main = former.is_some_and(|former| {
            slot.set_frequency(former.frequency());
            former.is_in_main()
        });
        if let Some(former) = former {
            self.forget(former);
        }
        self.bytes += slot.space;
        if was_in_main || self.recall(slot.key) {
            slot.set_in_main();
            self.main.push_back(slot);
        } else {
            self.small_bytes += slot.space;
            self.small.push_back(slot);
        }
    }

    /// A slot is gone; its place is cleared when its turn comes, or when too many wait for that.
    pub fn forget(&mut self, slot: &Slot) {
        if !slot.set_gone() {
            return;
        }
        self.bytes = self.bytes.saturating_sub(slot.space);
        if !slot.is_in_main() {
            self.small_bytes = self.small_bytes.saturating_sub(slot.space);
        }
        self.gone += 1;
        let all = self.small.len() + self.main.len();
        if self.gone > GONE_MIN && self.gone > all / 2 {
            self.small.retain(|slot| !slot.is_gone());
            self.main.retain(|slot| !slot.is_gone());
            self.gone = 0;
        }
    }

    /// The next one to go; it is out of the queues.
    pub fn evict(&mut self) -> Option<Arc<Slot>> {
        loop {
            let from_small = self.small_bytes > self.bytes / SMALL_SHARE || self.main.is_empty();
            let slot = match from_small {
                true => self.small.pop_front()?,
                false => self.main.pop_front()?,
            };
            if slot.is_gone() {
                self.gone = self.gone.saturating_sub(1);
                continue;
            }
            if from_small {
                self.small_bytes = self.small_bytes.saturating_sub(slot.space);
            }
            let frequency = slot.frequency();
            if frequency > 0 {
                // A slot comes round three times at most without being used.
                slot.set_frequency(if from_small { 0 } else { frequency - 1 });
                slot.set_in_main();
                self.main.push_back(slot);
                continue;
            }
            self.bytes = self.bytes.saturating_sub(slot.space);
            slot.set_gone();
            if from_small {
                self.remember(slot.key);
            }
            return Some(slot);
        }
    }

    fn remember(&mut self, key: Key) {
        let mark = mark(key);
        if self.known.insert(mark) {
            self.remembered.push_back(mark);
        }
        let most = REMEMBERED_MIN.max(self.main.len());
        while self.remembered.len() > most {
            if let Some(oldest) = self.remembered.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    fn recall(&mut self, key: Key) -> bool {
        self.known.contains(&mark(key))
    }
}

/// What stands for a key among those that went: two with one mark do no harm.
fn mark(key: Key) -> u32 {
    let bytes = key.bytes();
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(number: u32, bytes: u64) -> Arc<Slot> {
        Slot::new(Key::of(&number.to_le_bytes()), bytes, 0, 0, true)
    }

    #[test]
    fn what_is_used_outlives_what_comes_once() {
        let mut queue = Queue::default();
        let hot: Vec<Arc<Slot>> = (0..10).map(|number| slot(number, 1)).collect();
        for slot in &hot {
            queue.insert(Arc::clone(slot), None);
        }
        for number in 100..5000 {
            hot.iter().for_each(|slot| slot.note_use(1));
            queue.insert(slot(number, 1), None);
            while queue.bytes > 20 {
                let gone = queue.evict().expect("there are some");
                assert!(gone.key != hot[0].key && gone.is_gone());
            }
        }
        assert!(hot.iter().all(|slot| !slot.is_gone()));
        assert!(queue.remembered.len() <= REMEMBERED_MIN && queue.known.len() <= REMEMBERED_MIN);
    }

    #[test]
    fn what_comes_back_is_let_stay() {
        let mut queue = Queue::default();
        queue.insert(slot(1, 1), None);
        assert_eq!(queue.evict().map(|slot| slot.key), Some(slot(1, 1).key));
        let again = slot(1, 1);
        queue.insert(Arc::clone(&again), None);
        assert!(again.is_in_main());
        queue.insert(slot(2, 1), None);
        assert_eq!(queue.evict().map(|slot| slot.key), Some(slot(2, 1).key));
    }

    #[test]
    fn sums_follow_what_goes_and_queues_stay_short() {
        let mut queue = Queue::default();
        let mut former = slot(0, 7);
        queue.insert(Arc::clone(&former), None);
        for _ in 0..100_000 {
            let next = slot(0, 7);
            queue.insert(Arc::clone(&next), Some(&former));
            former = next;
        }
        assert!(queue.small.len() + queue.main.len() <= 3 * GONE_MIN);
        assert_eq!((queue.bytes, queue.small_bytes), (7, 7));
        queue.forget(&former);
        assert_eq!((queue.bytes, queue.small_bytes), (0, 0));
        assert!(queue.evict().is_none());
    }
}
