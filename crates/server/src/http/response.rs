//! A response before the protocol writes it. The fields that nginx writes at fixed places are typed; all others keep
//! their order in `headers`.

use super::Body;
use super::file::{Copied, Entry};
use bytes::Bytes;
use std::rc::Rc;
use wire::headers::{Header, HeaderList};

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
    /// The charset that an upstream asks for, by X-Accel-Charset.
    pub override_charset: Option<Bytes>,
    /// Type and charset as an upstream wrote them, where that is not the usual way.
    pub unusual_content_type: Option<Bytes>,
    /// Content-Length as it is sent; set from the body where it is known. `None` with a stream: chunked, or until close.
    pub content_length: Option<u64>,
    pub last_modified: Option<LastModified>,
    pub etag: Option<Bytes>,
    /// How many of `headers` are sent before the ETag.
    pub etag_place: usize,
    /// Location as the feature gave it; the redirect settings make it absolute.
    pub location: Option<Bytes>,
    pub headers: HeaderList,
    pub body: Body,
    /// An upstream's Server and Date stand in `headers`, in place of the server's own.
    pub has_server: bool,
    pub has_date: bool,
    /// The file that the body is, whole, where the response is nothing else; with `copied`, what the copy was made of.
    pub file: Option<Rc<Entry>>,
    /// The body is a kept response, whole; with `made`, what was compressed.
    pub kept: Option<Rc<dyn super::cached::Keepsake>>,
    /// Where what is made of the body may be kept: it is a response that the cache keeps, whole.
    pub forms: Option<Rc<crate::cache::forms::Forms>>,
    /// The body is this copy of the file in a content coding.
    pub copied: Option<Rc<Copied>>,
    /// The file has no such copy yet: it is compressed on the fly, quickly, until there is one.
    pub copy_is_wanted: bool,
    /// The body is the file, compressed on the fly and whole.
    pub made: Option<Rc<super::sent::Compressed>>,
    /// A request with another Accept-Encoding may get another response.
    pub depends_on_accept: bool,
    /// The range filter may cut the body.
    pub allow_ranges: bool,
    /// But not into several pieces: the body is not at hand as a whole.
    pub single_range: bool,
    /// `Accept-Ranges: bytes` is sent, after `headers`.
    pub accept_ranges: bool,
    /// `add_trailer` has fields for this response: it is chunked where the client can take that, and they are worked out
    /// at the end of the body.
    pub expects_trailers: bool,
    /// Preconditions (If-Match, If-Modified-Since …) are not looked at (autoindex, return).
    pub skip_conditions: bool,
    /// It has only the fields that it was made with: `add_header` and `expires` add none.
    pub is_bare: bool,
    /// The response is an error page already, so that `error_page` does not apply again.
    pub is_error_page: bool,
    /// Close the connection after the response whatever the client asked.
    pub close: bool,
    /// Trailer fields for a chunked response.
    pub trailers: Vec<(Bytes, Bytes)>,
}

impl Response {
    /// What is sent is no longer a file, or a kept response, as it lies there: nothing may send it again in its place.
    pub fn note_rewritten(&mut self) {
        self.file = None;
        self.copied = None;
        self.kept = None;
    }

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

    /// Takes Last-Modified away, its own or an upstream's.
    pub fn forget_last_modified(&mut self) {
        self.last_modified = None;
        self.take_out("Last-Modified");
    }

    /// Takes a field away that stands once in `headers`, so that the ETag keeps its place among the others.
    pub fn take_out(&mut self, name: &str) {
        let is_it = |header: &Header| header.name.eq_ignore_ascii_case(name.as_bytes());
        if let Some(place) = self.headers.iter().position(is_it) {
            self.headers.remove(name);
            self.etag_place -= usize::from(place < self.etag_place);
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

    /// Sets the type from a Content-Type that may name a charset.
    pub fn set_content_type(&mut self, given: Bytes) {
        let Some((kind, charset)) = split_charset(&given) else {
            self.content_type = Some(given);
            self.charset = None;
            self.unusual_content_type = None;
            return;
        };
        let usual = [kind, b"; charset=", charset].concat() == given;
        let (kind, charset) = (given.slice_ref(kind), given.slice_ref(charset));
        self.content_type = Some(kind);
        self.charset = Some(charset);
        self.unusual_content_type = (!usual).then_some(given);
    }

    /// The Content-Type as an upstream wrote it, unless another type or charset has taken its place.
    #[must_use]
    pub fn content_type_as_given(&self) -> Option<Bytes> {
        let kind = self.content_type.as_ref()?;
        let Some(charset) = &self.charset else {
            return Some(kind.clone());
        };
        let holds = |given: &&Bytes| {
            split_charset(given).is_some_and(|parts| parts == (&kind[..], &charset[..]))
        };
        match self.unusual_content_type.as_ref().filter(holds) {
            Some(given) => Some(given.clone()),
            None => Some([kind, &b"; charset="[..], charset].concat().into()),
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

/// The type before a parameter `charset`, and its value without quotes; `None` if there is no such parameter.
fn split_charset(given: &[u8]) -> Option<(&[u8], &[u8])> {
    const NAME: &[u8] = b"charset=";
    let mut from = 0;
    while let Some(semicolon) = memchr::memchr(b';', given.get(from..)?) {
        let before = from + semicolon;
        from = before + 1;
        let parameter = given.get(from..)?;
        let blanks = parameter.iter().take_while(|&&byte| byte == b' ').count();
        let parameter = parameter.get(blanks..)?;
        let Some((name, value)) = parameter.split_at_checked(NAME.len()) else {
            continue;
        };
        if name.eq_ignore_ascii_case(NAME) {
            let value = value.strip_prefix(b"\"").unwrap_or(value);
            let value = value.strip_suffix(b"\"").unwrap_or(value);
            return Some((given.get(..before)?, value));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charsets_are_told_from_types_and_written_as_they_came() {
        for (given, kind, charset) in [
            ("text/html", "text/html", None),
            ("text/html; charset=utf-8", "text/html", Some("utf-8")),
            ("text/html;Charset=\"utf-8\"", "text/html", Some("utf-8")),
            ("a/b; x=y; charset=z", "a/b; x=y", Some("z")),
            ("a/b; charset", "a/b; charset", None),
            ("", "", None),
        ] {
            let mut response = Response::default();
            response.set_content_type(Bytes::from_static(given.as_bytes()));
            assert_eq!(
                response.content_type.as_deref(),
                Some(kind.as_bytes()),
                "{given}"
            );
            assert_eq!(
                response.charset.as_deref(),
                charset.map(str::as_bytes),
                "{given}"
            );
            assert_eq!(
                response.content_type_as_given().as_deref(),
                Some(given.as_bytes())
            );
            response.charset = Some(Bytes::from_static(b"koi8-r"));
            let other = format!("{kind}; charset=koi8-r");
            assert_eq!(
                response.content_type_as_given().as_deref(),
                Some(other.as_bytes())
            );
        }
    }
}
