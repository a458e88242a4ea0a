//! How a Location that the server makes is completed: scheme, name and port.

use crate::config::directive::{Arity, HSL, Set, flag, row};
use crate::http::{Request, Response};
use bytes::Bytes;
use conf::table::Row;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "absolute_redirect",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().redirect.absolute, d),
        "Whether redirects that the server makes are absolute.",
    ),
    row(
        "port_in_redirect",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().redirect.port, d),
        "Whether absolute redirects name the port.",
    ),
    row(
        "server_name_in_redirect",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().redirect.server_name, d),
        "Whether absolute redirects use the first server_name instead of the request's host.",
    ),
    row(
        "msie_refresh",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().redirect.msie_refresh, d),
        "Refresh pages instead of redirects for old browsers.",
    ),
    row(
        "msie_padding",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().redirect.msie_padding, d),
        "Pad error pages to 512 bytes for old browsers.",
    ),
];

crate::config::setting::settings! {
    absolute: bool = true,
    port: bool = true,
    server_name: bool = false,
    msie_refresh: bool = false,
    msie_padding: bool = true,
}

/// Makes a Location of the server's own absolute, as its settings say. One that stays as it was given is a header like
/// the others, and the first of them.
pub fn apply(request: &Request, response: &mut Response) {
    let settings = &request.location().settings.redirect;
    let Some(location) = response.location.take() else {
        return;
    };
    if !settings.absolute || location.first() != Some(&b'/') {
        response.headers.push_first("Location", location);
        return;
    }
    let mut absolute = Vec::with_capacity(64 + location.len());
    absolute.extend_from_slice(if request.connection.is_tls() {
        b"https://"
    } else {
        b"http://"
    });
    match (settings.server_name, request.host.is_empty()) {
        (true, _) if !request.server().name.is_empty() => {
            absolute.extend_from_slice(&request.server().name);
        }
        (_, false) => absolute.extend_from_slice(&request.host),
        (_, true) => append_address(request, &mut absolute),
    }
    let port = request.connection.local.port();
    let default_port = if request.connection.is_tls() { 443 } else { 80 };
    if settings.port && port != 0 && port != default_port {
        absolute.push(b':');
        absolute.extend_from_slice(port.to_string().as_bytes());
    }
    absolute.extend_from_slice(&location);
    response.location = Some(Bytes::from(absolute));
}

/// The address that the client connected to.
fn append_address(request: &Request, out: &mut Vec<u8>) {
    if let Some(address) = request.connection.local_address().ip() {
        let text = match address {
            std::net::IpAddr::V4(address) => address.to_string(),
            std::net::IpAddr::V6(address) => format!("[{address}]"),
        };
        out.extend_from_slice(text.as_bytes());
    }
}
