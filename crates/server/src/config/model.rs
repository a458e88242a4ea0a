//! The configuration as types: `Config` > `Http` > `Server` > `Location`, one typed field per feature. The lists of
//! features below are the only place where a feature's settings are joined to a block.

use super::build::Frame;
use super::setting::{Complaint, Setting};
use crate::content::Content;
use crate::routing::{hosts, locations};
use crate::variables::geoip2::Proxies;
use crate::variables::registry::Variables;
use crate::{
    access, acme, cache, connection, content, filter, image, limit, log, pipeline, precompress,
    request_body, rewrite, tls, upstream,
};
use bytes::Bytes;

/// Index of a location in `Http::locations`.
pub type LocationId = u32;
/// Index of a server in `Http::servers`.
pub type ServerId = u32;

macro_rules! features {
    ($raw:ident, $settings:ident, $( $(#[$doc:meta])* $field:ident : $($module:ident)::+ ),* $(,)?) => {
        #[derive(Default, Debug, Clone)]
        pub struct $raw { $( $(#[$doc])* pub $field: $($module)::+::Raw, )* }
        #[derive(Default, Debug, Clone)]
        pub struct $settings { $( $(#[$doc])* pub $field: $($module)::+::Settings, )* }
        impl $raw {
            /// What holds in a block inside one with the settings `parent`.
            #[must_use]
            pub fn resolve(&self, parent: &$settings) -> $settings {
                $settings { $( $field: self.$field.resolve(&parent.$field), )* }
            }
        }
    };
}

features! { RawLocation, LocationSettings,
    keepalive: connection::keepalive,
    transmission: connection::transmission,
    http2: connection::http2::directive::location,
    request_body: request_body,
    limit_rate: limit::rate,
    limit_requests: limit::requests,
    limit_connections: limit::connections,
    redirect: pipeline::redirect,
    error_pages: pipeline::error_pages,
    rewrite: rewrite::settings,
    satisfy: access::satisfy,
    access: access::allow_deny,
    auth_basic: access::auth_basic,
    auth_request: access::auth_request,
    real_ip: access::real_ip,
    referer: access::referer,
    secure_link: access::secure_link,
    browser: access::browser,
    static_files: content::static_files,
    static_variants: content::static_variants,
    file_cache: content::file_cache,
    symlinks: content::symlinks,
    precompress: precompress::directive,
    try_files: content::try_files,
    index: content::index,
    random_index: content::random_index,
    autoindex: content::autoindex,
    resolver: upstream::resolver,
    early_hints: upstream::early_hints,
    proxy_relay: upstream::settings,
    proxy_tls: upstream::secure,
    fastcgi_relay: upstream::settings,
    proxy_cache: cache,
    fastcgi_cache: cache,
    proxy: upstream::proxy,
    fastcgi: upstream::fastcgi,
    mime: crate::http::mime,
    compression: crate::encoding::permission,
    dictionary: crate::encoding::dictionary,
    not_modified: filter::not_modified,
    gunzip: filter::gunzip,
    compress: filter::compress,
    range: filter::range,
    slice: filter::slice,
    headers: filter::headers,
    addition: filter::addition,
    sub: filter::sub,
    small_light: image::small_light,
    image_filter: image::image_filter,
    image: image::directive,
    image_guard: image::guard,
    charset: filter::charset,
    ssi: filter::ssi,
    userid: filter::userid,
    dav: content::dav,
    flv: content::flv,
    mp4: content::mp4,
    mirror: pipeline::mirror,
    access_log: log::access,
    error_log: log::error,
}

features! { RawServer, ServerSettings,
    request_head: connection::request_head,
    http2: connection::http2::directive,
    tls: tls,
    acme: acme,
}

/// How a location is matched.
#[derive(Debug, Clone, Default)]
pub enum LocationKind {
    /// `server` itself, `http`, `main`: not a location.
    #[default]
    None,
    Prefix {
        path: Bytes,
        no_regex: bool,
    },
    Exact(Bytes),
    Regex(crate::routing::pattern::Matcher),
    Named(Bytes),
    /// `if (…)` inside a location.
    If,
    /// `limit_except METHODS { … }`.
    LimitExcept,
}

/// A block inside a block, as read.
pub enum Child {
    Server(Box<Frame>),
    Location(Box<Frame>),
    LimitExcept(access::limit_except::Methods, Box<Frame>),
}

/// What the `http` block collects beside its frame.
#[derive(Default)]
pub struct RawHttp {
    pub seen: bool,
    pub frame: Option<Box<Frame>>,
    pub log_formats: log::format::RawFormats,
    pub upstreams: upstream::written::Upstreams,
    /// The group whose block is being read.
    pub upstream: Option<upstream::group::GroupId>,
    pub map_hash_max_size: Setting<u64>,
    pub map_hash_bucket_size: Setting<u64>,
    pub limits: limit::AllZones,
    pub charset_maps: filter::charset::Maps,
    pub charset_names: Vec<Bytes>,
    pub precompress: precompress::directive::RawHttp,
    pub image: image::directive::RawHttp,
    pub caches: cache::path::Paths,
    pub geoip2: Proxies,
    pub geoip2_files: Vec<std::path::PathBuf>,
    pub acme: acme::Issuers,
}

/// A location, resolved.
#[derive(Debug)]
pub struct Location {
    /// The name as nginx has it: the path of a prefix or exact location, the pattern's text, `@name`.
    pub name: Bytes,
    pub kind: LocationKind,
    pub settings: LocationSettings,
    pub content: Content,
    pub program: rewrite::Program,
    pub routes: locations::Routes,
    pub limit_except: Option<(access::limit_except::Methods, LocationId)>,
    /// Files are served here without regard to anything but their path (`pipeline::hot`).
    pub repeat: crate::http::response::Repeat,
}

/// A virtual server, resolved.
#[derive(Debug)]
pub struct Server {
    /// The first name, `$server_name`.
    pub name: Bytes,
    /// The server-level settings, as a location that matches nothing.
    pub base: LocationId,
    pub settings: ServerSettings,
    /// How its connections are secured, where it has a certificate.
    pub tls: Option<std::sync::Arc<tls::context::Context>>,
    /// The certificate that is got for it.
    pub acme: Option<std::sync::Arc<acme::Slot>>,
    /// Where its block begins.
    pub position: Option<conf::Position>,
    pub program: rewrite::Program,
    /// Named locations are found from the server.
    pub named: std::collections::HashMap<Bytes, LocationId>,
}

/// The `http` block, resolved.
#[derive(Debug, Default)]
pub struct Http {
    pub servers: Vec<Server>,
    pub locations: Vec<Location>,
    pub listens: Vec<Listener>,
    pub variables: Variables,
    pub limits: limit::AllZones,
    pub charset_maps: filter::charset::Maps,
    /// The character sets that the configuration names anywhere.
    pub charset_names: Vec<Bytes>,
    pub pools: crate::pool::Pools,
    pub upstreams: upstream::target::Groups,
    pub precompress: precompress::directive::Http,
    pub image: image::directive::Http,
    pub caches: cache::path::Zones,
    pub geoip2: Proxies,
}

/// One listening address with the servers behind it.
#[derive(Debug)]
pub struct Listener {
    pub listen: crate::listen::options::Listen,
    pub hosts: hosts::Hosts,
    /// It has a socket; otherwise its connections come by the socket of the wildcard address of its port.
    pub own_socket: bool,
    /// The addresses whose connections come by this wildcard's socket, with their places in `Http::listens`.
    pub covers: Vec<(std::net::IpAddr, usize)>,
}

/// Everything, resolved: what a thread serves from. Immutable and shared.
#[derive(Debug, Default)]
pub struct Config {
    pub main: super::main_settings::Settings,
    pub http: Http,
    /// The error logs of the main context.
    pub error_log: log::error::ErrorLogs,
    pub logs: log::files::LogFiles,
    /// In the order of reading.
    pub warnings: Vec<conf::Error>,
    /// Found when all was read.
    pub late_warnings: Vec<conf::Error>,
}

impl Config {
    #[must_use]
    pub fn location(&self, id: LocationId) -> &Location {
        &self.http.locations[id as usize]
    }

    #[must_use]
    pub fn server(&self, id: ServerId) -> &Server {
        &self.http.servers[id as usize]
    }
}

/// A value that needs the whole configuration to be resolved (`log_format` by name).
pub type Resolved<T> = Result<T, Complaint>;
