//! `load_module`: nothing is loaded into this process. A module that is known to act only by its directives is accepted
//! with a warning, since each of those directives is then answered for itself; any other is an error.

use super::build::Build;
use super::directive::Outcome;
use super::directives::OWN;
use super::inventory;
use conf::Directive;

/// Modules that others wrote for nginx, whose directives work here.
const BUILT_IN: &[&str] = &[
    "ngx_http_brotli_filter_module",
    "ngx_http_brotli_static_module",
    "ngx_http_cache_purge_module",
    "ngx_http_small_light_module",
    "ngx_http_zstd_filter_module",
    "ngx_http_zstd_static_module",
];

/// Modules that are packaged for nginx beside its own, by the names of their files.
const PACKAGED: &[&str] = &[
    "ndk_http_module",
    "ngx_http_auth_pam_module",
    "ngx_http_auth_spnego_module",
    "ngx_http_dav_ext_module",
    "ngx_http_echo_module",
    "ngx_http_fancyindex_module",
    "ngx_http_geoip2_module",
    "ngx_http_headers_more_filter_module",
    "ngx_http_js_module",
    "ngx_http_lua_module",
    "ngx_http_perl_module",
    "ngx_http_subs_filter_module",
    "ngx_http_uploadprogress_module",
    "ngx_http_upstream_fair_module",
    "ngx_mail_module",
    "ngx_nchan_module",
    "ngx_stream_geoip2_module",
    "ngx_stream_geoip_module",
    "ngx_stream_js_module",
    "ngx_stream_module",
];

pub fn load_module(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    if build.main.events_seen.0.is_some() || build.http.seen {
        return Err("is specified too late".into());
    }
    let path = build.paths.prefix.join(directive.args[0].to_path());
    let name = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let modules = build.main.modules.0.get_or_insert_default();
    if modules.contains(&name.as_bytes().to_vec()) {
        return Err(format!("module \"{name}\" is already loaded").into());
    }
    if let Some(state) = known(&name) {
        modules.push(name.clone().into_bytes());
        build.warn(
            directive,
            format!("module \"{name}\" is not loaded: {state}"),
        );
        return Ok(());
    }
    let shown = path.display();
    if !path.exists() {
        // What the system's loader says, which is what nginx shows.
        return Err(format!(
            "dlopen() \"{shown}\" failed ({shown}: cannot open shared object file: No such file or directory)"
        )
        .into());
    }
    Err(
        format!("module \"{name}\" is not supported by gannet: it loads no code into its process")
            .into(),
    )
}

/// What a known module is to Gannet.
fn known(name: &str) -> Option<&'static str> {
    let mut entries = inventory::entries()
        .iter()
        .filter(|entry| entry.module == name)
        .peekable();
    if entries.peek().is_some()
        || OWN.iter().any(|(_, module)| *module == name)
        || BUILT_IN.contains(&name)
    {
        return Some("its directives are gannet's own");
    }
    PACKAGED
        .contains(&name)
        .then_some("its directives are unknown here")
}
