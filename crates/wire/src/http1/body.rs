//! Body framing (RFC 9112, 6): from the fields of a head to how many bytes follow it.
//! Everything two parsers could read differently is refused.

use super::field::{Field, Known};
use super::{Error, Version};

/// How the body's end is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No body follows.
    None,
    /// Exactly so many bytes follow; may be 0.
    Length(u64),
    Chunked,
    /// Responses only: the body ends with the connection.
    UntilClose,
}

/// nginx counts in signed 64 bits.
const LENGTH_MAX: u64 = i64::MAX as u64;

/// Decides how a request's body is framed. `buf` is the buffer the fields point into.
pub fn request_framing(fields: &[Field], buf: &[u8], version: Version) -> Result<Framing, Error> {
    let mut length = None;
    let mut transfer_encoding = None;
    for field in fields {
        let slot = match field.known {
            Known::ContentLength => &mut length,
            Known::TransferEncoding => &mut transfer_encoding,
            _ => continue,
        };
        if slot.replace(field.value.of(buf)).is_some() {
            return Err(Error::DuplicateHeader);
        }
    }
    let length = match length {
        Some(value) => Some(parse_content_length(value).ok_or(Error::InvalidContentLength)?),
        None => None,
    };
    let Some(coding) = transfer_encoding else {
        return Ok(length.map_or(Framing::None, Framing::Length));
    };
    if version < Version::Http11 {
        return Err(Error::TransferEncodingInHttp10);
    }
    if !coding.eq_ignore_ascii_case(b"chunked") {
        return Err(Error::UnknownTransferEncoding);
    }
    if length.is_some() {
        return Err(Error::LengthWithTransferEncoding);
    }
    Ok(Framing::Chunked)
}

/// Decides how an upstream response's body is framed. `to_head` is true when the request was HEAD. As nginx does since
/// 1.23, an answer whose length could be read in two ways is refused (502); so is a coding other than chunked.
pub fn response_framing(
    fields: &[Field],
    buf: &[u8],
    status: u16,
    to_head: bool,
) -> Result<Framing, Error> {
    let mut length = None;
    let mut chunked = false;
    for field in fields {
        let value = field.value.of(buf);
        match field.known {
            Known::ContentLength => {
                let parsed = parse_content_length(value).ok_or(Error::InvalidContentLength)?;
                if length.replace(parsed).is_some() {
                    return Err(Error::DuplicateHeader);
                }
            }
            Known::TransferEncoding => {
                if !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Error::UnknownTransferEncoding);
                }
                if chunked {
                    return Err(Error::DuplicateHeader);
                }
                chunked = true;
            }
            _ => {}
        }
    }
    if chunked && length.is_some() {
        return Err(Error::LengthWithTransferEncoding);
    }
    if to_head || status < 200 || status == 204 || status == 304 {
        return Ok(Framing::None);
    }
    if chunked {
        return Ok(Framing::Chunked);
    }
    Ok(length.map_or(Framing::UntilClose, Framing::Length))
}

/// Reads a Content-Length: digits only, at most 2^63-1.
pub fn parse_content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    let mut length: u64 = 0;
    for digit in value {
        if !digit.is_ascii_digit() {
            return None;
        }
        length = length
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
    }
    (length <= LENGTH_MAX).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::request::{Limits, Parser};

    fn framing(version: &str, lines: &str) -> Result<Framing, Error> {
        let head = format!("POST / HTTP/{version}\r\nHost: a\r\n{lines}\r\n");
        let mut parser = Parser::new();
        let consumed = parser.parse(head.as_bytes(), &Limits::default())?;
        assert_eq!(consumed, Some(head.len()));
        request_framing(
            &parser.head().fields,
            head.as_bytes(),
            parser.head().version,
        )
    }

    /// Each row was sent to nginx 1.22.
    #[test]
    fn as_nginx_decides() {
        use Framing::*;
        let chunked = "Transfer-Encoding: chunked\r\n";
        for (lines, expected) in [
            ("", Ok(None)),
            ("Content-Length: 5\r\n", Ok(Length(5))),
            ("Content-Length: 0\r\n", Ok(Length(0))),
            ("Content-Length: 0005 \r\n", Ok(Length(5))),
            (
                "Content-Length: 9223372036854775807\r\n",
                Ok(Length(i64::MAX as u64)),
            ),
            (
                "Content-Length: 9223372036854775808\r\n",
                Err(Error::InvalidContentLength),
            ),
            (
                "Content-Length: 99999999999999999999\r\n",
                Err(Error::InvalidContentLength),
            ),
            ("Content-Length: +5\r\n", Err(Error::InvalidContentLength)),
            ("Content-Length: -1\r\n", Err(Error::InvalidContentLength)),
            ("Content-Length: 5,5\r\n", Err(Error::InvalidContentLength)),
            ("Content-Length: 0x5\r\n", Err(Error::InvalidContentLength)),
            ("Content-Length: \r\n", Err(Error::InvalidContentLength)),
            (
                "Content-Length: 5\r\nContent-Length: 5\r\n",
                Err(Error::DuplicateHeader),
            ),
            (chunked, Ok(Chunked)),
            ("Transfer-Encoding: Chunked \r\n", Ok(Chunked)),
            (
                "Transfer-Encoding: gzip, chunked\r\n",
                Err(Error::UnknownTransferEncoding),
            ),
            (
                "Transfer-Encoding: chunked, chunked\r\n",
                Err(Error::UnknownTransferEncoding),
            ),
            (
                "Transfer-Encoding: identity\r\n",
                Err(Error::UnknownTransferEncoding),
            ),
            (
                "Transfer-Encoding: \r\n",
                Err(Error::UnknownTransferEncoding),
            ),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                Err(Error::DuplicateHeader),
            ),
            (
                "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                Err(Error::LengthWithTransferEncoding),
            ),
            (
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                Err(Error::LengthWithTransferEncoding),
            ),
            (
                "Content-Length: 5\r\nTransfer-Encoding: identity\r\n",
                Err(Error::UnknownTransferEncoding),
            ),
        ] {
            assert_eq!(framing("1.1", lines), expected, "{lines:?}");
        }
        assert_eq!(
            framing("1.0", chunked),
            Err(Error::TransferEncodingInHttp10)
        );
    }
}
