//! The page of `gannet load --ui`: a form to start and stop, and charts that follow the run.

use super::{document, escape};
use std::fmt::Write;

const LIVE_JS: &str = include_str!("live.js");

/// The charts: the name of the element and its heading.
const CHARTS: &[(&str, &str)] = &[
    ("rate", "Requests and failures per second"),
    ("latency", "Latency, in milliseconds"),
    ("statuses", "Responses by status, per second"),
    ("users", "Users at work, or connections in use"),
];

/// What is told of the run: the name of the element and what it is called. Latencies are those of the last interval.
const TILES: &[(&str, &str)] = &[
    ("phase", "State"),
    ("elapsed", "Time"),
    ("requests", "Requests"),
    ("per_second", "Requests per second"),
    ("failures", "Failed"),
    ("p50", "Median now"),
    ("p95", "95% now"),
    ("p99", "99% now"),
    ("at_work", "At work"),
];

/// What the form is filled with; an empty text leaves a field empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    pub users: String,
    pub rate: String,
    pub duration: String,
}

/// The page for this target.
pub fn page(target: &str, form: &Form) -> String {
    let title = escape(target);
    let mut body = format!("<h1>{title}</h1>\n<form id=\"form\">\n");
    for (name, label, hint, value) in [
        ("users", "Users", "10", &form.users),
        ("rate", "Requests per second", "as they can", &form.rate),
        ("duration", "Duration", "until stopped", &form.duration),
    ] {
        let value = escape(value);
        // Writing into a string cannot fail, here and below.
        let _ = writeln!(
            body,
            "<label>{label}<input name=\"{name}\" value=\"{value}\" placeholder=\"{hint}\"></label>"
        );
    }
    body.push_str(
        "<button id=\"start\">Start</button>\n<button id=\"change\" type=\"button\" disabled>Change users</button>\n\
         <button id=\"stop\" type=\"button\" disabled>Stop</button>\n\
         <a id=\"report\" href=\"/report\" hidden>Report</a>\n</form>\n\
         <p id=\"complaint\" class=\"bad\" role=\"alert\"></p>\n<dl class=\"tiles\">\n",
    );
    for (id, name) in TILES {
        let _ = writeln!(body, "<div><dt>{name}</dt><dd id=\"{id}\">–</dd></div>");
    }
    body.push_str("</dl>\n<div class=\"charts\">\n");
    for (id, heading) in CHARTS {
        let _ = writeln!(
            body,
            "<section><h2>{heading}</h2><div id=\"{id}\"></div></section>"
        );
    }
    body.push_str("</div>\n");
    document(&format!("gannet load: {title}"), &body, LIVE_JS)
}
