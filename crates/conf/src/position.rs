//! Where something stands in the configuration, and the errors that say so in nginx's form.

use std::fmt;
use std::sync::Arc;

/// A line of a configuration file, or the text of the `-g` switch. Displayed as nginx does: `FILE:LINE` or
/// `command line`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The path as it was opened; bytes that are not UTF-8 are replaced, since this is only ever shown.
    pub file: Arc<str>,
    /// Counted from 1; 0 stands for the command line, which has no lines.
    pub line: u32,
}

impl Position {
    pub fn command_line() -> Position {
        Position {
            file: Arc::from("command line"),
            line: 0,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            f.write_str(&self.file)
        } else {
            write!(f, "{}:{}", self.file, self.line)
        }
    }
}

/// A fault of the configuration. Displayed as `MESSAGE in FILE:LINE`, the form nginx logs after its level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub message: String,
    /// Missing where nginx names no line: the main file itself cannot be read.
    pub position: Option<Position>,
}

impl Error {
    pub fn new(message: impl Into<String>, position: Option<Position>) -> Error {
        Error {
            message: message.into(),
            position,
        }
    }

    pub fn at(position: &Position, message: impl Into<String>) -> Error {
        Error::new(message, Some(position.clone()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.position {
            Some(position) => write!(f, " in {position}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
