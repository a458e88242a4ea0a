//! Reading and keeping a request's body: limits, buffers and temporary files.

use super::http1::Http1;
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, flag, keyword, msec, offset, row, size};
use crate::http::request::Incoming;
use crate::http::{Request, thread};
use conf::table::Row;
use conf::{Directive, values};
use std::path::PathBuf;
use wire::http1::{Error, Known, Version};

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "client_max_body_size",
        HSL,
        Arity::Exactly(1),
        |b, d| offset(&mut b.location().request_body.max_size, d),
        "The largest request body; 0: no limit.",
    ),
    row(
        "client_body_buffer_size",
        HSL,
        Arity::Exactly(1),
        |b, d| size(&mut b.location().request_body.buffer_size, d),
        "Accepted: Bodies are checked and dropped as long as nothing here reads them.",
    ),
    row(
        "client_body_timeout",
        HSL,
        Arity::Exactly(1),
        |b, d| msec(&mut b.location().request_body.timeout_ms, d),
        "Accepted: Bodies are checked and dropped as long as nothing here reads them.",
    ),
    row(
        "client_body_in_single_buffer",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().request_body.in_single_buffer, d),
        "Accepted: Bodies are checked and dropped as long as nothing here reads them.",
    ),
    row(
        "client_body_in_file_only",
        HSL,
        Arity::Exactly(1),
        |b, d| {
            keyword(
                &mut b.location().request_body.in_file_only,
                d,
                &[
                    ("off", InFile::Off),
                    ("on", InFile::On),
                    ("clean", InFile::Clean),
                ],
            )
        },
        "Accepted: Bodies are checked and dropped as long as nothing here reads them.",
    ),
    row(
        "client_body_temp_path",
        HSL,
        Arity::Between(1, 4),
        temp_path,
        "Accepted: Bodies are checked and dropped as long as nothing here reads them.",
    ),
];

/// `client_body_in_file_only`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFile {
    Off,
    On,
    Clean,
}

/// `client_body_temp_path`: the directory and the digits of its levels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TempPath {
    pub directory: PathBuf,
    pub levels: [u8; 3],
}

crate::config::setting::settings! {
    max_size: u64 = 1024 * 1024,
    buffer_size: u64 = 16 * 1024,
    timeout_ms: u64 = 60_000,
    in_single_buffer: bool = false,
    in_file_only: InFile = InFile::Off,
    temp_path: TempPath = TempPath { directory: PathBuf::from(crate::config::defaults::CLIENT_BODY_TEMP), levels: [0; 3] },
}

fn temp_path(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().request_body.temp_path.vacant()?;
    let name = directive.args[0].as_str().ok_or("invalid value")?;
    let mut path = TempPath {
        directory: build.paths.in_prefix(name),
        levels: [0; 3],
    };
    for (level, word) in path.levels.iter_mut().zip(&directive.args[1..]) {
        *level = values::parse_number(word)
            .and_then(|digits| u8::try_from(digits).ok())
            .filter(|&digits| digits > 0)
            .ok_or("invalid value")?;
    }
    build.location().request_body.temp_path.set(path)
}

/// The answer to `Expect: 100-continue`.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Whether the client waits for `100 Continue` before it sends its body.
#[must_use]
pub fn expects_continue(request: &Request) -> bool {
    request.version >= Version::Http11
        && request
            .field(Known::Expect)
            .is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"))
}

/// Whether the client may still be sending a body that nobody read.
#[must_use]
pub fn unread(request: &Request) -> bool {
    !matches!(request.incoming, Incoming::Done)
}

/// Drops what `bytes` hold of the body and returns how many bytes that were.
fn drop_from(incoming: &mut Incoming, bytes: &[u8]) -> Result<usize, Error> {
    match incoming {
        Incoming::Done => Ok(0),
        Incoming::Length(left) => {
            let taken = (bytes.len() as u64).min(*left);
            *left -= taken;
            if *left == 0 {
                *incoming = Incoming::Done;
            }
            Ok(taken as usize)
        }
        Incoming::Chunked(decoder) => {
            let mut at = 0;
            while at < bytes.len() {
                let step = decoder.decode(&bytes[at..])?;
                at += step.consumed;
                if step.done {
                    *incoming = Incoming::Done;
                    break;
                }
                if step.consumed == 0 {
                    break;
                }
            }
            Ok(at)
        }
    }
}

/// Drops what has been received of a body that the response does not need.
pub fn discard_pending(connection: &mut Http1, request: &mut Request) -> Result<(), Error> {
    if connection.pending.is_empty() {
        return Ok(());
    }
    let taken = drop_from(&mut request.incoming, &connection.pending)?;
    request.received.set(request.received.get() + taken as u64);
    connection.pending.drain(..taken);
    Ok(())
}

/// Reads and drops the rest of the body, for `lingering_time` at most; false if the connection cannot go on.
pub async fn discard(connection: &mut Http1, request: &mut Request) -> bool {
    let (time_ms, timeout_ms) = {
        let settings = &request.location().settings.keepalive;
        (settings.lingering_time_ms, settings.lingering_timeout_ms)
    };
    let end = thread::monotonic_ms() + time_ms;
    while unread(request) {
        let left = end.saturating_sub(thread::monotonic_ms());
        if left == 0 {
            return false;
        }
        connection.timer.set(left.min(timeout_ms));
        let mut rest = Vec::new();
        let read = connection
            .read_some(|bytes| {
                let taken = drop_from(&mut request.incoming, bytes)?;
                rest.extend_from_slice(&bytes[taken..]);
                Ok::<usize, Error>(bytes.len())
            })
            .await;
        match read {
            Some(Ok(Ok(read))) if read > 0 => connection.pending.extend_from_slice(&rest),
            _ => return false,
        }
    }
    true
}
