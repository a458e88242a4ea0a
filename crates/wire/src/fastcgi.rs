//! FastCGI 1.0 as the web server's side speaks it: requests of the responder role are written, the records of a response
//! are read. One request at a time a connection, always with the id 1, as nginx and every known program have it.

pub mod program;

use std::fmt;
use std::ops::Range;

/// A record's head.
pub const HEAD_LEN: usize = 8;
/// The most content bytes of one record.
pub const CONTENT_MAX: usize = 65535;

const VERSION: u8 = 1;
const REQUEST_ID: u16 = 1;
const ROLE_RESPONDER: u8 = 1;
const KEEP_CONNECTION: u8 = 1;
/// What an END_REQUEST says is so long.
const END_LEN: usize = 8;
/// Records are padded to a multiple of this, which keeps their heads aligned.
const ALIGNMENT: usize = 8;

/// The kinds of records that a responder and its server exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Begin = 1,
    End = 3,
    Params = 4,
    Stdin = 5,
    Stdout = 6,
    Stderr = 7,
}

/// The parameters do not fit one record; programs do not join records, so nothing else can be done. Holds their length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig(pub usize);

impl fmt::Display for TooBig {
    /// nginx's words for its log.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "fastcgi request record is too big: {}", self.0)
    }
}

fn head(kind: Kind, content: u16, padding: u8) -> [u8; HEAD_LEN] {
    let [id_high, id_low] = REQUEST_ID.to_be_bytes();
    let [length_high, length_low] = content.to_be_bytes();
    let kind = kind as u8;
    [
        VERSION,
        kind,
        id_high,
        id_low,
        length_high,
        length_low,
        padding,
        0,
    ]
}

fn padding(content: usize) -> u8 {
    (content.next_multiple_of(ALIGNMENT) - content) as u8
}

/// Ends the standard input; needed even where there is none.
pub const STDIN_END: [u8; HEAD_LEN] = [VERSION, Kind::Stdin as u8, 0, 1, 0, 0, 0, 0];

/// Appends the beginning of a request and its parameters, whole. `keep` asks the program to leave the connection open.
///
/// ```
/// let mut out = Vec::new();
/// let mut params = wire::fastcgi::begin(&mut out, true);
/// params.pair(b"REQUEST_METHOD", b"GET");
/// params.end().unwrap();
/// out.extend_from_slice(&wire::fastcgi::STDIN_END);
/// ```
pub fn begin(out: &mut Vec<u8>, keep: bool) -> Params<'_> {
    out.extend_from_slice(&head(Kind::Begin, 8, 0));
    let flags = if keep { KEEP_CONNECTION } else { 0 };
    out.extend_from_slice(&[0, ROLE_RESPONDER, flags, 0, 0, 0, 0, 0]);
    let start = out.len();
    // Its length is written at the end.
    out.extend_from_slice(&head(Kind::Params, 0, 0));
    Params { out, start }
}

/// The parameters of a request that is being written.
#[derive(Debug)]
pub struct Params<'a> {
    out: &'a mut Vec<u8>,
    /// Where the head of their record stands.
    start: usize,
}

impl Params<'_> {
    pub fn pair(&mut self, name: &[u8], value: &[u8]) {
        pair(self.out, name, value);
    }

    /// A pair whose name is `prefix` and `name`, which need not be joined first.
    pub fn prefixed_pair(&mut self, prefix: &[u8], name: &[u8], value: &[u8]) {
        length(self.out, prefix.len() + name.len());
        length(self.out, value.len());
        for part in [prefix, name, value] {
            self.out.extend_from_slice(part);
        }
    }

    /// A pair whose value `write` appends; it says whether the pair is to stay. The length of the value takes four bytes
    /// whatever it is, for it comes before.
    pub fn pair_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let start = self.out.len();
        length(self.out, name.len());
        let place = self.out.len();
        self.out.extend_from_slice(&long_length(0));
        self.out.extend_from_slice(name);
        let from = self.out.len();
        if write(self.out) {
            let value = self.out.len().saturating_sub(from);
            self.out[place..place + 4].copy_from_slice(&long_length(value));
        } else {
            self.out.truncate(start);
        }
    }

    /// Ends the parameters. On failure the vector holds no more than before `begin`.
    pub fn end(self) -> Result<(), TooBig> {
        let content = self.out.len() - self.start - HEAD_LEN;
        let Ok(size) = u16::try_from(content) else {
            // The BEGIN_REQUEST goes, too: its head and its eight bytes.
            self.out.truncate(self.start - 2 * HEAD_LEN);
            return Err(TooBig(content));
        };
        if content > 0 {
            let padding = padding(content);
            let head = head(Kind::Params, size, padding);
            self.out[self.start..self.start + HEAD_LEN].copy_from_slice(&head);
            self.out.resize(self.out.len() + usize::from(padding), 0);
            self.out.extend_from_slice(&self::head(Kind::Params, 0, 0));
        }
        // Without any the empty record, which ends them, is there already.
        Ok(())
    }
}

