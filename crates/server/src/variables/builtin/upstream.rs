//! Variables of the servers that a request was passed to: their addresses, what they answered, how long they took.

use super::{Fixed, Prefixed, append, append_joined, append_number, append_seconds, names_field};
use crate::http::trace::{Attempt, Field};
use crate::http::{Request, thread};
use wire::fields::{cookie, date};

pub const FIXED: &[Fixed] = &[
    ("upstream_addr", |request, out| {
        each(request, out, |attempt, out| {
            append(attempt.peer.as_deref(), out);
        })
    }),
    ("upstream_status", |request, out| {
        each(request, out, |attempt, out| {
            let status = Some(attempt.status.get()).filter(|&status| status > 0);
            number_or_dash(status.map(u64::from), out, append_number);
        })
    }),
    ("upstream_connect_time", |request, out| {
        times(request, out, |attempt| attempt.connect_ms.get())
    }),
    ("upstream_header_time", |request, out| {
        times(request, out, |attempt| attempt.header_ms.get())
    }),
    ("upstream_response_time", |request, out| {
        times(request, out, |attempt| attempt.response_ms.get())
    }),
    ("upstream_response_length", |request, out| {
        counts(request, out, |attempt| attempt.response_length.get())
    }),
    ("upstream_bytes_received", |request, out| {
        counts(request, out, |attempt| attempt.bytes_received.get())
    }),
    ("upstream_bytes_sent", |request, out| {
        counts(request, out, |attempt| attempt.bytes_sent.get())
    }),
    ("upstream_cache_status", |request, out| {
        let cached = request.cached.as_ref();
        append(cached.map(|cached| cached.status.as_str().as_bytes()), out)
    }),
    ("upstream_cache_last_modified", |request, out| {
        let cached = request.cached.as_ref();
        let seconds = cached.and_then(|cached| cached.last_modified);
        append(
            seconds.map(date::format).as_ref().map(|text| &text[..]),
            out,
        )
    }),
    ("upstream_cache_etag", |request, out| {
        let cached = request.cached.as_ref();
        let etag = cached.map(|cached| &cached.etag[..]);
        append(etag.filter(|etag| !etag.is_empty()), out)
    }),
    // How long ago the response came that is kept, in seconds.
    ("upstream_cache_age", |request, out| {
        let stored = request.cached.as_ref().and_then(|cached| cached.stored);
        let now = i64::try_from(thread::unix_ms() / 1000).unwrap_or(i64::MAX);
        stored.is_some_and(|stored| append_number(now.saturating_sub(stored).unsigned_abs(), out))
    }),
    ("upstream_cache_key", |request, out| {
        append(request.cached.as_ref().map(|cached| &cached.key[..]), out)
    }),
    // Gannet's own: how long the request was in the queue of a pool.
    ("pool_queue_time", |request, out| {
        let queued_ms = request.upstream.as_ref().and_then(|trace| trace.queued_ms);
        queued_ms.is_some_and(|queued_ms| {
            append_seconds(queued_ms, out);
            true
        })
    }),
];

pub const PREFIXED: &[Prefixed] = &[
    ("upstream_http_", |request, suffix, out| {
        let fields = request.upstream.iter().flat_map(|trace| &trace.fields);
        field(fields, suffix, out)
    }),
    ("upstream_trailer_", |request, suffix, out| {
        let Some(trace) = &request.upstream else {
            return false;
        };
        field(trace.late.trailers.borrow().iter(), suffix, out)
    }),
    ("upstream_cookie_", |request, suffix, out| {
        let fields = request.upstream.iter().flat_map(|trace| &trace.fields);
        let mut values = fields
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"set-cookie"))
            .map(|(_, value)| &value[..]);
        append(values.find_map(|value| cookie::set(value, suffix)), out)
    }),
];

/// Whether a variable of this name needs the fields of responses to be kept.
#[must_use]
pub fn needs_upstream_fields(name: &[u8]) -> bool {
    PREFIXED
        .iter()
        .any(|(prefix, _)| name.starts_with(prefix.as_bytes()))
}

fn each(request: &Request, out: &mut Vec<u8>, value: impl Fn(&Attempt, &mut Vec<u8>)) -> bool {
    let trace = request.upstream.as_ref();
    trace.is_some_and(|trace| trace.append_each(out, value))
}

fn times(request: &Request, out: &mut Vec<u8>, ms: impl Fn(&Attempt) -> Option<u64>) -> bool {
    each(request, out, |attempt, out| {
        number_or_dash(ms(attempt), out, append_seconds);
    })
}

fn counts(request: &Request, out: &mut Vec<u8>, count: impl Fn(&Attempt) -> u64) -> bool {
    each(request, out, |attempt, out| {
        append_number(count(attempt), out);
    })
}

fn number_or_dash(number: Option<u64>, out: &mut Vec<u8>, append: fn(u64, &mut Vec<u8>) -> bool) {
    match number {
        Some(number) => {
            append(number, out);
        }
        None => out.push(b'-'),
    }
}

fn field<'f>(fields: impl Iterator<Item = &'f Field>, suffix: &[u8], out: &mut Vec<u8>) -> bool {
    let values = fields
        .filter(|(name, _)| names_field(name, suffix))
        .map(|(_, value)| &value[..]);
    append_joined(values, b", ", out)
}
