//! All features' tables, joined with what is known of nginx's other directives: each is done by a feature, or accepted
//! without a meaning, or refused. A name outside of all that is unknown.

use super::accepted;
use super::directive::Set;
use super::inventory::{self, Entry};
use super::refused;
use crate::{
    access, acme, cache, connection, content, encoding, filter, http, image, limit, listen, log,
    pipeline, precompress, request_body, rewrite, routing, tls, upstream, variables,
};
use conf::table::{Arity, Contexts, Row};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The tables in the order a request meets their features.
pub const TABLES: &[&[Row<Set>]] = &[
    super::main_settings::DIRECTIVES,
    listen::directive::DIRECTIVES,
    connection::request_head::DIRECTIVES,
    tls::directive::DIRECTIVES,
    acme::directive::DIRECTIVES,
    request_body::DIRECTIVES,
    connection::keepalive::DIRECTIVES,
    connection::transmission::DIRECTIVES,
    connection::http2::directive::DIRECTIVES,
    routing::directive::DIRECTIVES,
    variables::map::directive::DIRECTIVES,
    variables::geo::directive::DIRECTIVES,
    variables::geoip2::directive::DIRECTIVES,
    variables::split_clients::DIRECTIVES,
    access::real_ip::DIRECTIVES,
    rewrite::settings::DIRECTIVES,
    rewrite::directive::DIRECTIVES,
    limit::requests::DIRECTIVES,
    limit::connections::DIRECTIVES,
    access::limit_except::DIRECTIVES,
    access::satisfy::DIRECTIVES,
    access::allow_deny::DIRECTIVES,
    access::auth_basic::DIRECTIVES,
    access::auth_request::DIRECTIVES,
    access::referer::DIRECTIVES,
    access::secure_link::DIRECTIVES,
    access::browser::DIRECTIVES,
    limit::rate::DIRECTIVES,
    http::mime::DIRECTIVES,
    content::static_files::DIRECTIVES,
    content::static_variants::DIRECTIVES,
    content::file_cache::DIRECTIVES,
    content::symlinks::DIRECTIVES,
    content::index::DIRECTIVES,
    content::autoindex::DIRECTIVES,
    content::try_files::DIRECTIVES,
    content::status::DIRECTIVES,
    content::empty_gif::DIRECTIVES,
    content::random_index::DIRECTIVES,
    content::compression_status::DIRECTIVES,
    content::precompress_status::DIRECTIVES,
    content::image_status::DIRECTIVES,
    precompress::directive::DIRECTIVES,
    upstream::directive::DIRECTIVES,
    upstream::resolver::DIRECTIVES,
    upstream::early_hints::DIRECTIVES,
    upstream::settings::PROXY,
    upstream::settings::FASTCGI,
    cache::directive::COMMON,
    cache::directive::PROXY,
    cache::directive::PROXY_ONLY,
    cache::directive::FASTCGI,
    upstream::proxy::DIRECTIVES,
    upstream::secure::DIRECTIVES,
    upstream::fastcgi::DIRECTIVES,
    crate::pool::directive::DIRECTIVES,
    encoding::permission::DIRECTIVES,
    encoding::dictionary::DIRECTIVES,
    filter::not_modified::DIRECTIVES,
    filter::gunzip::DIRECTIVES,
    filter::compress::DIRECTIVES,
    filter::range::DIRECTIVES,
    filter::slice::DIRECTIVES,
    filter::headers::DIRECTIVES,
    filter::addition::DIRECTIVES,
    filter::sub::DIRECTIVES,
    image::small_light::DIRECTIVES,
    image::image_filter::DIRECTIVES,
    image::directive::DIRECTIVES,
    image::guard::DIRECTIVES,
    filter::charset::DIRECTIVES,
    filter::ssi::DIRECTIVES,
    filter::userid::DIRECTIVES,
    content::dav::DIRECTIVES,
    content::flv::DIRECTIVES,
    content::mp4::DIRECTIVES,
    pipeline::mirror::DIRECTIVES,
    pipeline::redirect::DIRECTIVES,
    pipeline::error_pages::DIRECTIVES,
    log::format::DIRECTIVES,
    log::access::DIRECTIVES,
    log::error::DIRECTIVES,
];

