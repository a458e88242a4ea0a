//! `acme_issuer`, `acme_certificate`: certificates that Gannet gets by itself, in the form of nginx's ACME module. What is
//! said to the ACME server is `crates/acme`; here stand the directives, the files, and who asks again when.

pub mod certificates; // a server's certificate: wanted, kept, given to `$acme_certificate`
pub mod challenges; // answers to an ACME server's questions
pub mod directive; // the directives
pub mod keeper; // the thread that orders and renews

pub use certificates::Slot;
pub use directive::{Issuers, Raw, Settings};
