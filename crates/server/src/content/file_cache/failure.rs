//! What became of a path that could not be opened.

use crate::log::error::Level;
use std::io;

/// Why a path could not be opened.
#[derive(Debug, Clone, Copy)]
pub struct Failure {
    pub call: &'static str,
    /// The kernel's number.
    pub number: i32,
}

impl Failure {
    #[must_use]
    pub fn new(call: &'static str, error: &io::Error) -> Failure {
        Failure {
            call,
            number: error.raw_os_error().unwrap_or_default(),
        }
    }

    /// The status that nginx answers.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self.number {
            libc_errno::ENOENT | libc_errno::ENOTDIR | libc_errno::ENAMETOOLONG => 404,
            libc_errno::EACCES | libc_errno::EMLINK | libc_errno::ELOOP => 403,
            _ => 500,
        }
    }

    #[must_use]
    pub fn level(&self) -> Level {
        match self.status() {
            404 | 403 => Level::Error,
            _ => Level::Critical,
        }
    }

    /// `2: No such file or directory`.
    #[must_use]
    pub fn describe(&self) -> String {
        let error = io::Error::from_raw_os_error(self.number);
        sys::errno::Errno(&error).to_string()
    }
}

/// Linux's numbers for the errors that decide a status.
pub mod libc_errno {
    pub const ENOENT: i32 = 2;
    pub const EACCES: i32 = 13;
    pub const ENOTDIR: i32 = 20;
    pub const EMLINK: i32 = 31;
    pub const ENAMETOOLONG: i32 = 36;
    pub const ELOOP: i32 = 40;
}
