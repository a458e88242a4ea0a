//! What a run came to. The forms in which it is shown are one file each.

use crate::engine::First;
use crate::failure::{Failure, FailureKind};
use crate::histogram::Times;
use crate::plan::{Pace, Plan};
use crate::record::{Failed, Phases, Row, Single, Tally};
use crate::require::Verdict;
use crate::series::Point;
use crate::series::Series;
use crate::target::Endpoint;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// The report of `ab`.
pub mod ab;
/// Rows for spreadsheets.
pub mod csv;
/// One page with charts.
pub mod html;
/// JMeter's aggregate report.
pub mod jmeter;
/// Everything, for machines.
pub mod json;
/// Locust's statistics.
pub mod locust;
/// Columns of text.
mod table;
/// The summary for people.
pub mod text;

/// The percentiles that are listed everywhere.
pub const PERCENTILES: &[f64] = &[
    50.0, 66.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.9, 99.99, 100.0,
];

/// A run's outcome.
#[derive(Clone, Debug)]
pub struct Report {
    pub plan: Plan,
    pub began: SystemTime,
    /// From the start to the last response, or to the end of the time that was asked for.
    pub elapsed: Duration,
    /// Parallel to `labels`.
    pub rows: Vec<Row>,
    pub labels: Vec<String>,
    pub total: Row,
    pub phases: Phases,
    pub statuses: BTreeMap<u16, u64>,
    /// The most frequent first.
    pub failures: Vec<FailureRow>,
    /// What the first response said.
    pub first: Option<First>,
    pub opened: u64,
    pub reused: u64,
    /// Responses after which the connection could stay.
    pub keep_alive: u64,
    pub abandoned: u64,
    pub lateness: Times,
    pub points: Vec<Point>,
    /// Each request by itself, where the plan wants them.
    pub singles: Vec<Single>,
    pub verdicts: Vec<Verdict>,
}

/// Failures of one kind in one row.
#[derive(Clone, Debug, PartialEq)]
pub struct FailureRow {
    pub label: String,
    pub failure: Failure,
    pub count: u64,
    /// Since the start.
    pub first: Duration,
    pub last: Duration,
}

impl Row {
    /// In per cent.
    pub fn failure_share(&self) -> f64 {
        100.0 * self.failures as f64 / self.requests.max(1) as f64
    }
}

impl Report {
    pub fn new(
        plan: &Plan,
        tally: Tally,
        series: Series,
        last_ns: u64,
        began: SystemTime,
    ) -> Report {
        // A tally's last statuses are only settled by adding it to another.
        let mut sum = Tally::new(plan.labels.len());
        sum.add(tally);
        let mut total = Row::default();
        sum.rows.iter().for_each(|row| total.add(row));
        let mut report = Report {
            plan: plan.clone(),
            began,
            elapsed: Duration::from_nanos(last_ns),
            rows: sum.rows,
            labels: plan.labels.clone(),
            total,
            phases: sum.phases,
            statuses: sum.statuses.into_iter().collect(),
            failures: failure_rows(plan, sum.failures),
            first: None,
            opened: sum.opened,
            keep_alive: sum.keep_alive,
            reused: sum.reused,
            abandoned: sum.abandoned,
            lateness: sum.lateness,
            points: series.points,
            singles: sum.singles.unwrap_or_default(),
            verdicts: Vec::new(),
        };
        report.verdicts = plan
            .requirements
            .iter()
            .map(|requirement| requirement.judge(&report))
            .collect();
        report
    }

    /// Whether every requirement holds.
    pub fn holds(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.holds)
    }

    pub fn rate(&self, count: u64) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 {
            count as f64 / seconds
        } else {
            0.0
        }
    }

    pub fn requests_per_second(&self) -> f64 {
        self.rate(self.total.requests)
    }

    /// Failures of a kind.
    pub fn failed(&self, kind: FailureKind) -> u64 {
        self.failures
            .iter()
            .filter(|row| row.failure.kind() == kind)
            .map(|row| row.count)
            .sum()
    }

    /// The method of the requests in a row; the first, if there are several.
    pub fn method(&self, label: usize) -> &str {
        let steps = self.plan.steps();
        steps
            .filter(|step| step.label == label)
            .map(|step| step.request.method.as_str())
            .next()
            .unwrap_or_default()
    }

    pub fn is_open_model(&self) -> bool {
        !matches!(self.plan.pace, Pace::Closed(_))
    }

    /// What was loaded: the rows' names, cut short.
    pub fn title(&self) -> String {
        title(&self.plan.endpoints, &self.labels)
    }
}

/// What is loaded, in short: the server, with the path if there is but one.
pub fn title(endpoints: &[Endpoint], labels: &[String]) -> String {
    let authority = endpoints.first().map_or_else(String::new, |endpoint| {
        format!("{}://{}", endpoint.scheme.as_str(), endpoint.authority)
    });
    match labels {
        [label] if endpoints.len() == 1 && label.starts_with('/') => authority + label,
        _ => authority,
    }
}

fn failure_rows(
    plan: &Plan,
    failures: std::collections::HashMap<(usize, Failure), Failed>,
) -> Vec<FailureRow> {
    let mut rows: Vec<_> = failures
        .into_iter()
        .map(|((label, failure), failed)| FailureRow {
            label: plan.labels.get(label).cloned().unwrap_or_default(),
            failure,
            count: failed.count,
            first: Duration::from_nanos(failed.first_ns),
            last: Duration::from_nanos(failed.last_ns),
        })
        .collect();
    rows.sort_by(|a, b| (b.count, &a.label, &a.failure).cmp(&(a.count, &b.label, &b.failure)));
    rows
}

#[cfg(test)]
pub mod testing {
    //! A report whose figures are known.

    use super::*;
    use crate::record::{Interval, Sample};
    use crate::target::Target;

    /// 1000 requests in 2 s over 10 connections: of 1, 2 … 100 ms, each ten times, ten failed with 500.
    pub fn report() -> Report {
        let plan = Plan {
            endpoints: vec![Target::parse("http://localhost:8080/a").unwrap().endpoint],
            labels: vec!["a".into(), "b".into()],
            users: 10,
            requests: Some(1000),
            ..Plan::default()
        };
        let mut tally = Tally::new(2);
        let mut series = Series::new(Duration::from_secs(1), 1);
        let mut intervals = [Interval::new(0), Interval::new(1)];
        for n in 0..1000u64 {
            let total_ns = (n % 100 + 1) * 1_000_000;
            let failed = n % 100 == 99;
            let sample = Sample {
                status: if failed { 500 } else { 200 },
                total_ns,
                connect_ns: (n < 10).then_some(500_000),
                waiting_ns: total_ns / 2,
                receiving_ns: total_ns / 4,
                sent_bytes: 40,
                received_bytes: 100,
                body_bytes: 60,
                failure: failed.then_some(Failure::Status(500)),
                ..Sample::default()
            };
            tally.note(&sample, n * 2_000_000);
            intervals[(n / 500) as usize].note(&sample);
        }
        for mut interval in intervals {
            interval.users = 10;
            series.take(interval);
        }
        Report::new(&plan, tally, series, 2_000_000_000, SystemTime::UNIX_EPOCH)
    }
}
