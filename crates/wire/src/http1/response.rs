//! The parser of upstream response heads (RFC 9112, 4), as tolerant as nginx's. Fields keep whatever names the
//! upstream gave them; only bytes that would make two readings possible are refused.

use super::Version;
use super::field::{self, Field, Known, Line, NameRules, Span};
use memchr::{memchr, memchr2};

/// Why a response head was refused; the client sees 502.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The first line is no status line. nginx then takes all of it as an HTTP/0.9 body.
    NotHttp,
    InvalidHeaderLine,
    /// The head does not fit the buffer (`proxy_buffer_size`).
    TooLarge,
}

impl Error {
    /// The words for the error log.
    pub fn as_str(self) -> &'static str {
        match self {
            Error::NotHttp => "upstream sent no valid HTTP/1.0 header",
            Error::InvalidHeaderLine => "upstream sent invalid header",
            Error::TooLarge => "upstream sent too big header",
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for Error {}

/// A response head; all spans point into the buffer it was parsed from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub version: Version,
    /// 100 to 999.
    pub status: u16,
    /// Status and reason as sent, for a status line that passes the upstream's words on.
    pub status_text: Span,
    /// In the order sent.
    pub fields: Vec<Field>,
}

impl Head {
    /// The value of the first field of the kind.
    pub fn value<'a>(&self, known: Known, buf: &'a [u8]) -> Option<&'a [u8]> {
        field::find(&self.fields, known).map(|field| field.value.of(buf))
    }
}

/// The parser of one upstream connection; `reset` keeps its memory for the next response.
#[derive(Debug, Default)]
pub struct Parser {
    head: Head,
    /// Where the line being read starts.
    line_start: usize,
    /// How far that line was searched for its end.
    searched: usize,
    /// A program's head: fields from the first line on, as CGI has it.
    without_status_line: bool,
}

/// Upstreams may name their fields as they like.
const RULES: NameRules = NameRules {
    ignore_invalid_headers: false,
    underscores_in_headers: true,
};

impl Parser {
    pub fn new() -> Parser {
        Parser::default()
    }

    /// For the head of a program's response (RFC 3875, 6): it has no status line.
    pub fn for_cgi() -> Parser {
        Parser {
            without_status_line: true,
            ..Parser::default()
        }
    }

    /// Makes ready for the next head (after a 1xx one, too), which starts at offset 0 of the buffer then given.
    pub fn reset(&mut self) {
        let mut fields = std::mem::take(&mut self.head.fields);
        fields.clear();
        let without_status_line = self.without_status_line;
        *self = Parser {
            without_status_line,
            ..Parser::default()
        };
        self.head.fields = fields;
    }

    /// The head; whole once `parse` returned `Ok(Some(_))`.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Takes the head out, leaving an empty one; `reset` must follow before the next response.
    pub fn take_head(&mut self) -> Head {
        std::mem::take(&mut self.head)
    }

