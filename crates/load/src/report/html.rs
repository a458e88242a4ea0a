//! The report as one page that needs nothing else: tables that any browser shows, and charts where it runs scripts.
//! `html/README.md` says where the parts come from.

use super::{PERCENTILES, Report};
use crate::histogram::Times;
use crate::units::{show, show_bytes, show_rate};
use serde_json::json;
use std::fmt::Write;
use std::time::UNIX_EPOCH;

/// The live page of `--ui`, which has the same style and charts.
pub mod live;

const PAGE_CSS: &str = include_str!("html/page.css");
const CHARTS_JS: &str = include_str!("html/charts.js");
const PAGE_JS: &str = include_str!("html/page.js");
const UPLOT_CSS: &str = include_str!("html/uplot.min.css");
const UPLOT_JS: &str = include_str!("html/uplot.min.js");
const UPLOT_LICENCE: &str = include_str!("html/uplot.LICENSE");

/// Bars of the latency's distribution for each tenfold of time.
const BINS_A_DECADE: f64 = 20.0;

/// The charts: the name of the element and its heading.
const CHARTS: &[(&str, &str)] = &[
    ("rate", "Requests and failures per second"),
    ("latency", "Latency over time, in milliseconds"),
    ("distribution", "Distribution of latencies"),
    ("statuses", "Responses by status, per second"),
    ("phases", "Where the time goes, mean in milliseconds"),
    ("users", "Users at work"),
];

/// The page.
pub fn page(report: &Report) -> String {
    let title = escape(&report.title());
    let mut body = format!("<h1>{title}</h1>\n<p>{}</p>\n", escape(&subtitle(report)));
    body.push_str(&tiles(report));
    body.push_str(&verdicts(report));
    body.push_str("<div class=\"charts\">\n");
    for (id, heading) in CHARTS {
        // Writing into a string cannot fail, here and below.
        let _ = writeln!(
            body,
            "<section><h2>{heading}</h2><div id=\"{id}\"></div></section>"
        );
    }
    body.push_str("</div>\n");
    body.push_str(&rows(report));
    body.push_str(&phases(report));
    body.push_str(&outcomes(report));
    let data = json!({
        "points": report.points,
        "bins": bins(&report.total.total),
        "crowd": if report.is_open_model() { "connections in use" } else { "users" },
    });
    document(&title, &format!("{body}{}", self::data(&data)), PAGE_JS)
}

/// What a page's script shows, as an element.
pub fn data(value: &serde_json::Value) -> String {
    // Within a script element only `<` could end it.
    let data = value.to_string().replace('<', "\\u003c");
    format!("<script id=\"data\" type=\"application/json\">{data}</script>\n")
}

/// A page that needs nothing else, with the charts' functions before its own script. Title and body are HTML.
pub fn document(title: &str, body: &str, script: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{UPLOT_CSS}\n{PAGE_CSS}</style>\n</head>\n<body>\n{body}\
         <script>\n/* uPlot\n{UPLOT_LICENCE}*/\n{UPLOT_JS}\n</script>\n\
         <script>\n{CHARTS_JS}{script}</script>\n</body>\n</html>\n"
    )
}

fn subtitle(report: &Report) -> String {
    let plan = &report.plan;
    let crowd = if report.is_open_model() {
        "connections at most"
    } else {
        "users"
    };
    let began = report.began.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!(
        "{} {crowd}, {} threads, {}; begun {} by gannet {}",
        plan.users,
        plan.threads,
        show(report.elapsed),
        date(began.as_secs()),
        env!("CARGO_PKG_VERSION")
    )
}

/// The time as HTTP writes it.
fn date(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(0);
    String::from_utf8_lossy(&wire::fields::date::format(seconds)).into_owned()
}

fn tiles(report: &Report) -> String {
    let total = &report.total;
    let times = &total.total;
    let tiles = [
        ("Requests", total.requests.to_string()),
        (
            "Requests per second",
            show_rate(report.requests_per_second()),
        ),
        (
            "Failed",
            format!("{} ({:.2}%)", total.failures, total.failure_share()),
        ),
        ("Median", show(times.percentile(50.0))),
        ("95%", show(times.percentile(95.0))),
        ("99%", show(times.percentile(99.0))),
        (
            "Received per second",
            show_bytes(report.rate(total.received_bytes)),
        ),
        ("Connections", report.opened.to_string()),
    ];
    let mut out = String::from("<dl class=\"tiles\">\n");
    for (name, value) in tiles {
        let _ = writeln!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
    }
    out.push_str("</dl>\n");
    out
}

fn verdicts(report: &Report) -> String {
    if report.verdicts.is_empty() {
        return String::new();
    }
    let mut out = String::from("<h2>Requirements</h2>\n<ul>\n");
    for verdict in &report.verdicts {
        let (class, word) = if verdict.holds {
            ("good", "holds")
        } else {
            ("bad", "does not hold")
        };
        let (text, measured) = (escape(&verdict.requirement), escape(&verdict.measured));
        let _ = writeln!(out, "<li class=\"{class}\">{text} {word}: {measured}</li>");
    }
    out.push_str("</ul>\n");
    out
}

