//! The deadlines of a thread's connections: one place each in a table that a single task sweeps when the earliest is due.
//! Moving a deadline is a store; nothing is armed or cancelled for it.

use crate::http::places::Places;
use crate::http::thread;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::Notify;

/// The longest deadline in milliseconds; longer settings mean "never" in practice.
const LONGEST_MS: u64 = 10 * 365 * 86_400_000;
/// Sweeps are at least this far apart: what a deadline may be late by.
const SWEEP_MS: u64 = 10;

#[derive(Default)]
struct Deadline {
    /// When it passes, in the thread's monotonic milliseconds; 0: never.
    due_ms: u64,
    waker: Option<Waker>,
}

#[derive(Default)]
struct Table {
    deadlines: Places<Deadline>,
    /// When the sweeper looks next; 0: it waits to be told.
    next_sweep_ms: u64,
    earlier: Rc<Notify>,
}

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

/// One deadline.
pub struct Timer {
    place: usize,
}

impl Default for Timer {
    fn default() -> Timer {
        TABLE.with(|table| Timer {
            place: table.borrow_mut().deadlines.take(),
        })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // The table is gone when the thread ends before its connections.
        let _ended = TABLE.try_with(|table| table.borrow_mut().deadlines.give_back(self.place));
    }
}

impl Timer {
    /// Sets the deadline `after_ms` from now.
    pub fn set(&mut self, after_ms: u64) {
        let due_ms = thread::monotonic_ms() + after_ms.min(LONGEST_MS) + 1;
        TABLE.with(|table| {
            let mut table = table.borrow_mut();
            table.deadlines.at(self.place).due_ms = due_ms;
            if table.next_sweep_ms == 0 || due_ms < table.next_sweep_ms {
                table.earlier.notify_one();
            }
        });
    }

    pub fn clear(&mut self) {
        TABLE.with(|table| table.borrow_mut().deadlines.at(self.place).due_ms = 0);
    }

    /// Ready when the deadline has passed. The task that asks is woken then; it must be the same each time.
    pub fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<()> {
        TABLE.with(|table| {
            let mut table = table.borrow_mut();
            let deadline = table.deadlines.at(self.place);
            match deadline.due_ms {
                0 => return Poll::Pending,
                due_ms if due_ms <= thread::monotonic_ms() => return Poll::Ready(()),
                _ => {}
            }
            let waker = &mut deadline.waker;
            if !waker
                .as_ref()
                .is_some_and(|waker| waker.will_wake(context.waker()))
            {
                *waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
    }
}

/// Wakes the connections whose deadlines have passed; runs as long as the thread.
pub async fn sweep() {
    let earlier = TABLE.with(|table| Rc::clone(&table.borrow().earlier));
    loop {
        let (expired, next_ms) = TABLE.with(|table| look(&mut table.borrow_mut()));
        expired.into_iter().for_each(Waker::wake);
        if next_ms == 0 {
            earlier.notified().await;
            continue;
        }
        let wait_ms = next_ms.saturating_sub(thread::monotonic_ms()).max(SWEEP_MS);
        let _either =
            tokio::time::timeout(Duration::from_millis(wait_ms), earlier.notified()).await;
    }
}

/// The wakers of those whose time has come, and when to look again (0: nobody waits).
fn look(table: &mut Table) -> (Vec<Waker>, u64) {
    let now_ms = thread::monotonic_ms();
    let mut expired = Vec::new();
    let mut next_ms = 0;
    for deadline in table
        .deadlines
        .values()
        .filter(|deadline| deadline.due_ms != 0)
    {
        if deadline.due_ms <= now_ms {
            expired.extend(deadline.waker.take());
        } else if next_ms == 0 || deadline.due_ms < next_ms {
            next_ms = deadline.due_ms;
        }
    }
    table.next_sweep_ms = next_ms;
    (expired, next_ms)
}

/// Polls `future` until it ends or the timer's deadline passes; `None` then.
pub async fn before<F: Future>(timer: &mut Timer, future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        timer.poll_expired(context).map(|()| None)
    })
    .await
}
