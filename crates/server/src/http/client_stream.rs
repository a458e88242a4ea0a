//! A request's stream where a connection carries several requests at a time: its body and its end are told there, not by
//! the socket.

use bytes::Bytes;
use std::fmt::Debug;
use std::task::{Context, Poll};

/// Why a body ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// The client reset the stream, or its connection has ended.
    Closed,
    /// The body is not as long as its head said.
    WrongLength,
}

/// The client's side of a stream. Which protocol it is of is open at run time, hence `dyn`.
pub trait ClientStream: Debug {
    /// The next piece of the request's body; `None` is its end. The client may send as much anew.
    fn poll_data(&self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Gone>>>;

    /// Ready when the client has given up the request.
    fn poll_reset(&self, context: &mut Context<'_>) -> Poll<()>;

    /// Sends a response before the response (1xx), with its fields as lines; gives the bytes it took.
    fn send_interim(&self, status: u16, fields: &[u8]) -> u64;

    /// `$connection_requests`: the number of this request on its connection.
    fn number(&self) -> u64;

    /// `$http2`, without or with TLS.
    fn name(&self, tls: bool) -> &'static str;
}