    /// Reads `buf`, which holds everything received since the head began. `Ok(Some(n))`: the head is whole and took `n`
    /// bytes. `Ok(None)`: call again with more bytes. A head of more than `max` bytes is refused.
    pub fn parse(&mut self, buf: &[u8], max: usize) -> Result<Option<usize>, Error> {
        loop {
            let start = self.line_start;
            let from = self.searched.max(start);
            let Some(found) = memchr(b'\n', buf.get(from..).unwrap_or_default()) else {
                if start == 0 && !self.without_status_line && !could_be_http(buf) {
                    return Err(Error::NotHttp);
                }
                self.searched = buf.len();
                return if buf.len() >= max {
                    Err(Error::TooLarge)
                } else {
                    Ok(None)
                };
            };
            let end = from + found;
            if end >= max || end >= u32::MAX as usize {
                return Err(Error::TooLarge);
            }
            self.line_start = end + 1;
            self.searched = end + 1;
            let line = &buf[start..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if start == 0 && !self.without_status_line {
                self.head.read_status_line(line)?;
            } else if line.is_empty() {
                return Ok(Some(self.line_start));
            } else if line.starts_with(b"HTTP/") {
                // A status line in the midst of the head, as IIS and some programs send; nginx reads over it.
            } else {
                let read = field::read_line(line, start, RULES, &mut self.head.fields);
                if matches!(read, Line::Refused(_)) {
                    return Err(Error::InvalidHeaderLine);
                }
            }
        }
    }
}

/// Whether bytes without a line end may still become a status line.
fn could_be_http(buf: &[u8]) -> bool {
    let known = buf.len().min(b"HTTP/".len());
    buf[..known] == b"HTTP/"[..known]
}

impl Head {
    /// Reads `HTTP/1.1 200 Words`. Any major version above 0 counts, as in nginx.
    fn read_status_line(&mut self, line: &[u8]) -> Result<(), Error> {
        let version = line.strip_prefix(b"HTTP/").ok_or(Error::NotHttp)?;
        let (major, rest) = split_digits(version);
        let rest = rest.strip_prefix(b".").ok_or(Error::NotHttp)?;
        let (minor, rest) = split_digits(rest);
        if !matches!(major.first(), Some(b'1'..=b'9'))
            || minor.is_empty()
            || rest.first() != Some(&b' ')
        {
            return Err(Error::NotHttp);
        }
        let is_10 = major == b"1" && minor.iter().all(|digit| *digit == b'0');
        self.version = if is_10 {
            Version::Http10
        } else {
            Version::Http11
        };
        let blanks = rest.iter().take_while(|b| **b == b' ').count();
        let text = &rest[blanks..];
        let (status, after) = split_digits(text);
        let well_ended = matches!(after.first(), None | Some(b' ' | b'.'));
        let [hundreds @ b'1'..=b'9', tens, ones] = *status else {
            return Err(Error::NotHttp);
        };
        if !well_ended || memchr2(b'\r', 0, after).is_some() {
            return Err(Error::NotHttp);
        }
        let digit = |b: u8| u16::from(b - b'0');
        self.status = digit(hundreds) * 100 + digit(tens) * 10 + digit(ones);
        self.status_text = Span::new(line.len() - text.len(), line.len());
        Ok(())
    }
}

fn split_digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.iter().take_while(|b| b.is_ascii_digit()).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    const MAX: usize = 4096;

    fn parse(buf: &[u8], ends: &[usize]) -> Result<(Option<usize>, Head), Error> {
        let mut parser = Parser::new();
        for end in ends {
            if let Some(consumed) = parser.parse(&buf[..*end], MAX)? {
                return Ok((Some(consumed), parser.take_head()));
            }
        }
        let consumed = parser.parse(buf, MAX)?;
        Ok((consumed, parser.take_head()))
    }

    /// Each row was sent to nginx 1.22 by an upstream.
    #[test]
    fn status_lines_as_nginx_reads_them() {
        for (line, status, text) in [
            ("HTTP/1.1 200 OK", 200, "200 OK"),
            ("HTTP/1.1 200", 200, "200"),
            ("HTTP/1.1 200 ", 200, "200 "),
            ("HTTP/1.0 200 Fine Day", 200, "200 Fine Day"),
            ("HTTP/2.0 200 OK", 200, "200 OK"),
            ("HTTP/12.34 200 OK", 200, "200 OK"),
            ("HTTP/1.1  200 OK", 200, "200 OK"),
            ("HTTP/1.1 999 OK", 999, "999 OK"),
            ("HTTP/1.1 200.1 OK", 200, "200.1 OK"),
            ("HTTP/1.1 103 \u{e9}\t", 103, "103 \u{e9}\t"),
        ] {
            for end in ["\r\n\r\n", "\n\n"] {
                let buf = format!("{line}{end}");
                let (consumed, head) = parse(buf.as_bytes(), &[]).expect(line);
                assert_eq!(consumed, Some(buf.len()), "{line}");
                assert_eq!(head.status, status, "{line}");
                assert_eq!(
                    head.status_text.of(buf.as_bytes()),
                    text.as_bytes(),
                    "{line}"
                );
            }
        }
        for line in [
            "HTTP/1 200 OK",
            "HTTP 200 OK",
            "http/1.1 200 OK",
            "HTTP/1.1 99 OK",
            "HTTP/1.1 0200 OK",
            "HTTP/1.1 2000 OK",
            "HTTP/1.1 000 OK",
            "HTTP/1.1 200OK",
            "HTTP/1.1 2x0 OK",
            "HTTP/1.1\t200 OK",
            "hello",
            "",
            "HTTP/0.9 200 OK",
            "HTTP/1.1 200 O\rK",
            "HTTP/1.1 200 O\0K",
        ] {
            let result = parse(format!("{line}\r\n\r\n").as_bytes(), &[]);
            assert_eq!(result, Err(Error::NotHttp), "{line:?}");
        }
        assert_eq!(parse(b"hell", &[]), Err(Error::NotHttp));
        assert_eq!(parse(b"HTT", &[]).map(|(consumed, _)| consumed), Ok(None));
    }

