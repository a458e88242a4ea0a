//! The report of a study: text for a terminal, JSON, one page with charts.

use crate::results::{Figures, Results};
use crate::study::{Advice, Chart, Report, Table};
use load::report::html;
use serde_json::{Value, json};
use std::fmt::Write;

const SCRIPT: &str = include_str!("report/study.js");

/// What is printed.
pub fn text(report: &Report) -> String {
    let mut out = format!("{}\n", report.title);
    for (label, value) in &report.machine {
        // Writing into a string cannot fail, here and below.
        let _ = writeln!(out, "{label}: {value}");
    }
    if report.was_interrupted {
        out.push_str("Interrupted: what was measured until then.\n");
    }
    for table in &report.findings.tables {
        let _ = write!(out, "\n{}\n{}", table.heading, aligned(table));
    }
    out.push_str(&advice(&report.findings.advice));
    for remark in &report.findings.remarks {
        let _ = write!(out, "\n{remark}\n");
    }
    out
}

/// The same as a page of Markdown.
pub fn markdown(report: &Report) -> String {
    let mut out = format!("# {}\n\n", report.title);
    for (label, value) in &report.machine {
        let _ = writeln!(out, "- {label}: {value}");
    }
    if report.was_interrupted {
        out.push_str("- Interrupted: what was measured until then.\n");
    }
    for table in &report.findings.tables {
        let _ = write!(out, "\n## {}\n\n", table.heading);
        let cells = |row: &[String]| {
            let safe: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", safe.join(" | "))
        };
        out.push_str(&cells(&table.columns));
        let _ = writeln!(out, "|{}", " --- |".repeat(table.columns.len()));
        table.rows.iter().for_each(|row| out.push_str(&cells(row)));
    }
    let advice = advice(&report.findings.advice);
    if let Some(rest) = advice.strip_prefix("\nFor this machine and this site:\n") {
        let _ = write!(out, "\n## For this machine and this site\n{rest}");
    }
    for remark in &report.findings.remarks {
        let _ = write!(out, "\n{remark}\n");
    }
    out.push_str("\n## Loads\n\n");
    for command in &report.commands {
        let _ = writeln!(out, "    {command}");
    }
    out
}

/// The recommendations: directives as they stand in a configuration, and their reasons as comments.
pub fn advice(advice: &[Advice]) -> String {
    let mut out = String::new();
    if !advice.is_empty() {
        out.push_str("\nFor this machine and this site:\n");
    }
    for one in advice {
        let _ = write!(out, "\n    {}\n        # {}\n", one.directive, one.reason);
    }
    out
}

/// Columns of equal width, the first one to the left.
fn aligned(table: &Table) -> String {
    let rows: Vec<&Vec<String>> = std::iter::once(&table.columns).chain(&table.rows).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut out = String::new();
    for row in &rows {
        for (column, cell) in row.iter().enumerate() {
            let width = width(column);
            let _ = match column {
                0 => write!(out, "{cell:<width$}"),
                _ => write!(out, "  {cell:>width$}"),
            };
        }
        out.push('\n');
    }
    out
}

/// Everything, with every measurement.
pub fn json(reports: &[(Report, Results)]) -> String {
    let studies: Vec<Value> = reports
        .iter()
        .map(|(report, results)| {
            let samples: Vec<Value> = results
                .samples()
                .map(|(key, contender, figures): (_, _, &[Figures])| {
                    json!({ "case": key, "server": contender, "rounds": figures })
                })
                .collect();
            json!({ "report": report, "measured": samples })
        })
        .collect();
    let mut text = serde_json::to_string_pretty(&studies).unwrap_or_default();
    text.push('\n');
    text
}

