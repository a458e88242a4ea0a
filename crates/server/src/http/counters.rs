//! Connection and request counters of the threads, for `stub_status`. Each thread writes only its own cache line; a
//! reader adds them up.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// One thread's numbers, on cache lines of their own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Counters {
    accepts: AtomicU64,
    requests: AtomicU64,
    active: AtomicU64,
    reading: AtomicU64,
    writing: AtomicU64,
    copies: [AtomicU64; CODINGS],
    compression: [AtomicU64; Compression::COUNT],
}

/// What is counted of compression on the fly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    Gzip,
    Brotli,
    Zstd,
    BrotliDictionary,
    ZstdDictionary,
    /// Responses that were sent again as they had been compressed before.
    Repeated,
    /// Responses that a cache had compressed.
    Kept,
    BytesIn,
    BytesOut,
}

impl Compression {
    const COUNT: usize = Compression::BytesOut as usize + 1;
}

/// Codings that copies may have.
const CODINGS: usize = 3;

/// The numbers of all threads.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    pub accepts: u64,
    pub requests: u64,
    /// Connections that are open now.
    pub active: u64,
    /// Of these, the ones whose request is being read.
    pub reading: u64,
    /// Of these, the ones whose request is being answered.
    pub writing: u64,
    /// Responses that were sent from a copy made ahead, by coding.
    pub copies: [u64; CODINGS],
    pub compression: [u64; Compression::COUNT],
}

impl Totals {
    /// Open connections without a request.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.active.saturating_sub(self.reading + self.writing)
    }

    /// A count of compression on the fly.
    #[must_use]
    pub fn of(&self, what: Compression) -> u64 {
        self.compression[what as usize]
    }

    fn add_coded(&mut self, counters: &Counters) {
        for (sum, own) in self.compression.iter_mut().zip(&counters.compression) {
            *sum += own.load(Ordering::Relaxed);
        }
        for (sum, own) in self.copies.iter_mut().zip(&counters.copies) {
            *sum += own.load(Ordering::Relaxed);
        }
    }

    fn add(&mut self, counters: &Counters) {
        self.accepts += counters.accepts.load(Ordering::Relaxed);
        self.requests += counters.requests.load(Ordering::Relaxed);
        self.active += counters.active.load(Ordering::Relaxed);
        self.reading += counters.reading.load(Ordering::Relaxed);
        self.writing += counters.writing.load(Ordering::Relaxed);
        self.add_coded(counters);
    }
}

/// The threads that serve, and what the threads that have ended counted.
#[derive(Default)]
struct Threads {
    running: Vec<Arc<Counters>>,
    ended: Totals,
}

static THREADS: Mutex<Threads> = Mutex::new(Threads {
    running: Vec::new(),
    ended: Totals {
        accepts: 0,
        requests: 0,
        active: 0,
        reading: 0,
        writing: 0,
        copies: [0; CODINGS],
        compression: [0; Compression::COUNT],
    },
});

/// A thread's counters; when the thread ends its connections are gone, and its sums are kept.
struct Own(Arc<Counters>);

impl Own {
    fn register() -> Own {
        let counters = Arc::new(Counters::default());
        let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
        threads.running.push(Arc::clone(&counters));
        Own(counters)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
        threads.running.retain(|other| !Arc::ptr_eq(other, &self.0));
        threads.ended.accepts += self.0.accepts.load(Ordering::Relaxed);
        threads.ended.requests += self.0.requests.load(Ordering::Relaxed);
        threads.ended.add_coded(&self.0);
    }
}

thread_local! {
    static OWN: Own = Own::register();
}

/// Changes the thread's own counters. At the end of a thread there may be none any more, and nothing left to count.
fn with_own(change: impl FnOnce(&Counters)) {
    let _ = OWN.try_with(|own| change(&own.0));
}

/// Adds to a counter that only this thread writes: no locked instruction is needed.
fn add(counter: &AtomicU64, amount: u64) {
    let value = counter.load(Ordering::Relaxed).wrapping_add(amount);
    counter.store(value, Ordering::Relaxed);
}

fn subtract(counter: &AtomicU64) {
    add(counter, u64::MAX);
}

/// The sums over all threads at this moment.
#[must_use]
pub fn totals() -> Totals {
    let threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut totals = threads.ended;
    for counters in &threads.running {
        totals.add(counters);
    }
    totals
}

/// Counts a response that is sent from a copy in the coding of this number.
pub fn count_copy(coding: usize) {
    with_own(|own| {
        if let Some(counter) = own.copies.get(coding) {
            add(counter, 1);
        }
    });
}

/// Counts a request that came while its connection was answering another.
pub fn count_request() {
    with_own(|own| add(&own.requests, 1));
}

/// Counts what compression on the fly did.
pub fn count_compression(what: Compression, amount: u64) {
    with_own(|own| {
        if let Some(counter) = own.compression.get(what as usize) {
            add(counter, amount);
        }
    });
}

/// What an open connection does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    Waiting,
    Reading,
    Writing,
}

/// An open connection, counted until it is dropped.
#[derive(Debug)]
pub struct Open {
    activity: Cell<Activity>,
}

impl Open {
    /// Counts a connection that was just accepted.
    #[must_use]
    pub fn accepted() -> Open {
        with_own(|own| {
            add(&own.accepts, 1);
            add(&own.active, 1);
        });
        Open {
            activity: Cell::new(Activity::Waiting),
        }
    }

    /// Notes what the connection does from now on; a request is counted when it begins.
    pub fn set(&self, activity: Activity) {
        let before = self.activity.replace(activity);
        if before == activity {
            return;
        }
        with_own(|own| {
            leave(own, before);
            match activity {
                Activity::Waiting => {}
                Activity::Reading => add(&own.reading, 1),
                Activity::Writing => add(&own.writing, 1),
            }
            if before == Activity::Waiting {
                add(&own.requests, 1);
            }
        });
    }
}

fn leave(own: &Counters, activity: Activity) {
    match activity {
        Activity::Waiting => {}
        Activity::Reading => subtract(&own.reading),
        Activity::Writing => subtract(&own.writing),
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        with_own(|own| {
            leave(own, self.activity.get());
            subtract(&own.active);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Totals {
        let mut totals = Totals::default();
        with_own(|own| totals.add(own));
        totals
    }

    #[test]
    fn a_connection_is_counted_in_one_state_at_a_time() {
        let first = Open::accepted();
        let second = Open::accepted();
        assert_eq!((own().active, own().waiting()), (2, 2));
        first.set(Activity::Reading);
        first.set(Activity::Writing);
        second.set(Activity::Writing);
        assert_eq!((own().reading, own().writing, own().requests), (0, 2, 2));
        first.set(Activity::Waiting);
        first.set(Activity::Reading);
        assert_eq!((own().reading, own().waiting(), own().requests), (1, 0, 3));
        drop((first, second));
        let end = own();
        assert_eq!((end.active, end.reading, end.writing), (0, 0, 0));
        assert_eq!((end.accepts, end.requests), (2, 3));
    }

    #[test]
    fn what_an_ended_thread_counted_is_kept() {
        let before = totals().accepts;
        std::thread::spawn(|| drop(Open::accepted()))
            .join()
            .expect("the thread counts and ends");
        assert!(totals().accepts > before);
    }
}
