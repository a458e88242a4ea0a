//! What a thread notes of each request: counts and times, per row and over time.

use crate::failure::Failure;
use crate::histogram::Times;
use crate::plan::KEPT_MAX;
use std::collections::HashMap;

/// Kinds of failures that are counted apart.
const FAILURES_MAX: usize = 200;

/// One request that was sent, or meant to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    pub label: usize,
    /// 0 without a response.
    pub status: u16,
    /// From the moment at which it began, or in an open model was due, to the last byte.
    pub total_ns: u64,
    /// Of the connection that was opened for it.
    pub connect_ns: Option<u64>,
    pub tls_ns: Option<u64>,
    /// From the last byte sent to the first byte received.
    pub waiting_ns: u64,
    /// From the first byte received to the last.
    pub receiving_ns: u64,
    pub sent_bytes: u64,
    /// With heads and framing, without TLS.
    pub received_bytes: u64,
    pub body_bytes: u64,
    /// The server would have kept the connection.
    pub keep_alive: bool,
    pub failure: Option<Failure>,
}

/// A row of the report.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub requests: u64,
    pub failures: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub body_bytes: u64,
    pub total: Times,
}

impl Row {
    fn note(&mut self, sample: &Sample) {
        self.requests += 1;
        self.failures += u64::from(sample.failure.is_some());
        self.sent_bytes += sample.sent_bytes;
        self.received_bytes += sample.received_bytes;
        self.body_bytes += sample.body_bytes;
        self.total.record(sample.total_ns);
    }

    pub fn add(&mut self, other: &Row) {
        self.requests += other.requests;
        self.failures += other.failures;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.body_bytes += other.body_bytes;
        self.total.add(&other.total);
    }
}

/// A row's failures of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub count: u64,
    /// Since the start of the run, in nanoseconds.
    pub first_ns: u64,
    pub last_ns: u64,
}

/// Where the time of a request goes.
#[derive(Clone, Debug, Default)]
pub struct Phases {
    pub connect: Times,
    pub tls: Times,
    pub waiting: Times,
    pub receiving: Times,
    /// All but connecting.
    pub processing: Times,
}

/// The times of one request, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Single {
    /// When it began, since the start of the run.
    pub begin_ns: u64,
    pub connect_ns: u64,
    pub waiting_ns: u64,
    pub total_ns: u64,
}

/// All that one thread, or all of them together, have seen.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub rows: Vec<Row>,
    pub phases: Phases,
    pub statuses: HashMap<u16, u64>,
    pub failures: HashMap<(usize, Failure), Failed>,
    /// Connections opened, and requests that went out on one that was there.
    pub opened: u64,
    pub reused: u64,
    /// Responses after which the connection could stay.
    pub keep_alive: u64,
    /// Requests under way when the run was broken off.
    pub abandoned: u64,
    /// By how much requests were sent after they were due although a connection was free: the tester's own doing.
    pub lateness: Times,
    /// Each request by itself, where the plan wants them.
    pub singles: Option<Vec<Single>>,
    /// The status seen last, and how often in a row: most responses are like the one before.
    run: (u16, u64),
}

impl Tally {
    pub fn new(rows: usize) -> Tally {
        Tally {
            rows: vec![Row::default(); rows],
            ..Tally::default()
        }
    }

    /// `at_ns` is the time since the start of the run.
    pub fn note(&mut self, sample: &Sample, at_ns: u64) {
        if let Some(row) = self.rows.get_mut(sample.label) {
            row.note(sample);
        }
        if let Some(singles) = self.singles.as_mut().filter(|kept| kept.len() < KEPT_MAX) {
            singles.push(Single {
                begin_ns: at_ns.saturating_sub(sample.total_ns),
                connect_ns: sample.connect_ns.unwrap_or(0) + sample.tls_ns.unwrap_or(0),
                waiting_ns: sample.waiting_ns,
                total_ns: sample.total_ns,
            });
        }
        let answered = sample.failure.as_ref().is_none_or(Failure::is_answered);
        if answered {
            self.note_phases(sample);
        }
        if sample.status == self.run.0 {
            self.run.1 += 1;
        } else {
            self.settle();
            self.run = (sample.status, 1);
        }
        self.keep_alive += u64::from(sample.keep_alive);
        match sample.connect_ns {
            Some(_) => self.opened += 1,
            None => self.reused += 1,
        }
        if let Some(failure) = &sample.failure {
            self.note_failure(sample.label, failure, at_ns);
        }
    }

    fn note_phases(&mut self, sample: &Sample) {
        let phases = &mut self.phases;
        let mut processing = sample.total_ns;
        if let Some(connect) = sample.connect_ns {
            phases.connect.record(connect);
            processing = processing.saturating_sub(connect);
        }
        if let Some(tls) = sample.tls_ns {
            phases.tls.record(tls);
            processing = processing.saturating_sub(tls);
        }
        phases.waiting.record(sample.waiting_ns);
        phases.receiving.record(sample.receiving_ns);
        phases.processing.record(processing);
    }

