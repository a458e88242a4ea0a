//! What a network thread keeps for itself: the clock of the current turn of its event loop. A turn is one pass over the
//! connections that were ready; between the start of a turn and its end no new readiness is collected, so that whatever
//! was checked within a turn holds for every request that made a connection ready before it.

use std::cell::{Cell, RefCell};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use wire::fields::date;

/// Bytes of an IMF-fixdate.
const DATE_LENGTH: usize = 29;

/// The clock of one thread.
pub struct Thread {
    turn: Cell<u64>,
    started: Instant,
    monotonic_ms: Cell<u64>,
    unix_ms: Cell<u64>,
    date: RefCell<(u64, [u8; DATE_LENGTH])>,
}

thread_local! {
    static THREAD: Thread = Thread {
        turn: Cell::new(0),
        started: Instant::now(),
        monotonic_ms: Cell::new(0),
        unix_ms: Cell::new(0),
        date: RefCell::new((u64::MAX, [0; DATE_LENGTH])),
    };
}

/// Begins a turn: reads the clocks once for all that happens in it.
pub fn begin_turn() {
    THREAD.with(|thread| {
        thread.turn.set(thread.turn.get() + 1);
        thread
            .monotonic_ms
            .set(thread.started.elapsed().as_millis() as u64);
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        thread.unix_ms.set(unix.as_millis() as u64);
    });
}

/// The number of the current turn.
#[must_use]
pub fn turn() -> u64 {
    THREAD.with(|thread| thread.turn.get())
}

/// Milliseconds since the thread started, as of this turn.
#[must_use]
pub fn monotonic_ms() -> u64 {
    THREAD.with(|thread| thread.monotonic_ms.get())
}

/// Milliseconds since 1970, as of this turn.
#[must_use]
pub fn unix_ms() -> u64 {
    THREAD.with(|thread| thread.unix_ms.get())
}

/// Appends the value of a Date field; formatted once a second.
pub fn append_date(out: &mut Vec<u8>) {
    THREAD.with(|thread| {
        let seconds = thread.unix_ms.get() / 1000;
        let mut cached = thread.date.borrow_mut();
        if cached.0 != seconds {
            *cached = (seconds, date::format(seconds as i64));
        }
        out.extend_from_slice(&cached.1);
    });
}