/// The parameters of a request as `begin` and `Params::end` have written it.
pub fn params_of(request: &[u8]) -> &[u8] {
    let record = request.get(2 * HEAD_LEN..).unwrap_or_default();
    match record {
        [_, _, _, _, high, low, _, _, content @ ..] => {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            content.get(..length).unwrap_or_default()
        }
        _ => &[],
    }
}

/// Appends one name-value pair in its coded form.
pub fn pair(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    length(out, name.len());
    length(out, value.len());
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

fn length(out: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short @ 0..=127) => out.push(short),
        _ => out.extend_from_slice(&long_length(length)),
    }
}

/// Four bytes, the first bit set. Lengths of 2 GB and more cannot be said; `Params::end` refuses them long before.
fn long_length(length: usize) -> [u8; 4] {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    (length | 1 << 31).to_be_bytes()
}

/// Reads the pairs of a parameter record; ends at the first that is cut off, after which `rest` is not empty.
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    rest: &'a [u8],
}

impl<'a> Pairs<'a> {
    pub fn new(content: &'a [u8]) -> Pairs<'a> {
        Pairs { rest: content }
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name_len, rest) = take_length(self.rest)?;
        let (value_len, rest) = take_length(rest)?;
        let (name, rest) = rest.split_at_checked(name_len)?;
        let (value, rest) = rest.split_at_checked(value_len)?;
        self.rest = rest;
        Some((name, value))
    }
}

fn take_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [short @ 0..=127, rest @ ..] => Some((usize::from(*short), rest)),
        [a, b, c, d, rest @ ..] => {
            let length = u32::from_be_bytes([a & 0x7f, *b, *c, *d]);
            Some((usize::try_from(length).ok()?, rest))
        }
        _ => None,
    }
}

/// What stands before a piece of standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StdinHead {
    pub head: [u8; HEAD_LEN],
    /// So many bytes follow the piece, whatever they are; `PADDING` has enough of them.
    pub padding: u8,
}

/// Bytes to pad a record with.
pub const PADDING: [u8; ALIGNMENT] = [0; ALIGNMENT];

impl StdinHead {
    /// For a piece of `length` bytes, more than 0 (an empty one would end the input) and at most `CONTENT_MAX`.
    pub fn new(length: usize) -> StdinHead {
        debug_assert!(
            (1..=CONTENT_MAX).contains(&length),
            "a piece of {length} bytes"
        );
        let padding = padding(length);
        let length = length.min(CONTENT_MAX) as u16;
        StdinHead {
            head: head(Kind::Stdin, length, padding),
            padding,
        }
    }
}

/// Appends a piece of standard input of any length, cut into records as needed; nothing for an empty one.
pub fn stdin(out: &mut Vec<u8>, data: &[u8]) {
    for piece in data.chunks(CONTENT_MAX) {
        let head = StdinHead::new(piece.len());
        out.extend_from_slice(&head.head);
        out.extend_from_slice(piece);
        out.extend_from_slice(&PADDING[..usize::from(head.padding)]);
    }
}

/// How the program says a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolStatus {
    Complete,
    /// It speaks with one server at a time.
    CannotMultiplex,
    Overloaded,
    UnknownRole,
    /// None of FastCGI 1.0.
    Other(u8),
}

impl ProtocolStatus {
    fn from_byte(byte: u8) -> ProtocolStatus {
        match byte {
            0 => ProtocolStatus::Complete,
            1 => ProtocolStatus::CannotMultiplex,
            2 => ProtocolStatus::Overloaded,
            3 => ProtocolStatus::UnknownRole,
            other => ProtocolStatus::Other(other),
        }
    }
}

/// Why a response is refused; the text is nginx's, to stand after "upstream sent ".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    Version(u8),
    Kind(u8),
    IdHigh(u8),
    IdLow(u8),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Version(byte) => write!(out, "unsupported FastCGI protocol version: {byte}"),
            Error::Kind(byte) => write!(out, "invalid FastCGI record type: {byte}"),
            Error::IdHigh(byte) => write!(out, "unexpected FastCGI request id high byte: {byte}"),
            Error::IdLow(byte) => write!(out, "unexpected FastCGI request id low byte: {byte}"),
        }
    }
}

/// What a step of the decoder found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// All of the input was taken, and more is needed.
    More,
    /// Bytes of the response, as they stand in the input.
    Stdout(Range<usize>),
    /// Bytes for the error log.
    Stderr(Range<usize>),
    /// The response is over; more of standard error may follow.
    StdoutEnd,
    /// The request is over, and the connection free for another if it was to be kept.
    End {
        application_status: u32,
        protocol_status: ProtocolStatus,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that are dealt with.
    pub consumed: usize,
    pub event: Event,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Content,
    Padding,
    Done,
}