    fn note_failure(&mut self, label: usize, failure: &Failure, at_ns: u64) {
        let full = self.failures.len() >= FAILURES_MAX;
        let mut key = (label, failure.clone());
        if full && !self.failures.contains_key(&key) {
            key.1 = Failure::Io("other reasons".to_owned());
        }
        let failed = self.failures.entry(key).or_insert(Failed {
            count: 0,
            first_ns: at_ns,
            last_ns: at_ns,
        });
        failed.count += 1;
        failed.last_ns = at_ns;
    }

    /// Puts the last run of equal statuses where the others are.
    fn settle(&mut self) {
        let (status, count) = std::mem::take(&mut self.run);
        if status != 0 && count > 0 {
            *self.statuses.entry(status).or_default() += count;
        }
    }

    pub fn add(&mut self, mut other: Tally) {
        self.settle();
        other.settle();
        for (row, theirs) in self.rows.iter_mut().zip(&other.rows) {
            row.add(theirs);
        }
        let (own, theirs) = (&mut self.phases, &other.phases);
        own.connect.add(&theirs.connect);
        own.tls.add(&theirs.tls);
        own.waiting.add(&theirs.waiting);
        own.receiving.add(&theirs.receiving);
        own.processing.add(&theirs.processing);
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        for (key, theirs) in other.failures {
            let failed = self
                .failures
                .entry(key)
                .or_insert(Failed { count: 0, ..theirs });
            failed.count += theirs.count;
            failed.first_ns = failed.first_ns.min(theirs.first_ns);
            failed.last_ns = failed.last_ns.max(theirs.last_ns);
        }
        self.opened += other.opened;
        self.reused += other.reused;
        self.keep_alive += other.keep_alive;
        self.abandoned += other.abandoned;
        self.lateness.add(&other.lateness);
        if let Some(theirs) = other.singles {
            let own = self.singles.get_or_insert_default();
            let room = KEPT_MAX.saturating_sub(own.len());
            own.extend(theirs.into_iter().take(room));
        }
    }
}

/// A piece of the run over time.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Its number since the start.
    pub index: u64,
    pub requests: u64,
    pub failures: u64,
    pub received_bytes: u64,
    /// Users at work at its end.
    pub users: usize,
    /// Responses by the first digit of their status; without a response at 0.
    pub classes: [u64; 6],
    pub connect_ns: u64,
    pub tls_ns: u64,
    pub waiting_ns: u64,
    pub receiving_ns: u64,
    pub total: Times,
}

impl Interval {
    pub fn new(index: u64) -> Interval {
        Interval {
            index,
            requests: 0,
            failures: 0,
            received_bytes: 0,
            users: 0,
            classes: [0; 6],
            connect_ns: 0,
            tls_ns: 0,
            waiting_ns: 0,
            receiving_ns: 0,
            total: Times::coarse(),
        }
    }

    pub fn note(&mut self, sample: &Sample) {
        self.requests += 1;
        self.failures += u64::from(sample.failure.is_some());
        self.received_bytes += sample.received_bytes;
        let class = usize::from(sample.status / 100).min(5);
        self.classes[class] += 1;
        self.connect_ns += sample.connect_ns.unwrap_or(0);
        self.tls_ns += sample.tls_ns.unwrap_or(0);
        self.waiting_ns += sample.waiting_ns;
        self.receiving_ns += sample.receiving_ns;
        self.total.record(sample.total_ns);
    }

    /// Adds what another thread saw in the same time.
    pub fn add(&mut self, other: &Interval) {
        self.requests += other.requests;
        self.failures += other.failures;
        self.received_bytes += other.received_bytes;
        self.users += other.users;
        for (own, theirs) in self.classes.iter_mut().zip(other.classes) {
            *own += theirs;
        }
        self.connect_ns += other.connect_ns;
        self.tls_ns += other.tls_ns;
        self.waiting_ns += other.waiting_ns;
        self.receiving_ns += other.receiving_ns;
        self.total.add(&other.total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up() {
        let mut sum = Tally::new(2);
        for thread in 0..3 {
            let mut tally = Tally::new(2);
            for n in 0..10u64 {
                let failure = (n == 9).then_some(Failure::Status(500));
                let sample = Sample {
                    label: (n % 2) as usize,
                    status: if n == 9 { 500 } else { 200 },
                    total_ns: 1000 * (n + 1),
                    connect_ns: (n == 0).then_some(100),
                    received_bytes: 5,
                    failure,
                    ..Sample::default()
                };
                tally.note(&sample, 10 * thread + n);
            }
            sum.add(tally);
        }
        assert_eq!((sum.rows[0].requests, sum.rows[1].failures), (15, 3));
        assert_eq!((sum.opened, sum.reused), (3, 27));
        assert_eq!((sum.statuses[&200], sum.statuses[&500]), (27, 3));
        let failed = &sum.failures[&(1, Failure::Status(500))];
        assert_eq!((failed.count, failed.first_ns, failed.last_ns), (3, 9, 29));
        assert_eq!(sum.phases.processing.count(), 30);
    }

    #[test]
    fn failures_of_many_kinds_are_bounded() {
        let mut tally = Tally::new(1);
        for n in 0..1000 {
            tally.note_failure(0, &Failure::Tls(n.to_string()), 0);
        }
        assert_eq!(tally.failures.len(), FAILURES_MAX + 1);
        assert_eq!(tally.failures.values().map(|f| f.count).sum::<u64>(), 1000);
    }
}
