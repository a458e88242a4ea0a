//! Whose turn it is to send: bodies wait here until the library has little left to write, and the most urgent one goes first
//! (RFC 9218). What is queued is bounded for the connection as a whole, however many streams a slow reader has.

use bytes::{Buf, Bytes};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Bytes of bodies that the library holds for a connection before the next piece has to wait.
const QUEUED_MAX: usize = 128 * 1024;

/// `priority`: how urgent a response is, and whether it is of use in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// 0 is the most urgent.
    urgency: u8,
    incremental: bool,
}

impl Default for Priority {
    fn default() -> Priority {
        Priority {
            urgency: 3,
            incremental: false,
        }
    }
}

impl Priority {
    /// Reads the field's value; what is not understood does not count.
    #[must_use]
    pub fn parse(value: &[u8]) -> Priority {
        let mut priority = Priority::default();
        for member in value.split(|&byte| byte == b',') {
            let member = member.split(|&byte| byte == b';').next().unwrap_or(member);
            match member.trim_ascii() {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

/// A body's place among those that wait: by urgency, then by order.
type Rank = (u8, u64);

/// One stream's claim.
pub struct Turn {
    turns: Rc<Turns>,
    pub priority: Rc<Cell<Priority>>,
    /// The number of the request; of parts that share the way, the turn that was had last.
    order: Cell<u64>,
    place: Cell<Option<u64>>,
}

/// The queue of a connection.
#[derive(Default)]
pub struct Turns {
    queued: Cell<usize>,
    /// Those who wait, each with a place of its own.
    waiting: RefCell<Vec<(Rank, u64, Waker)>>,
    count: Cell<u64>,
}

impl Turns {
    fn next(&self) -> u64 {
        self.count.set(self.count.get() + 1);
        self.count.get()
    }

    fn wake(&self) {
        if self.queued.get() >= QUEUED_MAX {
            return;
        }
        let waiting = self.waiting.borrow();
        let first = waiting.iter().min_by_key(|(rank, ..)| *rank);
        if let Some((_, _, waker)) = first {
            waker.wake_by_ref();
        }
    }

    /// A piece for the library, counted until it was written.
    pub fn piece(self: &Rc<Turns>, bytes: Bytes) -> Piece {
        self.queued.set(self.queued.get() + bytes.len());
        Piece {
            length: bytes.len(),
            bytes,
            turns: Rc::clone(self),
        }
    }
}

impl Turn {
    #[must_use]
    pub fn new(turns: &Rc<Turns>, priority: Rc<Cell<Priority>>, number: u64) -> Turn {
        Turn {
            turns: Rc::clone(turns),
            priority,
            order: Cell::new(number),
            place: Cell::new(None),
        }
    }

    /// Ready when it is this body's turn.
    pub fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let Priority {
            urgency,
            incremental,
        } = self.priority.get();
        let rank = (urgency, self.order.get());
        let mut waiting = self.turns.waiting.borrow_mut();
        let own = self.place.get();
        let is_first = waiting
            .iter()
            .all(|(other, place, _)| Some(*place) == own || rank <= *other);
        if is_first && self.turns.queued.get() < QUEUED_MAX {
            drop(waiting);
            self.leave();
            if incremental {
                self.order.set(u64::MAX / 2 + self.turns.next());
            }
            return Poll::Ready(());
        }
        match waiting.iter_mut().find(|(_, place, _)| Some(*place) == own) {
            Some(kept) => {
                kept.0 = rank;
                kept.2.clone_from(context.waker());
            }
            None => {
                let place = self.turns.next();
                self.place.set(Some(place));
                waiting.push((rank, place, context.waker().clone()));
            }
        }
        Poll::Pending
    }

    /// Waits no longer; the next one may go.
    fn leave(&self) {
        if let Some(own) = self.place.take() {
            let mut waiting = self.turns.waiting.borrow_mut();
            waiting.retain(|(_, place, _)| *place != own);
            drop(waiting);
            self.turns.wake();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Part of a body in the library's hands.
pub struct Piece {
    bytes: Bytes,
    length: usize,
    turns: Rc<Turns>,
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.turns
            .queued
            .set(self.turns.queued.get().saturating_sub(self.length));
        self.turns.wake();
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_read_as_far_as_it_is_understood() {
        for (value, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            ("i=?0,u=1;x", 1, false),
            ("u=8", 3, false),
            ("u=-1, i=?1", 3, true),
            ("nonsense, u=2", 2, false),
        ] {
            let expected = Priority {
                urgency,
                incremental,
            };
            assert_eq!(Priority::parse(value.as_bytes()), expected, "{value}");
        }
    }

    fn turn(turns: &Rc<Turns>, value: &str, number: u64) -> Turn {
        let priority = Rc::new(Cell::new(Priority::parse(value.as_bytes())));
        Turn::new(turns, priority, number)
    }

    #[test]
    fn the_most_urgent_goes_first_when_there_is_room() {
        let turns = Rc::new(Turns::default());
        let mut context = Context::from_waker(Waker::noop());
        let full = turns.piece(Bytes::from(vec![0; QUEUED_MAX]));
        let all = ["u=5", "u=1", "u=1", "u=1, i"];
        let all: Vec<Turn> = (0..)
            .zip(all)
            .map(|(number, value)| turn(&turns, value, number))
            .collect();
        for turn in &all {
            assert!(turn.poll(&mut context).is_pending());
        }
        drop(full);
        let mut poll = |at: usize| all[at].poll(&mut context).is_ready();
        assert!(!poll(0) && !poll(2) && !poll(3), "another is before them");
        assert!(poll(1));
        assert!(!poll(3) && poll(2), "in their order");
        assert!(!poll(0) && poll(3) && poll(0));
        assert!(turns.waiting.borrow().is_empty());
    }
}
