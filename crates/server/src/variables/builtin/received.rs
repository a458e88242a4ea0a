//! Variables of the request as it came: its line, its fields, its body.

use super::{Fixed, Prefixed, append, append_joined, append_number, names_field};
use crate::http::request::RequestBody;
use crate::http::{Request, credentials};
use std::os::unix::ffi::OsStrExt;
use wire::http1::{Known, Span};

pub const FIXED: &[Fixed] = &[
    ("request", |request, out| {
        out.extend_from_slice(request.request_line());
        !request.buffer.is_empty()
    }),
    ("request_method", request_method),
    ("request_uri", |request, out| {
        append_span(request, request.head.request_uri, out)
    }),
    ("server_protocol", |request, out| {
        append_span(request, request.head.version_span, out)
    }),
    ("http_host", |request, out| {
        append_known(request, Known::Host, b", ", out)
    }),
    ("http_user_agent", |request, out| {
        append_known(request, Known::UserAgent, b", ", out)
    }),
    ("http_referer", |request, out| {
        append_known(request, Known::Referer, b", ", out)
    }),
    ("http_via", |request, out| {
        append_known(request, Known::Via, b", ", out)
    }),
    ("http_x_forwarded_for", |request, out| {
        append_known(request, Known::XForwardedFor, b", ", out)
    }),
    ("http_cookie", |request, out| {
        append_known(request, Known::Cookie, b"; ", out)
    }),
    ("content_type", |request, out| {
        append_known(request, Known::ContentType, b", ", out)
    }),
    ("content_length", content_length),
    ("remote_user", remote_user),
    ("request_body", |request, out| match &request.body {
        RequestBody::Memory(bytes) if !bytes.is_empty() => append(Some(bytes), out),
        _ => false,
    }),
    ("request_body_file", |request, out| match &request.body {
        RequestBody::File(file) => append(Some(file.path.as_os_str().as_bytes()), out),
        _ => false,
    }),
    ("request_length", |request, out| {
        append_number(request.received.get(), out)
    }),
    ("request_port", |request, out| match request.host_port {
        Some(port) => append_number(u64::from(port), out),
        None => true,
    }),
    ("is_request_port", |request, out| {
        let colon: &[u8] = if request.host_port.is_some() {
            b":"
        } else {
            b""
        };
        append(Some(colon), out)
    }),
    ("pipe", |request, out| {
        out.push(if request.pipelined { b'p' } else { b'.' });
        true
    }),
];

pub const PREFIXED: &[Prefixed] = &[
    ("http_", |request, suffix, out| {
        append_joined(fields(request, suffix), b", ", out)
    }),
    ("cookie_", |request, suffix, out| {
        let cookies = values(request, Known::Cookie);
        append(wire::fields::cookie::find(cookies, suffix), out)
    }),
    ("arg_", |request, suffix, out| {
        append(argument(&request.args, suffix), out)
    }),
];

/// A part of the head; one that was not there has no value.
fn append_span(request: &Request, span: Span, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(span.of(&request.buffer));
    !span.is_empty()
}

fn request_method(request: &Request, out: &mut Vec<u8>) -> bool {
    let name = request.method_name();
    out.extend_from_slice(name);
    !name.is_empty()
}

fn values(request: &Request, known: Known) -> impl Iterator<Item = &[u8]> {
    request
        .head
        .fields
        .iter()
        .filter(move |field| field.known == known)
        .map(|field| field.value.of(&request.buffer))
}

/// The values of a known field, joined.
pub fn append_known(request: &Request, known: Known, separator: &[u8], out: &mut Vec<u8>) -> bool {
    append_joined(values(request, known), separator, out)
}

fn fields<'r>(request: &'r Request, suffix: &'r [u8]) -> impl Iterator<Item = &'r [u8]> {
    let buffer = &request.buffer;
    request
        .head
        .fields
        .iter()
        .filter(move |field| names_field(field.name.of(buffer), suffix))
        .map(move |field| field.value.of(buffer))
}

/// As the client stated it; of a chunked body, the length once it was read.
fn content_length(request: &Request, out: &mut Vec<u8>) -> bool {
    if let Some(value) = request.field(Known::ContentLength) {
        return append(Some(value), out);
    }
    match &request.body {
        RequestBody::Memory(bytes) if request.chunked => append_number(bytes.len() as u64, out),
        RequestBody::File(file) if request.chunked => append_number(file.length, out),
        _ => false,
    }
}

/// The value of the first argument of the name, in any case and not decoded.
pub fn argument<'a>(args: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    if name.is_empty() {
        return None;
    }
    args.split(|&byte| byte == b'&').find_map(|argument| {
        let (start, rest) = argument.split_at_checked(name.len())?;
        let value = rest.strip_prefix(b"=")?;
        start.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// The name of an `Authorization: Basic` field.
fn remote_user(request: &Request, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    match credentials::append_basic(request, out) {
        Some(length) => {
            out.truncate(before + length);
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_as_nginx_finds_them() {
        for (args, expected) in [
            ("a=1", Some("1")),
            ("A=1&a=2", Some("1")),
            ("aa=1&a=2", Some("2")),
            ("b=a=1&a=2", Some("2")),
            ("a&a=", Some("")),
            ("a", None),
            ("", None),
            ("a=%20b", Some("%20b")),
        ] {
            assert_eq!(
                argument(args.as_bytes(), b"a"),
                expected.map(str::as_bytes),
                "{args}"
            );
        }
        assert_eq!(argument(b"=1", b""), None);
    }
}
