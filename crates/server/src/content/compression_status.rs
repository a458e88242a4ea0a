//! `compression_status`: what compression on the fly did, and whether the table of bodies seen before pays; as JSON or as
//! a page.

use super::Content;
use super::precompress_status::object;
use crate::config::build::Build;
use crate::config::directive::{Arity, Outcome, SL, Set, row};
use crate::encoding::seen;
use crate::http::counters::{self, Compression};
use crate::http::{Body, Interrupt, Phase, Request, Response};
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use std::fmt::Write;
use wire::http1::Method;

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "compression_status",
    SL,
    Arity::Between(0, 1),
    compression_status,
    "Answer with the counters of compression on the fly, as `json` or `html` (default: json).",
)];

/// How the counters are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Json,
    Html,
}

fn compression_status(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let form = match directive.args.first().map(|word| &word[..]) {
        None | Some(b"json") => Form::Json,
        Some(b"html") => Form::Html,
        Some(_) => return Err(format!("invalid value \"{}\"", directive.args[0]).into()),
    };
    build.frame().content = Some(Content::CompressionStatus(form));
    Ok(())
}

/// The page.
pub fn respond(request: &Request, form: Form) -> Phase<Response> {
    if !matches!(request.method, Method::Get | Method::Head) {
        return Err(Interrupt::Status(405));
    }
    let (kind, text) = match form {
        Form::Json => ("application/json", json()),
        Form::Html => ("text/html", html()),
    };
    let mut response = Response::new(200, Body::Memory(Bytes::from(text)));
    response.content_type = Some(Bytes::from_static(kind.as_bytes()));
    response.skip_conditions = true;
    Ok(response)
}

fn by_coding() -> [(&'static str, u64); 5] {
    let totals = counters::totals();
    [
        ("gzip", totals.of(Compression::Gzip)),
        ("br", totals.of(Compression::Brotli)),
        ("zstd", totals.of(Compression::Zstd)),
        ("dcb", totals.of(Compression::BrotliDictionary)),
        ("dcz", totals.of(Compression::ZstdDictionary)),
    ]
}

fn sums() -> [(&'static str, u64); 4] {
    let totals = counters::totals();
    [
        ("repeated", totals.of(Compression::Repeated)),
        ("cached", totals.of(Compression::Kept)),
        ("bytes_in", totals.of(Compression::BytesIn)),
        ("bytes_out", totals.of(Compression::BytesOut)),
    ]
}

fn seen_before() -> [(&'static str, u64); 4] {
    let seen = seen::totals();
    [
        ("hits", seen.hits),
        ("misses", seen.misses),
        ("passed", seen.passed),
        ("bytes", seen.bytes),
    ]
}

/// Of the bodies that the tables looked at, the part that they knew.
fn hit_rate(hits: u64, misses: u64) -> f64 {
    match hits + misses {
        0 => 0.0,
        all => hits as f64 / all as f64,
    }
}

fn json() -> String {
    let mut text = format!("{{\n  \"responses\": {},\n", object(by_coding()));
    for (name, number) in sums() {
        // Writing to memory does not fail.
        let _ = writeln!(text, "  \"{name}\": {number},");
    }
    let seen = seen::totals();
    let rate = hit_rate(seen.hits, seen.misses);
    let _ = writeln!(text, "  \"seen\": {},", object(seen_before()));
    let _ = writeln!(text, "  \"hit_rate\": {rate:.4}\n}}");
    text
}

fn html() -> String {
    let mut text = String::from(
        "<!doctype html>\n<title>Compression</title>\n<h1>Compression on the fly</h1>\n<table>\n",
    );
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "<tr><th>{name}<td>{value}");
    };
    for (name, number) in by_coding() {
        line(&format!("responses in {name}"), number.to_string());
    }
    for (name, number) in sums().into_iter().chain(seen_before()) {
        let name = match name {
            "hits" | "misses" | "passed" => format!("bodies seen before: {name}"),
            "bytes" => String::from("bodies seen before: bytes kept"),
            name => name.replace('_', " "),
        };
        line(&name, number.to_string());
    }
    let seen = seen::totals();
    let rate = hit_rate(seen.hits, seen.misses) * 100.0;
    line("bodies seen before: hit rate", format!("{rate:.1} %"));
    text.push_str("</table>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_need_no_bodies() {
        assert!(hit_rate(0, 0).abs() < f64::EPSILON);
        assert!((hit_rate(3, 1) - 0.75).abs() < f64::EPSILON);
        assert!(json().contains("\"seen\": {\"hits\": "));
        assert!(html().contains("<tr><th>responses in dcz<td>"));
    }
}
