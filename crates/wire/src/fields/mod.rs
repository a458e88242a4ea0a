//! The values of header fields, one file each; pure functions over bytes.

/// Which content codings a client takes.
pub mod accept_encoding;
/// Base64 in and out.
pub mod base64;
/// Cache-Control directives.
pub mod cache_control;
/// Whether a connection stays open.
pub mod connection;
/// Cookies by name.
pub mod cookie;
/// HTTP dates in and out.
pub mod date;
/// Entity tags: If-Match, If-None-Match, If-Range.
pub mod etag;
/// Comma-separated lists.
pub mod list;
/// Range requests.
pub mod range;
