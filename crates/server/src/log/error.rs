//! The error log.

use crate::http::Request;
use std::fmt;

crate::config::setting::settings! {
    placeholder: bool = false,
}

/// nginx's levels, most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Emergency,
    Alert,
    Critical,
    Error,
    Warning,
    Notice,
    Info,
    Debug,
}

/// Writes a line about a request, with the client, server and request as nginx adds them.
pub fn write_request(_: &Request, _: Level, _: fmt::Arguments<'_>) {}
