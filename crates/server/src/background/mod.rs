//! Work that no network thread may do and no request waits for: a few threads of the lowest priority behind a bounded
//! queue (DESIGN decision 7). One pool serves the process; it outlives reloads and ends with the process.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Jobs of one urgency that wait at most.
pub const QUEUE_MAX: usize = 4096;
/// Threads at most; a quarter of the processors do this work, at least one.
pub const THREADS_MAX: usize = 8;
/// Threads that make pictures, at most: one for each processor.
pub const PICTURE_THREADS_MAX: usize = 64;
/// The nice value of the threads: all else comes first.
const NICE: i32 = 19;

/// How soon a job is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// A request has met the lack of its result.
    Asked,
    /// Nobody has asked yet; it runs when nothing else waits.
    Idle,
}

/// The queue is full: the job was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

type Job = Box<dyn FnOnce() + Send>;

/// What the pool is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    pub asked: usize,
    pub idle: usize,
    /// Jobs that wait for their time (`later`).
    pub delayed: usize,
    pub running: usize,
}

/// Threads and the jobs that wait for them.
pub struct Pool {
    queue: Mutex<Queue>,
    wake: Condvar,
    threads_max: usize,
}

#[derive(Default)]
struct Queue {
    asked: VecDeque<Job>,
    idle: VecDeque<Job>,
    /// In the order of their time.
    delayed: VecDeque<(Instant, Urgency, Job)>,
    threads: usize,
    waiting: usize,
    running: usize,
}

static POOL: LazyLock<Pool> = LazyLock::new(|| Pool {
    queue: Mutex::default(),
    wake: Condvar::new(),
    threads_max: (sys::machine::cpu_count() / 4).clamp(1, THREADS_MAX),
});

/// Pictures are waited for by clients, so all processors work on them; all else still comes first.
static PICTURES: LazyLock<Pool> = LazyLock::new(|| Pool {
    queue: Mutex::default(),
    wake: Condvar::new(),
    threads_max: sys::machine::cpu_count().clamp(1, PICTURE_THREADS_MAX),
});

/// The pool for pictures.
#[must_use]
pub fn pictures() -> &'static Pool {
    &PICTURES
}

/// The process's pool.
#[must_use]
pub fn pool() -> &'static Pool {
    &POOL
}

impl Pool {
    /// Runs a job when a thread is free.
    pub fn submit(
        &'static self,
        urgency: Urgency,
        job: impl FnOnce() + Send + 'static,
    ) -> Result<(), Full> {
        let mut queue = self.lock();
        queue.push(urgency, Box::new(job))?;
        self.engage(queue);
        Ok(())
    }

    /// Runs a job when `delay` is over and a thread is free.
    pub fn later(
        &'static self,
        delay: Duration,
        urgency: Urgency,
        job: impl FnOnce() + Send + 'static,
    ) -> Result<(), Full> {
        let due = Instant::now() + delay;
        let mut queue = self.lock();
        if queue.delayed.len() >= QUEUE_MAX {
            return Err(Full);
        }
        let at = queue.delayed.partition_point(|(other, _, _)| *other <= due);
        queue.delayed.insert(at, (due, urgency, Box::new(job)));
        self.engage(queue);
        Ok(())
    }

    #[must_use]
    pub fn load(&self) -> Load {
        let queue = self.lock();
        Load {
            asked: queue.asked.len(),
            idle: queue.idle.len(),
            delayed: queue.delayed.len(),
            running: queue.running,
        }
    }

    /// Wakes a thread for a new job, or starts one.
    fn engage(&'static self, mut queue: MutexGuard<'_, Queue>) {
        if queue.waiting > 0 || queue.threads >= self.threads_max {
            drop(queue);
            self.wake.notify_one();
            return;
        }
        let name = format!("background {}", queue.threads);
        // Without a thread the job waits; the next one tries again.
        let started = std::thread::Builder::new().name(name).spawn(|| self.work());
        queue.threads += usize::from(started.is_ok());
    }

