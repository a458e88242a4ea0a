//! Why a request counts as failed.

use crate::response::Invalid;
use crate::target::plain;
use std::io;

/// One reason; requests that failed for the same reason are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Failure {
    /// No connection: the words of the system.
    Connect(String),
    Tls(String),
    Timeout,
    /// The connection ended before the response was whole.
    Closed,
    /// Sending or receiving failed: the words of the system.
    Io(String),
    Invalid(Invalid),
    /// What HTTP/2 calls an error of a stream or a connection.
    Http2(String),
    Status(u16),
    /// The pattern does not stand in the body.
    Body,
    /// The body has another length than it should.
    Length,
    /// The value with this name was not found in the response.
    Value(String),
}

/// What kind of failure it is, as ab tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    Connect,
    Receive,
    Length,
    Exception,
    Status,
}

impl Failure {
    pub fn connect(error: &io::Error) -> Failure {
        Failure::Connect(plain(error))
    }

    pub fn io(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Failure::Closed,
            _ => Failure::Io(plain(error)),
        }
    }

    pub fn kind(&self) -> FailureKind {
        match self {
            Failure::Connect(_) | Failure::Tls(_) => FailureKind::Connect,
            Failure::Timeout | Failure::Closed | Failure::Io(_) | Failure::Http2(_) => {
                FailureKind::Receive
            }
            Failure::Length => FailureKind::Length,
            Failure::Status(_) => FailureKind::Status,
            Failure::Invalid(_) | Failure::Body | Failure::Value(_) => FailureKind::Exception,
        }
    }

    /// Whether a whole response came, though not the right one.
    pub fn is_answered(&self) -> bool {
        matches!(
            self,
            Failure::Status(_) | Failure::Body | Failure::Length | Failure::Value(_)
        )
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Connect(why) => write!(f, "cannot connect: {why}"),
            Failure::Tls(why) => write!(f, "TLS: {why}"),
            Failure::Timeout => f.write_str("timed out"),
            Failure::Closed => f.write_str("connection closed before the response was whole"),
            Failure::Io(why) => write!(f, "connection failed: {why}"),
            Failure::Http2(why) => write!(f, "HTTP/2: {why}"),
            Failure::Invalid(invalid) => f.write_str(invalid.as_str()),
            Failure::Status(status) => write!(f, "status {status}"),
            Failure::Body => f.write_str("the body has not what it should have"),
            Failure::Length => f.write_str("the body has the wrong length"),
            Failure::Value(name) => write!(f, "no value for {{{name}}} in the response"),
        }
    }
}
