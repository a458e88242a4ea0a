//! A response on an HTTP/1.1 connection, piece by piece: head, body, end. No I/O: bytes in, progress out.

use wire::fields::connection::keeps_alive;
use wire::http1::body::{Framing, response_framing};
use wire::http1::chunked::Decoder;
use wire::http1::field::Known;
use wire::http1::response::Parser;

/// The largest response head.
pub const HEAD_MAX: usize = 256 * 1024;
/// The largest head that is compared with the next one.
const COMPARED_MAX: usize = 4096;
/// Interim responses (1xx) before the one that counts.
const INTERIM_MAX: usize = 16;

/// Why a response cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Invalid {
    Head,
    HeadTooLarge,
    Framing,
    Chunk,
    /// More than `INTERIM_MAX` responses 1xx.
    Interim,
    /// Bytes after the response that nobody asked for.
    Surplus,
    Http2,
}

impl Invalid {
    pub fn as_str(self) -> &'static str {
        match self {
            Invalid::Head => "invalid response head",
            Invalid::HeadTooLarge => "response head too large",
            Invalid::Framing => "ambiguous response length",
            Invalid::Chunk => "invalid chunked coding",
            Invalid::Interim => "too many interim responses",
            Invalid::Surplus => "bytes after the response",
            Invalid::Http2 => "HTTP/2 protocol error",
        }
    }
}

#[derive(Debug)]
enum State {
    Head,
    Length(u64),
    Chunked(Decoder),
    UntilClose,
    Done,
}

/// The part of a response that a scenario looks at.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    pub head: Vec<u8>,
    pub body: Vec<u8>,
    /// Bytes of the body that are kept at most; 0 keeps neither.
    pub max: usize,
    /// The head is kept anyway: cookies are looked for.
    pub always_head: bool,
}

impl Kept {
    /// The value of the field `Server`, as far as it is text.
    pub fn server(&self) -> String {
        let line = self.head.split(|byte| *byte == b'\n').find_map(|line| {
            let (name, value) = line.split_at_checked(7)?;
            name.eq_ignore_ascii_case(b"server:").then_some(value)
        });
        String::from_utf8_lossy(line.unwrap_or_default().trim_ascii()).into_owned()
    }
}

/// What a head says that concerns the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Meaning {
    status: u16,
    keep_alive: bool,
    framing: Framing,
}

/// A head that was read, and what it meant. Most responses of a load begin with the very bytes of the one before: then
/// there is nothing to read anew, which halves the instructions of the tester itself.
#[derive(Debug)]
struct Before {
    bytes: Vec<u8>,
    to_head: bool,
    meaning: Meaning,
}

/// The reader of one connection's responses; its memory serves the next one.
#[derive(Debug)]
pub struct Reader {
    parser: Parser,
    state: State,
    /// The beginning of a head that came in pieces.
    pending: Vec<u8>,
    to_head: bool,
    interim: usize,
    before: Option<Before>,
    pub status: u16,
    /// Whether the connection may be used again.
    pub keep_alive: bool,
    pub head_bytes: u64,
    /// Without the framing of chunks.
    pub body_bytes: u64,
    /// As they came, with framing and interim responses.
    pub received: u64,
    pub kept: Kept,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader {
            parser: Parser::new(),
            state: State::Head,
            pending: Vec::new(),
            to_head: false,
            interim: 0,
            before: None,
            status: 0,
            keep_alive: false,
            head_bytes: 0,
            body_bytes: 0,
            received: 0,
            kept: Kept::default(),
        }
    }
}

