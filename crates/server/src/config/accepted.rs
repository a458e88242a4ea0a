//! Directives that are accepted because they have no meaning here; each says why.

use super::directive::{Arity, HS, HSL, HTTP, Set, accept, row};
use conf::table::Row;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "connection_pool_size",
        HS,
        Arity::Exactly(1),
        accept,
        "Accepted: connections have no memory pool.",
    ),
    row(
        "request_pool_size",
        HS,
        Arity::Exactly(1),
        accept,
        "Accepted: requests have no memory pool.",
    ),
    row(
        "types_hash_bucket_size",
        HSL,
        Arity::Exactly(1),
        accept,
        "Accepted: tables size themselves.",
    ),
    row(
        "types_hash_max_size",
        HSL,
        Arity::Exactly(1),
        accept,
        "Accepted: tables size themselves.",
    ),
    row(
        "variables_hash_bucket_size",
        HTTP,
        Arity::Exactly(1),
        accept,
        "Accepted: variables are numbered at load.",
    ),
    row(
        "variables_hash_max_size",
        HTTP,
        Arity::Exactly(1),
        accept,
        "Accepted: variables are numbered at load.",
    ),
];
