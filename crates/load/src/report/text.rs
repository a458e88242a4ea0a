//! The summary for people.

use super::Report;
use super::table::Table;
use crate::histogram::Times;
use crate::units::{show, show_bytes, show_rate};
use std::fmt::Write;

/// Failures that are listed.
const FAILURES_SHOWN: usize = 20;

/// The summary, with a line end.
pub fn summary(report: &Report) -> String {
    let mut out = String::new();
    let plan = &report.plan;
    let crowd = if report.is_open_model() {
        "connections at most"
    } else {
        "users"
    };
    // Writing into a string cannot fail.
    let _ = writeln!(
        out,
        "{}: {} {crowd}, {} threads, {}\n",
        report.title(),
        plan.users,
        plan.threads,
        show(report.elapsed)
    );
    out.push_str(&counts(report));
    out.push('\n');
    out.push_str(&times(report));
    if report.labels.len() > 1 {
        out.push('\n');
        out.push_str(&rows(report));
    }
    out.push('\n');
    out.push_str(&statuses(report));
    out.push_str(&failures(report));
    out.push_str(&remarks(report));
    out.push_str(&verdicts(report));
    out
}

fn counts(report: &Report) -> String {
    let total = &report.total;
    let mut table = Table::default();
    table.row([
        "requests".to_owned(),
        total.requests.to_string(),
        format!("{}/s", show_rate(report.requests_per_second())),
    ]);
    table.row([
        "failed".to_owned(),
        total.failures.to_string(),
        format!("{:.2}%", total.failure_share()),
    ]);
    for (name, bytes) in [
        ("received", total.received_bytes),
        ("sent", total.sent_bytes),
    ] {
        table.row([
            name.to_owned(),
            show_bytes(bytes as f64),
            format!("{}/s", show_bytes(report.rate(bytes))),
        ]);
    }
    table.row([
        "connections".to_owned(),
        report.opened.to_string(),
        format!("{}/s", show_rate(report.rate(report.opened))),
    ]);
    table.text(3)
}

fn times(report: &Report) -> String {
    let mut table = Table::default();
    table.row([
        "", "min", "mean", "stddev", "median", "p90", "p95", "p99", "p99.9", "max",
    ]);
    let phases = &report.phases;
    for (name, times) in [
        ("latency", &report.total.total),
        ("connect", &phases.connect),
        ("TLS", &phases.tls),
        ("waiting", &phases.waiting),
        ("receiving", &phases.receiving),
    ] {
        if !times.is_empty() {
            table.row(line(name, times));
        }
    }
    table.text(2)
}

fn line(name: &str, times: &Times) -> Vec<String> {
    let mut cells = vec![
        name.to_owned(),
        show(times.min()),
        show(times.mean()),
        show(times.deviation()),
    ];
    for percent in [50.0, 90.0, 95.0, 99.0, 99.9] {
        cells.push(show(times.percentile(percent)));
    }
    cells.push(show(times.max()));
    cells
}

fn rows(report: &Report) -> String {
    let mut table = Table::default();
    table.row([
        "by name", "requests", "failed", "per s", "mean", "median", "p95", "p99", "max",
    ]);
    for (label, row) in report.labels.iter().zip(&report.rows) {
        let times = &row.total;
        table.row([
            label.clone(),
            row.requests.to_string(),
            row.failures.to_string(),
            show_rate(report.rate(row.requests)),
            show(times.mean()),
            show(times.percentile(50.0)),
            show(times.percentile(95.0)),
            show(times.percentile(99.0)),
            show(times.max()),
        ]);
    }
    table.text(2)
}

fn statuses(report: &Report) -> String {
    let counts = report
        .statuses
        .iter()
        .map(|(status, count)| format!("{status}: {count}"));
    let counts: Vec<String> = counts.collect();
    if counts.is_empty() {
        "status     none\n".to_owned()
    } else {
        format!("status     {}\n", counts.join(", "))
    }
}

fn failures(report: &Report) -> String {
    let mut out = String::new();
    for row in report.failures.iter().take(FAILURES_SHOWN) {
        let label = if report.labels.len() > 1 {
            format!(" [{}]", row.label)
        } else {
            String::new()
        };
        let _ = writeln!(out, "failed     {} × {}{label}", row.count, row.failure);
    }
    let rest = report.failures.len().saturating_sub(FAILURES_SHOWN);
    if rest > 0 {
        let _ = writeln!(out, "failed     and {rest} more kinds");
    }
    out
}

/// What a reader must know to judge the figures.
fn remarks(report: &Report) -> String {
    let mut out = String::new();
    if report.abandoned > 0 {
        let _ = writeln!(
            out,
            "remark     {} requests under way were broken off and are not counted",
            report.abandoned
        );
    }
    let late = report.lateness.percentile(99.0);
    if report.is_open_model() && late.as_nanos() * 10 > report.total.total.mean().as_nanos() {
        let _ = writeln!(
            out,
            "remark     the tester itself was late: 1% of its requests by {} or more, which is in the latencies",
            show(late)
        );
    }
    out
}

fn verdicts(report: &Report) -> String {
    let mut out = String::new();
    for verdict in &report.verdicts {
        let word = if verdict.holds { "holds" } else { "FAILS" };
        let _ = writeln!(
            out,
            "required   {}: {word}, {}",
            verdict.requirement, verdict.measured
        );
    }
    out
}
