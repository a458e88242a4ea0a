//! Carries a plan out: threads, each with its own runtime and its share of the users, and one collector.

use crate::client::nanoseconds;
use crate::plan::Plan;
use crate::record::{Interval, Tally};
use crate::report::Report;
use crate::series::Series;
use crate::user;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::{Duration, Instant, SystemTime};

/// How often the observer is told.
const LOOK: Duration = Duration::from_millis(100);

/// Ends a run from outside.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    abort: AtomicBool,
    /// Users at work in place of those of the plan; 0: theirs.
    users: AtomicUsize,
}

impl Control {
    /// Begins no further request; those under way are waited for.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Does not wait for requests under way, either.
    pub fn abort(&self) {
        self.stop();
        self.abort.store(true, Ordering::Relaxed);
    }

    /// Says how many users there shall be from now on; they come at once, and go when they have ended what they do.
    /// Only a run of which it was said before its beginning can have more than its plan.
    pub fn set_users(&self, users: usize) {
        self.users.store(users, Ordering::Relaxed);
    }

    /// How many users there shall be, where somebody said so.
    pub fn users(&self) -> Option<usize> {
        Some(self.users.load(Ordering::Relaxed)).filter(|users| *users > 0)
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Relaxed)
    }
}

/// Looks on while a run goes on.
pub trait Observer {
    /// Some ten times a second. `series` ends with what is complete.
    fn look(&mut self, elapsed: Duration, series: &Series, control: &Control);
}

/// An observer that sees nothing.
pub struct Nobody;

impl Observer for Nobody {
    fn look(&mut self, _: Duration, _: &Series, _: &Control) {}
}

/// What the threads of a run have in common.
pub struct Run {
    pub plan: Arc<Plan>,
    pub control: Arc<Control>,
    pub start: OnceLock<Instant>,
    /// Requests begun, where their number is limited.
    begun: AtomicU64,
    /// Requests due so far in an open model, and tasks begun in turn.
    arrivals: AtomicU64,
    turns: AtomicU64,
    /// There is nothing left to begin: users who go are not followed by others.
    exhausted: AtomicBool,
    /// The length of an interval.
    pub interval: Duration,
    /// What the first response said.
    pub first: OnceLock<First>,
}

/// What is told of the first response, and others are compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct First {
    /// The field `Server`.
    pub server: String,
    pub body_bytes: u64,
}

impl Run {
    /// Whether one more request may begin.
    pub fn take_ticket(&self) -> bool {
        match self.plan.requests {
            None => true,
            Some(limit) => {
                let is_one = self.begun.fetch_add(1, Ordering::Relaxed) < limit;
                if !is_one {
                    self.exhaust();
                }
                is_one
            }
        }
    }

    /// Says that there is nothing left to begin.
    pub fn exhaust(&self) {
        self.exhausted.store(true, Ordering::Relaxed);
    }

    pub fn is_exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Relaxed)
    }

    /// How many users there shall be now.
    pub fn users(&self) -> usize {
        self.control.users().unwrap_or(self.plan.users)
    }

    /// The number of the next request that is due.
    pub fn next_arrival(&self) -> u64 {
        self.arrivals.fetch_add(1, Ordering::Relaxed)
    }

    /// The next of so many tasks in turn.
    pub fn next_in_turn(&self, tasks: usize) -> usize {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        (turn % tasks.max(1) as u64) as usize
    }
}

/// What the threads tell the collector.
pub enum Event {
    Interval(Box<Interval>),
    /// The thread's users have ended; the time is that of its last response.
    Ended(Box<Tally>, u64),
    /// The thread could not do its work.
    Failed(String),
}

/// Carries out the plan and reports. The complaint is one line.
pub fn run(
    plan: &Arc<Plan>,
    control: &Arc<Control>,
    observer: &mut dyn Observer,
) -> Result<Report, String> {
    let busy = plan.users.div_ceil(plan.client.streams.max(1)).max(1);
    let threads = match control.users() {
        // There may be more users later.
        Some(_) => plan.threads.max(1),
        None => plan.threads.clamp(1, busy),
    };
    let run = Arc::new(Run {
        plan: Arc::clone(plan),
        control: Arc::clone(control),
        start: OnceLock::new(),
        begun: AtomicU64::new(0),
        arrivals: AtomicU64::new(0),
        turns: AtomicU64::new(0),
        exhausted: AtomicBool::new(false),
        interval: interval(plan.expected()),
        first: OnceLock::new(),
    });
    let began = SystemTime::now();
    let barrier = Arc::new(Barrier::new(threads));
    let (sender, receiver) = mpsc::channel();
    for number in 0..threads {
        let (run, barrier, sender) = (Arc::clone(&run), Arc::clone(&barrier), sender.clone());
        std::thread::Builder::new()
            .name(format!("load {number}"))
            .spawn(move || user::thread(&run, number, threads, &barrier, sender))
            .map_err(|error| format!("cannot start a thread: {error}"))?;
    }
    drop(sender);
    let mut collector = Collector {
        run: &run,
        series: Series::new(run.interval, threads),
        tally: Tally::new(plan.labels.len()),
        last_ns: 0,
        left: threads,
    };
    collector.collect(&receiver, observer)?;
    let Collector {
        tally,
        series,
        last_ns,
        ..
    } = collector;
    let mut report = Report::new(plan, tally, series, last_ns, began);
    report.first = run.first.get().cloned();
    Ok(report)
}

/// Short runs are looked at more closely.
fn interval(expected: Option<Duration>) -> Duration {
    match expected {
        Some(time) if time < Duration::from_secs(6) => Duration::from_millis(100),
        Some(time) if time < Duration::from_secs(20) => Duration::from_millis(250),
        _ => Duration::from_secs(1),
    }
}

struct Collector<'a> {
    run: &'a Run,
    series: Series,
    tally: Tally,
    last_ns: u64,
    left: usize,
}

impl Collector<'_> {
    fn collect(
        &mut self,
        receiver: &mpsc::Receiver<Event>,
        observer: &mut dyn Observer,
    ) -> Result<(), String> {
        let mut looked = Instant::now();
        while self.left > 0 {
            match receiver.recv_timeout(LOOK) {
                Ok(Event::Interval(interval)) => self.series.take(*interval),
                Ok(Event::Ended(tally, last_ns)) => {
                    self.tally.add(*tally);
                    self.last_ns = self.last_ns.max(last_ns);
                    self.left -= 1;
                }
                Ok(Event::Failed(complaint)) => {
                    self.run.control.abort();
                    return Err(complaint);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("a thread of the tester died".to_owned());
                }
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                let elapsed = self.run.start.get().map(Instant::elapsed);
                observer.look(elapsed.unwrap_or_default(), &self.series, &self.run.control);
            }
        }
        self.series.finish(self.last_ns as f64 / 1e9);
        if let (Some(planned), false) = (self.run.plan.duration, self.run.control.is_stopped()) {
            // The time that was asked for counts in full, even if its end passed in silence.
            let ended_early = self.run.plan.requests.is_some();
            if !ended_early {
                self.last_ns = self.last_ns.max(nanoseconds(planned));
            }
        }
        Ok(())
    }
}
