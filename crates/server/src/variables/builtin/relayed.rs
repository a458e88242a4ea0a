//! Variables of requests that are passed on to other servers: what these are told.

use super::{Fixed, append, append_number};
use crate::http::Request;
use crate::http::request::Proxied;
use crate::http::sliced;

pub const FIXED: &[Fixed] = &[
    ("slice_range", sliced::append_range),
    ("proxy_host", |request, out| {
        append_filled(request, out, |proxied| &proxied.host)
    }),
    ("proxy_port", |request, out| {
        append_filled(request, out, |proxied| &proxied.port)
    }),
    ("proxy_internal_body_length", |request, out| {
        let length = request
            .proxied
            .as_ref()
            .and_then(|proxied| proxied.body_length);
        length.is_some_and(|length| append_number(length, out))
    }),
    ("proxy_internal_chunked", |request, out| {
        let chunked = request
            .proxied
            .as_ref()
            .is_some_and(|proxied| proxied.chunked);
        append(chunked.then_some(b"chunked"), out)
    }),
    ("fastcgi_script_name", |request, out| {
        let settings = &request.location().settings.fastcgi;
        settings.append_script_name(request, out);
        true
    }),
    ("fastcgi_path_info", |request, out| {
        let settings = &request.location().settings.fastcgi;
        settings.append_path_info(request, out);
        true
    }),
];

/// Not found before the request is passed on.
fn append_filled(request: &Request, out: &mut Vec<u8>, part: fn(&Proxied) -> &[u8]) -> bool {
    append(request.proxied.as_ref().map(part), out)
}
