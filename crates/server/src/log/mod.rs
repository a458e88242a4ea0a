//! Access and error logs: step 7 of a request's path.

pub mod access;
pub mod buffer;
pub mod error;
pub mod files;
pub mod format;
pub mod panic;
pub mod syslog;
mod variable_path;
