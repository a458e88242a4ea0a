//! Who of a thread's users is there: those the plan has, or those that somebody asked for meanwhile, until it is over.

use super::{Thread, User};
use crate::client::Client;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How often a thread looks whether it shall stop.
const STOP_LOOK: Duration = Duration::from_millis(10);

/// A thread's users: those whose number is its own, modulo the threads.
#[derive(Clone, Copy)]
pub struct Share {
    pub number: usize,
    pub threads: usize,
}

impl Share {
    /// How many of so many users are the thread's.
    pub fn of(self, users: usize) -> usize {
        users
            .saturating_sub(self.number)
            .div_ceil(self.threads.max(1))
    }
}

/// Has the users come that shall be there and are not.
pub fn admit(thread: &Rc<Thread>) {
    let count = thread.share.of(thread.run.users());
    for index in 0..count {
        let mut present = thread.present.borrow_mut();
        if present.len() <= index {
            present.resize(index + 1, false);
        }
        if std::mem::replace(&mut present[index], true) {
            continue;
        }
        thread.left.set(thread.left.get() + 1);
        let group = thread.group(index);
        let client = Client::new(&thread.run.plan, Rc::clone(&thread.scratch), group);
        let number = thread.share.number + index * thread.share.threads;
        let mut user = User::new(Rc::clone(thread), number, client);
        tokio::task::spawn_local(async move {
            user.live().await;
            user.thread.leave(index);
        });
    }
}

/// Stops the users when their time has come, has others come; returns when nobody is to be waited for.
pub async fn watch(thread: &Rc<Thread>) {
    let run = &thread.run;
    let end = run.plan.duration.map(|time| thread.start + time);
    loop {
        let now = Instant::now();
        let control = &run.control;
        if control.is_aborted() {
            return;
        }
        let over = control.is_stopped() || end.is_some_and(|end| now >= end);
        if over && !thread.stopped.replace(true) {
            thread.stop.notify_waiters();
        }
        let is_last = over || run.is_exhausted();
        if is_last && thread.left.get() == 0 {
            return;
        }
        if !is_last && control.users().is_some() {
            admit(thread);
        }
        thread.flush(thread.elapsed_ns(), false);
        let next = now + STOP_LOOK;
        let next = match end {
            Some(end) if !over => next.min(end),
            _ => next,
        };
        tokio::time::sleep_until(next.into()).await;
    }
}
