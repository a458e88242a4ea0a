//! Latencies in nanoseconds: an HDR histogram with the exact count, sum and extremes beside it.

use hdrhistogram::Histogram;
use std::time::Duration;

/// Values are told apart from here on.
const LOWEST_NS: u64 = 16;
/// Values beyond this (ten hours) count as this.
const HIGHEST_NS: u64 = 36_000_000_000_000;

/// Times and how often they occurred. From 10 µs on, percentiles are within 0.2 % (1 % for `coarse`), the rest is exact.
#[derive(Clone, Debug)]
pub struct Times {
    /// Made with the first value: a row that nothing falls into costs nothing.
    histogram: Option<Box<Histogram<u64>>>,
    digits: u8,
    count: u64,
    sum_ns: u128,
    /// Of the squares of microseconds, for the standard deviation.
    sum_squares: f64,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times::with_digits(3)
    }
}

impl Times {
    fn with_digits(digits: u8) -> Times {
        Times {
            histogram: None,
            digits,
            count: 0,
            sum_ns: 0,
            sum_squares: 0.0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }

    /// Two significant digits instead of three: for the many small pieces of a run over time.
    pub fn coarse() -> Times {
        Times::with_digits(2)
    }

    pub fn record(&mut self, ns: u64) {
        self.record_many(ns, 1);
    }

    pub fn record_many(&mut self, ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.count += count;
        self.sum_ns += u128::from(ns) * u128::from(count);
        let us = ns as f64 / 1e3;
        self.sum_squares += us * us * count as f64;
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        if let Some(histogram) = self.open() {
            // It grows up to the highest value, so that none is refused.
            histogram
                .record_n(ns.min(HIGHEST_NS), count)
                .unwrap_or_default();
        }
    }

    fn open(&mut self) -> Option<&mut Histogram<u64>> {
        if self.histogram.is_none() {
            // The bounds are constants that it takes.
            let mut made = Histogram::new_with_bounds(LOWEST_NS, 1 << 30, self.digits).ok()?;
            made.auto(true);
            self.histogram = Some(Box::new(made));
        }
        self.histogram.as_deref_mut()
    }

    pub fn add(&mut self, other: &Times) {
        let Some(theirs) = &other.histogram else {
            return;
        };
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.sum_squares += other.sum_squares;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        if let Some(own) = self.open() {
            // Only a value beyond what it holds could fail, and it grows.
            own.add(theirs.as_ref()).unwrap_or_default();
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn min(&self) -> Duration {
        Duration::from_nanos(if self.count == 0 { 0 } else { self.min_ns })
    }

    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }

    pub fn mean(&self) -> Duration {
        let mean = self.sum_ns / u128::from(self.count.max(1));
        Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// Standard deviation of the sample.
    pub fn deviation(&self) -> Duration {
        if self.count < 2 {
            return Duration::ZERO;
        }
        let count = self.count as f64;
        let sum = self.sum_ns as f64 / 1e3;
        let variance = (self.sum_squares - sum * sum / count) / (count - 1.0);
        Duration::from_secs_f64(variance.max(0.0).sqrt() / 1e6)
    }

    /// The time that this share of all, in per cent, did not exceed.
    pub fn percentile(&self, percent: f64) -> Duration {
        let Some(histogram) = &self.histogram else {
            return Duration::ZERO;
        };
        let found = histogram.value_at_quantile(percent / 100.0);
        Duration::from_nanos(found.clamp(self.min_ns, self.max_ns))
    }

    /// The share of all, in per cent, within one standard deviation of the mean.
    pub fn within_deviation(&self) -> f64 {
        let (mean, deviation) = (self.mean(), self.deviation());
        self.share(mean.saturating_sub(deviation), mean + deviation)
    }

    /// The share of all, in per cent, between two times.
    pub fn share(&self, from: Duration, to: Duration) -> f64 {
        let Some(histogram) = &self.histogram else {
            return 0.0;
        };
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let count = histogram.count_between(ns(from), ns(to).min(HIGHEST_NS));
        100.0 * count as f64 / self.count as f64
    }

    /// The values that occurred, from the smallest on: nanoseconds and count.
    pub fn values(&self) -> Vec<(u64, u64)> {
        let Some(histogram) = &self.histogram else {
            return Vec::new();
        };
        histogram
            .iter_recorded()
            .map(|value| (value.value_iterated_to(), value.count_at_value()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_close_and_the_rest_is_exact() {
        let mut times = Times::default();
        let mut halves = [Times::default(), Times::default()];
        for n in 1..=10_000u64 {
            times.record(n * 10_000);
            halves[(n % 2) as usize].record(n * 10_000);
        }
        let mut sum = Times::default();
        halves.iter().for_each(|half| sum.add(half));
        for times in [times, sum] {
            assert_eq!(times.count(), 10_000);
            assert_eq!(times.min(), Duration::from_micros(10));
            assert_eq!(times.max(), Duration::from_millis(100));
            assert_eq!(times.mean(), Duration::from_nanos(50_005_000));
            for percent in [0.01, 1.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
                let found = times.percentile(percent).as_nanos() as f64;
                let exact = percent * 1_000_000.0;
                assert!((found / exact - 1.0).abs() < 0.002, "{percent}: {found}");
            }
            let deviation = times.deviation().as_secs_f64();
            assert!((deviation - 0.028_868_956).abs() < 1e-7, "{deviation}");
            assert!((times.within_deviation() - 57.7).abs() < 0.2);
        }
    }

    #[test]
    fn extremes_and_nothing_are_taken() {
        let mut times = Times::default();
        assert_eq!(times.percentile(50.0), Duration::ZERO);
        assert_eq!(
            (times.min(), times.mean(), times.deviation()),
            Default::default()
        );
        times.record(0);
        times.record(u64::MAX);
        assert_eq!(times.min(), Duration::ZERO);
        assert_eq!(times.max(), Duration::from_nanos(u64::MAX));
        assert!(times.percentile(100.0) >= Duration::from_secs(36_000));
        let mut coarse = Times::coarse();
        coarse.record(50_000_000_000);
        assert_eq!(coarse.percentile(99.0), Duration::from_secs(50));
        times.add(&coarse);
        assert_eq!(times.count(), 3);
    }
}
