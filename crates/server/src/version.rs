//! Names and versions, in one place.

/// The nginx whose documented behaviour is the specification.
pub const NGINX_VERSION: &str = "1.31.5";
pub const GANNET_VERSION: &str = env!("CARGO_PKG_VERSION");
/// The Server field as nginx forms it.
pub const SERVER: &str = "nginx/1.31.5";
/// The same with the build's name, for `server_tokens build`.
pub const SERVER_BUILD: &str = concat!("nginx/1.31.5 (gannet/", env!("CARGO_PKG_VERSION"), ")");
