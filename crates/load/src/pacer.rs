//! Wakes the users of a thread when their requests are due, to within the precision of the kernel's timers: the runtime's own
//! timer counts in milliseconds, which would be seen in the latencies.

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// The users of a thread that wait, in the order in which they are due.
pub struct Pacer {
    timer: AsyncFd<OwnedFd>,
    waiting: RefCell<VecDeque<(Instant, Rc<Notify>)>>,
    arrived: Notify,
}

impl Pacer {
    /// Must be called within a runtime.
    pub fn new() -> io::Result<Pacer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Pacer {
            timer: watch(timer)?,
            waiting: RefCell::default(),
            arrived: Notify::new(),
        })
    }

    /// Has the user told at the time. Times come in order, each no earlier than the one before.
    pub fn enqueue(&self, due: Instant, user: &Rc<Notify>) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.push_back((due, Rc::clone(user)));
        if waiting.len() == 1 {
            self.arrived.notify_one();
        }
    }

    /// Tells the users, for ever.
    pub async fn run(&self) -> io::Result<()> {
        loop {
            let first = self.waiting.borrow().front().map(|(due, _)| *due);
            let Some(first) = first else {
                self.arrived.notified().await;
                continue;
            };
            let now = Instant::now();
            if first > now {
                self.sleep(first - now).await?;
            }
            self.wake(Instant::now());
        }
    }

    async fn sleep(&self, time: Duration) -> io::Result<()> {
        let once = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: Timespec {
                tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
                // 0 would stop the timer instead.
                tv_nsec: i64::from(time.subsec_nanos()).max(1),
            },
        };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        loop {
            let mut guard = self.timer.readable().await?;
            let mut expirations = [0; 8];
            let read = guard.try_io(|timer| {
                let count = rustix::io::read(timer.get_ref(), &mut expirations)?;
                Ok(count)
            });
            if let Ok(read) = read {
                return read.map(|_| ());
            }
        }
    }

    fn wake(&self, now: Instant) {
        let mut waiting = self.waiting.borrow_mut();
        while let Some((due, user)) = waiting.front() {
            if *due > now {
                return;
            }
            user.notify_one();
            waiting.pop_front();
        }
    }
}

/// The safe constructor asks of its caller that the descriptor stays what it is while it is watched; an owned one does.
#[expect(
    deprecated,
    reason = "its replacement is unsafe, which this crate forbids; the descriptor is owned"
)]
fn watch(timer: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(timer)
}