impl Reader {
    /// Makes ready for the answer to the next request, keeping `keep` bytes of its body.
    pub fn start(&mut self, to_head: bool, keep: usize) {
        self.parser.reset();
        self.state = State::Head;
        self.pending.clear();
        self.to_head = to_head;
        self.interim = 0;
        self.status = 0;
        self.keep_alive = false;
        self.head_bytes = 0;
        self.body_bytes = 0;
        self.received = 0;
        self.kept.head.clear();
        self.kept.body.clear();
        self.kept.max = keep;
    }

    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Reads what came. The response is whole when `is_done`.
    pub fn feed(&mut self, mut input: &[u8]) -> Result<(), Invalid> {
        self.received += input.len() as u64;
        while !input.is_empty() {
            let taken = match &mut self.state {
                State::Head => self.read_head(input)?,
                State::Length(left) => {
                    let take = usize::try_from(*left).map_or(input.len(), |n| n.min(input.len()));
                    *left -= take as u64;
                    let done = *left == 0;
                    self.take_body(&input[..take]);
                    if done {
                        self.state = State::Done;
                    }
                    take
                }
                State::Chunked(decoder) => {
                    let step = decoder.decode(input).map_err(|_| Invalid::Chunk)?;
                    self.take_body(&input[step.data]);
                    if step.done {
                        self.state = State::Done;
                    }
                    step.consumed
                }
                State::UntilClose => {
                    self.take_body(input);
                    input.len()
                }
                State::Done => return Err(Invalid::Surplus),
            };
            input = input.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    /// The connection ended: whether that is how the response ends.
    pub fn end(&mut self) -> bool {
        if matches!(self.state, State::UntilClose) {
            self.state = State::Done;
        }
        self.is_done()
    }

    /// Gives how much of `input` belongs to the head.
    fn read_head(&mut self, input: &[u8]) -> Result<usize, Invalid> {
        use wire::http1::response::Error;
        let refused = |error| match error {
            Error::TooLarge => Invalid::HeadTooLarge,
            Error::NotHttp | Error::InvalidHeaderLine => Invalid::Head,
        };
        if let Some((length, meaning)) = self.known(input) {
            self.begin_body(meaning, input.get(..length).unwrap_or_default());
            return Ok(length);
        }
        let before = self.pending.len();
        let mut pending = std::mem::take(&mut self.pending);
        if before > 0 {
            pending.extend_from_slice(input);
        }
        let buf = if before > 0 { &pending[..] } else { input };
        let parsed = self.parser.parse(buf, HEAD_MAX).map_err(refused)?;
        let taken = match parsed {
            Some(length) => {
                self.settle(&buf[..length])?;
                length - before
            }
            None => {
                if before == 0 {
                    pending.extend_from_slice(input);
                }
                self.pending = pending;
                return Ok(input.len());
            }
        };
        pending.clear();
        self.pending = pending;
        Ok(taken)
    }

    /// The length and meaning of a head that is the same as the one before.
    fn known(&self, input: &[u8]) -> Option<(usize, Meaning)> {
        let before = self.before.as_ref()?;
        let is_same = self.pending.is_empty()
            && before.to_head == self.to_head
            && input.starts_with(&before.bytes);
        is_same.then_some((before.bytes.len(), before.meaning))
    }

    /// The head is whole: what follows it?
    fn settle(&mut self, bytes: &[u8]) -> Result<(), Invalid> {
        let head = self.parser.head();
        if head.status < 200 && head.status != 101 {
            self.interim += 1;
            self.parser.reset();
            return if self.interim > INTERIM_MAX {
                Err(Invalid::Interim)
            } else {
                Ok(())
            };
        }
        let framing = response_framing(&head.fields, bytes, head.status, self.to_head)
            .map_err(|_| Invalid::Framing)?;
        let connection = head
            .fields
            .iter()
            .filter(|field| field.known == Known::Connection)
            .map(|field| field.value.of(bytes));
        let meaning = Meaning {
            status: head.status,
            keep_alive: keeps_alive(connection, head.version)
                && framing != Framing::UntilClose
                && head.status != 101,
            framing,
        };
        self.remember(bytes, meaning);
        self.begin_body(meaning, bytes);
        Ok(())
    }

    fn remember(&mut self, bytes: &[u8], meaning: Meaning) {
        if bytes.len() > COMPARED_MAX {
            self.before = None;
            return;
        }
        let mut kept = self
            .before
            .take()
            .map_or_else(Vec::new, |before| before.bytes);
        kept.clear();
        kept.extend_from_slice(bytes);
        self.before = Some(Before {
            bytes: kept,
            to_head: self.to_head,
            meaning,
        });
    }

    fn begin_body(&mut self, meaning: Meaning, bytes: &[u8]) {
        self.status = meaning.status;
        self.keep_alive = meaning.keep_alive;
        self.head_bytes = bytes.len() as u64;
        if self.kept.max > 0 || self.kept.always_head {
            self.kept.head.extend_from_slice(bytes);
        }
        self.state = match meaning.framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked(Decoder::new()),
            Framing::UntilClose => State::UntilClose,
        };
    }

    /// The head of a response that did not come as bytes of HTTP/1.
    pub fn start_http2(&mut self, head: &http::response::Parts) {
        self.status = head.status.as_u16();
        self.keep_alive = true;
        if self.kept.max == 0 && !self.kept.always_head {
            return;
        }
        // As patterns expect it.
        let kept = &mut self.kept.head;
        kept.extend_from_slice(format!("HTTP/2 {}\r\n", head.status.as_u16()).as_bytes());
        for (name, value) in &head.headers {
            kept.extend_from_slice(name.as_str().as_bytes());
            kept.extend_from_slice(b": ");
            kept.extend_from_slice(value.as_bytes());
            kept.extend_from_slice(b"\r\n");
        }
    }

    /// A piece of the body, without its framing.
    pub fn take_body(&mut self, data: &[u8]) {
        self.body_bytes += data.len() as u64;
        let room = self.kept.max.saturating_sub(self.kept.body.len());
        if room > 0 {
            self.kept
                .body
                .extend_from_slice(&data[..room.min(data.len())]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the text in two pieces, then ends the connection.
    fn read(text: &str, split: usize, to_head: bool) -> Result<(bool, u16, bool, String), Invalid> {
        let mut reader = Reader::default();
        reader.start(to_head, 1 << 20);
        let (first, second) = text.as_bytes().split_at(split);
        reader.feed(first)?;
        reader.feed(second)?;
        let done = reader.is_done() || reader.end();
        let body = String::from_utf8_lossy(&reader.kept.body).into_owned();
        assert_eq!(reader.received, text.len() as u64);
        assert_eq!(reader.body_bytes, body.len() as u64);
        Ok((done, reader.status, reader.keep_alive, body))
    }

    #[test]
    fn responses_are_read_however_they_are_cut() {
        for (text, status, keep, body) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
                200,
                true,
                "abc",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                200,
                true,
                "",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n0\r\nA: b\r\n\r\n",
                200,
                true,
                "abc",
            ),
            ("HTTP/1.1 404 x\r\n\r\nabc", 404, false, "abc"),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na",
                200,
                false,
                "a",
            ),
            (
                "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na",
                200,
                true,
                "a",
            ),
            (
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na",
                200,
                false,
                "a",
            ),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 204 No\r\n\r\n",
                204,
                true,
                "",
            ),
            (
                "HTTP/1.1 304 Not\r\nContent-Length: 9\r\n\r\n",
                304,
                true,
                "",
            ),
        ] {
            for split in 0..=text.len() {
                let expected = Ok((true, status, keep, body.to_owned()));
                assert_eq!(read(text, split, false), expected, "{text:?} at {split}");
            }
        }
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
        assert_eq!(read(head, 3, true), Ok((true, 200, true, String::new())));
        assert_eq!(read(head, 3, false), Ok((false, 200, true, String::new())));
    }

