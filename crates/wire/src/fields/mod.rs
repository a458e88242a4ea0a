//! The values of header fields, one file each; pure functions over bytes.

/// HTTP dates in and out.
pub mod date;
