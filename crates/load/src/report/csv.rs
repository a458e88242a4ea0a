//! Rows for spreadsheets: one a name, one for all of them, or one a point in time.

use super::{PERCENTILES, Report};
use crate::record::Row;
use crate::series::ms;
use std::fmt::Write;

/// A row for each name, and the sum.
pub fn rows(report: &Report) -> String {
    let mut out = String::from(
        "name,requests,failures,requests_per_s,failures_per_s,received_bytes,sent_bytes,mean_ms,stddev_ms,min_ms",
    );
    for percent in PERCENTILES {
        let _ = write!(out, ",p{percent}_ms");
    }
    out.push('\n');
    for (label, row) in report.labels.iter().zip(&report.rows) {
        write_row(report, label, row, &mut out);
    }
    write_row(report, "total", &report.total, &mut out);
    out
}

fn write_row(report: &Report, label: &str, row: &Row, out: &mut String) {
    let times = &row.total;
    let _ = write!(
        out,
        "{},{},{},{:.3},{:.3},{},{},{:.6},{:.6},{:.6}",
        quoted(label),
        row.requests,
        row.failures,
        report.rate(row.requests),
        report.rate(row.failures),
        row.received_bytes,
        row.sent_bytes,
        ms(times.mean()),
        ms(times.deviation()),
        ms(times.min())
    );
    for percent in PERCENTILES {
        let _ = write!(out, ",{:.6}", ms(times.percentile(*percent)));
    }
    out.push('\n');
}

/// A row for each point of the charts.
pub fn series(report: &Report) -> String {
    let mut out = String::from(
        "at_s,length_s,users,requests,failures,received_bytes,no_response,1xx,2xx,3xx,4xx,5xx,mean_ms,p50_ms,p90_ms,p95_ms,p99_ms,max_ms,connect_ms,tls_ms,waiting_ms,receiving_ms\n",
    );
    for point in &report.points {
        let _ = write!(
            out,
            "{:.3},{:.3},{},{},{},{}",
            point.at_s,
            point.length_s,
            point.users,
            point.requests,
            point.failures,
            point.received_bytes
        );
        for count in point.classes {
            let _ = write!(out, ",{count}");
        }
        for time in [
            point.mean_ms,
            point.p50_ms,
            point.p90_ms,
            point.p95_ms,
            point.p99_ms,
            point.max_ms,
            point.connect_ms,
            point.tls_ms,
            point.waiting_ms,
            point.receiving_ms,
        ] {
            let _ = write!(out, ",{time:.6}");
        }
        out.push('\n');
    }
    out
}

/// A cell, in quotes where it needs them. One that a spreadsheet would take for a formula gets a quote before it.
fn quoted(text: &str) -> String {
    let text = if text.starts_with(['=', '+', '-', '@']) {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::report;

    #[test]
    fn every_line_has_every_column() {
        let report = report();
        for (text, lines) in [(rows(&report), 4), (series(&report), 3)] {
            let columns: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
            assert_eq!(columns.len(), lines);
            assert!(columns.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
        }
        assert!(rows(&report).contains("\na,1000,10,500.000,5.000,100000,40000,50.500000,"));
    }

    #[test]
    fn cells_are_quoted() {
        for (text, cell) in [
            ("/a", "/a"),
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            ("=1+1", "'=1+1"),
        ] {
            assert_eq!(quoted(text), cell);
        }
    }
}
