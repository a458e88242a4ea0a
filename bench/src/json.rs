//! The same results as JSON, for machines: medians and every sample.

use std::fmt::Write as _;

use anyhow::Result;

use crate::idle::Idle;
use crate::machine;
use crate::options::Options;
use crate::report::Spread;
use crate::side_by_side::{IdleRow, Row};
use crate::targets::Against;
use crate::verdict::{Verdict, cpu_ratio, idle_ratio, verdicts};

/// Everything measured, for machines.
pub fn write(options: &Options, rows: &[Row], idle: &[IdleRow]) -> Result<String> {
    let facts = machine::describe(&options.contenders()?);
    let facts: Vec<String> = facts
        .iter()
        .map(|(label, value)| format!("{}:{}", quoted(label), quoted(value)))
        .collect();
    let cases: Vec<String> = rows.iter().map(|row| load_json(rows, row)).collect();
    let idle_rows: Vec<String> = idle.iter().map(|row| idle_json(idle, row)).collect();
    let targets: Vec<String> = verdicts(rows, idle).iter().map(verdict_json).collect();
    Ok(format!(
        "{{\"machine\":{{{}}},\n\"command\":{},\"seconds\":{},\"rounds\":{},\n\"cases\":[\n{}],\n\"idle\":[\n{}],\n\"targets\":[\n{}]}}\n",
        facts.join(","),
        quoted(&options.command),
        options.seconds,
        options.rounds,
        cases.join(",\n"),
        idle_rows.join(",\n"),
        targets.join(",\n")
    ))
}

impl Spread {
    fn json(self) -> String {
        format!(
            "{{\"median\":{},\"min\":{},\"max\":{}}}",
            self.median, self.least, self.greatest
        )
    }
}

fn load_json(rows: &[Row], row: &Row) -> String {
    let samples: Vec<String> = row
        .samples
        .iter()
        .map(|sample| sample.cpu_us_per_request.to_string())
        .collect();
    format!(
        "{{\"case\":{},\"server\":{},\"size\":{},\"connections\":{},\"cpu_us\":{},\"cpu_us_samples\":[{}],\"requests_per_second\":{},\"p99_us\":{},\"server_share\":{},\"others_share\":{},\"cpu_of_nginx\":{},\"cpu_of_floor\":{}}}",
        quoted(row.case.name),
        quoted(&row.contender),
        row.case.size,
        row.case.connections,
        row.cpu().json(),
        samples.join(","),
        row.spread(|sample| sample.requests_per_second).json(),
        row.spread(|sample| sample.p99_us as f64).json(),
        row.spread(|sample| sample.server_share).json(),
        row.spread(|sample| sample.others_share).json(),
        number(cpu_ratio(rows, row, Against::Nginx)),
        number(cpu_ratio(rows, row, Against::Floor))
    )
}

fn idle_json(idle: &[IdleRow], row: &IdleRow) -> String {
    let bytes = |value: fn(&Idle) -> u64| row.spread(|sample| value(sample) as f64).json();
    format!(
        "{{\"server\":{},\"connections\":{},\"bytes_per_connection\":{},\"bytes_per_connection_from_bare\":{},\"pss_bare\":{},\"pss_ready\":{},\"pss_with\":{},\"of_nginx\":{}}}",
        quoted(&row.contender),
        row.samples.first().map_or(0, |sample| sample.connections),
        row.per_connection().json(),
        row.spread(Idle::per_connection_whole).json(),
        bytes(|sample| sample.bare),
        bytes(|sample| sample.before),
        bytes(|sample| sample.during),
        number(idle_ratio(idle, row, Against::Nginx))
    )
}

fn verdict_json(verdict: &Verdict) -> String {
    format!(
        "{{\"case\":{},\"what\":{},\"against\":{},\"at_most\":{},\"ratio\":{},\"met\":{},\"rounds_disagree\":{}}}",
        quoted(&verdict.case),
        quoted(verdict.what),
        quoted(verdict.against.as_str()),
        verdict.at_most,
        verdict.ratio.json(),
        verdict.met(),
        verdict.within_noise()
    )
}

fn number(ratio: Option<Spread>) -> String {
    let median = ratio
        .map(|ratio| ratio.median)
        .filter(|median| median.is_finite());
    median.map_or("null".to_owned(), |median| median.to_string())
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                let _infallible = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_for_json() {
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }
}
