//! `rewrite_log` and `uninitialized_variable_warn`.

use crate::config::directive::{Arity, HTTP, REWRITE, Set, flag, row};
use crate::http::Request;
use crate::http::request::Slot;
use crate::log::error::{Level, write_request};
use crate::variables::VariableId;
use bytes::Bytes;
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

/// Makes a variable empty that is read before `set` assigned it, and says so once a request.
pub fn uninitialized(request: &Request, id: VariableId) {
    request.assign(id, Slot::Value(Bytes::new()));
    if request.location().settings.rewrite.warn {
        let name = &request.generation.config.http.variables.names[id.0 as usize];
        write_request(
            request,
            Level::Warning,
            format_args!(
                "using uninitialized \"{}\" variable",
                String::from_utf8_lossy(name)
            ),
        );
    }
}