    fn work(&self) {
        // Refused by some sandboxes: the work is done at the priority there is.
        let _refused = sys::process::set_thread_priority(NICE);
        let mut queue = self.lock();
        loop {
            queue.promote(Instant::now());
            let Some(job) = queue.next() else {
                queue = self.wait(queue);
                continue;
            };
            queue.running += 1;
            drop(queue);
            // The panic is logged by the process's hook; the thread goes on with the next job.
            let _panicked = catch_unwind(AssertUnwindSafe(job));
            queue = self.lock();
            queue.running -= 1;
        }
    }

    /// Waits for a job to come or to be due.
    fn wait<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        let due = queue.delayed.front().map(|(due, _, _)| *due);
        queue.waiting += 1;
        let mut queue = match due {
            None => self
                .wake
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner),
            Some(due) => {
                let time = due.saturating_duration_since(Instant::now());
                let woken = self.wake.wait_timeout(queue, time);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        queue.waiting -= 1;
        queue
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn push(&mut self, urgency: Urgency, job: Job) -> Result<(), Full> {
        let lane = match urgency {
            Urgency::Asked => &mut self.asked,
            Urgency::Idle => &mut self.idle,
        };
        if lane.len() >= QUEUE_MAX {
            return Err(Full);
        }
        lane.push_back(job);
        Ok(())
    }

    fn next(&mut self) -> Option<Job> {
        self.asked.pop_front().or_else(|| self.idle.pop_front())
    }

    /// Lets jobs run whose time has come. The bound of the delayed ones was kept when they came, so none is refused now.
    fn promote(&mut self, now: Instant) {
        while self.delayed.front().is_some_and(|(due, _, _)| *due <= now) {
            let Some((_, urgency, job)) = self.delayed.pop_front() else {
                return;
            };
            match urgency {
                Urgency::Asked => self.asked.push_back(job),
                Urgency::Idle => self.idle.push_back(job),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn one_thread() -> &'static Pool {
        Box::leak(Box::new(Pool {
            queue: Mutex::default(),
            wake: Condvar::new(),
            threads_max: 1,
        }))
    }

    #[test]
    fn what_was_asked_for_comes_first_and_a_panic_ends_one_job() {
        let pool = one_thread();
        let (begin, begun) = channel::<()>();
        pool.submit(Urgency::Idle, move || {
            let _ended = begun.recv();
        })
        .unwrap();
        let (say, said) = channel();
        for (urgency, number) in [(Urgency::Idle, 3), (Urgency::Asked, 1), (Urgency::Asked, 2)] {
            let say = say.clone();
            pool.submit(urgency, move || {
                say.send(number).unwrap();
                assert!(number != 1, "this job panics, the others run");
            })
            .unwrap();
        }
        begin.send(()).unwrap();
        assert_eq!(said.iter().take(3).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn delayed_jobs_run_in_the_order_of_their_times() {
        let pool = one_thread();
        let (say, said) = channel();
        for (ms, number) in [(40, 3), (0, 1), (20, 2)] {
            let say = say.clone();
            let job = move || say.send(number).unwrap();
            pool.later(Duration::from_millis(ms), Urgency::Asked, job)
                .unwrap();
        }
        assert_eq!(said.iter().take(3).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn a_full_queue_refuses() {
        let pool = one_thread();
        let (begin, begun) = channel::<()>();
        pool.submit(Urgency::Asked, move || {
            let _ended = begun.recv();
        })
        .unwrap();
        while pool.load().running == 0 {
            std::thread::yield_now();
        }
        for _ in 0..QUEUE_MAX {
            pool.submit(Urgency::Asked, || {}).unwrap();
        }
        assert_eq!(pool.submit(Urgency::Asked, || {}), Err(Full));
        pool.submit(Urgency::Idle, || {}).unwrap();
        assert_eq!((pool.load().asked, pool.load().idle), (QUEUE_MAX, 1));
        begin.send(()).unwrap();
    }
}
