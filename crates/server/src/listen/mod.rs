//! Listening addresses and the accept loop (step 1 of a request's path).

pub mod accept;
pub mod address;
pub mod directive;
pub mod options;