    #[test]
    fn programs_send_no_status_line() {
        let buf = b"Status: 404 Gone\nX: y\n\nbody";
        for cut in 0..buf.len() {
            let mut parser = Parser::for_cgi();
            let early = parser.parse(&buf[..cut], MAX).expect("valid");
            let whole = parser.parse(buf, MAX).expect("valid");
            assert_eq!(early.or(whole), Some(buf.len() - 4), "{cut}");
            assert_eq!(parser.head().fields.len(), 2);
        }
        assert_eq!(Parser::for_cgi().parse(b"\r\n", MAX), Ok(Some(2)));
    }

    #[test]
    fn fields_as_nginx_reads_them() {
        let buf =
            b"HTTP/1.1 200 OK\r\nX_Y: a\r\nX.Y:b\r\nX\x80: c\r\nEmpty\r\nETag: \"1\"\r\n\r\nbody";
        let (consumed, head) = parse(buf, &[]).expect("valid");
        assert_eq!(consumed, Some(buf.len() - 4));
        assert_eq!(head.fields.len(), 5);
        assert_eq!(head.value(Known::Etag, buf), Some(&b"\"1\""[..]));
        for line in [
            "X : v",
            "X Y: v",
            " X: v",
            "X: v\r\n fold",
            ": v",
            "X\u{1}: v",
            "X: a\0b",
            "X: a\rb",
        ] {
            let result = parse(format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n").as_bytes(), &[]);
            assert_eq!(result, Err(Error::InvalidHeaderLine), "{line:?}");
        }
    }

    #[test]
    fn further_status_lines_are_read_over() {
        let buf = b"HTTP/1.1 404 Gone\nHTTP/1.1 200 OK\r\nX: y\r\nHTTP/\r\n\r\nbody";
        for cut in 0..=buf.len() {
            let (consumed, head) = parse(buf, &[cut]).expect("valid");
            assert_eq!((consumed, head.status), (Some(buf.len() - 4), 404));
            assert_eq!(head.fields.len(), 1);
        }
        assert_eq!(
            Parser::for_cgi().parse(b"HTTP/1.1 404 X\n\n", MAX),
            Ok(Some(16))
        );
        let other = b"HTTP/1.1 200 OK\r\nhttp/1.1 200 OK\r\n\r\n";
        assert_eq!(parse(other, &[]), Err(Error::InvalidHeaderLine));
    }

    #[test]
    fn size_is_limited() {
        let head = |n: usize| format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "a".repeat(n - 24));
        assert!(parse(head(MAX).as_bytes(), &[]).is_ok());
        assert_eq!(parse(head(MAX + 1).as_bytes(), &[]), Err(Error::TooLarge));
        assert_eq!(
            parse(&head(MAX + 9).as_bytes()[..MAX], &[]),
            Err(Error::TooLarge)
        );
    }

    #[test]
    fn any_split_gives_the_same() {
        let mut random = Random::new(13);
        let valid = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX: y\n\r\nb";
        for first in 0..=valid.len() {
            for second in first..=valid.len() {
                assert_eq!(parse(valid, &[first, second]), parse(valid, &[]));
            }
        }
        for _ in 0..50_000 {
            let mut buf = b"HTTP/1.1 200 O\r\n"[..random.below(17) as usize].to_vec();
            buf.extend(random.bytes(20));
            let split = random.below(buf.len() as u64 + 1) as usize;
            assert_eq!(
                parse(&buf, &[split]),
                parse(&buf, &[]),
                "{}",
                buf.escape_ascii()
            );
        }
    }
}
