//! What the error log says of connections and request heads that came to nothing, in nginx's words.

use super::request_head;
use super::writer::SendError;
use crate::config::Generation;
use crate::http::Request;
use crate::http::body::OpenFile;
use crate::http::request::Connection;
use crate::log::error::{self, ErrorLogs, Level};
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use sys::errno::Errno;
use wire::http1::{self, Error, Known};
use wire::proxy_protocol::Broken;

/// The client ended a connection on which it had no request under way.
#[inline]
pub fn closed(
    generation: &Generation,
    listener: usize,
    connection: &Connection,
    error: Option<&io::Error>,
) {
    let logs = logs(generation, listener);
    if !logs.wants(Level::Info) {
        return;
    }
    let waiting = |message: fmt::Arguments<'_>| {
        error::write_connection(logs, connection, Level::Info, message);
    };
    match error {
        Some(error) => waiting(format_args!(
            "recv() failed ({}) while waiting for request",
            Errno(error)
        )),
        None if connection.requests.get() == 0 => {
            waiting(format_args!(
                "client closed connection while waiting for request"
            ));
        }
        None => error::write_closed_keepalive(logs, connection),
    }
}

/// A new connection brought nothing in `client_header_timeout`.
pub fn timed_out_waiting(generation: &Generation, listener: usize, connection: &Connection) {
    error::write_connection(
        logs(generation, listener),
        connection,
        Level::Info,
        format_args!("client timed out (110: Connection timed out) while waiting for request"),
    );
}

/// A connection was not secured.
pub fn handshake(
    generation: &Generation,
    listener: usize,
    connection: &Connection,
    message: fmt::Arguments<'_>,
) {
    error::write_connection(
        logs(generation, listener),
        connection,
        Level::Info,
        format_args!("{message} while SSL handshaking"),
    );
}

/// What came is no header of the PROXY protocol.
pub fn proxy_header(
    generation: &Generation,
    listener: usize,
    connection: &Connection,
    broken: &Broken,
    bytes: &[u8],
) {
    let received = match broken {
        Broken::Line(_) => format!(": \"{}\"", String::from_utf8_lossy(bytes)),
        _ => String::new(),
    };
    error::write_connection(
        logs(generation, listener),
        connection,
        Level::Error,
        format_args!("{broken}{received} while reading PROXY protocol"),
    );
}

/// The error logs of an address are those of its default server.
fn logs(generation: &Generation, listener: usize) -> &ErrorLogs {
    let config = &generation.config;
    let server = config.http.listens[listener].hosts.default;
    let base = config.server(server).base;
    &config.location(base).settings.error_log.logs
}

/// Part of a head came and then the end.
pub fn abandoned(request: &mut Request, listener: usize, error: Option<&io::Error>) {
    match error {
        Some(error) => partial(
            request,
            listener,
            format_args!("recv() failed ({})", Errno(error)),
        ),
        None => partial(
            request,
            listener,
            format_args!("client prematurely closed connection"),
        ),
    }
}

/// Part of a head came and not the rest of it in time.
pub fn timed_out(request: &mut Request, listener: usize) {
    partial(
        request,
        listener,
        format_args!("client timed out (110: Connection timed out)"),
    );
}

fn partial(request: &mut Request, listener: usize, message: fmt::Arguments<'_>) {
    request_head::prepare_refused(request, listener);
    let in_line = !request.buffer.contains(&b'\n');
    error::write_request(
        request,
        Level::Info,
        format_args!("{message} while {}", reading(request, in_line)),
    );
}

/// A response was not sent whole; a file that had become shorter is logged by `truncated`.
#[cold]
pub fn unsent(request: &Request, error: &SendError) {
    let sending = |message: fmt::Arguments<'_>| {
        error::write_request(
            request,
            Level::Info,
            format_args!("{message} while sending response to client"),
        );
    };
    match error {
        SendError::TimedOut => {
            sending(format_args!("client timed out (110: Connection timed out)"));
        }
        SendError::Io(error) => sending(format_args!("send() failed ({})", Errno(error))),
        SendError::Truncated => {}
    }
}

