//! The status page: php-fpm's fields in php-fpm's five forms, and after them what only a server knows that has the queue.

use super::access_log::write_time;
use super::child::{Child, Doing};
use super::state::State;
use std::fmt::{self, Write};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Html,
    Json,
    Xml,
    OpenMetrics,
}

impl Format {
    /// As php-fpm reads the query: a word anywhere in it.
    pub fn of_query(query: &str) -> Format {
        let all = [
            ("html", Format::Html),
            ("xml", Format::Xml),
            ("json", Format::Json),
            ("openmetrics", Format::OpenMetrics),
        ];
        let found = all.into_iter().find(|(word, _)| query.contains(word));
        found.map_or(Format::Text, |(_, format)| format)
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain;charset=UTF-8",
            Format::Html => "text/html;charset=UTF-8",
            Format::Xml => "text/xml;charset=UTF-8",
            Format::Json => "application/json",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

#[derive(Clone, Debug)]
enum Value {
    Text(String),
    Number(u64),
    /// Seconds since 1970.
    Time(i64),
    Percent(f64),
}

type Fields = Vec<(&'static str, Value)>;

/// The page; `full` adds a section for each child.
pub fn write(state: &State, format: Format, full: bool, now: Instant) -> String {
    let pool = pool_fields(state, now);
    let children: Vec<Fields> = match full && format != Format::OpenMetrics {
        true => state
            .children
            .values()
            .map(|child| child_fields(child, now))
            .collect(),
        false => Vec::new(),
    };
    let children = full.then_some(&children[..]);
    let mut out = String::with_capacity(1024);
    // Writing to a string cannot fail.
    let _ = match format {
        Format::Text => text(&mut out, &pool, children),
        Format::Html => html(&mut out, &pool, children),
        Format::Json => json(&mut out, &pool, children),
        Format::Xml => xml(&mut out, &pool, children),
        Format::OpenMetrics => openmetrics(&mut out, &pool),
    };
    out
}

fn pool_fields(state: &State, now: Instant) -> Fields {
    use Value::{Number, Text, Time};
    let (settings, counts) = (&state.defined.settings, &state.counts);
    let census = state.census(now);
    let since = now.saturating_duration_since(state.started).as_secs();
    let number = |value: usize| Number(value as u64);
    vec![
        ("pool", Text(settings.name.clone())),
        ("process manager", Text(settings.pm.as_str().to_owned())),
        ("start time", Time(state.started_at)),
        ("start since", Number(since)),
        ("accepted conn", Number(counts.accepted)),
        ("listen queue", number(census.waiting)),
        ("max listen queue", number(counts.max_waiting)),
        ("listen queue len", number(settings.queue_max)),
        ("idle processes", number(census.idle)),
        ("active processes", number(census.busy)),
        ("total processes", number(census.idle + census.busy)),
        ("max active processes", number(counts.max_active)),
        ("max children reached", Number(counts.max_children_reached)),
        ("slow requests", Number(counts.slow)),
        ("refused requests", Number(counts.refused)),
        ("longest wait", Number(micros(census.longest_wait))),
    ]
}

fn child_fields(child: &Child, now: Instant) -> Fields {
    use Value::{Number, Percent, Text, Time};
    let running = child.doing == Doing::Busy;
    let duration = match running {
        true => now.saturating_duration_since(child.since),
        false => child.last.duration,
    };
    let facts = &child.facts;
    let mut uri = text_of(&facts.script_name);
    if !facts.query.is_empty() {
        uri = format!("{uri}?{}", String::from_utf8_lossy(&facts.query));
    }
    let state = match child.doing {
        Doing::Idle => "Idle",
        Doing::Busy => "Running",
        Doing::Abandoned => "Finishing",
    };
    let used: Duration = child.last.cpu.iter().sum();
    let cpu = match child.last.duration.as_secs_f64() {
        seconds if seconds > 0.0 && !running => used.as_secs_f64() / seconds * 100.0,
        _ => 0.0,
    };
    let since = now.saturating_duration_since(child.started).as_secs();
    vec![
        ("pid", Number(u64::from(child.pid.unsigned_abs()))),
        ("state", Text(state.to_owned())),
        ("start time", Time(child.started_at)),
        ("start since", Number(since)),
        ("requests", Number(child.requests)),
        ("request duration", Number(micros(duration))),
        ("request method", Text(text_of(&facts.method))),
        ("request uri", Text(uri)),
        ("content length", Number(facts.content_length)),
        ("user", Text(text_of(&facts.user))),
        ("script", Text(text_of(&facts.script_filename))),
        ("last request cpu", Percent(cpu)),
        (
            "last request memory",
            Number(if running { 0 } else { child.last.memory }),
        ),
    ]
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn text_of(bytes: &[u8]) -> String {
    match bytes {
        [] => "-".to_owned(),
        bytes => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// A value in the forms that show times as text.
fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Percent(percent) => format!("{percent:.2}"),
        Value::Time(seconds) => {
            let mut out = String::new();
            let _ = write_time(*seconds, None, &mut out);
            out
        }
    }
}

fn text(out: &mut String, pool: &Fields, children: Option<&[Fields]>) -> fmt::Result {
    let plain = |value: &Value| shown(value).replace(|letter: char| letter.is_control(), "?");
    for (name, value) in pool {
        writeln!(out, "{:<21} {}", format!("{name}:"), plain(value))?;
    }
    for child in children.unwrap_or_default() {
        writeln!(out, "\n************************")?;
        for (name, value) in child {
            let name = if *name == "request uri" {
                "request URI"
            } else {
                name
            };
            writeln!(out, "{:<21} {}", format!("{name}:"), plain(value))?;
        }
    }
    Ok(())
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#039;"),
            letter if letter.is_control() => out.push('?'),
            letter => out.push(letter),
        }
    }
    out
}

fn html(out: &mut String, pool: &Fields, children: Option<&[Fields]>) -> fmt::Result {
    writeln!(out, "<!DOCTYPE html>\n<html lang=\"en\">")?;
    writeln!(
        out,
        "<head><title>Pool Status Page</title></head>\n<body>\n<table>"
    )?;
    for (name, value) in pool {
        writeln!(
            out,
            "<tr><th>{name}</th><td>{}</td></tr>",
            escaped(&shown(value))
        )?;
    }
    writeln!(out, "</table>")?;
    if let Some(children) = children {
        writeln!(out, "<table border=\"1\">")?;
        for (index, child) in children.iter().enumerate() {
            if index == 0 {
                let names = child.iter().map(|(name, _)| format!("<th>{name}</th>"));
                writeln!(out, "<tr>{}</tr>", names.collect::<String>())?;
            }
            let cells = child
                .iter()
                .map(|(_, value)| format!("<td>{}</td>", escaped(&shown(value))));
            writeln!(out, "<tr>{}</tr>", cells.collect::<String>())?;
        }
        writeln!(out, "</table>")?;
    }
    write!(out, "</body></html>")
}

fn json(out: &mut String, pool: &Fields, children: Option<&[Fields]>) -> fmt::Result {
    write!(out, "{{")?;
    json_fields(out, pool)?;
    if let Some(children) = children {
        write!(out, ", \"processes\":[")?;
        for (index, child) in children.iter().enumerate() {
            write!(out, "{}{{", if index > 0 { "," } else { "" })?;
            json_fields(out, child)?;
            write!(out, "}}")?;
        }
        write!(out, "]")?;
    }
    write!(out, "}}")
}

fn json_fields(out: &mut String, fields: &Fields) -> fmt::Result {
    for (index, (name, value)) in fields.iter().enumerate() {
        write!(out, "{}\"{name}\":", if index > 0 { "," } else { "" })?;
        match value {
            Value::Text(text) => json_string(out, text)?,
            Value::Number(number) => write!(out, "{number}")?,
            Value::Time(seconds) => write!(out, "{seconds}")?,
            Value::Percent(percent) => write!(out, "{percent:.2}")?,
        }
    }
    Ok(())
}

fn json_string(out: &mut String, text: &str) -> fmt::Result {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '/' => out.push_str("\\/"),
            letter if letter.is_control() => write!(out, "\\u{:04x}", u32::from(letter))?,
            letter => out.push(letter),
        }
    }
    out.push('"');
    Ok(())
}

