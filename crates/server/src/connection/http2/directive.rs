//! `http2` and its limits.

use crate::config::accepted::once;
use crate::config::build::Build;
use crate::config::directive::{Arity, HS, HSL, HTTP, Outcome, Set, flag, number, row, size};
use conf::table::Row;
use conf::{Directive, values};

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "http2",
        HS,
        Arity::Flag,
        |b, d| flag(&mut b.server().http2.on, d),
        "Whether clients may speak HTTP/2.",
    ),
    row(
        "http2_max_concurrent_streams",
        HS,
        Arity::Exactly(1),
        |b, d| number(&mut b.server().http2.max_concurrent_streams, d),
        "Requests that a connection may have under way.",
    ),
    row(
        "http2_body_preread_size",
        HS,
        Arity::Exactly(1),
        |b, d| size(&mut b.server().http2.body_preread_size, d),
        "Bytes of a request's body that come before somebody asks for them.",
    ),
    row(
        "http2_chunk_size",
        HSL,
        Arity::Exactly(1),
        chunk_size,
        "The most that a frame of a response's body holds.",
    ),
    row(
        "http2_recv_buffer_size",
        HTTP,
        Arity::Exactly(1),
        checked_size,
        "Accepted: All connections of a thread read into one buffer.",
    ),
    row(
        "http2_pool_size",
        HS,
        Arity::Exactly(1),
        checked_size,
        "Accepted: There are no memory pools.",
    ),
    row(
        "http2_streams_index_size",
        HS,
        Arity::Exactly(1),
        checked_number,
        "Accepted: The index of streams grows with them.",
    ),
];

crate::config::setting::settings! {
    on: bool = false,
    max_concurrent_streams: u64 = 128,
    body_preread_size: u64 = 64 * 1024,
}

/// What holds in a location.
pub mod location {
    crate::config::setting::settings! {
        chunk_size: u64 = 8 * 1024,
    }
}

/// The least and the most that a frame may hold.
const CHUNK_MIN: u64 = 1;
const CHUNK_MAX: u64 = 16 * 1024;

fn chunk_size(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = &mut build.location().http2.chunk_size;
    size(setting, directive)?;
    if let Some(size) = &mut setting.0 {
        *size = (*size).clamp(CHUNK_MIN, CHUNK_MAX);
    }
    Ok(())
}

fn checked_size(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    once(build, directive)?;
    let size = values::parse_size(&directive.args[0]);
    size.map(drop).ok_or_else(|| "invalid value".into())
}

fn checked_number(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    once(build, directive)?;
    let number = values::parse_number(&directive.args[0]);
    number.map(drop).ok_or_else(|| "invalid number".into())
}

impl Settings {
    /// The window that a stream begins with.
    #[must_use]
    pub fn window(&self) -> u32 {
        u32::try_from(self.body_preread_size)
            .unwrap_or(u32::MAX)
            .min(i32::MAX as u32)
    }
}
