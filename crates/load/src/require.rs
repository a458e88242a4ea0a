//! Thresholds: `p95<200ms`, `errors<1%`, `rate>1000`. One that does not hold makes the exit code 1.

use crate::report::Report;
use crate::units;
use std::time::Duration;

/// What the exit code depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    /// As it was written.
    pub text: String,
    measure: Measure,
    /// Of this row only.
    label: Option<String>,
    relation: Relation,
    limit: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Measure {
    /// Of the latency, in seconds.
    Percentile(f64),
    Mean,
    Deviation,
    Min,
    Max,
    /// A count, or a share of all in per cent.
    Errors,
    ErrorShare,
    Requests,
    /// Per second.
    Rate,
    /// Bytes received per second.
    Throughput,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

const RELATIONS: &[(&str, Relation)] = &[
    ("<=", Relation::LessOrEqual),
    (">=", Relation::GreaterOrEqual),
    ("<", Relation::Less),
    (">", Relation::Greater),
];

/// How a requirement fared.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Verdict {
    pub requirement: String,
    pub holds: bool,
    /// What was measured, as people read it.
    pub measured: String,
}

impl Requirement {
    /// Reads `MEASURE<LIMIT`; `MEASURE[NAME]` looks at one row of the report.
    pub fn parse(text: &str) -> Result<Requirement, String> {
        let wrong = |why: &str| {
            format!(
                "\"{text}\" is no requirement: {why}; such as 'p95<200ms', 'errors<1%', 'rate>1000'"
            )
        };
        let (at, sign, relation) = RELATIONS
            .iter()
            .filter_map(|(sign, relation)| Some((text.find(sign)?, *sign, *relation)))
            .min_by_key(|(at, sign, _)| (*at, 2 - sign.len()))
            .ok_or_else(|| wrong("neither < nor > stands in it"))?;
        let (measure, limit) = (text[..at].trim(), text[at + sign.len()..].trim());
        let (measure, label) = match measure.split_once('[') {
            None => (measure, None),
            Some((measure, label)) => {
                let label = label
                    .strip_suffix(']')
                    .ok_or_else(|| wrong("the ] is missing"))?;
                (measure, Some(label.to_owned()))
            }
        };
        let (measure, limit) = read(measure, limit).map_err(|why| wrong(&why))?;
        Ok(Requirement {
            text: text.to_owned(),
            measure,
            label,
            relation,
            limit,
        })
    }

    /// Holds the report against it. A row that is not there, and times where there was no request, fail it.
    pub fn judge(&self, report: &Report) -> Verdict {
        let verdict = |holds, measured| Verdict {
            requirement: self.text.clone(),
            holds,
            measured,
        };
        let row = match &self.label {
            None => &report.total,
            Some(label) => match report.labels.iter().position(|other| other == label) {
                Some(index) => &report.rows[index],
                None => return verdict(false, "there is no such row".to_owned()),
            },
        };
        let is_time = self.measure.is_time();
        if is_time && row.total.is_empty() {
            return verdict(false, "no request".to_owned());
        }
        let seconds = |time: Duration| time.as_secs_f64();
        let elapsed = report.elapsed.as_secs_f64().max(1e-9);
        let value = match self.measure {
            Measure::Percentile(percent) => seconds(row.total.percentile(percent)),
            Measure::Mean => seconds(row.total.mean()),
            Measure::Deviation => seconds(row.total.deviation()),
            Measure::Min => seconds(row.total.min()),
            Measure::Max => seconds(row.total.max()),
            Measure::Errors => row.failures as f64,
            Measure::ErrorShare => row.failure_share(),
            Measure::Requests => row.requests as f64,
            Measure::Rate => row.requests as f64 / elapsed,
            Measure::Throughput => row.received_bytes as f64 / elapsed,
        };
        let holds = match self.relation {
            Relation::Less => value < self.limit,
            Relation::LessOrEqual => value <= self.limit,
            Relation::Greater => value > self.limit,
            Relation::GreaterOrEqual => value >= self.limit,
        };
        let shown = match self.measure {
            _ if is_time => units::show(Duration::from_secs_f64(value)),
            Measure::ErrorShare => format!("{value:.3}%"),
            Measure::Rate => format!("{}/s", units::show_rate(value)),
            Measure::Throughput => format!("{}/s", units::show_bytes(value)),
            _ => format!("{value}"),
        };
        verdict(holds, shown)
    }
}

impl Measure {
    fn is_time(self) -> bool {
        matches!(
            self,
            Measure::Percentile(_)
                | Measure::Mean
                | Measure::Deviation
                | Measure::Min
                | Measure::Max
        )
    }
}

/// The measure and its limit in the measure's unit.
fn read(measure: &str, limit: &str) -> Result<(Measure, f64), String> {
    let number = |text: &str| {
        let number: f64 = text
            .parse()
            .map_err(|_| format!("\"{text}\" is no number"))?;
        if number.is_finite() {
            Ok(number)
        } else {
            Err(format!("\"{text}\" is no number"))
        }
    };
    let measure = match measure {
        "errors" => {
            return match limit.strip_suffix('%') {
                Some(share) => Ok((Measure::ErrorShare, number(share.trim())?)),
                None => Ok((Measure::Errors, number(limit)?)),
            };
        }
        "requests" => return Ok((Measure::Requests, number(limit)?)),
        "rate" | "rps" => return Ok((Measure::Rate, units::rate(limit)?)),
        "throughput" => return Ok((Measure::Throughput, number(limit)?)),
        "mean" | "average" => Measure::Mean,
        "median" => Measure::Percentile(50.0),
        "deviation" => Measure::Deviation,
        "min" => Measure::Min,
        "max" => Measure::Max,
        _ => match measure.strip_prefix('p').map(str::parse::<f64>) {
            Some(Ok(percent)) if (0.0..=100.0).contains(&percent) => Measure::Percentile(percent),
            _ => return Err(format!("there is no measure \"{measure}\"")),
        },
    };
    Ok((measure, units::duration(limit)?.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::report;

    #[test]
    fn requirements_are_judged() {
        // 1000 requests in 2 s: of 1 ms to 100 ms, ten of them failed.
        let report = report();
        for (text, holds, measured) in [
            ("p95<96ms", true, "95.0ms"),
            ("p95 < 94ms", false, "95.0ms"),
            ("p99.9<=0.2s", true, "100ms"),
            ("median>1s", false, "50.0ms"),
            ("max<=100ms", true, "100ms"),
            ("min>=1ms", true, "1.00ms"),
            ("mean<50.6ms", true, "50.5ms"),
            ("errors<1%", false, "1.000%"),
            ("errors<=1%", true, "1.000%"),
            ("errors<11", true, "10"),
            ("errors[a]<=10", true, "10"),
            ("errors[b]<1", true, "0"),
            ("p50[b]<1s", false, "no request"),
            ("p50[c]<1s", false, "there is no such row"),
            ("rate>400", true, "500/s"),
            ("rps>=0.6k", false, "500/s"),
            ("requests>=1000", true, "1000"),
            ("throughput>1", true, "50.0 KB/s"),
        ] {
            let verdict = Requirement::parse(text).expect(text).judge(&report);
            assert_eq!(
                (verdict.holds, verdict.measured.as_str()),
                (holds, measured),
                "{text}"
            );
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "p95",
            "p101<1s",
            "px<1s",
            "p95<x",
            "errors<x%",
            "a[b<1s",
            "speed>1",
            "<1s",
            "errors<nan",
        ] {
            assert!(Requirement::parse(text).is_err(), "{text}");
        }
    }
}
