//! All features' tables, joined; and what is known of nginx's directives that are not in them.

use super::accepted;
use super::directive::Set;
use crate::{
    connection, content, filter, http, limit, listen, log, pipeline, rewrite, routing, variables,
};
use conf::table::Row;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The tables in the order a request meets their features.
pub const TABLES: &[&[Row<Set>]] = &[
    super::main_settings::DIRECTIVES,
    listen::directive::DIRECTIVES,
    connection::request_head::DIRECTIVES,
    connection::request_body::DIRECTIVES,
    connection::keepalive::DIRECTIVES,
    connection::transmission::DIRECTIVES,
    routing::directive::DIRECTIVES,
    variables::map::directive::DIRECTIVES,
    rewrite::settings::DIRECTIVES,
    limit::rate::DIRECTIVES,
    http::mime::DIRECTIVES,
    content::static_files::DIRECTIVES,
    content::index::DIRECTIVES,
    content::try_files::DIRECTIVES,
    content::status::DIRECTIVES,
    filter::not_modified::DIRECTIVES,
    filter::range::DIRECTIVES,
    filter::headers::DIRECTIVES,
    pipeline::redirect::DIRECTIVES,
    pipeline::error_pages::DIRECTIVES,
    log::format::DIRECTIVES,
    log::access::DIRECTIVES,
    log::error::DIRECTIVES,
    accepted::DIRECTIVES,
];

static BY_NAME: LazyLock<HashMap<&'static [u8], Vec<Row<Set>>>> = LazyLock::new(|| {
    let mut rows: HashMap<&'static [u8], Vec<Row<Set>>> = HashMap::new();
    for row in TABLES.iter().flat_map(|table| table.iter()) {
        rows.entry(row.name.as_bytes()).or_default().push(*row);
    }
    rows
});

/// The rows of a name; empty for a directive that nobody knows.
#[must_use]
pub fn rows(name: &[u8]) -> &'static [Row<Set>] {
    BY_NAME.get(name).map_or(&[], Vec::as_slice)
}
