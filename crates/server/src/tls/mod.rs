//! TLS of both sides, on rustls with aws-lc below (decision 4): what the directives say becomes contexts when the
//! configuration is read, and connections are made with these. The bytes on the socket are `net/tls.rs`.

pub mod by_name; // certificates with variables in their names
pub mod certificate; // certificates and keys of files, and which of them a client gets
pub mod ciphers; // OpenSSL's names of protocols, cipher suites and curves
pub mod client; // certificates of clients
pub mod commands; // `ssl_conf_command`
pub mod context; // what a server's connections are made with
pub mod crl; // lists of certificates that were taken back
pub mod directive; // `ssl_…`
pub mod encrypted; // keys behind a password
pub mod flaw; // what can be wrong with a certificate
pub mod names; // names of certificates as text
pub mod ocsp; // what issuers say of certificates at this moment
pub mod offered; // names of what clients offer
pub mod path; // from a certificate to an issuer that is trusted
pub mod sessions; // sessions that clients take up again (`ssl_session_cache`)
pub mod settled; // what a handshake has settled
pub mod signed; // signatures in the form of X.509
pub mod tickets; // sessions that clients keep themselves (`ssl_session_tickets`)

pub use directive::{Raw, Settings};
