//! A request's body: its limits, and where it is kept. What reads it is in `read`; nothing reads one that nobody asked for.

pub mod read;

use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, flag, keyword, msec, offset, row, size};
use crate::config::setting::Complaint;
use crate::http::Request;
use crate::http::request::Incoming;
use crate::http::temp_file::TempPath;
use conf::table::Row;
use conf::{Directive, values};
use wire::http1::{Known, Version};

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
        "What a body may take in memory before it goes to a file, in bytes.",
    ),
    row(
        "client_body_timeout",
        HSL,
        Arity::Exactly(1),
        |b, d| msec(&mut b.location().request_body.timeout_ms, d),
        "How long to wait for the next piece of a body.",
    ),
    row(
        "client_body_in_single_buffer",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().request_body.in_single_buffer, d),
        "Accepted: A body in memory is one piece anyway.",
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
        "Whether every body is kept in a file, and whether the file stays.",
    ),
    row(
        "client_body_temp_path",
        HSL,
        Arity::Between(1, 4),
        temp_path,
        "The directory of bodies in files, and the digits of its levels.",
    ),
];

/// `client_body_in_file_only`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFile {
    Off,
    On,
    Clean,
}

crate::config::setting::settings! {
    max_size: u64 = 1024 * 1024,
    buffer_size: u64 = 16 * 1024,
    timeout_ms: u64 = 60_000,
    in_single_buffer: bool = false,
    in_file_only: InFile = InFile::Off,
    temp_path: TempPath = TempPath::new(crate::config::defaults::CLIENT_BODY_TEMP),
}

fn temp_path(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().request_body.temp_path.vacant()?;
    let path = parse_temp_path(build, directive)?;
    build.location().request_body.temp_path.set(path)
}

/// `…_temp_path PATH [LEVEL [LEVEL [LEVEL]]]`.
pub fn parse_temp_path(
    build: &mut Build<'_>,
    directive: &Directive,
) -> Result<TempPath, Complaint> {
    let name = directive.args[0].as_str().ok_or("invalid value")?;
    let mut path = TempPath::new(build.paths.in_prefix(name));
    for (level, word) in path.levels.iter_mut().zip(&directive.args[1..]) {
        *level = values::parse_number(word)
            .and_then(|digits| u8::try_from(digits).ok())
            .filter(|&digits| digits > 0)
            .ok_or("invalid value")?;
    }
    Ok(path)
}

/// The answer to `Expect: 100-continue`.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Whether the client waits for `100 Continue` before it sends its body.
#[must_use]
pub fn expects_continue(request: &Request) -> bool {
    // As nginx, which says nothing of the kind in HTTP/2.
    request.version == Version::Http11
        && request
            .field(Known::Expect)
            .is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"))
}

/// Whether the client may still be sending a body that nobody read.
#[must_use]
pub fn unread(request: &Request) -> bool {
    !matches!(request.incoming, Incoming::Done)
}
