//! Locust's statistics: requests by name, percentiles, failures. Times are in milliseconds.

use super::table::Table;
use super::{PERCENTILES, Report};
use crate::record::Row;
use crate::series::ms;

/// The three tables.
pub fn text(report: &Report) -> String {
    let mut out = requests(report);
    out.push_str("\nResponse time percentiles (approximated)\n");
    out.push_str(&percentiles(report));
    if !report.failures.is_empty() {
        out.push_str("\nError report\n");
        out.push_str(&failures(report));
    }
    out
}

/// Each row with its method and name, and the sum.
fn rows(report: &Report) -> impl Iterator<Item = (&str, &str, &Row)> {
    let named = report.labels.iter().zip(&report.rows).enumerate();
    named
        .map(|(index, (label, row))| (report.method(index), label.as_str(), row))
        .chain(std::iter::once(("", "Aggregated", &report.total)))
}

fn requests(report: &Report) -> String {
    let mut table = Table::default();
    table.row([
        "Type Name",
        "# reqs",
        "# fails",
        "|",
        "Avg",
        "Min",
        "Max",
        "Med",
        "|",
        "req/s",
        "failures/s",
    ]);
    for (method, label, row) in rows(report) {
        let times = &row.total;
        let whole = |time| format!("{:.0}", ms(time));
        table.row([
            format!("{method} {label}").trim_start().to_owned(),
            row.requests.to_string(),
            format!("{}({:.2}%)", row.failures, row.failure_share()),
            "|".to_owned(),
            whole(times.mean()),
            whole(times.min()),
            whole(times.max()),
            whole(times.percentile(50.0)),
            "|".to_owned(),
            format!("{:.2}", report.rate(row.requests)),
            format!("{:.2}", report.rate(row.failures)),
        ]);
    }
    table.text(2)
}

fn percentiles(report: &Report) -> String {
    let mut table = Table::default();
    let shares = PERCENTILES.iter().map(|percent| format!("{percent}%"));
    let head = std::iter::once("Type Name".to_owned()).chain(shares);
    table.row(head.chain(std::iter::once("# reqs".to_owned())));
    for (method, label, row) in rows(report) {
        let name = format!("{method} {label}").trim_start().to_owned();
        let times = PERCENTILES
            .iter()
            .map(|percent| format!("{:.0}", ms(row.total.percentile(*percent))));
        let cells = std::iter::once(name).chain(times);
        table.row(cells.chain(std::iter::once(row.requests.to_string())));
    }
    table.text(2)
}

fn failures(report: &Report) -> String {
    let mut table = Table::default();
    table.row(["# occurrences  Error"]);
    for row in &report.failures {
        let (count, label) = (row.count, &row.label);
        table.row([format!("{count:<13}  {label}: {}", row.failure)]);
    }
    table.text(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::report;

    #[test]
    fn the_columns_are_locust_s() {
        let text = text(&report());
        let words: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        for line in [
            "Type Name # reqs # fails | Avg Min Max Med | req/s failures/s",
            "a 1000 10(1.00%) | 50 1 100 50 | 500.00 5.00",
            "b 0 0(0.00%) | 0 0 0 0 | 0.00 0.00",
            "Aggregated 1000 10(1.00%) | 50 1 100 50 | 500.00 5.00",
            "Type Name 50% 66% 75% 80% 90% 95% 98% 99% 99.9% 99.99% 100% # reqs",
            "a 50 66 75 80 90 95 98 99 100 100 100 1000",
            "10 a: status 500",
        ] {
            let wanted: Vec<&str> = line.split(' ').collect();
            assert!(words.contains(&wanted), "{line}\n{text}");
        }
    }
}
