//! Turns samples into tables for people, for a page of documentation, and into JSON.

use anyhow::Result;

use crate::cases::{self, Case};
use crate::idle::Idle;
use crate::machine;
use crate::options::Options;
use crate::server::Contender;
use crate::side_by_side::{IdleRow, Row, Sample};
use crate::targets::Against;
use crate::verdict::{Verdict, cpu_ratio, idle_ratio, verdicts};
use crate::wrk;

/// Median, least and greatest of some samples.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub greatest: f64,
}

impl Spread {
    pub fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let (Some(&least), Some(&greatest)) = (sorted.first(), sorted.last()) else {
            return Spread {
                median: f64::NAN,
                least: f64::NAN,
                greatest: f64::NAN,
            };
        };
        let middle = sorted.len() / 2;
        let lower = if sorted.len().is_multiple_of(2) {
            middle - 1
        } else {
            middle
        };
        Spread {
            median: (sorted[lower] + sorted[middle]) / 2.0,
            least,
            greatest,
        }
    }

    pub fn range(self, decimals: usize) -> String {
        format!("{:.decimals$}–{:.decimals$}", self.least, self.greatest)
    }
}

impl Row {
    pub fn spread(&self, value: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples.iter().map(value))
    }

    pub fn cpu(&self) -> Spread {
        self.spread(|sample| sample.cpu_us_per_request)
    }
}

impl IdleRow {
    pub fn spread(&self, value: impl Fn(&Idle) -> f64) -> Spread {
        Spread::of(self.samples.iter().map(value))
    }

    pub fn per_connection(&self) -> Spread {
        self.spread(Idle::per_connection)
    }
}

/// Cells, the first row being the header; printed as a padded Markdown table.
pub struct Table(pub Vec<Vec<String>>);

impl Table {
    pub fn new(header: &[&str]) -> Table {
        Table(vec![header.iter().map(|cell| (*cell).to_owned()).collect()])
    }

    pub fn print(&self) {
        let columns = self.0[0].len();
        let width = |column: usize| {
            self.0
                .iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (index, row) in self.0.iter().enumerate() {
            let padded = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:width$}"));
            println!("| {} |", padded.collect::<Vec<_>>().join(" | "));
            if index == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                println!("| {} |", rules.join(" | "));
            }
        }
        println!();
    }
}

/// Prints everything for people; with `--markdown` also what is needed to do it again.
pub fn print(options: &Options, rows: &[Row], idle: &[IdleRow]) -> Result<()> {
    if options.markdown {
        print_circumstances(options, rows.first().map(|row| &row.case))?;
    }
    if !rows.is_empty() {
        load_table(rows).print();
    }
    if !idle.is_empty() {
        idle_table(idle).print();
    }
    let verdicts = verdicts(rows, idle);
    if !verdicts.is_empty() {
        verdict_table(&verdicts).print();
    }
    Ok(())
}

fn load_table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        "case",
        "load",
        "server",
        "CPU µs/request",
        "min–max",
        "requests/s",
        "min–max",
        "p99 µs",
        "core used",
        "by others",
        "CPU × nginx",
        "CPU × floor",
    ]);
    for row in rows {
        let (cpu, rate) = (row.cpu(), row.spread(|sample| sample.requests_per_second));
        let percent = |spread: Spread| format!("{:.0} %", spread.median * 100.0);
        table.0.push(vec![
            row.case.name.to_owned(),
            row.case.describe(),
            row.contender.clone(),
            format!("{:.2}", cpu.median),
            cpu.range(2),
            format!("{:.0}", rate.median),
            rate.range(0),
            format!("{:.0}", row.spread(|sample| sample.p99_us as f64).median),
            percent(row.spread(|sample| sample.server_share)),
            percent(row.spread(|sample| sample.others_share)),
            ratio_text(cpu_ratio(rows, row, Against::Nginx)),
            ratio_text(cpu_ratio(rows, row, Against::Floor)),
        ]);
    }
    table
}

fn idle_table(idle: &[IdleRow]) -> Table {
    let mut table = Table::new(&[
        "case",
        "server",
        "connections",
        "PSS bare",
        "PSS ready",
        "PSS with them",
        "bytes/connection",
        "min–max",
        "× nginx",
        "bytes/connection from bare",
    ]);
    for row in idle {
        let kilobytes = |value: fn(&Idle) -> u64| {
            format!(
                "{:.0} KB",
                row.spread(|sample| value(sample) as f64 / 1024.0).median
            )
        };
        let each = row.per_connection();
        table.0.push(vec![
            cases::IDLE.to_owned(),
            row.contender.clone(),
            row.samples
                .first()
                .map_or(0, |sample| sample.connections)
                .to_string(),
            kilobytes(|sample| sample.bare),
            kilobytes(|sample| sample.before),
            kilobytes(|sample| sample.during),
            format!("{:.0}", each.median),
            each.range(0),
            ratio_text(idle_ratio(idle, row, Against::Nginx)),
            format!("{:.0}", row.spread(Idle::per_connection_whole).median),
        ]);
    }
    table
}

pub fn verdict_table(verdicts: &[Verdict]) -> Table {
    let mut table = Table::new(&["case", "target", "measured", "by round", "met"]);
    for verdict in verdicts {
        table.0.push(vec![
            verdict.case.clone(),
            format!(
                "{} at most {:.2} × {}",
                verdict.what,
                verdict.at_most,
                verdict.against.as_str()
            ),
            format!("{:.2}", verdict.ratio.median),
            verdict.ratio.range(2),
            verdict.outcome().to_owned(),
        ]);
    }
    table
}

pub fn ratio_text(ratio: Option<Spread>) -> String {
    ratio.map_or("–".to_owned(), |ratio| format!("{:.2}", ratio.median))
}

/// What was measured on, and how to do it again.
pub fn print_machine(options: &Options, contenders: &[&Contender]) {
    for (label, value) in machine::describe(contenders) {
        println!("- {label}: {value}");
    }
    println!(
        "- Command: `./dev bench {} {}`",
        options.bench, options.command
    );
    for contender in contenders {
        println!(
            "- {} is started as `{}`",
            contender.name,
            contender.command_text()
        );
    }
}

/// Where the servers and the load run.
pub fn print_cores(options: &Options) {
    println!(
        "- Server pinned to core {}, wrk to core {}; {} rounds of {} s, the servers alternating.",
        options.server_core, options.load_core, options.rounds, options.seconds
    );
}

fn print_circumstances(options: &Options, case: Option<&Case>) -> Result<()> {
    print_machine(options, &options.contenders()?);
    print_cores(options);
    if let Some(case) = case {
        println!(
            "- Load of case {}: `wrk {}`\n",
            case.name,
            load_arguments(case, options)
        );
        let text = case.configuration("DIR".as_ref(), 8080);
        println!(
            "All servers but the floor read this nginx.conf (case {}):\n\n```nginx\n{text}```\n",
            case.name
        );
    }
    Ok(())
}

fn load_arguments(case: &Case, options: &Options) -> String {
    wrk::arguments(&case.requests(), "127.0.0.1:8080", options.duration()).join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_odd_and_even_counts() {
        let odd = Spread::of([3.0, 1.0, 2.0].into_iter());
        assert_eq!(
            odd,
            Spread {
                median: 2.0,
                least: 1.0,
                greatest: 3.0
            }
        );
        assert!((Spread::of([4.0, 1.0, 2.0, 3.0].into_iter()).median - 2.5).abs() < 1e-9);
    }
}
