//! The report of `ab`, for eyes and scripts that know it. Its lines are ab's; its banner and its advice are not repeated.

use super::Report;
use crate::failure::FailureKind;
use crate::histogram::Times;
use crate::series::ms;
use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

/// The shares that ab lists, but for the last.
const SHARES: &[u32] = &[50, 66, 75, 80, 90, 95, 98, 99];

/// The report; `quiet_shares` leaves out the list at its end (`-d`).
pub fn text(report: &Report, without_shares: bool) -> String {
    let mut out = String::new();
    head(report, &mut out);
    counts(report, &mut out);
    connection_times(report, &mut out);
    if !without_shares && report.total.requests > 1 {
        shares(report, &mut out);
    }
    out
}

/// `-e`: the time within which each whole per cent of the requests was served.
pub fn percentages(report: &Report) -> String {
    let mut out = String::from("Percentage served,Time in ms\n");
    for percent in 0..=100 {
        let time = match percent {
            0 => report.total.total.min(),
            _ => report.total.total.percentile(f64::from(percent)),
        };
        // Writing into a string cannot fail, here and below.
        let _ = writeln!(out, "{percent},{:.3}", ms(time));
    }
    out
}

/// `-g`: the times of each request, the quickest first, for gnuplot.
pub fn gnuplot(report: &Report) -> String {
    let mut out = String::from("starttime\tseconds\tctime\tdtime\tttime\twait\n");
    let began = report.began.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut singles = report.singles.clone();
    singles.sort_by_key(|single| single.total_ns);
    let ms = |ns: u64| (ns + 500_000) / 1_000_000;
    for single in singles {
        let seconds = (began + Duration::from_nanos(single.begin_ns)).as_secs();
        let processing = single.total_ns.saturating_sub(single.connect_ns);
        let _ = writeln!(
            out,
            "{}\t{seconds}\t{}\t{}\t{}\t{}",
            as_of_c(seconds),
            ms(single.connect_ns),
            ms(processing),
            ms(single.total_ns),
            ms(single.waiting_ns),
        );
    }
    out
}

/// A time in the words of C's `ctime`, in UTC.
fn as_of_c(unix_s: u64) -> String {
    let date = wire::fields::date::format(i64::try_from(unix_s).unwrap_or(i64::MAX));
    let text = String::from_utf8_lossy(&date);
    // `Sun, 06 Nov 1994 08:49:37 GMT`
    match text.split(' ').collect::<Vec<_>>().as_slice() {
        [weekday, day, month, year, time, _] => {
            format!(
                "{} {month} {day} {time} {year}",
                weekday.trim_end_matches(',')
            )
        }
        _ => text.into_owned(),
    }
}

fn head(report: &Report, out: &mut String) {
    let first = report.first.clone().unwrap_or_default();
    let _ = writeln!(out, "\n\nServer Software:        {}", first.server);
    if let Some(endpoint) = report.plan.endpoints.first() {
        let _ = writeln!(out, "Server Hostname:        {}", endpoint.host);
        let _ = writeln!(out, "Server Port:            {}", endpoint.port);
    }
    let path = report.labels.first().map_or("", String::as_str);
    let _ = writeln!(out, "\nDocument Path:          {path}");
    if report.plan.same_length {
        let _ = writeln!(out, "Document Length:        {} bytes\n", first.body_bytes);
    } else {
        let _ = writeln!(out, "Document Length:        Variable\n");
    }
}

fn counts(report: &Report, out: &mut String) {
    let total = &report.total;
    let complete = total.requests;
    let seconds = report.elapsed.as_secs_f64();
    line(out, "Concurrency Level", report.plan.users.to_string());
    line(out, "Time taken for tests", format!("{seconds:.3} seconds"));
    line(out, "Complete requests", complete.to_string());
    let [connect, receive, length, exceptions] = [
        FailureKind::Connect,
        FailureKind::Receive,
        FailureKind::Length,
        FailureKind::Exception,
    ]
    .map(|kind| report.failed(kind));
    let failed = connect + receive + length + exceptions;
    line(out, "Failed requests", failed.to_string());
    if failed > 0 {
        let _ = writeln!(
            out,
            "   (Connect: {connect}, Receive: {receive}, Length: {length}, Exceptions: {exceptions})"
        );
    }
    let good: u64 = report
        .statuses
        .range(200..300)
        .map(|(_, count)| *count)
        .sum();
    let answered: u64 = report.statuses.values().sum();
    if answered > good {
        line(out, "Non-2xx responses", (answered - good).to_string());
    }
    if !report.plan.client.new_connection {
        line(out, "Keep-Alive requests", report.keep_alive.to_string());
    }
    line(
        out,
        "Total transferred",
        format!("{} bytes", total.received_bytes),
    );
    let has_body = report.plan.steps().any(|step| step.request.body.is_some());
    if has_body {
        line(out, "Total body sent", total.sent_bytes.to_string());
    }
    line(
        out,
        "HTML transferred",
        format!("{} bytes", total.body_bytes),
    );
    rates(report, has_body, out);
}

