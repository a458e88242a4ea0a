//! `rewrite_log` and `uninitialized_variable_warn`.

use crate::config::directive::{Arity, HTTP, REWRITE, Set, flag, row};
use conf::table::Row;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "rewrite_log",
        HTTP.or(REWRITE),
        Arity::Flag,
        |b, d| flag(&mut b.location().rewrite.log, d),
        "Log rewrites at notice level.",
    ),
    row(
        "uninitialized_variable_warn",
        HTTP.or(REWRITE),
        Arity::Flag,
        |b, d| flag(&mut b.location().rewrite.warn, d),
        "Warn of variables that were never set.",
    ),
];

crate::config::setting::settings! {
    log: bool = false,
    warn: bool = true,
}
