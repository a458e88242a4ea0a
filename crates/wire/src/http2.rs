//! A request of HTTP/2 (RFC 9113, 8.3) in the form that HTTP/1 gives it: a head whose spans point into one buffer, so that
//! the rest of the server reads both alike. Names, values and pseudo-header fields come in their order.

use crate::http1::field::{self, Line, NameRules, Span};
use crate::http1::request::{Head, Limits};
use crate::http1::{Error, Method, Version};
use crate::uri;

/// The third word of the request line.
const VERSION: &[u8] = b"HTTP/2.0";

/// What a client of HTTP/2 sends first (RFC 9113, 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The pseudo-header fields of a request.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub method: &'a [u8],
    /// `:authority`, which stands for a Host field.
    pub authority: Option<&'a [u8]>,
    /// `:path`.
    pub path: &'a [u8],
}

/// Writes the request into `buffer` and `head`, both empty. After an error they hold what came before it.
pub fn compose<'a>(
    target: Target<'_>,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    limits: &Limits,
    buffer: &mut Vec<u8>,
    head: &mut Head,
) -> Result<(), Error> {
    head.version = Version::Http2;
    let line = request_line(target, buffer, head);
    let mut composing = Composing {
        buffer,
        head,
        limits,
        left: limits.large_buffers.saturating_mul(limits.large_buffer),
        lines: 0,
        error: line.err(),
    };
    composing.take(b":method", target.method);
    composing.take(b":scheme", b"");
    composing.take(b":path", target.path);
    composing.take(b":authority", target.authority.unwrap_or_default());
    if let Some(authority) = target.authority {
        composing.add(b"host", authority);
    }
    // As in nginx a cookie that came in pieces is one field, after the others.
    let mut cookie: Vec<u8> = Vec::new();
    for (name, value) in fields {
        if name == b"cookie" {
            if !cookie.is_empty() {
                cookie.extend_from_slice(b"; ");
            }
            cookie.extend_from_slice(value);
            composing.count(name, value);
        } else {
            composing.count(name, value);
            composing.add(name, value);
        }
    }
    if !cookie.is_empty() {
        composing.add(b"cookie", &cookie);
    }
    composing.error.map_or(Ok(()), Err)
}

fn request_line(target: Target<'_>, buffer: &mut Vec<u8>, head: &mut Head) -> Result<(), Error> {
    let span = |start: usize, length: usize| Span::new(start, start + length);
    buffer.extend_from_slice(target.method);
    buffer.push(b' ');
    let path_start = buffer.len();
    buffer.extend_from_slice(target.path);
    buffer.push(b' ');
    let version_start = buffer.len();
    buffer.extend_from_slice(VERSION);
    head.request_line = span(0, buffer.len());
    buffer.extend_from_slice(b"\r\n");
    head.method_span = span(0, target.method.len());
    head.method = Method::from_bytes(target.method);
    head.target = span(path_start, target.path.len());
    head.version_span = span(version_start, VERSION.len());
    if target.path.first() != Some(&b'/') {
        return Err(Error::InvalidRequestLine);
    }
    let parts = uri::split(target.path).map_err(|_| Error::InvalidRequestLine)?;
    let inside = |range: &std::ops::Range<usize>| span(path_start + range.start, range.len());
    head.request_uri = inside(&parts.request_uri);
    head.path = inside(&parts.path);
    head.args = parts.args.as_ref().map(inside);
    head.needs_normalising = parts.needs_normalising;
    Ok(())
}

/// A head that is being written.
struct Composing<'b> {
    buffer: &'b mut Vec<u8>,
    head: &'b mut Head,
    limits: &'b Limits,
    /// Bytes of names and values that may still come.
    left: usize,
    lines: usize,
    /// The first that was found.
    error: Option<Error>,
}