fn rates(report: &Report, has_body: bool, out: &mut String) {
    let total = &report.total;
    let seconds = report.elapsed.as_secs_f64();
    let rate = report.requests_per_second();
    line(
        out,
        "Requests per second",
        format!("{rate:.2} [#/sec] (mean)"),
    );
    let each = 1000.0 * seconds / total.requests.max(1) as f64;
    let users = report.plan.users as f64;
    line(
        out,
        "Time per request",
        format!("{:.3} [ms] (mean)", each * users),
    );
    line(
        out,
        "Time per request",
        format!("{each:.3} [ms] (mean, across all concurrent requests)"),
    );
    let kbytes = |bytes: u64| report.rate(bytes) / 1024.0;
    line(
        out,
        "Transfer rate",
        format!("{:.2} [Kbytes/sec] received", kbytes(total.received_bytes)),
    );
    if has_body {
        let sent = kbytes(total.sent_bytes);
        let both = kbytes(total.sent_bytes + total.received_bytes);
        let _ = writeln!(out, "{:24}{sent:.2} kb/s sent", "");
        let _ = writeln!(out, "{:24}{both:.2} kb/s total", "");
    }
}

fn line(out: &mut String, name: &str, value: String) {
    let _ = writeln!(out, "{:<23} {value}", format!("{name}:"));
}

/// ab's connect time is in every request; it is 0 where the connection was there already.
fn connection_times(report: &Report, out: &mut String) {
    let phases = &report.phases;
    let mut connect = phases.connect.clone();
    connect.record_many(0, phases.processing.count().saturating_sub(connect.count()));
    out.push_str("\nConnection Times (ms)\n              min  mean[+/-sd] median   max\n");
    for (name, times) in [
        ("Connect:", &connect),
        ("Processing:", &phases.processing),
        ("Waiting:", &phases.waiting),
        ("Total:", &report.total.total),
    ] {
        let _ = writeln!(
            out,
            "{name:<12}{:>5}{:>5}{:>6.1}{:>7}{:>8}",
            rounded(times.min()),
            rounded(times.mean()),
            ms(times.deviation()),
            rounded(median(times)),
            rounded(times.max())
        );
    }
}

fn shares(report: &Report, out: &mut String) {
    out.push_str("\nPercentage of the requests served within a certain time (ms)\n");
    let times = &report.total.total;
    for share in SHARES {
        let time = rounded(times.percentile(f64::from(*share)));
        let _ = writeln!(out, "{share:>4}%  {time:>5}");
    }
    let _ = writeln!(out, " 100%  {:>5} (longest request)", rounded(times.max()));
}

fn median(times: &Times) -> Duration {
    times.percentile(50.0)
}

/// Milliseconds, rounded as ab does.
fn rounded(time: Duration) -> u128 {
    (time.as_micros() + 500) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::report;

    #[test]
    fn the_lines_are_ab_s() {
        let text = text(&report(), false);
        for line in [
            "Server Hostname:        localhost",
            "Server Port:            8080",
            "Document Path:          a",
            "Concurrency Level:      10",
            "Time taken for tests:   2.000 seconds",
            "Complete requests:      1000",
            "Failed requests:        0",
            "Non-2xx responses:      10",
            "Keep-Alive requests:    0",
            "Total transferred:      100000 bytes",
            "HTML transferred:       60000 bytes",
            "Requests per second:    500.00 [#/sec] (mean)",
            "Time per request:       20.000 [ms] (mean)",
            "Time per request:       2.000 [ms] (mean, across all concurrent requests)",
            "Transfer rate:          48.83 [Kbytes/sec] received",
            "Connect:        0    0   0.0      0       1",
            "Waiting:        1   25  14.4     25      50",
            "Total:          1   51  28.9     50     100",
            "  50%     50",
            "  99%     99",
            " 100%    100 (longest request)",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(super::text(&report(), true).ends_with("100\n"));
        assert_eq!(percentages(&report()).lines().count(), 102);
    }
}
