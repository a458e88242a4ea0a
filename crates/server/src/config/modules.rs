//! nginx's modules: what `-V` says under `configure arguments`, told from the states of their directives.

use super::directives::{State, state};
use super::inventory;

/// HTTP modules that nginx leaves out unless told to put them in.
const OPTIONAL: &[&str] = &[
    "addition_filter",
    "auth_request",
    "dav",
    "degradation",
    "flv",
    "geoip",
    "gunzip_filter",
    "gzip_static",
    "image_filter",
    "mp4",
    "random_index",
    "realip",
    "secure_link",
    "slice_filter",
    "ssl",
    "stub_status",
    "sub_filter",
    "v2",
    "v3",
    "xslt_filter",
];

/// HTTP modules that nginx puts in unless told to leave them out.
const DEFAULT: &[&str] = &[
    "access",
    "auth_basic",
    "autoindex",
    "browser",
    "charset_filter",
    "empty_gif",
    "fastcgi",
    "geo",
    "grpc",
    "gzip_filter",
    "limit_conn",
    "limit_req",
    "map",
    "memcached",
    "mirror",
    "proxy",
    "referer",
    "rewrite",
    "scgi",
    "split_clients",
    "ssi_filter",
    "upstream_hash",
    "upstream_ip_hash",
    "upstream_keepalive",
    "upstream_least_conn",
    "upstream_random",
    "upstream_sticky",
    "upstream_zone",
    "userid_filter",
    "uwsgi",
];

/// `--with-…` for the optional modules that work here, `--without-…` for the default ones that do not.
#[must_use]
pub fn configure_arguments() -> Vec<String> {
    let with = OPTIONAL
        .iter()
        .filter(|module| works(module))
        .map(|module| format!("--with-http_{}_module", option(module)));
    let without = DEFAULT
        .iter()
        .filter(|module| !works(module))
        .map(|module| format!("--without-http_{}_module", option(module)));
    with.chain(without).collect()
}

/// Modules that work although some of their directives are refused, each with the one that it is for.
const IN_THE_MAIN: &[(&str, &str)] = &[("proxy", "proxy_pass"), ("ssl", "ssl_certificate")];

/// A module works when none of its directives is refused, or the one that it is for works.
#[must_use]
pub fn works(module: &str) -> bool {
    let main = IN_THE_MAIN.iter().find(|(name, _)| *name == module);
    let main = main.map(|(_, directive)| *directive);
    let name = format!("ngx_http_{module}_module");
    let mut states = inventory::entries()
        .iter()
        .filter(|entry| entry.module == name)
        .filter(|entry| main.is_none_or(|main| main == entry.name))
        .map(state)
        .peekable();
    states.peek().is_some() && states.all(|state| state != State::Refused)
}

/// The options leave out what the names of the filters end in; the image filter's is the exception.
fn option(module: &str) -> &str {
    match module {
        "image_filter" => module,
        module => module.strip_suffix("_filter").unwrap_or(module),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_of_the_lists_is_known() {
        for module in OPTIONAL.iter().chain(DEFAULT) {
            let name = format!("ngx_http_{module}_module");
            assert!(
                inventory::entries()
                    .iter()
                    .any(|entry| entry.module == name),
                "{name}"
            );
        }
    }

    #[test]
    fn arguments_tell_what_works() {
        let arguments = configure_arguments();
        for (module, argument) in [
            ("ssl", "--with-http_ssl_module"),
            ("image_filter", "--with-http_image_filter_module"),
            ("sub_filter", "--with-http_sub_module"),
        ] {
            let told = arguments.iter().any(|told| told == argument);
            assert_eq!(told, works(module), "{argument}");
        }
        for (module, argument) in [
            ("gzip_filter", "--without-http_gzip_module"),
            ("rewrite", "--without-http_rewrite_module"),
        ] {
            let told = arguments.iter().any(|told| told == argument);
            assert_eq!(told, !works(module), "{argument}");
        }
        assert!(works("ssl") && works("proxy") && !works("grpc"));
        assert!(!works("nothing"));
    }
}