/// Reads one response, cut anywhere.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    kind: Kind,
    /// Bytes of the head, or of an END_REQUEST's content, so far.
    kept: [u8; HEAD_LEN],
    kept_len: usize,
    /// Bytes of the content still to come.
    content: u16,
    padding: u8,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    pub fn new() -> Decoder {
        Decoder {
            state: State::Head,
            kind: Kind::Stdout,
            kept: [0; HEAD_LEN],
            kept_len: 0,
            content: 0,
            padding: 0,
        }
    }

    /// `Event::End` was reported. Bytes after it belong to nothing: a connection that has them cannot be used again.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// How many bytes of content the record being read still has: so many can be moved without looking at them.
    pub fn content_left(&self) -> usize {
        match self.state {
            State::Content => usize::from(self.content),
            _ => 0,
        }
    }

    /// Reads on in `input` up to the next event. Call again with what follows `consumed`.
    pub fn decode(&mut self, input: &[u8]) -> Result<Step, Error> {
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            if rest.is_empty() && self.needs_input() {
                return Ok(Step {
                    consumed: at,
                    event: Event::More,
                });
            }
            let start = at;
            let event = match self.state {
                State::Head => {
                    at += self.keep(rest, HEAD_LEN);
                    self.head()?
                }
                State::Content => {
                    let take = rest.len().min(usize::from(self.content));
                    at += take;
                    self.take_content(&rest[..take], start)
                }
                State::Padding => {
                    let take = rest.len().min(usize::from(self.padding));
                    at += take;
                    self.padding -= take as u8;
                    if self.padding > 0 {
                        None
                    } else {
                        self.record_ended()
                    }
                }
                State::Done => Some(Event::More),
            };
            if let Some(event) = event {
                return Ok(Step {
                    consumed: at,
                    event,
                });
            }
        }
    }

    /// Whether nothing can happen without another byte: the end of a record may be told without one.
    fn needs_input(&self) -> bool {
        match self.state {
            State::Head | State::Done => true,
            State::Content => self.content > 0,
            State::Padding => self.padding > 0,
        }
    }

    /// Keeps bytes until there are `target` of them; gives how many it took.
    fn keep(&mut self, bytes: &[u8], target: usize) -> usize {
        let take = bytes.len().min(target.saturating_sub(self.kept_len));
        self.kept[self.kept_len..self.kept_len + take].copy_from_slice(&bytes[..take]);
        self.kept_len += take;
        take
    }

    /// Looks at a head that is whole; each of its bytes is judged in nginx's order.
    fn head(&mut self) -> Result<Option<Event>, Error> {
        if self.kept_len < HEAD_LEN {
            return Ok(None);
        }
        let [
            version,
            kind,
            id_high,
            id_low,
            length_high,
            length_low,
            padding,
            _,
        ] = self.kept;
        if version != VERSION {
            return Err(Error::Version(version));
        }
        self.kind = match kind {
            3 => Kind::End,
            6 => Kind::Stdout,
            7 => Kind::Stderr,
            other => return Err(Error::Kind(other)),
        };
        if id_high != 0 {
            return Err(Error::IdHigh(id_high));
        }
        if id_low != 1 {
            return Err(Error::IdLow(id_low));
        }
        self.kept_len = 0;
        self.content = u16::from_be_bytes([length_high, length_low]);
        self.padding = padding;
        let empty_stdout = self.kind == Kind::Stdout && self.content == 0;
        if self.kind == Kind::End {
            // What a short one leaves out is 0.
            self.kept = [0; HEAD_LEN];
        }
        self.state = match self.content {
            0 => State::Padding,
            _ => State::Content,
        };
        Ok(empty_stdout.then_some(Event::StdoutEnd))
    }

    /// `at` is where the bytes stand in the input.
    fn take_content(&mut self, bytes: &[u8], at: usize) -> Option<Event> {
        self.content -= bytes.len() as u16;
        if self.content == 0 {
            self.state = State::Padding;
        }
        let range = at..at + bytes.len();
        match self.kind {
            Kind::Stdout => Some(Event::Stdout(range)),
            Kind::Stderr => Some(Event::Stderr(range)),
            _ => {
                self.keep(bytes, END_LEN);
                None
            }
        }
    }

    /// After the padding.
    fn record_ended(&mut self) -> Option<Event> {
        self.kept_len = 0;
        if self.kind != Kind::End {
            self.state = State::Head;
            return None;
        }
        self.state = State::Done;
        let [a, b, c, d, status, ..] = self.kept;
        Some(Event::End {
            application_status: u32::from_be_bytes([a, b, c, d]),
            protocol_status: ProtocolStatus::from_byte(status),
        })
    }
}

#[cfg(test)]
mod tests;
