//! The request head parser (RFC 9112, 2-5), with nginx's tolerance and its limits. Step 2 of a request's path.
//! The caller keeps one growing buffer and calls again when it has more bytes; every complete line is read once.

use super::field::{self, Field, Known, Line, NameRules, Span};
use super::method::is_method_byte;
use super::{Error, Method, Version};
use crate::uri;
use memchr::memchr;

/// Empty lines before a request line are skipped up to this many bytes.
const LEADING_BLANK_MAX: usize = 1024;

/// Minor versions have at most three digits.
const VERSION_DIGITS_MAX: usize = 3;

/// What a head may cost. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `client_header_buffer_size`: lines go here first.
    pub header_buffer: usize,
    /// `large_client_header_buffers`, number: further buffers a head may fill.
    pub large_buffers: usize,
    /// `large_client_header_buffers`, size: no line may be longer.
    pub large_buffer: usize,
    /// `max_headers`: header lines in a head, dropped ones too.
    pub max_headers: usize,
    pub ignore_invalid_headers: bool,
    pub underscores_in_headers: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            header_buffer: 1024,
            large_buffers: 4,
            large_buffer: 8192,
            max_headers: 1000,
            ignore_invalid_headers: true,
            underscores_in_headers: false,
        }
    }
}

/// A request head; all spans point into the buffer it was parsed from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub method: Method,
    pub method_span: Span,
    /// The second word of the request line as sent (absolute form included).
    pub target: Span,
    /// nginx's `$request_uri`: the target without scheme and authority, with arguments and fragment.
    pub request_uri: Span,
    /// The undecoded path, without arguments and fragment; always starts with `/`.
    pub path: Span,
    /// What follows the first `?`, without it and without the fragment.
    pub args: Option<Span>,
    /// Host and port of the absolute form; it takes precedence over the Host field.
    pub authority: Option<Span>,
    /// False when the path is already in the form `uri::normalise` would give it.
    pub needs_normalising: bool,
    pub version: Version,
    /// The third word as sent, for `$server_protocol`; empty for HTTP/0.9.
    pub version_span: Span,
    /// The whole line without its end, for `$request`.
    pub request_line: Span,
    /// In the order sent.
    pub fields: Vec<Field>,
    /// The lines that `ignore_invalid_headers` left out.
    pub dropped: Vec<Span>,
    /// The header line that the head was refused for, up to the byte that is wrong or as far as it fits a buffer.
    pub refused: Span,
}

impl Head {
    /// The value of the first field of the kind.
    pub fn value<'a>(&self, known: Known, buf: &'a [u8]) -> Option<&'a [u8]> {
        field::find(&self.fields, known).map(|field| field.value.of(buf))
    }

    /// The value of the first field of that name, whatever its case.
    pub fn value_by_name<'a>(&self, name: &[u8], buf: &'a [u8]) -> Option<&'a [u8]> {
        let field = self
            .fields
            .iter()
            .find(|field| field.name.of(buf).eq_ignore_ascii_case(name))?;
        Some(field.value.of(buf))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    RequestLine,
    Fields,
    Done,
}

/// The parser of one connection; `reset` keeps its memory for the next request.
#[derive(Debug)]
pub struct Parser {
    head: Head,
    state: State,
    /// Where the line being read starts.
    line_start: usize,
    /// How far that line was searched for its end.
    searched: usize,
    /// Header lines read, dropped ones too.
    lines: usize,
    buffers: Buffers,
}

impl Default for Parser {
    fn default() -> Parser {
        Parser::new()
    }
}

impl Parser {
    pub fn new() -> Parser {
        Parser {
            head: Head::default(),
            state: State::RequestLine,
            line_start: 0,
            searched: 0,
            lines: 0,
            buffers: Buffers::default(),
        }
    }

    /// Makes ready for the next head, which starts at offset 0 of the buffer then given.
    pub fn reset(&mut self) {
        let mut fields = std::mem::take(&mut self.head.fields);
        fields.clear();
        *self = Parser::new();
        self.head.fields = fields;
    }

    /// The head; whole only once `parse` returned `Ok(Some(_))`, but the request line is in it as soon as it was read.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Takes the head out, leaving an empty one; `reset` must follow before the next request.
    pub fn take_head(&mut self) -> Head {
        std::mem::take(&mut self.head)
    }

    /// Exchanges the head for another, whose memory serves the next request; `reset` must follow before that.
    pub fn exchange_head(&mut self, other: &mut Head) {
        std::mem::swap(&mut self.head, other);
    }