fn xml(out: &mut String, pool: &Fields, children: Option<&[Fields]>) -> fmt::Result {
    let element = |(name, value): &(&str, Value)| {
        let name = name.replace(' ', "-");
        let text = match value {
            Value::Time(seconds) => seconds.to_string(),
            value => escaped(&shown(value)),
        };
        format!("<{name}>{text}</{name}>")
    };
    writeln!(out, "<?xml version=\"1.0\" ?>\n<status>")?;
    for field in pool {
        writeln!(out, "{}", element(field))?;
    }
    if let Some(children) = children {
        writeln!(out, "<processes>")?;
        for child in children {
            let fields: String = child.iter().map(element).collect();
            writeln!(out, "<process>{fields}</process>")?;
        }
        writeln!(out, "</processes>")?;
    }
    writeln!(out, "</status>")
}

/// Field, name of the metric as dashboards for php-fpm know it, its kind, what it says.
const METRICS: &[(&str, &str, &str, &str)] = &[
    (
        "start since",
        "phpfpm_start_since",
        "counter",
        "Seconds since the pool has started.",
    ),
    (
        "accepted conn",
        "phpfpm_accepted_connections",
        "counter",
        "Requests that were given to a child.",
    ),
    (
        "listen queue",
        "phpfpm_listen_queue",
        "gauge",
        "Requests that wait for a child.",
    ),
    (
        "max listen queue",
        "phpfpm_max_listen_queue",
        "counter",
        "The most requests that waited at once.",
    ),
    (
        "listen queue len",
        "phpfpm_listen_queue_length",
        "gauge",
        "Requests that may wait at once.",
    ),
    (
        "idle processes",
        "phpfpm_idle_processes",
        "gauge",
        "Children without a request.",
    ),
    (
        "active processes",
        "phpfpm_active_processes",
        "gauge",
        "Children at work.",
    ),
    (
        "total processes",
        "phpfpm_total_processes",
        "gauge",
        "All children.",
    ),
    (
        "max active processes",
        "phpfpm_max_active_processes",
        "counter",
        "The most children at work at once.",
    ),
    (
        "max children reached",
        "phpfpm_max_children_reached",
        "counter",
        "How often pm.max_children ended a growth.",
    ),
    (
        "slow requests",
        "phpfpm_slow_requests",
        "counter",
        "Requests beyond request_slowlog_timeout.",
    ),
    (
        "refused requests",
        "phpfpm_refused_requests",
        "counter",
        "Requests that the queue had no room or time for.",
    ),
    (
        "longest wait",
        "phpfpm_longest_wait_microseconds",
        "gauge",
        "How long the first request in the queue has waited.",
    ),
];

