//! A response before the protocol writes it. The fields that nginx writes at fixed places are typed; all others keep
//! their order in `headers`.

use super::Body;
use super::file::{Copied, Entry};
use bytes::Bytes;
use std::rc::Rc;
use wire::headers::HeaderList;

/// How long a response may be sent again as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Repeat {
    #[default]
    Never,
    /// As long as the clock shows the same second (`expires`).
    WithinSecond,
    Always,
}

/// A Last-Modified value: the time, and its text where it was formatted before.
#[derive(Debug, Clone)]
pub struct LastModified {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Empty where the field stands in `headers` already.
    pub text: Bytes,
}

/// A response on its way through the filters to the connection.
#[derive(Debug, Default)]
pub struct Response {
    pub status: u16,
    /// The status line's text after the version, where an upstream gave one of its own.
    pub status_line: Option<Bytes>,
    /// Content-Type without the charset that the charset filter adds.
    pub content_type: Option<Bytes>,
    pub charset: Option<Bytes>,
    /// Content-Length as it is sent; set from the body where it is known. `None` with a stream: chunked, or until close.
    pub content_length: Option<u64>,
    pub last_modified: Option<LastModified>,
    /// Sent first among `headers`.
    pub etag: Option<Bytes>,
    /// Location as the feature gave it; the redirect settings make it absolute.
    pub location: Option<Bytes>,
    pub headers: HeaderList,
    pub body: Body,
    /// Server and Date of an upstream, in place of the server's own.
    pub server: Option<Bytes>,
    pub date: Option<Bytes>,
    /// The file that the body is, whole, where the response is nothing else; with `copied`, what the copy was made of.
    pub file: Option<Rc<Entry>>,
    /// The body is this copy of the file in a content coding.
    pub copied: Option<Rc<Copied>>,
    /// A request with another Accept-Encoding may get another response.
    pub depends_on_accept: bool,
    /// The range filter may cut the body.
    pub allow_ranges: bool,
    /// `Accept-Ranges: bytes` is sent, after `headers`.
    pub accept_ranges: bool,
    /// `add_trailer` has fields for this response: it is chunked where the client can take that, and they are worked out
    /// at the end of the body.
    pub expects_trailers: bool,
    /// Preconditions (If-Match, If-Modified-Since …) are not looked at (autoindex, return).
    pub skip_conditions: bool,
    /// The response is an error page already, so that `error_page` does not apply again.
    pub is_error_page: bool,
    /// Close the connection after the response whatever the client asked.
    pub close: bool,
    /// Trailer fields for a chunked response.
    pub trailers: Vec<(Bytes, Bytes)>,
}

impl Response {
    /// A response with a body whose length is known.
    #[must_use]
    pub fn new(status: u16, body: Body) -> Response {
        Response {
            status,
            content_length: body.length(),
            body,
            ..Response::default()
        }
    }

    /// The status alone; the error pages fill in the body.
    #[must_use]
    pub fn status(status: u16) -> Response {
        Response {
            status,
            ..Response::default()
        }
    }

    /// Replaces the body, and with it the length.
    pub fn set_body(&mut self, body: Body) {
        self.content_length = body.length();
        self.body = body;
    }

    /// Drops what belongs to the body that was: length, ranges, validators.
    pub fn clear_content_length(&mut self) {
        self.content_length = None;
    }
}