/// Directives that are not nginx's, with whose they are.
pub const OWN: &[(&str, &str)] = &[
    ("fastcgi_cache_purge", "nginx Plus, ngx_cache_purge"),
    ("fastcgi_cache_purge_soft", GANNET),
    ("fastcgi_cache_purge_tags", GANNET),
    ("proxy_cache_purge", "nginx Plus, ngx_cache_purge"),
    ("proxy_cache_purge_soft", GANNET),
    ("proxy_cache_purge_tags", GANNET),
    ("php_pool", GANNET),
    ("php_pool_include", GANNET),
    ("cache_semantics", GANNET),
    ("cache_status_header", GANNET),
    ("cache_targeted_fields", GANNET),
    ("compression_order", GANNET),
    ("compression_status", GANNET),
    ("compression_dictionary", GANNET),
    ("use_as_dictionary", GANNET),
    ("precompress", GANNET),
    ("precompress_codings", GANNET),
    ("precompress_level", GANNET),
    ("precompress_max_length", GANNET),
    ("precompress_max_size", GANNET),
    ("precompress_min_length", GANNET),
    ("precompress_rate", GANNET),
    ("precompress_scan", GANNET),
    ("precompress_status", GANNET),
    ("precompress_store", GANNET),
    ("precompress_types", GANNET),
    ("compression_cache", GANNET),
    ("gzip_padding", GANNET),
    ("ssl_certificate_reload", GANNET),
    ("acme_certificate", "nginx's ACME module"),
    ("acme_issuer", "nginx's ACME module"),
    ("acme_shared_zone", "nginx's ACME module"),
    ("geoip2", "ngx_http_geoip2_module"),
    ("geoip2_proxy", "ngx_http_geoip2_module"),
    ("geoip2_proxy_recursive", "ngx_http_geoip2_module"),
    ("small_light", "ngx_small_light"),
    ("small_light_getparam_mode", "ngx_small_light"),
    ("small_light_pattern_define", "ngx_small_light"),
    ("small_light_material_dir", "ngx_small_light"),
    ("small_light_buffer", "ngx_small_light"),
    ("small_light_radius_max", "ngx_small_light"),
    ("small_light_sigma_max", "ngx_small_light"),
    ("small_light_imlib2_temp_dir", "ngx_small_light"),
    ("image_store", GANNET),
    ("image_store_max_size", GANNET),
    ("image_max_source", GANNET),
    ("image_max_pixels", GANNET),
    ("image_max_frames", GANNET),
    ("image_max_output", GANNET),
    ("image_memory", GANNET),
    ("image_timeout", GANNET),
    ("image_queue", GANNET),
    ("image_animation", GANNET),
    ("image_filter_avif_quality", GANNET),
    ("image_negotiate", GANNET),
    ("image_master", GANNET),
    ("image_sandbox", GANNET),
    ("image_crop", GANNET),
    ("image_max_bytes", GANNET),
    ("image_client_hints", GANNET),
    ("image_secret", GANNET),
    ("image_sizes", GANNET),
    ("image_status", GANNET),
    ("brotli", "ngx_brotli"),
    ("brotli_comp_level", "ngx_brotli"),
    ("brotli_types", "ngx_brotli"),
    ("brotli_min_length", "ngx_brotli"),
    ("brotli_buffers", "ngx_brotli"),
    ("brotli_window", "ngx_brotli"),
    ("brotli_static", "ngx_brotli"),
    ("zstd_static", "zstd-nginx-module"),
    ("zstd", "zstd-nginx-module"),
    ("zstd_comp_level", "zstd-nginx-module"),
    ("zstd_types", "zstd-nginx-module"),
    ("zstd_min_length", "zstd-nginx-module"),
    ("zstd_buffers", "zstd-nginx-module"),
];
const GANNET: &str = "gannet";

/// What becomes of a directive of nginx.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// A feature's table has it.
    Works,
    /// Checked, and then without a meaning here.
    Accepted,
    /// An error, but for a value that asks for nothing.
    Refused,
}

impl State {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            State::Works => "works",
            State::Accepted => "accepted",
            State::Refused => "refused",
        }
    }
}

/// The rows of the features' tables for a directive of nginx, in the contexts of this entry.
pub fn feature_rows(entry: &Entry) -> impl Iterator<Item = &'static Row<Set>> {
    let (name, contexts) = (entry.name, entry.contexts);
    TABLES
        .iter()
        .flat_map(|table| table.iter())
        .filter(move |row| row.name == name && !row.contexts.and(contexts).is_empty())
}

/// How the line of documentation begins of a row that a feature only checks.
pub const CHECKED_ONLY: &str = "Accepted: ";