/// The page of one study, or of several under one title.
pub fn page(title: &str, reports: &[&Report], advice: &[Advice]) -> String {
    let mut body = format!("<h1>{}</h1>\n", html::escape(title));
    if let Some(first) = reports.first() {
        body.push_str(&machine(first));
    }
    body.push_str(&advice_html(advice));
    let mut charts: Vec<&Chart> = Vec::new();
    for report in reports {
        if reports.len() > 1 {
            let _ = writeln!(body, "<h1>{}</h1>", html::escape(&report.title));
        }
        if report.was_interrupted {
            body.push_str("<p class=\"bad\">Interrupted: what was measured until then.</p>\n");
        }
        body.push_str("<div class=\"charts\">\n");
        for chart in &report.findings.charts {
            let (heading, number) = (html::escape(&chart.heading), charts.len());
            let _ = writeln!(
                body,
                "<section><h2>{heading}</h2><div id=\"chart-{number}\"></div></section>"
            );
            charts.push(chart);
        }
        body.push_str("</div>\n");
        for table in &report.findings.tables {
            body.push_str(&html::table(
                &html::escape(&table.heading),
                &table.columns,
                &table.rows,
            ));
        }
        for remark in &report.findings.remarks {
            let _ = writeln!(body, "<p>{}</p>", html::escape(remark));
        }
        body.push_str("<h2>Loads</h2>\n<div class=\"table\"><pre>");
        for command in &report.commands {
            let _ = writeln!(body, "{}", html::escape(command));
        }
        body.push_str("</pre></div>\n");
    }
    let data = html::data(&json!(charts));
    html::document(&html::escape(title), &format!("{body}{data}"), SCRIPT)
}

fn machine(report: &Report) -> String {
    let facts: Vec<String> = report
        .machine
        .iter()
        .map(|(label, value)| format!("{label}: {value}"))
        .collect();
    format!("<p>{}</p>\n", html::escape(&facts.join("; ")))
}

fn advice_html(advice: &[Advice]) -> String {
    if advice.is_empty() {
        return String::new();
    }
    let mut out = String::from("<h2>For this machine and this site</h2>\n<dl>\n");
    for one in advice {
        let (directive, reason) = (html::escape(&one.directive), html::escape(&one.reason));
        let _ = writeln!(out, "<dt><code>{directive}</code></dt><dd>{reason}</dd>");
    }
    out.push_str("</dl>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{Findings, Line};

    fn report() -> Report {
        let table = Table::published(
            "<Rates>",
            &["CPUs", "0 KB"],
            &[&["1", "145551"], &["36", "7"]],
        );
        Report {
            name: "rps".to_owned(),
            title: "Requests & rates".to_owned(),
            machine: vec![("Processors".to_owned(), "2".to_owned())],
            commands: vec!["gannet load -c 5 http://…/<x>".to_owned()],
            findings: Findings {
                tables: vec![table],
                charts: vec![Chart {
                    heading: "</script>".to_owned(),
                    labels: vec!["a".to_owned()],
                    series: vec![Line {
                        label: "</script>".to_owned(),
                        values: vec![Some(1.0)],
                    }],
                }],
                advice: vec![Advice::new("gzip on;", "5 < 6")],
                remarks: vec!["a remark".to_owned()],
            },
            was_interrupted: true,
        }
    }

    #[test]
    fn text_is_aligned_and_ends_with_advice() {
        let text = text(&report());
        assert!(
            text.contains("CPUs    0 KB\n1     145551\n36         7\n"),
            "{text}"
        );
        assert!(text.contains("    gzip on;\n        # 5 < 6\n"));
        assert!(text.contains("Interrupted"));
    }

    #[test]
    fn markdown_has_the_tables_and_the_advice() {
        let text = markdown(&report());
        for part in [
            "# Requests & rates\n\n- Processors: 2\n",
            "\n## <Rates>\n\n| CPUs | 0 KB |\n| --- | --- |\n| 1 | 145551 |\n| 36 | 7 |\n",
            "\n## For this machine and this site\n\n    gzip on;\n        # 5 < 6\n",
            "\n    gannet load -c 5 http",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn the_page_needs_nothing_else_and_nothing_escapes() {
        let report = report();
        let page = page("All", &[&report, &report], &report.findings.advice);
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
        assert_eq!(
            page.matches("<script").count(),
            page.matches("</script").count()
        );
        assert!(!page.contains("src=") && !page.contains("<Rates>"));
        assert!(page.contains("&lt;Rates&gt;") && page.contains("5 &lt; 6"));
    }
}
