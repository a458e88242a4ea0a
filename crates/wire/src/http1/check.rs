//! What nginx checks once a request head is whole: the host, fields that may stand only once, refused methods.

use super::field::{Field, Known};
use super::request::Head;
use super::{Error, Version};
use crate::uri::{self, Host};

/// Fields nginx answers with 400 when they stand twice. Content-Length and Transfer-Encoding are judged by `body`.
fn is_unique(known: Known) -> bool {
    matches!(
        known,
        Known::Host
            | Known::IfModifiedSince
            | Known::IfUnmodifiedSince
            | Known::IfMatch
            | Known::IfNoneMatch
            | Known::IfRange
            | Known::Expect
            | Known::Authorization
    )
}

/// The first two fields of one name that may stand only once.
pub fn repeated(fields: &[Field]) -> Option<(&Field, &Field)> {
    fields.iter().enumerate().find_map(|(at, second)| {
        let once = is_unique(second.known)
            || matches!(second.known, Known::ContentLength | Known::TransferEncoding);
        let first = fields[..at]
            .iter()
            .find(|field| once && field.known == second.known)?;
        Some((first, second))
    })
}

/// The host that a head names, wrong as the head may be otherwise: that of the absolute URI, or of the first Host field.
pub fn named_host<'a>(head: &Head, buf: &'a [u8]) -> Result<Option<Host<'a>>, Error> {
    let field = || head.value(Known::Host, buf);
    head.authority
        .map(|authority| authority.of(buf))
        .or_else(field)
        .map(|host| uri::validate_host(host).map_err(|_| Error::InvalidHost))
        .transpose()
}

/// Checks a whole head and gives the host it is for: that of the absolute URI, else that of the Host field, else `None`.
/// The body's framing is `body::request_framing`'s to judge.
pub fn check<'a>(head: &Head, buf: &'a [u8]) -> Result<Option<Host<'a>>, Error> {
    let mut seen: u128 = 0;
    let mut host_field = None;
    for field in &head.fields {
        if !is_unique(field.known) {
            continue;
        }
        let bit = 1 << field.known as u32;
        if seen & bit != 0 {
            return Err(Error::DuplicateHeader);
        }
        seen |= bit;
        if field.known == Known::Host {
            // Judged even if the URI's host goes before it.
            host_field =
                Some(uri::validate_host(field.value.of(buf)).map_err(|_| Error::InvalidHost)?);
        }
    }
    if host_field.is_none() && head.version >= Version::Http11 {
        return Err(Error::MissingHost);
    }
    if head.method.is_refused() {
        return Err(Error::MethodNotAllowed);
    }
    match head.authority {
        Some(authority) => uri::validate_host(authority.of(buf))
            .map(Some)
            .map_err(|_| Error::InvalidHost),
        None => Ok(host_field),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::request::{Limits, Parser};

    fn host_of(head: &str) -> Result<Option<String>, Error> {
        let mut parser = Parser::new();
        parser.parse(head.as_bytes(), &Limits::default())?;
        let host = check(parser.head(), head.as_bytes())?;
        Ok(host.map(|host| String::from_utf8_lossy(&host.name).into_owned()))
    }

    /// Each row was sent to nginx 1.22.
    #[test]
    fn as_nginx_checks() {
        for (head, expected) in [
            ("GET / HTTP/1.0\r\n\r\n", Ok(None)),
            ("GET / HTTP/1.1\r\n\r\n", Err(Error::MissingHost)),
            ("GET http://h HTTP/1.1\r\n\r\n", Err(Error::MissingHost)),
            ("GET / HTTP/1.1\r\nHost: A.b:80\r\n\r\n", Ok(Some("a.b"))),
            (
                "GET http://H.com.:8080/p HTTP/1.1\r\nHost: a\r\n\r\n",
                Ok(Some("h.com")),
            ),
            ("GET http://h/ HTTP/1.0\r\nHost: z\r\n\r\n", Ok(Some("h"))),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
                Err(Error::DuplicateHeader),
            ),
            ("GET / HTTP/1.1\r\nHost:\r\n\r\n", Err(Error::InvalidHost)),
            (
                "GET / HTTP/1.0\r\nHost: a..b\r\n\r\n",
                Err(Error::InvalidHost),
            ),
            ("CONNECT / HTTP/1.0\r\n\r\n", Err(Error::MethodNotAllowed)),
            ("TRACE / HTTP/1.0\r\n\r\n", Err(Error::MethodNotAllowed)),
        ] {
            assert_eq!(
                host_of(head),
                expected.map(|host| host.map(str::to_string)),
                "{head:?}"
            );
        }
    }

    #[test]
    fn which_fields_may_repeat() {
        for (name, unique) in [
            ("If-Modified-Since", true),
            ("If-Unmodified-Since", true),
            ("If-Match", true),
            ("If-None-Match", true),
            ("If-Range", true),
            ("Expect", true),
            ("Authorization", true),
            ("Range", false),
            ("Connection", false),
            ("User-Agent", false),
            ("Cookie", false),
            ("X-Forwarded-For", false),
            ("X-Other", false),
        ] {
            let head = format!("GET / HTTP/1.0\r\n{name}: x\r\n{name}: x\r\n\r\n");
            let expected = if unique {
                Err(Error::DuplicateHeader)
            } else {
                Ok(None)
            };
            assert_eq!(host_of(&head), expected, "{name}");
        }
    }
}