/// A file has become shorter than its Content-Length.
#[cold]
pub fn truncated(request: &Request, file: &OpenFile, at: u64) {
    let link = format!("/proc/self/fd/{}", file.fd.as_raw_fd());
    let path = std::fs::read_link(link).unwrap_or_default();
    error::write_request(
        request,
        Level::Alert,
        format_args!(
            "sendfile() reported that \"{}\" was truncated at {at} while sending response to client",
            path.display()
        ),
    );
}

/// A head that cannot be served; gives the status to answer.
#[cold]
pub fn refused(request: &Request, error: Error) -> u16 {
    let in_line = matches!(
        error,
        Error::InvalidMethod
            | Error::InvalidRequestLine
            | Error::InvalidHttp09Method
            | Error::InvalidAuthority
            | Error::UnsupportedVersion
            | Error::RequestLineTooLong
    );
    let write = |words: fmt::Arguments<'_>| {
        error::write_request(
            request,
            Level::Info,
            format_args!("{words} while {}", reading(request, in_line)),
        );
    };
    match error {
        Error::MethodNotAllowed => {
            let method = String::from_utf8_lossy(request.text(request.head.method_span));
            write(format_args!("client sent {method} method"));
        }
        Error::InvalidHost => write(format_args!("client sent invalid host header")),
        Error::UnknownTransferEncoding => {
            let value = request.field(Known::TransferEncoding).unwrap_or_default();
            write(format_args!(
                "{error}: \"{}\"",
                String::from_utf8_lossy(value)
            ));
        }
        Error::HeaderTooLarge => too_large(request, &write),
        Error::InvalidHeaderLine => invalid_line(request, &write),
        Error::DuplicateHeader => duplicate(request, &write),
        error => write(format_args!("{error}")),
    }
    error.status()
}

/// A line that does not fit the buffers.
fn too_large(request: &Request, write: &dyn Fn(fmt::Arguments<'_>)) {
    let start = request.text(request.head.refused);
    let line = start.split(|&byte| byte == b'\n').next().unwrap_or(start);
    let shown = String::from_utf8_lossy(&line[..line.len().min(LINE_SHOWN)]);
    write(format_args!(
        "client sent too long header line: \"{shown}...\""
    ));
}

/// How much of a line that is too long the log shows.
const LINE_SHOWN: usize = 1748;

/// A line that has a byte where none of its kind may stand; it is the last one shown.
fn invalid_line(request: &Request, write: &dyn Fn(fmt::Arguments<'_>)) {
    let line = request.text(request.head.refused);
    let Some((bad, before)) = line.split_last() else {
        return write(format_args!("{}", Error::InvalidHeaderLine));
    };
    write(format_args!(
        "{}: \"{}\\x{bad:02x}...\"",
        Error::InvalidHeaderLine,
        String::from_utf8_lossy(before)
    ));
}

fn duplicate(request: &Request, write: &dyn Fn(fmt::Arguments<'_>)) {
    let Some((first, second)) = http1::repeated(&request.head.fields) else {
        return write(format_args!("{}", Error::DuplicateHeader));
    };
    let text = |span| String::from_utf8_lossy(request.text(span)).into_owned();
    let what = match second.known {
        Known::Host => "host header",
        _ => "header line",
    };
    write(format_args!(
        "client sent duplicate {what}: \"{}: {}\", previous value: \"{}: {}\"",
        text(second.name),
        text(second.value),
        text(first.name),
        text(first.value)
    ));
}

/// Lines that `ignore_invalid_headers` left out.
#[cold]
pub fn dropped(request: &Request) {
    for &line in &request.head.dropped {
        error::write_request(
            request,
            Level::Info,
            format_args!(
                "{}: \"{}\" while {}",
                Error::InvalidHeaderLine,
                String::from_utf8_lossy(request.text(line).trim_ascii_end()),
                reading(request, false)
            ),
        );
    }
}

fn reading(request: &Request, in_line: bool) -> &'static str {
    match (in_line, request.pipelined) {
        (true, false) => "reading client request line",
        (true, true) => "reading client pipelined request line",
        (false, _) => "reading client request headers",
    }
}
