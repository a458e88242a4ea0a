//! What issuers say of certificates at this moment (OCSP): of our own, for clients (`ssl_stapling`), and of clients'
//! (`ssl_ocsp`). RFC 6960, RFC 6066 section 8.

mod client; // ssl_ocsp
mod message; // questions and answers
mod responder; // asking
mod staple; // ssl_stapling

pub use client::{Check, Client, Mode, Trouble};
pub use responder::Responder;
pub use staple::{Staple, Stapling};

use rustls::pki_types::UnixTime;

/// Seconds since 1970.
fn now() -> i64 {
    i64::try_from(UnixTime::now().as_secs()).unwrap_or(i64::MAX)
}
