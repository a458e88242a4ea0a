//! The run over time: the intervals of all threads put together, one point each.

use crate::record::Interval;
use std::collections::BTreeMap;
use std::time::Duration;

/// More points than this are halved: two become one.
const POINTS_MAX: usize = 7200;

/// One point of the charts.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Point {
    /// The middle of the interval, in seconds since the start.
    pub at_s: f64,
    /// Its length in seconds.
    pub length_s: f64,
    pub requests: u64,
    pub failures: u64,
    pub received_bytes: u64,
    pub users: usize,
    /// Responses by the first digit of their status; without a response at 0.
    pub classes: [u64; 6],
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    /// Means over the requests.
    pub connect_ms: f64,
    pub tls_ms: f64,
    pub waiting_ms: f64,
    pub receiving_ms: f64,
}

/// All points so far, and what is not complete yet.
#[derive(Debug)]
pub struct Series {
    pub points: Vec<Point>,
    length: Duration,
    threads: usize,
    open: BTreeMap<u64, (usize, Interval)>,
    /// Requests and failures, those of incomplete points included.
    pub requests: u64,
    pub failures: u64,
}

impl Series {
    pub fn new(length: Duration, threads: usize) -> Series {
        Series {
            points: Vec::new(),
            length,
            threads,
            open: BTreeMap::new(),
            requests: 0,
            failures: 0,
        }
    }

    /// Takes a thread's interval. Each thread gives each number once, in order.
    pub fn take(&mut self, interval: Interval) {
        self.requests += interval.requests;
        self.failures += interval.failures;
        let index = interval.index;
        let (count, sum) = self
            .open
            .entry(index)
            .or_insert_with(|| (0, Interval::new(index)));
        sum.add(&interval);
        *count += 1;
        while let Some(entry) = self.open.first_entry() {
            if entry.get().0 < self.threads {
                return;
            }
            let (_, interval) = entry.remove();
            self.close(&interval);
        }
    }

    /// Makes points of what some threads did not see any more. The run ended at `end_s`: the last point is as long as it
    /// really was, or goes with the one before where it is a small rest.
    pub fn finish(&mut self, end_s: f64) {
        for (_, (_, interval)) in std::mem::take(&mut self.open) {
            self.close(&interval);
        }
        let is_silent = |point: &Point| point.requests == 0;
        while self.points.last().is_some_and(is_silent) {
            self.points.pop();
        }
        let Some(last) = self.points.last_mut() else {
            return;
        };
        let begin_s = last.at_s - last.length_s / 2.0;
        let (whole_s, rest_s) = (last.length_s, (end_s - begin_s).max(1e-6));
        if rest_s >= whole_s {
            return;
        }
        last.length_s = rest_s;
        last.at_s = begin_s + rest_s / 2.0;
        let pair = self.points.len().saturating_sub(2);
        if rest_s < whole_s / 2.0 && self.points.len() > 1 {
            let rest = self.points.split_off(pair);
            self.points.push(merged(&rest));
        }
    }

    fn close(&mut self, interval: &Interval) {
        self.points.push(point(interval, self.length));
        if self.points.len() > POINTS_MAX {
            self.points = self.points.chunks(2).map(merged).collect();
        }
    }
}

fn point(interval: &Interval, length: Duration) -> Point {
    let total = &interval.total;
    let percentile = |percent| ms(total.percentile(percent));
    let each = |sum_ns: u64| sum_ns as f64 / 1e6 / interval.requests.max(1) as f64;
    let length_s = length.as_secs_f64();
    Point {
        at_s: (interval.index as f64 + 0.5) * length_s,
        length_s,
        requests: interval.requests,
        failures: interval.failures,
        received_bytes: interval.received_bytes,
        users: interval.users,
        classes: interval.classes,
        mean_ms: ms(total.mean()),
        p50_ms: percentile(50.0),
        p90_ms: percentile(90.0),
        p95_ms: percentile(95.0),
        p99_ms: percentile(99.0),
        max_ms: ms(total.max()),
        connect_ms: each(interval.connect_ns),
        tls_ms: each(interval.tls_ns),
        waiting_ms: each(interval.waiting_ns),
        receiving_ms: each(interval.receiving_ns),
    }
}

