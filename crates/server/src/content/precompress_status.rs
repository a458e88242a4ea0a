//! `precompress_status`: what is known and counted of compressed copies, as JSON.

use super::Content;
use crate::config::build::Build;
use crate::config::directive::{Arity, Outcome, SL, Set, row};
use crate::encoding::negotiate::Coding;
use crate::http::{Body, Interrupt, Phase, Request, Response, counters};
use crate::precompress::counts::{COUNTS, value};
use crate::{background, store};
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use std::fmt::Write;
use wire::http1::Method;

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "precompress_status",
    SL,
    Arity::Exactly(0),
    precompress_status,
    "Answer with the counters of compressed copies, as JSON.",
)];

fn precompress_status(build: &mut Build<'_>, _: &Directive) -> Outcome {
    build.frame().content = Some(Content::PrecompressStatus);
    Ok(())
}

/// The page.
pub fn respond(request: &Request) -> Phase<Response> {
    if !matches!(request.method, Method::Get | Method::Head) {
        return Err(Interrupt::Status(405));
    }
    let mut response = Response::new(200, Body::Memory(Bytes::from(text())));
    response.content_type = Some(Bytes::from_static(b"application/json"));
    response.skip_conditions = true;
    Ok(response)
}

fn text() -> String {
    let load = background::pool().load();
    let made = Coding::ALL.map(|coding| value(&COUNTS.made[coding as usize]));
    let numbers = [
        ("useless", value(&COUNTS.useless)),
        ("failed", value(&COUNTS.failed)),
        ("stale", value(&COUNTS.stale)),
        ("bytes_in", value(&COUNTS.bytes_in)),
        ("bytes_out", value(&COUNTS.bytes_out)),
        ("watched_directories", value(&COUNTS.watched)),
        ("scanned_files", value(&COUNTS.scanned)),
    ];
    let mut text = String::from("{\n");
    let queue = [
        ("asked", load.asked),
        ("idle", load.idle),
        ("delayed", load.delayed),
        ("running", load.running),
    ];
    // Writing to memory does not fail.
    let _ = writeln!(
        text,
        "  \"queue\": {},",
        object(queue.map(|(name, count)| (name, count as u64)))
    );
    let _ = writeln!(text, "  \"made\": {},", object(by_coding(made)));
    let _ = writeln!(
        text,
        "  \"served\": {},",
        object(by_coding(counters::totals().copies))
    );
    for (name, number) in numbers {
        let _ = writeln!(text, "  \"{name}\": {number},");
    }
    text.push_str("  \"stores\": [");
    for (index, store) in store::all().iter().enumerate() {
        let numbers = [
            ("entries", store.entries() as u64),
            ("bytes", store.bytes()),
            ("bytes_max", store.bytes_max()),
            ("evicted", store.evicted()),
        ];
        let comma = if index > 0 { "," } else { "" };
        let directory = quoted(&store.directory().to_string_lossy());
        let _ = write!(
            text,
            "{comma}\n    {{\"directory\": {directory}, {}",
            &object(numbers)[1..]
        );
    }
    text.push_str("\n  ]\n}\n");
    text
}

fn by_coding<T>(numbers: [T; 3]) -> [(&'static str, T); 3] {
    let mut names = Coding::ALL.map(Coding::as_str).into_iter();
    numbers.map(|number| (names.next().unwrap_or_default(), number))
}

/// Names and numbers as JSON has them.
pub fn object<const N: usize>(members: [(&str, u64); N]) -> String {
    let members = members.map(|(name, number)| format!("\"{name}\": {number}"));
    format!("{{{}}}", members.join(", "))
}

/// A text as JSON has it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted() {
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
        assert_eq!(object([("a", 1), ("b", 2)]), "{\"a\": 1, \"b\": 2}");
        assert!(text().starts_with("{\n  \"queue\": {\"asked\": "));
    }
}
