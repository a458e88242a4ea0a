//! A fetch under way: who leads it, and who waits for what comes of it. Waiting is across threads; nothing here blocks.

use super::fill::Fill;
use super::lookup::Waited;
use super::zone::Zone;
use crate::net::Timer;
use crate::store::Key;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Instant;

/// What is known of a fetch.
#[derive(Clone)]
enum State {
    Asked,
    /// The head has come, and the response is one to be kept.
    Coming(Arc<Fill>),
    Ended,
    Refused,
}

struct Inner {
    state: State,
    waiting: Vec<Waker>,
}

/// A fetch that others can wait for.
pub struct Flight {
    inner: Mutex<Inner>,
    begun: Instant,
}

/// The hold of whom leads a fetch; dropped, it ends it.
pub struct Lead {
    zone: Arc<Zone>,
    key: Key,
    flight: Arc<Flight>,
}

impl Flight {
    #[must_use]
    pub fn new() -> Arc<Flight> {
        Arc::new(Flight {
            inner: Mutex::new(Inner {
                state: State::Asked,
                waiting: Vec::new(),
            }),
            begun: Instant::now(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: State) {
        let waiting = {
            let mut inner = self.lock();
            if matches!(inner.state, State::Ended | State::Refused) {
                return;
            }
            inner.state = state;
            std::mem::take(&mut inner.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits for what comes of the fetch, at most so long. `age_ms`: how old a fetch may be before others may fetch, too.
    pub async fn wait(&self, timeout_ms: u64, age_ms: u64) -> (Waited, Option<Arc<Fill>>) {
        let elapsed_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let left_ms = age_ms.saturating_sub(elapsed_ms);
        let (mut timer, at_end) = (
            Timer::default(),
            match left_ms < timeout_ms {
                true => Waited::TooOld,
                false => Waited::TimedOut,
            },
        );
        let limit_ms = left_ms.min(timeout_ms);
        if limit_ms == 0 {
            return (at_end, None);
        }
        timer.set(limit_ms);
        poll_fn(|context| {
            {
                let mut inner = self.lock();
                match &inner.state {
                    State::Coming(fill) => {
                        return Poll::Ready((Waited::Streaming, Some(Arc::clone(fill))));
                    }
                    State::Ended => return Poll::Ready((Waited::Ended, None)),
                    State::Refused => return Poll::Ready((Waited::Refused, None)),
                    State::Asked => {}
                }
                if !(inner.waiting.iter()).any(|waker| waker.will_wake(context.waker())) {
                    inner.waiting.push(context.waker().clone());
                }
            }
            timer.poll_expired(context).map(|()| (at_end, None))
        })
        .await
    }
}

impl Lead {
    #[must_use]
    pub fn new(zone: Arc<Zone>, key: Key, flight: Arc<Flight>) -> Lead {
        Lead { zone, key, flight }
    }

    /// The response is one to be kept, and comes.
    pub fn comes(&self, fill: &Arc<Fill>) {
        self.flight.set(State::Coming(Arc::clone(fill)));
    }

    /// It is not to be kept: others need not wait for each other.
    pub fn refuse(&self) {
        self.flight.set(State::Refused);
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.zone.land(self.key, &self.flight);
        self.flight.set(State::Ended);
    }
}
