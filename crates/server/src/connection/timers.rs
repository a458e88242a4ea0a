//! A connection's one timer. Moving its deadline costs nothing: the runtime's timer is armed once and, when it fires too
//! early, armed again for the deadline of then.

use crate::http::thread;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// The longest deadline; longer settings mean "never" in practice.
const LONGEST_MS: u64 = 10 * 365 * 86_400_000;

/// A deadline in the thread's monotonic milliseconds.
#[derive(Default)]
pub struct Timer {
    due_ms: u64,
    armed_ms: u64,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    /// Sets the deadline `after_ms` from now.
    pub fn set(&mut self, after_ms: u64) {
        self.due_ms = thread::monotonic_ms() + after_ms.min(LONGEST_MS) + 1;
    }

    /// Sets an absolute deadline.
    pub fn set_at(&mut self, due_ms: u64) {
        self.due_ms = due_ms + 1;
    }

    pub fn clear(&mut self) {
        self.due_ms = 0;
    }

    /// Ready when the deadline has passed.
    pub fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.due_ms == 0 {
            return Poll::Pending;
        }
        loop {
            let now = thread::monotonic_ms();
            if self.due_ms <= now {
                return Poll::Ready(());
            }
            let deadline = || Instant::now() + Duration::from_millis(self.due_ms - now);
            match &mut self.sleep {
                None => {
                    self.sleep = Some(Box::pin(tokio::time::sleep_until(deadline())));
                    self.armed_ms = self.due_ms;
                }
                Some(sleep) if self.armed_ms > self.due_ms || sleep.is_elapsed() => {
                    sleep.as_mut().reset(deadline());
                    self.armed_ms = self.due_ms;
                }
                Some(_) => {}
            }
            let sleep = self.sleep.as_mut().expect("armed above");
            match sleep.as_mut().poll(context) {
                Poll::Pending => return Poll::Pending,
                // Fired for an earlier deadline, or the turn's clock lags by a millisecond.
                Poll::Ready(()) if self.armed_ms >= self.due_ms => return Poll::Ready(()),
                Poll::Ready(()) => {}
            }
        }
    }
}

use std::future::Future;

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
