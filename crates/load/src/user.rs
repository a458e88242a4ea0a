//! A thread and its users: who begins what and when, what is checked, what is noted.

use crate::client::{Client, Scratch, nanoseconds, scratch};
use crate::engine::{Event, First, Run};
use crate::failure::Failure;
use crate::http2::Group;
use crate::pace;
use crate::pacer::Pacer;
use crate::plan::{Order, Pace, Step, Take, Think};
use crate::record::{Interval, Sample, Tally};
use crate::response::Kept;
use crate::template::VALUE_MAX;
use crowd::{Share, admit, watch};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::LocalSet;

/// Who of a thread's users is there.
mod crowd;

/// A user who got no connection waits so long before the next attempt.
const FAILURE_PAUSE: Duration = Duration::from_millis(20);

/// The body of a thread: runs the users whose number is its own, modulo the threads.
pub fn thread(
    run: &Arc<Run>,
    number: usize,
    threads: usize,
    barrier: &Barrier,
    sender: Sender<Event>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    // All threads begin together, one that failed included: the others wait for it.
    barrier.wait();
    let start = *run.start.get_or_init(Instant::now);
    let event = match runtime {
        Err(error) => Event::Failed(format!("cannot start a runtime: {error}")),
        Ok(runtime) => {
            let share = Share { number, threads };
            let work = all_users(Arc::clone(run), share, start, sender.clone());
            match LocalSet::new().block_on(&runtime, work) {
                Ok((tally, last_ns)) => Event::Ended(Box::new(tally), last_ns),
                Err(error) => Event::Failed(format!("cannot set a timer: {error}")),
            }
        }
    };
    // The collector only goes before the threads when it failed.
    sender.send(event).unwrap_or_default();
}

/// What the users of a thread share.
struct Thread {
    run: Arc<Run>,
    share: Share,
    /// Whether the thread's users, in the order of their numbers, are there.
    present: RefCell<Vec<bool>>,
    scratch: Scratch,
    /// The connections of HTTP/2 of so many users each.
    groups: RefCell<Vec<Rc<Group>>>,
    start: Instant,
    tally: RefCell<Tally>,
    interval: RefCell<Interval>,
    sender: Sender<Event>,
    pacer: Pacer,
    /// The weights of the tasks, each added to those before it.
    weights: Vec<u64>,
    /// Users at work, and requests under way.
    active: Cell<usize>,
    under_way: Cell<u64>,
    /// When the last response was whole.
    last_ns: Cell<u64>,
    left: Cell<usize>,
    stopped: Cell<bool>,
    /// Tells users that wait that it is over, and the thread that the last one went.
    stop: Notify,
    ended: Notify,
}

async fn all_users(
    run: Arc<Run>,
    share: Share,
    start: Instant,
    sender: Sender<Event>,
) -> io::Result<(Tally, u64)> {
    let mut sum = 0;
    let weights = run.plan.tasks.iter().map(|task| {
        sum += u64::from(task.weight);
        sum
    });
    let thread = Rc::new(Thread {
        start,
        tally: RefCell::new(Tally::new(run.plan.labels.len())),
        interval: RefCell::new(Interval::new(0)),
        sender,
        pacer: Pacer::new()?,
        weights: weights.collect(),
        active: Cell::new(0),
        under_way: Cell::new(0),
        last_ns: Cell::new(0),
        left: Cell::new(0),
        stopped: Cell::new(false),
        stop: Notify::new(),
        ended: Notify::new(),
        share,
        present: RefCell::default(),
        scratch: scratch(),
        groups: RefCell::default(),
        run,
    });
    thread.tally.borrow_mut().singles = thread.run.plan.keeps_times.then(Vec::new);
    admit(&thread);
    tokio::select! {
        () = thread.ended.notified() => {}
        () = watch(&thread) => {}
        result = thread.pacer.run() => result?,
    }
    thread.flush(thread.elapsed_ns(), true);
    let mut tally = thread.tally.take();
    tally.abandoned = thread.under_way.get();
    Ok((tally, thread.last_ns.get()))
}

impl Thread {
    /// The connections of the user with this number among the thread's.
    fn group(&self, index: usize) -> Option<Rc<Group>> {
        let client = &self.run.plan.client;
        if !client.http2 {
            return None;
        }
        let (mut groups, number) = (self.groups.borrow_mut(), index / client.streams.max(1));
        while groups.len() <= number {
            groups.push(Group::new(self.run.plan.endpoints.len()));
        }
        groups.get(number).cloned()
    }

    fn elapsed_ns(&self) -> u64 {
        nanoseconds(self.start.elapsed())
    }

    fn leave(&self, index: usize) {
        if let Some(present) = self.present.borrow_mut().get_mut(index) {
            *present = false;
        }
        self.left.set(self.left.get().saturating_sub(1));
        // Where users come and go, `watch` sees when it is over.
        if self.left.get() == 0 && self.run.control.users().is_none() {
            self.ended.notify_one();
        }
    }