    /// Heads that are those of the response before, and heads that only begin as they do.
    #[test]
    fn a_head_that_comes_again_means_the_same() {
        let mut reader = Reader::default();
        let ok = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
        let longer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n";
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for (head, body, to_head, keep_alive) in [
            (ok, "abc", false, true),
            (ok, "xyz", false, true),
            (ok, "", true, true),
            (ok, "abc", false, true),
            (longer, "abc", false, false),
            (longer, "abc", false, false),
            (ok, "abc", false, true),
            (chunked, "1\r\na\r\n0\r\n\r\n", false, true),
            (chunked, "0\r\n\r\n", false, true),
        ] {
            let text = format!("{head}{body}");
            for split in 0..text.len() {
                reader.start(to_head, 0);
                reader.kept.always_head = true;
                let (first, second) = text.as_bytes().split_at(split);
                reader.feed(first).unwrap();
                reader.feed(second).unwrap();
                assert!(reader.is_done(), "{text:?} at {split}");
                assert_eq!((reader.status, reader.keep_alive), (200, keep_alive));
                assert_eq!(reader.head_bytes as usize, head.len());
                assert_eq!(reader.kept.head, head.as_bytes());
            }
        }
    }

    #[test]
    fn broken_responses_are_told_apart() {
        let many = "HTTP/1.1 100 C\r\n\r\n".repeat(INTERIM_MAX + 1);
        let large = format!("HTTP/1.1 200 OK\r\nX: {}", "a".repeat(HEAD_MAX));
        for (text, why) in [
            ("SSH-2.0\r\n", Invalid::Head),
            ("HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", Invalid::Head),
            (large.as_str(), Invalid::HeadTooLarge),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
                Invalid::Framing,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx",
                Invalid::Chunk,
            ),
            ("HTTP/1.1 204 No\r\n\r\nabc", Invalid::Surplus),
            (many.as_str(), Invalid::Interim),
        ] {
            assert_eq!(
                read(text, 0, false),
                Err(why),
                "{}",
                &text[..20.min(text.len())]
            );
        }
    }
}