#[must_use]
pub fn state(entry: &Entry) -> State {
    match feature_rows(entry).next() {
        Some(row) if row.doc.starts_with(CHECKED_ONLY) => State::Accepted,
        Some(_) => State::Works,
        None if accepted::find(entry.name).is_some() => State::Accepted,
        None => State::Refused,
    }
}

static BY_NAME: LazyLock<HashMap<&'static [u8], Vec<Row<Set>>>> = LazyLock::new(|| {
    let mut rows: HashMap<&'static [u8], Vec<Row<Set>>> = HashMap::new();
    for row in TABLES.iter().flat_map(|table| table.iter()) {
        rows.entry(row.name.as_bytes()).or_default().push(*row);
    }
    for entry in inventory::entries() {
        let known = rows.entry(entry.name.as_bytes()).or_default();
        let covered = known
            .iter()
            .fold(Contexts::NONE, |all, row| all.or(row.contexts));
        let rest = entry.contexts.without(covered);
        if !rest.is_empty() {
            known.push(row_of(entry, rest));
        }
    }
    rows
});

/// The row of a directive that no feature has.
fn row_of(entry: &Entry, contexts: Contexts) -> Row<Set> {
    let (set, doc): (Set, _) = match accepted::find(entry.name) {
        Some(accepted) => (accepted.check, accepted.reason),
        None if entry.arity == Arity::Flag => (refused::refuse_flag, ""),
        None => (refused::refuse, ""),
    };
    Row {
        name: entry.name,
        contexts,
        arity: entry.arity,
        block: entry.block,
        set,
        doc,
    }
}

/// The rows of a name; empty for a directive that nobody knows.
#[must_use]
pub fn rows(name: &[u8]) -> &'static [Row<Set>] {
    BY_NAME.get(name).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Where a feature's row departs from nginx's own declaration, with the reason.
    const DEVIATIONS: &[(&str, &str)] = &[];

    /// More arguments than any directive with a fixed number has.
    const MANY: usize = 12;

    fn is_own(name: &str) -> bool {
        OWN.iter().any(|(own, _)| *own == name)
    }

    #[test]
    fn every_directive_has_one_state() {
        let works: HashSet<&str> = TABLES
            .iter()
            .flat_map(|table| table.iter())
            .map(|row| row.name)
            .collect();
        let known: HashSet<&str> = inventory::entries()
            .iter()
            .map(|entry| entry.name)
            .collect();
        for accepted in accepted::ACCEPTED {
            assert!(!works.contains(accepted.name), "{} works", accepted.name);
            assert!(known.contains(accepted.name), "{}", accepted.name);
            assert!(!accepted.reason.is_empty());
        }
        for (own, _) in OWN {
            assert!(works.contains(own) && !known.contains(own), "{own}");
        }
        for neutral in refused::NEUTRAL {
            assert!(!works.contains(neutral.name), "{} works", neutral.name);
            assert!(accepted::find(neutral.name).is_none(), "{}", neutral.name);
            assert!(known.contains(neutral.name), "{}", neutral.name);
        }
        let strange: Vec<_> = works
            .difference(&known)
            .filter(|name| !is_own(name))
            .collect();
        assert!(strange.is_empty(), "not nginx's: {strange:?}");
        for entry in inventory::entries() {
            let covered = rows(entry.name.as_bytes())
                .iter()
                .fold(Contexts::NONE, |all, row| all.or(row.contexts));
            assert!(covered.contains(entry.contexts), "{}", entry.name);
        }
    }

    #[test]
    fn rows_agree_with_nginx() {
        let mut complaints = Vec::new();
        for row in TABLES.iter().flat_map(|table| table.iter()) {
            // nginx declares some names twice where one row of ours does both.
            let entries: Vec<&Entry> = inventory::entries()
                .iter()
                .filter(|entry| entry.name == row.name)
                .filter(|entry| !entry.contexts.and(row.contexts).is_empty())
                .collect();
            let contexts = entries
                .iter()
                .fold(Contexts::NONE, |all, entry| all.or(entry.contexts));
            let same_form = |entry: &&Entry| {
                row.block == entry.block
                    && (row.arity == Arity::Flag) == (entry.arity == Arity::Flag)
                    && (0..MANY).all(|count| row.arity.accepts(count) == entry.arity.accepts(count))
            };
            let same = row.contexts == contexts && entries.iter().all(same_form);
            if entries.is_empty() && is_own(row.name) {
                continue;
            }
            let argued = DEVIATIONS.iter().any(|(name, _)| *name == row.name);
            if same == argued {
                complaints.push(format!("{}: {:?} for {entries:?}", row.name, row.arity));
            }
        }
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }
}