    /// Hands the intervals before this time to the collector, and the one under way at the end.
    fn flush(&self, now_ns: u64, last: bool) {
        let mut interval = self.interval.borrow_mut();
        let length = nanoseconds(self.run.interval).max(1);
        let index = now_ns / length;
        while interval.index < index || last {
            interval.users = self.active.get();
            let next = Interval::new(interval.index + 1);
            let whole = std::mem::replace(&mut *interval, next);
            let ended = last && whole.index >= index;
            self.sender
                .send(Event::Interval(Box::new(whole)))
                .unwrap_or_default();
            if ended {
                return;
            }
        }
    }

    fn note(&self, sample: &Sample, done_at: Instant) {
        let at_ns = nanoseconds(done_at - self.start);
        self.last_ns.set(self.last_ns.get().max(at_ns));
        self.flush(at_ns, false);
        self.interval.borrow_mut().note(sample);
        self.tally.borrow_mut().note(sample, at_ns);
    }

    /// Sleeps, unless the run stops first; whether it goes on.
    async fn pause(&self, time: Duration) -> bool {
        if self.stopped.get() {
            return false;
        }
        if time.is_zero() {
            return true;
        }
        tokio::select! {
            () = tokio::time::sleep(time) => true,
            () = self.stop.notified() => false,
        }
    }
}

/// One user.
struct User {
    thread: Rc<Thread>,
    number: usize,
    client: Client,
    random: fastrand::Rng,
    values: Vec<Vec<u8>>,
    /// Did what comes before the first task.
    started: bool,
    /// Rings when the user's request is due.
    due: Rc<Notify>,
    at_work: bool,
}

/// What a user begins next.
struct Turn {
    task: usize,
    /// When it began or was due.
    begin: Instant,
    now: Instant,
}

impl User {
    fn new(thread: Rc<Thread>, number: usize, client: Client) -> User {
        let plan = &thread.run.plan;
        let mut values = vec![Vec::new(); plan.values];
        for given in &plan.given {
            let line = given.lines.get(number % given.lines.len().max(1));
            if let (Some(slot), Some(line)) = (values.get_mut(given.value), line) {
                slot.clone_from(line);
            }
        }
        User {
            number,
            client,
            random: fastrand::Rng::with_seed(plan.seed.wrapping_add(number as u64)),
            values,
            started: false,
            due: Rc::new(Notify::new()),
            at_work: false,
            thread,
        }
    }

    async fn live(&mut self) {
        while let Some(turn) = self.next_turn().await {
            self.set_at_work(true);
            if !self.perform(turn).await {
                break;
            }
            let think = self.thread.run.plan.think;
            if !self.think(think).await {
                break;
            }
        }
        self.set_at_work(false);
    }

    fn set_at_work(&mut self, at_work: bool) {
        if std::mem::replace(&mut self.at_work, at_work) == at_work {
            return;
        }
        let active = &self.thread.active;
        active.set(if at_work {
            active.get() + 1
        } else {
            active.get().saturating_sub(1)
        });
    }

    /// Waits for the moment to begin the next task; `None` when there is none any more.
    async fn next_turn(&mut self) -> Option<Turn> {
        if self.thread.stopped.get() {
            return None;
        }
        let thread = Rc::clone(&self.thread);
        let run = &thread.run;
        if run
            .control
            .users()
            .is_some_and(|users| self.number >= users)
        {
            return None;
        }
        match &run.plan.pace {
            Pace::Closed(stages) => {
                if !stages.is_empty() {
                    self.wait_for_turn(stages).await?;
                }
                let now = Instant::now();
                Some(Turn {
                    task: self.choose(),
                    begin: now,
                    now,
                })
            }
            Pace::Open(stages) => {
                let number = run.next_arrival();
                let due = self.or_exhausted(pace::due(stages, number))?;
                let task = self.choose();
                self.wait_until_due(due, task).await
            }
            Pace::Recorded(times) => {
                let number = usize::try_from(run.next_arrival()).ok()?;
                let due = self.or_exhausted(times.get(number).copied())?;
                let task = match &run.plan.order {
                    Order::InTurn(sequence) => *sequence.get(number)? as usize,
                    Order::Weighted => self.choose(),
                };
                self.wait_until_due(due, task).await
            }
        }
    }

    fn or_exhausted<T>(&self, next: Option<T>) -> Option<T> {
        if next.is_none() {
            self.thread.run.exhaust();
        }
        next
    }

    /// Waits until the stages have room for this user.
    async fn wait_for_turn(&mut self, stages: &[crate::plan::Stage]) -> Option<()> {
        loop {
            let elapsed = self.thread.start.elapsed();
            let turn = pace::next_turn(stages, self.number, elapsed)?;
            if turn <= elapsed {
                return Some(());
            }
            self.set_at_work(false);
            self.client.forget();
            let goes_on = self.thread.pause(turn - elapsed).await;
            goes_on.then_some(())?;
        }
    }

