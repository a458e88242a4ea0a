//! Certificates from an ACME server (RFC 8555). What is wanted goes in, answers to challenges go to whoever serves them,
//! a chain and its key come out. Knows nothing of the server around it: no files, no clock, no configuration.

pub mod challenge; // what proves that a name is ours
pub mod client; // HTTP to the ACME server
pub mod issuer; // an ACME server and our account there
pub mod keys; // kinds of keys, and new ones
pub mod order; // a certificate, from the order to its chain
pub mod renewal; // when to ask again: pure functions

pub use issuer::{External, Issuer, Trust};
pub use keys::Kind;
pub use order::{Issued, Wanted};

use std::fmt;

/// Why there is no certificate, for the operator to read.
#[derive(Debug)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<instant_acme::Error> for Error {
    fn from(error: instant_acme::Error) -> Error {
        // The cause is at the end of the chain: a refused connection, an unknown issuer.
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(inner) = cause {
            let more = inner.to_string();
            if !text.ends_with(&more) {
                text.push_str(": ");
                text.push_str(&more);
            }
            cause = inner.source();
        }
        Error(text)
    }
}

impl From<rcgen::Error> for Error {
    fn from(error: rcgen::Error) -> Error {
        Error(error.to_string())
    }
}