fn openmetrics(out: &mut String, pool: &Fields) -> fmt::Result {
    let find = |wanted: &str| pool.iter().find(|(name, _)| *name == wanted);
    let name = |wanted: &str| find(wanted).map_or(String::new(), |(_, value)| shown(value));
    writeln!(
        out,
        "# HELP phpfpm_up The pool {} answers (pm {}).\n# TYPE phpfpm_up gauge\nphpfpm_up 1",
        name("pool"),
        name("process manager")
    )?;
    for (field, metric, kind, help) in METRICS {
        if let Some((_, value)) = find(field) {
            let value = shown(value);
            writeln!(
                out,
                "# HELP {metric} {help}\n# TYPE {metric} {kind}\n{metric} {value}"
            )?;
        }
    }
    writeln!(out, "# EOF")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields {
        vec![
            ("pool", Value::Text("www".into())),
            ("process manager", Value::Text("static".into())),
            ("start time", Value::Time(0)),
            ("listen queue", Value::Number(3)),
            ("request uri", Value::Text("/a?b=<&\"\n".into())),
            ("last request cpu", Value::Percent(12.345)),
        ]
    }

    #[test]
    fn texts_that_clients_chose_break_no_form() {
        let (pool, children) = (fields(), [fields()]);
        let mut out = String::new();
        json(&mut out, &pool[..4].to_vec(), Some(&children)).unwrap();
        assert_eq!(
            out,
            "{\"pool\":\"www\",\"process manager\":\"static\",\"start time\":0,\"listen queue\":3, \"processes\":[{\"pool\":\"www\",\"process manager\":\"static\",\"start time\":0,\"listen queue\":3,\"request uri\":\"\\/a?b=<&\\\"\\u000a\",\"last request cpu\":12.35}]}"
        );
        out.clear();
        xml(&mut out, &pool, None).unwrap();
        assert!(out.contains("<request-uri>/a?b=&lt;&amp;&quot;?</request-uri>"));
        assert!(out.contains("<start-time>0</start-time>"));
        out.clear();
        text(&mut out, &pool, Some(&children)).unwrap();
        assert!(out.starts_with("pool:                 www\n"));
        assert!(out.contains("\nrequest URI:          /a?b=<&\"?\n"));
        out.clear();
        openmetrics(&mut out, &pool).unwrap();
        assert!(out.contains("\nphpfpm_listen_queue 3\n") && out.ends_with("# EOF\n"));
    }

    #[test]
    fn the_query_names_the_form() {
        assert_eq!(Format::of_query(""), Format::Text);
        assert_eq!(Format::of_query("full&json"), Format::Json);
        assert_eq!(Format::of_query("html"), Format::Html);
    }
}