impl Composing<'_> {
    /// What a field takes of the buffers' size: as in nginx all together must fit, whatever one takes.
    fn take(&mut self, name: &[u8], value: &[u8]) {
        match self
            .left
            .checked_sub(name.len().saturating_add(value.len()))
        {
            Some(left) => self.left = left,
            None => self.error = Some(Error::HeaderTooLarge),
        }
    }

    fn count(&mut self, name: &[u8], value: &[u8]) {
        self.take(name, value);
        self.lines += 1;
        if self.lines > self.limits.max_headers {
            self.error.get_or_insert(Error::TooManyHeaders);
        }
    }

    fn add(&mut self, name: &[u8], value: &[u8]) {
        if self.error.is_some() {
            return;
        }
        let rules = NameRules {
            ignore_invalid_headers: self.limits.ignore_invalid_headers,
            underscores_in_headers: self.limits.underscores_in_headers,
        };
        let start = self.buffer.len();
        for part in [name, b": ", value] {
            self.buffer.extend_from_slice(part);
        }
        let end = self.buffer.len();
        if end >= u32::MAX as usize {
            self.error = Some(Error::HeaderTooLarge);
            return;
        }
        let line = &self.buffer[start..end];
        match field::read_line(line, start, rules, &mut self.head.fields) {
            Line::Kept => {}
            Line::Dropped => self.head.dropped.push(Span::new(start, end)),
            Line::Refused(at) => {
                self.head.refused = Span::new(start, start + at + 1);
                self.error = Some(Error::InvalidHeaderLine);
            }
        }
        self.buffer.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::Known;

    fn composed(
        path: &str,
        authority: Option<&str>,
        fields: &[(&str, &str)],
    ) -> (Result<(), Error>, String, Head) {
        let (mut buffer, mut head) = (Vec::new(), Head::default());
        let target = Target {
            method: b"GET",
            authority: authority.map(str::as_bytes),
            path: path.as_bytes(),
        };
        let limits = Limits {
            max_headers: 4,
            large_buffers: 2,
            large_buffer: 50,
            ..Limits::default()
        };
        let fields = fields
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let done = compose(target, fields, &limits, &mut buffer, &mut head);
        (done, String::from_utf8_lossy(&buffer).into_owned(), head)
    }

    #[test]
    fn a_request_reads_as_in_http1() {
        let fields = [("cookie", "a=1"), ("x-y", "z"), ("cookie", "b=2")];
        let (done, text, head) = composed("/p/%41?q#f", Some("Host:8"), &fields);
        assert_eq!(done, Ok(()));
        assert_eq!(
            text,
            "GET /p/%41?q#f HTTP/2.0\r\nhost: Host:8\r\nx-y: z\r\ncookie: a=1; b=2\r\n"
        );
        let buffer = text.as_bytes();
        let of = |span: Span| String::from_utf8_lossy(span.of(buffer)).into_owned();
        assert_eq!(of(head.request_line), "GET /p/%41?q#f HTTP/2.0");
        assert_eq!(of(head.path), "/p/%41");
        assert_eq!(head.args.map(of).as_deref(), Some("q"));
        assert_eq!(of(head.version_span), "HTTP/2.0");
        assert!(head.needs_normalising);
        assert_eq!(head.value(Known::Host, buffer), Some(&b"Host:8"[..]));
        assert_eq!(head.value(Known::Cookie, buffer), Some(&b"a=1; b=2"[..]));
    }

    #[test]
    fn what_is_refused() {
        let dropped = composed("/", None, &[("a_b", "c")]);
        assert_eq!((dropped.0, dropped.2.dropped.len()), (Ok(()), 1));
        let value = |length: usize| "v".repeat(length);
        for (path, fields, expected) in [
            ("*", vec![], Err(Error::InvalidRequestLine)),
            ("", vec![], Err(Error::InvalidRequestLine)),
            ("/", vec![("a", value(60))], Ok(())),
            (
                "/",
                vec![("a", value(40)), ("b", value(40))],
                Err(Error::HeaderTooLarge),
            ),
            ("/", vec![("a", value(100))], Err(Error::HeaderTooLarge)),
            ("/", vec![("a", value(1)); 5], Err(Error::TooManyHeaders)),
            ("/", vec![("a", "\0".into())], Err(Error::InvalidHeaderLine)),
        ] {
            let fields: Vec<_> = (fields.iter())
                .map(|(name, value): &(&str, String)| (*name, &value[..]))
                .collect();
            assert_eq!(
                composed(path, None, &fields).0,
                expected,
                "{path} {fields:?}"
            );
        }
    }
}
