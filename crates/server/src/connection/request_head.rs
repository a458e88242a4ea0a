//! Limits on request heads, and what is made of a head that was read.

use super::{complaints, secured};
use crate::config::accepted::check_pool_size;
use crate::config::build::Build;
use crate::config::directive::{Arity, HS, Outcome, Set, buffers, flag, msec, number, row, size};
use crate::http::Request;
use crate::http::request::Incoming;
use conf::Directive;
use conf::table::Row;
use wire::http1::body::{self, Framing};
use wire::http1::request::Limits;
use wire::http1::{self, Known, Version};
use wire::uri;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "client_header_buffer_size",
        HS,
        Arity::Exactly(1),
        |b, d| size(&mut b.server().request_head.header_buffer_size, d),
        "The first buffer for a request's head.",
    ),
    row(
        "large_client_header_buffers",
        HS,
        Arity::Exactly(2),
        |b, d| buffers(&mut b.server().request_head.large_buffers, d),
        "Number and size of further buffers; one line must fit in one.",
    ),
    row(
        "connection_pool_size",
        HS,
        Arity::Exactly(1),
        connection_pool_size,
        "Accepted: There are no memory pools; large_client_header_buffers may not be smaller.",
    ),
    row(
        "max_headers",
        HS,
        Arity::Exactly(1),
        |b, d| number(&mut b.server().request_head.max_headers, d),
        "The most fields in a head.",
    ),
    row(
        "client_header_timeout",
        HS,
        Arity::Exactly(1),
        |b, d| msec(&mut b.server().request_head.timeout_ms, d),
        "How long a client may take for a whole head.",
    ),
    row(
        "ignore_invalid_headers",
        HS,
        Arity::Flag,
        |b, d| flag(&mut b.server().request_head.ignore_invalid, d),
        "Drop fields with invalid names instead of refusing the request.",
    ),
    row(
        "underscores_in_headers",
        HS,
        Arity::Flag,
        |b, d| flag(&mut b.server().request_head.underscores, d),
        "Whether underscores are valid in field names.",
    ),
    row(
        "merge_slashes",
        HS,
        Arity::Flag,
        |b, d| flag(&mut b.server().request_head.merge_slashes, d),
        "Treat adjacent slashes of a path as one.",
    ),
];

crate::config::setting::settings! {
    header_buffer_size: u64 = 1024,
    large_buffers: (u64, u64) = (4, 8192),
    connection_pool_size: u64 = 512,
    max_headers: u64 = 1000,
    timeout_ms: u64 = 60_000,
    ignore_invalid: bool = true,
    underscores: bool = false,
    merge_slashes: bool = true,
}

fn connection_pool_size(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = &mut build.server().request_head.connection_pool_size;
    size(setting, directive)?;
    setting.0.map_or(Ok(()), check_pool_size)
}

impl Settings {
    /// What is wrong with the settings of a server together.
    pub fn check(&self) -> Result<(), &'static str> {
        match self.large_buffers.1 < self.connection_pool_size {
            true => Err(
                "the \"large_client_header_buffers\" size must be equal to or greater than \"connection_pool_size\"",
            ),
            false => Ok(()),
        }
    }
}

/// The parser's limits from the settings.
#[must_use]
pub fn limits(settings: &Settings) -> Limits {
    Limits {
        header_buffer: settings.header_buffer_size as usize,
        large_buffers: settings.large_buffers.0 as usize,
        large_buffer: settings.large_buffers.1 as usize,
        max_headers: settings.max_headers as usize,
        ignore_invalid_headers: settings.ignore_invalid,
        underscores_in_headers: settings.underscores,
    }
}

