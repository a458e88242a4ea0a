//! Preconditions: If-Modified-Since, If-Unmodified-Since, If-Match, If-None-Match (RFC 9110 section 13).

use crate::config::directive::{Arity, HSL, Set, keyword, row};
use conf::table::Row;

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "if_modified_since",
    HSL,
    Arity::Exactly(1),
    |b, d| {
        keyword(
            &mut b.location().not_modified.mode,
            d,
            &[
                ("off", Mode::Off),
                ("exact", Mode::Exact),
                ("before", Mode::Before),
            ],
        )
    },
    "How If-Modified-Since is compared with Last-Modified.",
)];

/// `if_modified_since`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Off,
    Exact,
    Before,
}

crate::config::setting::settings! {
    mode: Mode = Mode::Exact,
}

/// Applies the filter.
pub fn apply(_: &crate::http::Request, _: &mut crate::http::Response) {}
