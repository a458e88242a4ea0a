//! Preconditions: If-Modified-Since, If-Unmodified-Since, If-Match, If-None-Match (RFC 9110 section 13).

use crate::config::directive::{Arity, HSL, Set, keyword, row};
use crate::http::{Body, Interrupt, Phase, Request, Response};
use conf::table::Row;
use wire::fields::{date, etag};
use wire::http1::Known;

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "if_modified_since",
    HSL,
    Arity::Exactly(1),
    |b, d| {
        keyword(
            &mut b.location().not_modified.mode,
            d,
            &[
                ("off", Mode::Off),
                ("exact", Mode::Exact),
                ("before", Mode::Before),
            ],
        )
    },
    "How If-Modified-Since is compared with Last-Modified.",
)];

/// `if_modified_since`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Off,
    Exact,
    Before,
}

crate::config::setting::settings! {
    mode: Mode = Mode::Exact,
}

/// Answers 304 where the client has the response already, and 412 where it expected another one.
pub fn apply(request: &Request, response: &mut Response) -> Phase {
    if response.status != 200 || response.skip_conditions {
        return Ok(());
    }
    let etag = response.etag.as_deref().unwrap_or_default();
    let modified = response.last_modified.as_ref().map(|last| last.seconds);
    if let Some(value) = request.field(Known::IfUnmodifiedSince) {
        let unmodified = match (date::parse(value), modified) {
            (Some(since), Some(modified)) => since >= modified,
            _ => false,
        };
        if !unmodified {
            return Err(Interrupt::Status(412));
        }
    }
    if let Some(value) = request.field(Known::IfMatch)
        && !etag::matches_strong(value, etag)
    {
        return Err(Interrupt::Status(412));
    }
    let none_match = request.field(Known::IfNoneMatch);
    // nginx wants both to hold; the standard asks for the tags alone.
    let is_strict = request
        .cached
        .as_ref()
        .is_some_and(|cached| cached.is_strict);
    let since =
        (request.field(Known::IfModifiedSince)).filter(|_| !(is_strict && none_match.is_some()));
    if since.is_none() && none_match.is_none() {
        return Ok(());
    }
    let mode = request.location().settings.not_modified.mode;
    if since.is_some_and(|value| was_modified(mode, value, modified))
        || none_match.is_some_and(|value| !etag::matches_weak(value, etag))
    {
        return Ok(());
    }
    response.status = 304;
    response.status_line = None;
    response.content_type = None;
    response.charset = None;
    response.content_length = None;
    response.allow_ranges = false;
    response.take_out("Content-Encoding");
    response.body = Body::Empty;
    Ok(())
}

fn was_modified(mode: Mode, since: &[u8], modified: Option<i64>) -> bool {
    let (Some(modified), true) = (modified, mode != Mode::Off) else {
        return true;
    };
    match date::parse(since) {
        Some(since) if since == modified => false,
        Some(since) => mode == Mode::Exact || since < modified,
        None => true,
    }
}