/// A table; the heading is HTML, the cells are text.
pub fn table(heading: &str, columns: &[String], rows: &[Vec<String>]) -> String {
    let mut out = format!("<h2>{heading}</h2>\n<div class=\"table\"><table>\n<thead><tr>");
    for column in columns {
        let _ = write!(out, "<th>{}</th>", escape(column));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = write!(out, "<td>{}</td>", escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

fn words(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|column| (*column).to_owned()).collect()
}

fn rows(report: &Report) -> String {
    let mut columns = words(&["Name", "Requests", "Failed", "per s", "Mean", "Min"]);
    columns.extend(PERCENTILES.iter().map(|percent| format!("{percent}%")));
    columns.push("Received".to_owned());
    let named = report.labels.iter().map(String::as_str).zip(&report.rows);
    let sum = (report.labels.len() != 1).then_some(("all", &report.total));
    let rows: Vec<_> = named
        .chain(sum)
        .map(|(label, row)| {
            let times = &row.total;
            let mut cells = vec![
                label.to_owned(),
                row.requests.to_string(),
                row.failures.to_string(),
                show_rate(report.rate(row.requests)),
                show(times.mean()),
                show(times.min()),
            ];
            let percentiles = PERCENTILES.iter();
            cells.extend(percentiles.map(|percent| show(times.percentile(*percent))));
            cells.push(show_bytes(row.received_bytes as f64));
            cells
        })
        .collect();
    table("Latency by name", &columns, &rows)
}

fn phases(report: &Report) -> String {
    let phases = &report.phases;
    let columns = words(&[
        "Phase",
        "Count",
        "Min",
        "Mean",
        "Deviation",
        "Median",
        "95%",
        "99%",
        "Max",
    ]);
    let rows: Vec<_> = [
        ("Connecting", &phases.connect),
        ("TLS", &phases.tls),
        ("Waiting for the first byte", &phases.waiting),
        ("Receiving the rest", &phases.receiving),
    ]
    .into_iter()
    .filter(|(_, times)| !times.is_empty())
    .map(|(name, times)| {
        vec![
            name.to_owned(),
            times.count().to_string(),
            show(times.min()),
            show(times.mean()),
            show(times.deviation()),
            show(times.percentile(50.0)),
            show(times.percentile(95.0)),
            show(times.percentile(99.0)),
            show(times.max()),
        ]
    })
    .collect();
    table("Phases", &columns, &rows)
}

fn outcomes(report: &Report) -> String {
    let statuses: Vec<_> = report
        .statuses
        .iter()
        .map(|(status, count)| vec![status.to_string(), count.to_string()])
        .collect();
    let mut out = table("Status codes", &words(&["Status", "Responses"]), &statuses);
    if !report.failures.is_empty() {
        let rows: Vec<_> = report
            .failures
            .iter()
            .map(|row| {
                vec![
                    row.failure.to_string(),
                    row.label.clone(),
                    row.count.to_string(),
                    show(row.first),
                    show(row.last),
                ]
            })
            .collect();
        let columns = words(&["Failure", "Name", "Count", "First after", "Last after"]);
        out.push_str(&table("Failures", &columns, &rows));
    }
    out
}

/// The distribution in bars of equal width on a logarithmic axis: middle in milliseconds, count. Bars between the first and
/// the last that hold nothing are there, too.
fn bins(times: &Times) -> Vec<(f64, u64)> {
    let bin = |ns: u64| ((ns.max(1) as f64).log10() * BINS_A_DECADE).floor() as i64;
    let values = times.values();
    let (Some(first), Some(last)) = (values.first(), values.last()) else {
        return Vec::new();
    };
    let (low, high) = (bin(first.0), bin(last.0));
    let mut counts = vec![0u64; usize::try_from(high - low + 1).unwrap_or(1)];
    for (ns, count) in values {
        let index = usize::try_from(bin(ns) - low).unwrap_or(0);
        if let Some(slot) = counts.get_mut(index) {
            *slot += count;
        }
    }
    let middle = |index: usize| {
        let exponent = (low as f64 + index as f64 + 0.5) / BINS_A_DECADE;
        10f64.powf(exponent) / 1e6
    };
    let bars = counts.into_iter().enumerate();
    bars.map(|(index, count)| (middle(index), count)).collect()
}

/// Text as HTML.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::report;
    use crate::series::ms;

    #[test]
    fn the_page_is_whole_and_nothing_escapes() {
        let mut report = report();
        report.labels[0] = "/<script>alert(1)</script>".to_owned();
        report.failures[0].label = "</script>".to_owned();
        let page = page(&report);
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
        assert_eq!(page.matches("<script").count(), 3);
        assert_eq!(page.matches("</script").count(), 3);
        assert!(!page.contains("src=") && !page.contains("@import"));
        for text in [
            "<dd>1000</dd>",
            "10 (1.00%)",
            "status 500",
            "&lt;script&gt;alert(1)",
            "Thu, 01 Jan 1970",
        ] {
            assert!(page.contains(text), "{text}");
        }
    }

    #[test]
    fn bars_hold_every_request() {
        let times = report().total.total;
        let bars = bins(&times);
        assert_eq!(bars.iter().map(|(_, count)| count).sum::<u64>(), 1000);
        // From 1 ms to 100 ms lie two decades.
        assert!((40..=42).contains(&bars.len()), "{}", bars.len());
        assert!(bars.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(bins(&Times::default()).is_empty());
        assert!(ms(times.min()) <= bars[0].0 * 1.2);
    }
}
