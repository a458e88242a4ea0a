//! Gannet's protocols: bytes in, values out. Nothing here does I/O, blocks or asks the time.
//! The modules stand in the order a request meets them.

/// DNS: a question and its answer.
pub mod dns;
/// FastCGI: requests written, responses read.
pub mod fastcgi;
/// The values of header fields: dates, validators, ranges, codings, cookies.
pub mod fields;
/// The ordered, case-keeping header list of responses.
pub mod headers;
/// Files of users and passwords.
pub mod htpasswd;
/// HTTP/1.x heads, bodies and chunked coding.
pub mod http1;
/// A request of HTTP/2 in the form of one of HTTP/1.
pub mod http2;
/// Films in boxes, and parts of them.
pub mod mp4;
/// The PROXY protocol, versions 1 and 2.
pub mod proxy_protocol;
/// Server side includes: commands in pages.
pub mod ssi;
/// Request targets: splitting, normalising, escaping, host names.
pub mod uri;

#[cfg(test)]
mod testing;