    /// True once the request line was read: what is still missing is the header fields.
    pub fn has_request_line(&self) -> bool {
        self.state != State::RequestLine
    }

    /// Reads `buf`, which holds everything received since the head began: the bytes of the last call and maybe more.
    /// `Ok(Some(n))`: the head is whole and took `n` bytes. `Ok(None)`: call again with more bytes.
    /// After an error the parser must be reset.
    pub fn parse(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<usize>, Error> {
        if self.state == State::RequestLine && !self.read_request_line(buf, limits)? {
            return Ok(None);
        }
        let rules = NameRules {
            ignore_invalid_headers: limits.ignore_invalid_headers,
            underscores_in_headers: limits.underscores_in_headers,
        };
        while self.state == State::Fields {
            let start = self.line_start;
            let line = match self.next_line(buf, limits, Error::HeaderTooLarge) {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(None),
                Err(error) => {
                    let end = buf.len().min(start + limits.large_buffer);
                    self.head.refused = Span::new(start, end);
                    return Err(error);
                }
            };
            if line.is_empty() {
                self.state = State::Done;
                break;
            }
            self.lines += 1;
            if self.lines > limits.max_headers {
                return Err(Error::TooManyHeaders);
            }
            match field::read_line(line, start, rules, &mut self.head.fields) {
                Line::Kept => {}
                Line::Dropped => self.head.dropped.push(Span::new(start, start + line.len())),
                Line::Refused(at) => {
                    self.head.refused = Span::new(start, start + at + 1);
                    return Err(Error::InvalidHeaderLine);
                }
            }
        }
        Ok(Some(self.line_start))
    }

    /// Skips empty lines and reads the request line; false when it is not there yet.
    fn read_request_line(&mut self, buf: &[u8], limits: &Limits) -> Result<bool, Error> {
        while let Some(b'\r' | b'\n') = buf.get(self.line_start) {
            self.line_start += 1;
            if self.line_start > LEADING_BLANK_MAX {
                return Err(Error::InvalidRequestLine);
            }
        }
        let start = self.line_start;
        // Garbage (a TLS hello, say) is refused before its line ends, if it ever does.
        if self.searched <= start {
            let method_bytes = buf[start..]
                .iter()
                .take_while(|b| is_method_byte(**b))
                .count();
            match buf.get(start + method_bytes) {
                Some(b' ') if method_bytes > 0 => {}
                Some(_) => return Err(Error::InvalidMethod),
                None if buf.len() - start < limits.header_buffer => return Ok(false),
                None => {}
            }
        }
        let Some(line) = self.next_line(buf, limits, Error::RequestLineTooLong)? else {
            return Ok(false);
        };
        self.head.read_request_line(line, start)?;
        if line.last() == Some(&b'\r') {
            return Err(Error::InvalidRequestLine);
        }
        self.state = match self.head.version {
            Version::Http09 => State::Done,
            _ => State::Fields,
        };
        Ok(true)
    }

    /// The next line without its end, or `None` if it is not complete; `too_large` is the error for one that cannot fit.
    /// A line that broke at a bare CR is given as far as that, to be refused for it like a whole one.
    fn next_line<'a>(
        &mut self,
        buf: &'a [u8],
        limits: &Limits,
        too_large: Error,
    ) -> Result<Option<&'a [u8]>, Error> {
        let start = self.line_start;
        let from = self.searched.max(start);
        let rest = buf.get(from..).unwrap_or_default();
        let Some(found) = memchr(b'\n', rest) else {
            if let Some(line) = broken_line(buf, start, from) {
                return Ok(Some(line));
            }
            self.searched = buf.len();
            if !self.buffers.could_hold(buf.len() - start, limits) {
                return Err(too_large);
            }
            return Ok(None);
        };
        let end = from + found;
        if !self.buffers.hold(end + 1 - start, limits) || end >= u32::MAX as usize {
            return Err(too_large);
        }
        self.line_start = end + 1;
        self.searched = end + 1;
        let line = &buf[start..end];
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

/// The line from `start` up to a CR that something else than LF follows, if there is one at `from` or just before it.
fn broken_line(buf: &[u8], start: usize, from: usize) -> Option<&[u8]> {
    let from = from.saturating_sub(1).max(start);
    let unseen = buf.get(from..)?;
    let cr = memchr(b'\r', unseen).filter(|at| at + 1 < unseen.len())?;
    Some(&buf[start..=from + cr])
}

/// nginx's header buffers, counted but not allocated: a line must lie in one of them, and only so many exist.
#[derive(Clone, Copy, Debug, Default)]
struct Buffers {
    /// Bytes used of the current buffer.
    used: usize,
    /// Large buffers taken; 0 while the first, small one is current.
    large: usize,
}

impl Buffers {
    fn current_size(&self, limits: &Limits) -> usize {
        if self.large == 0 {
            limits.header_buffer
        } else {
            limits.large_buffer
        }
    }

