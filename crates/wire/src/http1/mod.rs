//! HTTP/1.x (RFC 9112) as bytes in and values out: request heads, response heads, body framing and chunked coding.
//! The order of the modules is the order in which a connection uses them.

/// How long a message's body is and how its end is marked.
pub mod body;
/// What is judged once a request head is whole: host, repeated fields, refused methods.
mod check;
/// The chunked transfer coding, both ways.
pub mod chunked;
/// What a head or body can be refused for, and the status the client sees.
mod error;
/// One header line, shared by requests and responses; the names the server knows.
pub mod field;
/// The request line's first word.
mod method;
/// The incremental parser of request heads.
pub mod request;
/// The parser of upstream response heads.
pub mod response;

pub use check::{check, named_host, repeated};
pub use error::Error;
pub use field::{Field, Known, Span};
pub use method::Method;

/// The protocol version of a message. Minor versions above 1 act as 1.1 (RFC 9110, 2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// A request line without a version: the answer is a body without a head.
    Http09,
    Http10,
    #[default]
    Http11,
    Http2,
}