/// Makes a request of a head that was read: version, host and server, path, body framing, keep-alive. The error is the
/// status to refuse it with; the request has a server and location then, too.
pub fn prepare(request: &mut Request, listener: usize) -> Result<(), u16> {
    choose_default_server(request, listener);
    request.version = request.head.version;
    request.method = request.head.method;
    read_target(request).map_err(|error| complaints::refused(request, error))?;
    match http1::check(&request.head, &request.buffer) {
        Ok(host) => {
            if let Some(host) = host {
                request.host.extend_from_slice(&host.name);
                request.host_port = host.port;
            }
            if !secured::host_is_of_handshake(request, listener) {
                return Err(421);
            }
            choose_server(request, listener);
        }
        Err(error) => {
            choose_server_of_refused(request, listener);
            return Err(complaints::refused(request, error));
        }
    }
    if !request.head.dropped.is_empty() {
        complaints::dropped(request);
    }
    match body::request_framing(&request.head.fields, &request.buffer, request.version) {
        Ok(Framing::None | Framing::UntilClose) => {}
        Ok(Framing::Length(length)) => {
            request.content_length = Some(length);
            if length > 0 {
                request.incoming = Incoming::Length(length);
            }
        }
        Ok(Framing::Chunked) => {
            request.chunked = true;
            request.incoming = Incoming::Chunked(Box::default());
        }
        Err(error) => return Err(complaints::refused(request, error)),
    }
    request.keep_alive = wants_keep_alive(request);
    Ok(())
}

/// Gives a request whose head could not be read the path if that much was read, and the server of its host if it came
/// so far, otherwise the address's default server.
pub fn prepare_refused(request: &mut Request, listener: usize) {
    choose_default_server(request, listener);
    request.method = request.head.method;
    // The request is refused for another reason already.
    let _ = read_target(request);
    if !request.head.fields.is_empty() {
        choose_server_of_refused(request, listener);
    }
}

/// The address's default server, or the one that the client has named in the handshake.
fn choose_default_server(request: &mut Request, listener: usize) {
    let hosts = &request.generation.config.http.listens[listener].hosts;
    let settled = request.connection.settled.get();
    request.server = match settled.and_then(|settled| settled.server_name.as_ref()) {
        None => hosts.default,
        Some(name) => hosts.find(name.as_bytes(), request),
    };
    request.location = request.server().base;
    request.received.set(request.buffer.len() as u64);
}

/// The path and the arguments of the request line. As in nginx the host is not known yet, so that `merge_slashes` is
/// the default server's.
fn read_target(request: &mut Request) -> Result<(), http1::Error> {
    let merge = request.server().settings.request_head.merge_slashes;
    let raw = request.head.path.of(&request.buffer);
    request.uri.clear();
    request.args.clear();
    if request.head.needs_normalising {
        let path = uri::normalise(raw, merge).map_err(|_| http1::Error::InvalidRequestLine)?;
        request.uri.extend_from_slice(&path);
    } else {
        request.uri.extend_from_slice(raw);
    }
    if let Some(args) = request.head.args {
        request.args.extend_from_slice(args.of(&request.buffer));
    }
    Ok(())
}

/// The server of the host that was named, if it is one; its error pages apply.
fn choose_server_of_refused(request: &mut Request, listener: usize) {
    let Ok(host) = http1::named_host(&request.head, &request.buffer) else {
        return;
    };
    request.host.clear();
    if let Some(host) = host {
        request.host.extend_from_slice(&host.name);
        request.host_port = host.port;
    }
    choose_server(request, listener);
}

fn choose_server(request: &mut Request, listener: usize) {
    let generation = std::rc::Rc::clone(&request.generation);
    let host = std::mem::take(&mut request.host);
    request.server = generation.config.http.listens[listener]
        .hosts
        .find(&host, request);
    request.host = host;
    request.location = request.server().base;
}

/// nginx's rules: HTTP/1.1 keeps the connection unless told otherwise, HTTP/1.0 only when asked.
fn wants_keep_alive(request: &Request) -> bool {
    let (mut close, mut keep) = (false, false);
    for field in &request.head.fields {
        if field.known == Known::Connection {
            let value = request.text(field.value);
            close |= contains_token(value, b"close");
            keep |= contains_token(value, b"keep-alive");
        }
    }
    match request.version {
        Version::Http11 => !close,
        // As in nginx, where the connection is not the request's to keep.
        Version::Http2 => false,
        Version::Http10 => keep && !close,
        _ => false,
    }
}

fn contains_token(value: &[u8], token: &[u8]) -> bool {
    value
        .windows(token.len())
        .any(|window| window.eq_ignore_ascii_case(token))
}
