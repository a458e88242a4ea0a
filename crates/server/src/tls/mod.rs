//! TLS of both sides, on rustls with aws-lc below (decision 4): what the directives say becomes contexts when the
//! configuration is read, and connections are made with these. The bytes on the socket are `net/tls.rs`.

pub mod certificate; // certificates and keys of files, and which of them a client gets
pub mod ciphers; // OpenSSL's names of protocols, cipher suites and curves
pub mod context; // what a server's connections are made with
pub mod directive; // `ssl_…`
pub mod sessions; // sessions that clients take up again (`ssl_session_cache`)
pub mod tickets; // sessions that clients keep themselves (`ssl_session_tickets`)

pub use directive::{Raw, Settings};
