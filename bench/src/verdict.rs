//! Ratios between servers of one run, and whether they meet the targets.

use crate::cases;
use crate::report::Spread;
use crate::side_by_side::{IdleRow, Row};
use crate::targets::{self, Against, SUBJECT};

/// One target and what became of it.
pub struct Verdict {
    pub case: String,
    pub what: &'static str,
    pub against: Against,
    pub at_most: f64,
    pub ratio: Spread,
}

impl Verdict {
    pub fn met(&self) -> bool {
        self.ratio.median <= self.at_most
    }

    /// Whether the rounds disagree: the same comparison again could end the other way.
    pub fn within_noise(&self) -> bool {
        self.ratio.least <= self.at_most && self.ratio.greatest > self.at_most
    }

    pub fn outcome(&self) -> &'static str {
        match (self.met(), self.within_noise()) {
            (true, false) => "yes",
            (true, true) => "yes, but rounds disagree",
            (false, false) => "NO",
            (false, true) => "NO, but rounds disagree",
        }
    }
}

/// Every target for which both sides were measured.
pub fn verdicts(rows: &[Row], idle: &[IdleRow]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for against in [Against::Nginx, Against::Floor] {
        let mut judge = |case: &str, what, ratio: Option<Spread>| {
            if let (Some(at_most), Some(ratio)) = (targets::at_most(case, against), ratio) {
                let case = case.to_owned();
                verdicts.push(Verdict {
                    case,
                    what,
                    against,
                    at_most,
                    ratio,
                });
            }
        };
        for row in rows.iter().filter(|row| row.contender == SUBJECT) {
            judge(
                row.case.name,
                "CPU per request",
                cpu_ratio(rows, row, against),
            );
        }
        for row in idle.iter().filter(|row| row.contender == SUBJECT) {
            judge(
                cases::IDLE,
                "memory per connection",
                idle_ratio(idle, row, against),
            );
        }
    }
    verdicts
}

/// CPU per request of `row` as a multiple of the other server's in the same case.
pub fn cpu_ratio(rows: &[Row], row: &Row, against: Against) -> Option<Spread> {
    let same_case =
        |other: &&Row| other.case.name == row.case.name && other.contender == against.as_str();
    let reference = rows.iter().find(same_case)?;
    let values = |row: &Row| {
        row.samples
            .iter()
            .map(|sample| sample.cpu_us_per_request)
            .collect::<Vec<_>>()
    };
    Some(ratio(&values(row), &values(reference)))
}

/// Memory per idle connection as a multiple of the other server's.
pub fn idle_ratio(idle: &[IdleRow], row: &IdleRow, against: Against) -> Option<Spread> {
    let reference = idle
        .iter()
        .find(|other| other.contender == against.as_str())?;
    let values = |row: &IdleRow| {
        row.samples
            .iter()
            .map(|sample| sample.per_connection())
            .collect::<Vec<_>>()
    };
    Some(ratio(&values(row), &values(reference)))
}

/// The ratio of the medians, with the least and greatest ratio within a round.
pub fn ratio(values: &[f64], reference: &[f64]) -> Spread {
    let median = |values: &[f64]| Spread::of(values.iter().copied()).median;
    let by_round = values
        .iter()
        .zip(reference)
        .map(|(value, reference)| value / reference);
    Spread {
        median: median(values) / median(reference),
        ..Spread::of(by_round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::side_by_side::Sample;

    fn row(name: &str, cpu: &[f64]) -> Row {
        let sample = |cpu: &f64| Sample {
            cpu_us_per_request: *cpu,
            requests_per_second: 1.0,
            p99_us: 1,
            server_share: 1.0,
            others_share: 0.0,
        };
        Row {
            case: cases::all()[0].clone(),
            contender: name.to_owned(),
            samples: cpu.iter().map(sample).collect(),
        }
    }

    #[test]
    fn a_target_is_met_at_its_limit_and_missed_above() {
        let rows = [
            row("nginx", &[10.0]),
            row(SUBJECT, &[8.5]),
            row("floor", &[4.0]),
        ];
        let outcomes: Vec<&str> = verdicts(&rows, &[]).iter().map(Verdict::outcome).collect();
        assert_eq!(outcomes, ["yes", "NO"]);
    }

    #[test]
    fn rounds_that_disagree_are_said_to() {
        let rows = [
            row("nginx", &[10.0, 10.0, 10.0]),
            row(SUBJECT, &[8.0, 8.5, 9.0]),
        ];
        let outcomes: Vec<&str> = verdicts(&rows, &[]).iter().map(Verdict::outcome).collect();
        assert_eq!(outcomes, ["yes, but rounds disagree"]);
    }
}
