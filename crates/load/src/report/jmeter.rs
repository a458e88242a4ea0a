//! JMeter's aggregate report: a line a name, times in milliseconds.

use super::Report;
use super::table::Table;
use crate::record::Row;
use crate::series::ms;

const COLUMNS: &[&str] = &[
    "Label",
    "# Samples",
    "Average",
    "Median",
    "90% Line",
    "95% Line",
    "99% Line",
    "Min",
    "Max",
    "Error %",
    "Throughput",
    "Received KB/sec",
    "Sent KB/sec",
];

/// The table, with the sum of all below.
pub fn text(report: &Report) -> String {
    let mut table = Table::default();
    table.row(COLUMNS.iter().copied());
    for (label, row) in report.labels.iter().zip(&report.rows) {
        table.row(cells(report, label, row));
    }
    table.row(cells(report, "TOTAL", &report.total));
    table.text(2)
}

fn cells(report: &Report, label: &str, row: &Row) -> Vec<String> {
    let times = &row.total;
    let whole = |time| format!("{:.0}", ms(time));
    let kbytes = |bytes| format!("{:.2}", report.rate(bytes) / 1024.0);
    let mut cells = vec![
        label.to_owned(),
        row.requests.to_string(),
        whole(times.mean()),
    ];
    cells.extend([50.0, 90.0, 95.0, 99.0].map(|percent| whole(times.percentile(percent))));
    cells.extend([
        whole(times.min()),
        whole(times.max()),
        format!("{:.2}%", row.failure_share()),
        format!("{:.1}/sec", report.rate(row.requests)),
        kbytes(row.received_bytes),
        kbytes(row.sent_bytes),
    ]);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::report;

    #[test]
    fn the_columns_are_jmeter_s() {
        let text = text(&report());
        let last: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(
            last.join(" "),
            "TOTAL 1000 50 50 90 95 99 1 100 1.00% 500.0/sec 48.83 19.53"
        );
        assert_eq!(text.lines().count(), 4);
    }
}