pub fn ms(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

/// One or two points as one. Percentiles cannot be added: they become the means, by weight, of both.
fn merged(points: &[Point]) -> Point {
    let [a, b] = points else {
        return points.first().cloned().unwrap_or_default();
    };
    let weight = |point: &Point| point.requests as f64;
    let sum = (weight(a) + weight(b)).max(1.0);
    let mean = |of: fn(&Point) -> f64| (of(a) * weight(a) + of(b) * weight(b)) / sum;
    let mut classes = a.classes;
    classes
        .iter_mut()
        .zip(b.classes)
        .for_each(|(own, other)| *own += other);
    Point {
        at_s: a.at_s + b.length_s / 2.0,
        length_s: a.length_s + b.length_s,
        requests: a.requests + b.requests,
        failures: a.failures + b.failures,
        received_bytes: a.received_bytes + b.received_bytes,
        users: a.users.max(b.users),
        classes,
        mean_ms: mean(|point| point.mean_ms),
        p50_ms: mean(|point| point.p50_ms),
        p90_ms: mean(|point| point.p90_ms),
        p95_ms: mean(|point| point.p95_ms),
        p99_ms: mean(|point| point.p99_ms),
        max_ms: a.max_ms.max(b.max_ms),
        connect_ms: mean(|point| point.connect_ms),
        tls_ms: mean(|point| point.tls_ms),
        waiting_ms: mean(|point| point.waiting_ms),
        receiving_ms: mean(|point| point.receiving_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Sample;

    fn interval(index: u64, requests: u64) -> Interval {
        let mut interval = Interval::new(index);
        for _ in 0..requests {
            interval.note(&Sample {
                status: 200,
                total_ns: 2_000_000,
                ..Sample::default()
            });
        }
        interval.users = 1;
        interval
    }

    #[test]
    fn a_point_is_complete_when_all_threads_gave_it() {
        let mut series = Series::new(Duration::from_secs(1), 2);
        series.take(interval(0, 3));
        series.take(interval(1, 1));
        assert!(series.points.is_empty());
        series.take(interval(0, 2));
        assert_eq!(series.points.len(), 1);
        assert_eq!((series.points[0].requests, series.points[0].users), (5, 2));
        series.take(interval(2, 0));
        series.finish(2.0);
        let requests: Vec<u64> = series.points.iter().map(|point| point.requests).collect();
        assert_eq!(requests, [5, 1]);
        assert!((series.points[1].at_s - 1.5).abs() < 1e-9);
        assert!((series.points[1].p50_ms - 2.0).abs() < 0.02);
    }

    #[test]
    fn the_last_point_is_as_long_as_it_was() {
        for (end_s, lengths) in [
            (3.0, vec![1.0, 1.0, 1.0]),
            (2.7, vec![1.0, 1.0, 0.7]),
            (2.1, vec![1.0, 1.1]),
        ] {
            let mut series = Series::new(Duration::from_secs(1), 1);
            (0..3).for_each(|index| series.take(interval(index, 2)));
            series.finish(end_s);
            let found: Vec<f64> = series.points.iter().map(|point| point.length_s).collect();
            assert_eq!(found.len(), lengths.len());
            assert!(
                found
                    .iter()
                    .zip(&lengths)
                    .all(|(a, b)| (a - b).abs() < 1e-9),
                "{found:?}"
            );
            assert_eq!(
                series
                    .points
                    .iter()
                    .map(|point| point.requests)
                    .sum::<u64>(),
                6
            );
        }
    }

    #[test]
    fn a_long_run_stays_small() {
        let mut series = Series::new(Duration::from_secs(1), 1);
        let count = POINTS_MAX as u64 * 5;
        for index in 0..count {
            series.take(interval(index, 1));
        }
        assert!(series.points.len() <= POINTS_MAX);
        assert_eq!(
            series
                .points
                .iter()
                .map(|point| point.requests)
                .sum::<u64>(),
            count
        );
        let length: f64 = series.points.iter().map(|point| point.length_s).sum();
        assert!((length - count as f64).abs() < 1e-6);
    }
}