    /// Whether a line of at least `len` bytes can still be placed.
    fn could_hold(&self, len: usize, limits: &Limits) -> bool {
        let mut trial = *self;
        trial.hold(len, limits)
    }

    /// Places a line of `len` bytes; false when no buffer is left that can hold it.
    fn hold(&mut self, len: usize, limits: &Limits) -> bool {
        if len <= self.current_size(limits).saturating_sub(self.used) {
            self.used += len;
            return true;
        }
        self.large += 1;
        self.used = len;
        self.large <= limits.large_buffers && len <= limits.large_buffer
    }
}

impl Head {
    /// Reads the request line (its end removed) that starts at offset `base`.
    fn read_request_line(&mut self, line: &[u8], base: usize) -> Result<(), Error> {
        self.request_line = Span::new(base, base + line.len());
        let method_len = line.iter().take_while(|b| is_method_byte(**b)).count();
        if method_len == 0 || line.get(method_len) != Some(&b' ') {
            return Err(Error::InvalidMethod);
        }
        self.method_span = Span::new(base, base + method_len);
        self.method = Method::from_bytes(&line[..method_len]);

        let target_start = method_len + spaces(&line[method_len..]);
        let rest = &line[target_start..];
        let target_len = memchr(b' ', rest).unwrap_or(rest.len());
        let parts = uri::split(&rest[..target_len]).map_err(|error| match error {
            uri::UriError::BadHost => Error::InvalidAuthority,
            _ => Error::InvalidRequestLine,
        })?;
        self.read_target(&parts, base + target_start, target_len);

        let version_start = target_start + target_len + spaces(&rest[target_len..]);
        let mut version_end = line.len();
        while version_end > version_start && line[version_end - 1] == b' ' {
            version_end -= 1;
        }
        let version = &line[version_start..version_end];
        self.version_span = Span::new(base + version_start, base + version_end);
        self.version = parse_version(version)?;
        if self.version == Version::Http09 {
            if self.method != Method::Get {
                return Err(Error::InvalidHttp09Method);
            }
            // As in nginx, the absolute form without a path needs a version after it.
            if parts.path_is_implied {
                return Err(Error::InvalidRequestLine);
            }
        }
        Ok(())
    }

    fn read_target(&mut self, parts: &uri::Parts, base: usize, len: usize) {
        let span = |range: &std::ops::Range<usize>| Span::new(base + range.start, base + range.end);
        self.target = Span::new(base, base + len);
        self.request_uri = span(&parts.request_uri);
        self.path = span(&parts.path);
        self.args = parts.args.as_ref().map(span);
        self.authority = parts.authority.as_ref().map(span);
        self.needs_normalising = parts.needs_normalising;
    }
}

fn spaces(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| **b == b' ').count()
}

/// Reads the request line's third word; an empty one is HTTP/0.9.
fn parse_version(word: &[u8]) -> Result<Version, Error> {
    match word {
        b"HTTP/1.1" => return Ok(Version::Http11),
        b"HTTP/1.0" => return Ok(Version::Http10),
        b"" => return Ok(Version::Http09),
        _ => {}
    }
    let digits = word
        .strip_prefix(b"HTTP/")
        .ok_or(Error::InvalidRequestLine)?;
    match digits.first() {
        Some(b'1') => {}
        Some(b'2'..=b'9') => return Err(Error::UnsupportedVersion),
        _ => return Err(Error::InvalidRequestLine),
    }
    if digits.get(1).is_some_and(u8::is_ascii_digit) {
        return Err(Error::UnsupportedVersion);
    }
    let minor = digits[1..]
        .strip_prefix(b".")
        .ok_or(Error::InvalidRequestLine)?;
    if minor.is_empty() || minor.len() > VERSION_DIGITS_MAX || !minor.iter().all(u8::is_ascii_digit)
    {
        return Err(Error::InvalidRequestLine);
    }
    if minor.iter().all(|b| *b == b'0') {
        Ok(Version::Http10)
    } else {
        Ok(Version::Http11)
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
