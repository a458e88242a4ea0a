//! Byte ranges (RFC 9110 section 14).

use crate::config::directive::{Arity, HSL, Set, number, row};
use conf::table::Row;

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "max_ranges",
    HSL,
    Arity::Exactly(1),
    |b, d| number(&mut b.location().range.max_ranges, d),
    "The most ranges in one request; 0: ranges are not offered.",
)];

crate::config::setting::settings! {
    max_ranges: u64 = u64::MAX,
}

/// Applies the filter.
pub fn apply(_: &crate::http::Request, _: &mut crate::http::Response) {}
