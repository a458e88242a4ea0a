//! A response's head as HTTP/2 has it: the fields of `connection::writer::head`, in the same order, without those of the
//! connection.

use super::stream::FRAME_HEAD;
use crate::filter::headers::append_trailers;
use crate::http::{Request, Response, sent, thread};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use std::cell::RefCell;

/// The head of a response.
pub fn of_response(request: &Request, response: &Response) -> HeaderMap {
    let settings = &request.location().settings;
    let mut fields = HeaderMap::with_capacity(response.headers.len() + 8);
    if !response.has_server {
        let server = settings.transmission.server_tokens.text();
        fields.append(header::SERVER, HeaderValue::from_static(server));
    }
    if !response.has_date {
        fields.append(header::DATE, date());
    }
    if let Some(kind) = response.content_type_as_given() {
        add_value(header::CONTENT_TYPE, kind, &mut fields);
    }
    if let Some(length) = response.content_length
        && response.status != 204
    {
        fields.append(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    if let Some(modified) = &response.last_modified
        && !modified.text.is_empty()
        && matches!(response.status, 200 | 206 | 304)
    {
        add_value(header::LAST_MODIFIED, modified.text.clone(), &mut fields);
    }
    if let Some(location) = &response.location {
        add_value(header::LOCATION, location.clone(), &mut fields);
    }
    if request.vary_accept_encoding.get() && (settings.compression.vary || settings.precompress.on)
    {
        fields.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    let (before, after) = response.headers.split_at(response.etag_place);
    for field in before {
        add(&field.name, &field.value, &mut fields);
    }
    if let Some(etag) = &response.etag {
        add_value(header::ETAG, etag.clone(), &mut fields);
    }
    for field in after {
        add(&field.name, &field.value, &mut fields);
    }
    if response.accept_ranges {
        fields.append(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    }
    fields
}

thread_local! {
    static DATE: RefCell<(u64, HeaderValue)> = const { RefCell::new((0, HeaderValue::from_static(""))) };
}

/// The Date of now; made once a second.
pub fn date() -> HeaderValue {
    DATE.with(|kept| {
        let mut kept = kept.borrow_mut();
        let second = thread::unix_ms() / 1000;
        if kept.0 != second {
            let mut text = Vec::new();
            thread::append_date(&mut text);
            if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(text)) {
                *kept = (second, value);
            }
        }
        kept.1.clone()
    })
}

/// The trailer fields: those of the body's source first.
pub fn trailers(request: &Request, of_source: &[(Bytes, Bytes)]) -> HeaderMap {
    let mut lines = Vec::new();
    append_trailers(request, &mut lines);
    let mut fields = HeaderMap::new();
    for (name, value) in of_source {
        add(name, value, &mut fields);
    }
    add_lines(&lines, &mut fields);
    fields
}

/// Adds fields that are written as HTTP/1 writes them.
pub fn add_lines(lines: &[u8], fields: &mut HeaderMap) {
    for (name, value) in sent::lines(lines) {
        add(name, &Bytes::copy_from_slice(value), fields);
    }
}

/// Adds a field, unless HTTP/2 has no room for such a name or value, or none for the field.
fn add(name: &[u8], value: &Bytes, fields: &mut HeaderMap) {
    let Ok(name) = HeaderName::from_bytes(name) else {
        return;
    };
    let is_of_the_connection = matches!(
        name,
        header::CONNECTION | header::TRANSFER_ENCODING | header::UPGRADE
    ) || name == "keep-alive"
        || name == "proxy-connection";
    if !is_of_the_connection {
        add_value(name, value.clone(), fields);
    }
}

fn add_value(name: HeaderName, value: Bytes, fields: &mut HeaderMap) {
    if let Ok(value) = HeaderValue::from_maybe_shared(value) {
        fields.append(name, value);
    }
}

/// About how many bytes the head takes: its compression is the library's.
pub fn length(fields: &HeaderMap) -> u64 {
    let fields = fields.iter().map(|(_, value)| value.len() as u64 + 2);
    FRAME_HEAD + 1 + fields.sum::<u64>()
}
