//! Limits on request heads, and what is made of a head that was read.

use crate::config::directive::{Arity, HS, Set, buffers, flag, msec, number, row, size};
use conf::table::Row;

pub const DIRECTIVES: &[Row<Set>] = &[
    row("client_header_buffer_size", HS, Arity::Exactly(1), |b, d| size(&mut b.server().request_head.header_buffer_size, d), "The first buffer for a request's head."),
    row("large_client_header_buffers", HS, Arity::Exactly(2), |b, d| buffers(&mut b.server().request_head.large_buffers, d), "Number and size of further buffers; one line must fit in one."),
    row("max_headers", HS, Arity::Exactly(1), |b, d| number(&mut b.server().request_head.max_headers, d), "The most fields in a head."),
    row("client_header_timeout", HS, Arity::Exactly(1), |b, d| msec(&mut b.server().request_head.timeout_ms, d), "How long a client may take for a whole head."),
    row("ignore_invalid_headers", HS, Arity::Flag, |b, d| flag(&mut b.server().request_head.ignore_invalid, d), "Drop fields with invalid names instead of refusing the request."),
    row("underscores_in_headers", HS, Arity::Flag, |b, d| flag(&mut b.server().request_head.underscores, d), "Whether underscores are valid in field names."),
    row("merge_slashes", HS, Arity::Flag, |b, d| flag(&mut b.server().request_head.merge_slashes, d), "Treat adjacent slashes of a path as one."),
];

crate::config::setting::settings! {
    header_buffer_size: u64 = 1024,
    large_buffers: (u64, u64) = (4, 8192),
    max_headers: u64 = 1000,
    timeout_ms: u64 = 60_000,
    ignore_invalid: bool = true,
    underscores: bool = false,
    merge_slashes: bool = true,
}
