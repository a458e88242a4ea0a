//! Everything that was measured, for machines. Times are in milliseconds.

use super::{PERCENTILES, Report};
use crate::histogram::Times;
use crate::plan::Pace;
use crate::record::Row;
use crate::series::ms;
use serde_json::{Map, Value, json};
use std::time::{Duration, UNIX_EPOCH};

/// The report as one object.
pub fn value(report: &Report) -> Value {
    let plan = &report.plan;
    let began = report.began.duration_since(UNIX_EPOCH).unwrap_or_default();
    let rows: Vec<Value> = report
        .labels
        .iter()
        .zip(&report.rows)
        .map(|(label, row)| row_value(report, Some(label), row))
        .collect();
    let failures: Vec<Value> = report
        .failures
        .iter()
        .map(|row| {
            json!({
                "name": row.label,
                "failure": row.failure.to_string(),
                "count": row.count,
                "first_s": row.first.as_secs_f64(),
                "last_s": row.last.as_secs_f64(),
            })
        })
        .collect();
    let statuses: Map<String, Value> = report
        .statuses
        .iter()
        .map(|(status, count)| (status.to_string(), (*count).into()))
        .collect();
    let phases = &report.phases;
    json!({
        "tester": concat!("gannet ", env!("CARGO_PKG_VERSION")),
        "target": report.title(),
        "model": model(&plan.pace),
        "users": plan.users,
        "threads": plan.threads,
        "began_unix_s": began.as_secs_f64(),
        "elapsed_s": report.elapsed.as_secs_f64(),
        "total": row_value(report, None, &report.total),
        "rows": rows,
        "phases": {
            "connect": times(&phases.connect),
            "tls": times(&phases.tls),
            "waiting": times(&phases.waiting),
            "receiving": times(&phases.receiving),
            "processing": times(&phases.processing),
        },
        "statuses": statuses,
        "failures": failures,
        "connections": { "opened": report.opened, "reused": report.reused },
        "abandoned": report.abandoned,
        "lateness": times(&report.lateness),
        "requirements": report.verdicts,
        "points": report.points,
        "histogram_ns": report.total.total.values(),
    })
}

/// The report as text, with a line end.
pub fn text(report: &Report) -> String {
    format!("{:#}\n", value(report))
}

fn model(pace: &Pace) -> &'static str {
    match pace {
        Pace::Closed(_) => "closed",
        Pace::Open(_) => "open",
        Pace::Recorded(_) => "recorded",
    }
}

fn row_value(report: &Report, label: Option<&String>, row: &Row) -> Value {
    json!({
        "name": label,
        "requests": row.requests,
        "failures": row.failures,
        "requests_per_s": report.rate(row.requests),
        "failures_per_s": report.rate(row.failures),
        "received_bytes": row.received_bytes,
        "body_bytes": row.body_bytes,
        "sent_bytes": row.sent_bytes,
        "latency": times(&row.total),
    })
}

fn times(times: &Times) -> Value {
    if times.is_empty() {
        return Value::Null;
    }
    let list = |time: Duration| Value::from(ms(time));
    let percentiles: Map<String, Value> = PERCENTILES
        .iter()
        .map(|percent| (format!("p{percent}"), list(times.percentile(*percent))))
        .collect();
    json!({
        "count": times.count(),
        "min_ms": ms(times.min()),
        "mean_ms": ms(times.mean()),
        "stddev_ms": ms(times.deviation()),
        "max_ms": ms(times.max()),
        "percentiles_ms": percentiles,
    })
}