    async fn wait_until_due(&mut self, due: Duration, task: usize) -> Option<Turn> {
        let thread = Rc::clone(&self.thread);
        if thread.run.plan.duration.is_some_and(|limit| due >= limit) {
            thread.run.exhaust();
            return None;
        }
        let begin = thread.start + due;
        let mut now = Instant::now();
        if begin > now {
            self.set_at_work(false);
            thread.pacer.enqueue(begin, &self.due);
            tokio::select! {
                () = self.due.notified() => {}
                () = thread.stop.notified() => return None,
            }
            now = Instant::now();
            let late = nanoseconds(now.saturating_duration_since(begin));
            thread.tally.borrow_mut().lateness.record(late);
        }
        Some(Turn { task, begin, now })
    }

    fn choose(&mut self) -> usize {
        let run = &self.thread.run;
        if run.plan.tasks.len() <= 1 {
            return 0;
        }
        match &run.plan.order {
            Order::InTurn(sequence) => {
                let turn = run.next_in_turn(sequence.len());
                sequence.get(turn).map_or(0, |task| *task as usize)
            }
            Order::Weighted => {
                let weights = &self.thread.weights;
                let chosen = self
                    .random
                    .u64(..weights.last().copied().unwrap_or(1).max(1));
                weights.partition_point(|sum| *sum <= chosen)
            }
        }
    }

    /// Does the steps of a task; whether there may be another.
    async fn perform(&mut self, turn: Turn) -> bool {
        let run = Arc::clone(&self.thread.run);
        let Some(task) = run.plan.tasks.get(turn.task) else {
            return false;
        };
        let (mut begin, mut now) = (turn.begin, turn.now);
        if !self.started && !run.plan.start.is_empty() {
            self.started = true;
            if !self.steps(&run, &run.plan.start, begin, now).await {
                return false;
            }
            now = Instant::now();
            begin = now;
        }
        self.steps(&run, &task.steps, begin, now).await
    }

    async fn steps(
        &mut self,
        run: &Run,
        steps: &[Step],
        mut begin: Instant,
        mut now: Instant,
    ) -> bool {
        for (index, step) in steps.iter().enumerate() {
            if index > 0 {
                now = Instant::now();
                begin = now;
                if self.thread.stopped.get() {
                    return false;
                }
            }
            if !run.take_ticket() {
                return false;
            }
            let failure = self.request(run, step, begin, now).await;
            if let Some(failure) = failure {
                let refused = matches!(failure, Failure::Connect(_) | Failure::Tls(_));
                return !refused || self.thread.pause(FAILURE_PAUSE).await;
            }
            if step.think.is_some() && !self.think(step.think).await {
                return false;
            }
        }
        true
    }

    async fn request(
        &mut self,
        run: &Run,
        step: &Step,
        begin: Instant,
        now: Instant,
    ) -> Option<Failure> {
        let endpoint = run.plan.endpoints.get(step.request.endpoint)?;
        // Of the first response the head is looked at.
        let keep = match run.first.get() {
            Some(_) => step.keep(&run.plan.client),
            None => step.keep(&run.plan.client).max(1),
        };
        let under_way = &self.thread.under_way;
        under_way.set(under_way.get() + 1);
        let exchange = self
            .client
            .exchange(endpoint, step, &self.values, begin, now, keep);
        let (mut sample, done_at) = exchange.await;
        let under_way = &self.thread.under_way;
        under_way.set(under_way.get() - 1);
        if sample.failure.is_none() {
            let first = run.first.get_or_init(|| First {
                server: self.client.reader().kept.server(),
                body_bytes: sample.body_bytes,
            });
            sample.failure = self.judge(step, &sample, first);
        }
        self.thread.note(&sample, done_at);
        sample.failure
    }

    /// Checks a whole response and takes its values.
    fn judge(&mut self, step: &Step, sample: &Sample, first: &First) -> Option<Failure> {
        let checks = &step.checks;
        if self.thread.run.plan.same_length && sample.body_bytes != first.body_bytes {
            return Some(Failure::Length);
        }
        if !checks.allows(sample.status) {
            return Some(Failure::Status(sample.status));
        }
        if checks
            .length
            .is_some_and(|length| length != sample.body_bytes)
        {
            return Some(Failure::Length);
        }
        let kept = &self.client.reader().kept;
        if let Some(pattern) = &checks.body
            && !pattern.is_match(&kept.body)
        {
            return Some(Failure::Body);
        }
        for take in &step.takes {
            let Some(value) = find(take, kept) else {
                return Some(Failure::Value(take.name.clone()));
            };
            if let Some(slot) = self.values.get_mut(take.value) {
                *slot = value;
            }
        }
        None
    }

    async fn think(&mut self, think: Option<Think>) -> bool {
        let Some(think) = think else {
            return !self.thread.stopped.get();
        };
        let (from, to) = (nanoseconds(think.from), nanoseconds(think.to));
        let time = Duration::from_nanos(self.random.u64(from..=to));
        self.thread.pause(time).await
    }
}

fn find(take: &Take, kept: &Kept) -> Option<Vec<u8>> {
    let text = if take.from_head {
        &kept.head
    } else {
        &kept.body
    };
    let captures = take.pattern.captures(text)?;
    let found = captures.get(1).or_else(|| captures.get(0))?.as_bytes();
    Some(found.get(..VALUE_MAX).unwrap_or(found).to_vec())
}
