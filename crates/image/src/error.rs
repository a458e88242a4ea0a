//! What can go wrong with a picture. A server answers all of it with a status of its own; none is a fault of the server.

use std::fmt;

/// Why there is no picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// Not a picture, or one of a kind that is not taken: what it is.
    Unsupported(&'static str),
    /// The bytes are not what their header promised.
    Corrupt(String),
    /// More than a limit allows, in the limit's unit.
    TooLarge {
        /// The limit's name, a field of `Limits`.
        what: &'static str,
        /// What there is.
        found: u64,
        /// What is allowed.
        limit: u64,
    },
    /// What works outside this process, or outside this crate, failed: how.
    Elsewhere(String),
    /// The work took longer than `Limits::deadline`.
    Timeout,
}

impl Error {
    /// A picture that is not what it says.
    pub(crate) fn corrupt(why: impl fmt::Display) -> Error {
        Error::Corrupt(why.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unsupported(what) => write!(f, "unsupported picture: {what}"),
            Error::Corrupt(why) => write!(f, "broken picture: {why}"),
            Error::TooLarge { what, found, limit } => {
                write!(
                    f,
                    "picture is too large: {what} is {found}, at most {limit}"
                )
            }
            Error::Elsewhere(how) => write!(f, "{how}"),
            Error::Timeout => write!(f, "picture took too long"),
        }
    }
}

impl std::error::Error for Error {}
