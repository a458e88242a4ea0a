//! Access and error logs.

pub mod access;
pub mod error;
pub mod files;
pub mod format;
