//! Variables of what was sent, or is about to be: status, bytes, fields.

use super::{Fixed, Prefixed, append, append_joined, append_number, names_field};
use crate::http::{Request, sent};
use wire::http1::Version;

pub const FIXED: &[Fixed] = &[
    ("status", status),
    ("bytes_sent", |request, out| {
        append_number(request.sent.bytes.get(), out)
    }),
    ("body_bytes_sent", |request, out| {
        let (all, head) = (request.sent.bytes.get(), request.sent.header_bytes.get());
        append_number(all.saturating_sub(head), out)
    }),
    ("request_completion", |request, out| {
        let ok: &[u8] = if request.sent.complete.get() {
            b"OK"
        } else {
            b""
        };
        append(Some(ok), out)
    }),
    ("limit_rate", limit_rate),
    ("gzip_ratio", |request, out| ratio(request, "gzip", out)),
    ("brotli_ratio", |request, out| ratio(request, "br", out)),
    ("zstd_ratio", |request, out| ratio(request, "zstd", out)),
    ("compression_level", |request, out| {
        match &*request.sent.compressed.borrow() {
            Some(compressed) => append_number(u64::from(compressed.level), out),
            None => false,
        }
    }),
    ("limit_req_status", |request, out| {
        append(request.limit_req_status.get().map(str::as_bytes), out)
    }),
    ("limit_conn_status", |request, out| {
        append(request.limit_conn_status.get().map(str::as_bytes), out)
    }),
    // These names stand by themselves, so that a configuration may not define them.
    ("sent_http_content_type", |request, out| {
        sent_first(request, b"content_type", out)
    }),
    ("sent_http_content_length", |request, out| {
        sent_first(request, b"content_length", out)
    }),
    ("sent_http_location", |request, out| {
        sent_first(request, b"location", out)
    }),
    ("sent_http_last_modified", |request, out| {
        sent_first(request, b"last_modified", out)
    }),
    ("sent_http_connection", |request, out| {
        let value: &[u8] = match (request.sent.status.get(), request.keep_alive) {
            (101, _) => b"upgrade",
            (_, true) => b"keep-alive",
            (_, false) => b"close",
        };
        append(Some(value), out)
    }),
    ("sent_http_keep_alive", |request, out| {
        sent_first(request, b"keep_alive", out)
    }),
    ("sent_http_transfer_encoding", |request, out| {
        sent_first(request, b"transfer_encoding", out)
    }),
    ("sent_http_cache_control", |request, out| {
        sent_field(request, b"cache_control", out)
    }),
    ("sent_http_link", |request, out| {
        sent_field(request, b"link", out)
    }),
];

pub const PREFIXED: &[Prefixed] = &[
    ("sent_http_", sent_field),
    ("sent_trailer_", |request, suffix, out| {
        let trailers = request.sent.trailers.borrow();
        let values = trailers
            .iter()
            .filter(|(name, _)| names_field(name, suffix))
            .map(|(_, value)| &value[..]);
        append_joined(values, b", ", out)
    }),
];

/// Whether a variable of this name needs the sent fields to be recorded.
#[must_use]
pub fn needs_sent_fields(name: &[u8]) -> bool {
    name.starts_with(b"sent_http_") || name.starts_with(b"sent_trailer_")
}

fn sent_field(request: &Request, suffix: &[u8], out: &mut Vec<u8>) -> bool {
    let fields = request.sent.fields.borrow();
    let values = sent::lines(&fields)
        .filter(|(name, _)| names_field(name, suffix))
        .map(|(_, value)| value);
    append_joined(values, b", ", out)
}

/// The server's own field of a name, which comes before those that the configuration adds.
fn sent_first(request: &Request, suffix: &[u8], out: &mut Vec<u8>) -> bool {
    let fields = request.sent.fields.borrow();
    let mut lines = sent::lines(&fields);
    let first = lines.find(|(name, _)| names_field(name, suffix));
    append(first.map(|(_, value)| value), out)
}

/// Three digits: the error's status where an error page is being made, else the response's, `009` for HTTP/0.9 before
/// there is one, or `000`.
fn status(request: &Request, out: &mut Vec<u8>) -> bool {
    let status = match (request.error_status, request.sent.status.get()) {
        // nginx's own codes for reasons of a bad request.
        (Some(494..=497), _) => 400,
        (Some(status), _) => status,
        (None, 0) if request.version == Version::Http09 => 9,
        (None, status) => status,
    };
    let digit = |place: u16| b'0' + (status / place % 10) as u8;
    append(Some(&[digit(100), digit(10), digit(1)]), out)
}

/// How many times smaller the response became, with two decimals.
fn ratio(request: &Request, coding: &str, out: &mut Vec<u8>) -> bool {
    let compressed = request.sent.compressed.borrow();
    let Some(compressed) = compressed.as_ref().filter(|made| made.coding == coding) else {
        return false;
    };
    append_ratio(compressed.taken.get(), compressed.given.get(), out)
}

fn append_ratio(taken: u64, given: u64, out: &mut Vec<u8>) -> bool {
    if given == 0 {
        return false;
    }
    let hundredths = taken.saturating_mul(100).saturating_add(given / 2) / given;
    append_number(hundredths / 100, out);
    let rest = (hundredths % 100) as u8;
    out.extend_from_slice(&[b'.', b'0' + rest / 10, b'0' + rest % 10]);
    true
}

/// As assigned; once the response is being sent, also as the location has it.
fn limit_rate(request: &Request, out: &mut Vec<u8>) -> bool {
    let rate = match request.limit_rate.get() {
        Some(rate) => rate,
        None if request.sent.header_bytes.get() > 0 => {
            let settings = &request.location().settings.limit_rate;
            settings.rate.evaluate(request)
        }
        None => 0,
    };
    append_number(rate, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_two_decimals_and_are_rounded() {
        for (taken, given, expected) in [
            (1000, 100, "10.00"),
            (17, 8, "2.13"),
            (21249, 10000, "2.12"),
            (2999, 1000, "3.00"),
            (1, 3, "0.33"),
            (0, 20, "0.00"),
            (5, 0, ""),
        ] {
            let mut out = Vec::new();
            assert_eq!(append_ratio(taken, given, &mut out), !expected.is_empty());
            assert_eq!(out, expected.as_bytes(), "{taken} {given}");
        }
    }
}
