//! Limits on what a client may use.

pub mod rate;
