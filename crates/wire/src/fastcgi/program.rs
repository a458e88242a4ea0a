//! FastCGI 1.0 as the program's side speaks it: requests are read, records of responses are written. One request at a time
//! a connection, under whatever id the web server gives it.

use super::{
    CONTENT_MAX, HEAD_LEN, KEEP_CONNECTION, Kind, PADDING, ROLE_RESPONDER, VERSION, padding,
};
use std::fmt;
use std::ops::Range;

/// Bytes of all parameters of a request.
pub const PARAMS_MAX: usize = 1 << 20;

const BEGIN_LEN: usize = 8;
const ABORT: u8 = 2;
const GET_VALUES: u8 = 9;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    Version(u8),
    /// A record that has no place where it stands.
    Kind(u8),
    Id(u16),
    Role(u16),
    /// The parameters are longer than `PARAMS_MAX`.
    TooLong,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Version(byte) => write!(out, "unsupported FastCGI protocol version: {byte}"),
            Refused::Kind(byte) => write!(out, "unexpected FastCGI record type: {byte}"),
            Refused::Id(id) => write!(out, "unexpected FastCGI request id: {id}"),
            Refused::Role(role) => write!(out, "unsupported FastCGI role: {role}"),
            Refused::TooLong => write!(out, "FastCGI parameters are too long"),
        }
    }
}

/// What a step found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// All of the input was taken, and more is needed.
    More,
    /// The parameters are whole.
    Begun,
    /// Bytes of the standard input, as they stand in the input.
    Body(Range<usize>),
    BodyEnd,
    Aborted,
    /// The web server asks what this side can do; `values_answer` says it.
    Values,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that are dealt with.
    pub consumed: usize,
    pub asked: Asked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Begin,
    Params,
    Body,
    /// The body has ended.
    Done,
}

/// Reads one request, cut anywhere.
#[derive(Debug)]
pub struct Reader {
    part: Part,
    head: [u8; HEAD_LEN],
    head_len: usize,
    /// Bytes of the record still to come.
    content: usize,
    padding: usize,
    begin: Vec<u8>,
    params: Vec<u8>,
    id: u16,
    keep: bool,
    /// The record was looked at, and its end is to be told.
    ended: Option<Asked>,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader {
            part: Part::Begin,
            head: [0; HEAD_LEN],
            head_len: 0,
            content: 0,
            padding: 0,
            begin: Vec::new(),
            params: Vec::new(),
            id: 0,
            keep: false,
            ended: None,
        }
    }
}

impl Reader {
    #[must_use]
    pub fn id(&self) -> u16 {
        self.id
    }

    /// The connection is to stay open after the response.
    #[must_use]
    pub fn keeps(&self) -> bool {
        self.keep
    }

    /// The parameters so far, in their coded form.
    #[must_use]
    pub fn params(&self) -> &[u8] {
        &self.params
    }

    /// Whether nothing of a request has come.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.part == Part::Begin && self.head_len == 0
    }

    /// Reads on in `input` up to the next thing to be told. Call again with what follows `consumed`.
    pub fn read(&mut self, input: &[u8]) -> Result<Step, Refused> {
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            if self.head_len < HEAD_LEN {
                let wanted = rest.len().min(HEAD_LEN - self.head_len);
                let (taken, _) = rest.split_at(wanted);
                let place = self.head.get_mut(self.head_len..self.head_len + wanted);
                place.unwrap_or_default().copy_from_slice(taken);
                self.head_len += wanted;
                at += wanted;
                if self.head_len < HEAD_LEN {
                    return Ok(Step {
                        consumed: at,
                        asked: Asked::More,
                    });
                }
                self.look()?;
                continue;
            }
            if self.content > 0 {
                let taken = rest.len().min(self.content);
                if taken == 0 {
                    return Ok(Step {
                        consumed: at,
                        asked: Asked::More,
                    });
                }
                self.content -= taken;
                let range = at..at + taken;
                at += taken;
                let bytes = input.get(range.clone()).unwrap_or_default();
                if let Some(asked) = self.take(bytes, range)? {
                    return Ok(Step {
                        consumed: at,
                        asked,
                    });
                }
                continue;
            }
            if self.padding > 0 {
                let skipped = rest.len().min(self.padding);
                if skipped == 0 {
                    return Ok(Step {
                        consumed: at,
                        asked: Asked::More,
                    });
                }
                self.padding -= skipped;
                at += skipped;
                continue;
            }
            self.head_len = 0;
            if let Some(asked) = self.ended.take() {
                return Ok(Step {
                    consumed: at,
                    asked,
                });
            }
        }
    }

    /// A head is whole.
    fn look(&mut self) -> Result<(), Refused> {
        let [version, kind, id_high, id_low, high, low, padding, _] = self.head;
        if version != VERSION {
            return Err(Refused::Version(version));
        }
        let id = u16::from_be_bytes([id_high, id_low]);
        self.content = usize::from(u16::from_be_bytes([high, low]));
        self.padding = usize::from(padding);
        let is_own = id == self.id;
        let is_empty = self.content == 0;
        self.ended = match (kind, self.part) {
            (GET_VALUES, Part::Begin) if id == 0 => Some(Asked::Values),
            // What a former request left.
            (kind, Part::Begin) if kind == Kind::Stdin as u8 && is_empty => None,
            (ABORT, Part::Begin) => None,
            (kind, Part::Begin) if kind == Kind::Begin as u8 && self.content == BEGIN_LEN => {
                if id == 0 {
                    return Err(Refused::Id(id));
                }
                self.id = id;
                self.begin.clear();
                None
            }
            (kind, Part::Params) if kind == Kind::Params as u8 && is_own => {
                if is_empty {
                    self.part = Part::Body;
                }
                is_empty.then_some(Asked::Begun)
            }
            (kind, Part::Body) if kind == Kind::Stdin as u8 && is_own => {
                if is_empty {
                    self.part = Part::Done;
                }
                is_empty.then_some(Asked::BodyEnd)
            }
            (ABORT, _) if is_own => Some(Asked::Aborted),
            (kind, part) => {
                let known = part != Part::Begin && !is_own;
                return Err(if known {
                    Refused::Id(id)
                } else {
                    Refused::Kind(kind)
                });
            }
        };
        Ok(())
    }

    /// Some of a record's content.
    fn take(&mut self, bytes: &[u8], range: Range<usize>) -> Result<Option<Asked>, Refused> {
        let kind = self.head.get(1).copied().unwrap_or_default();
        if kind == Kind::Begin as u8 {
            self.begin.extend_from_slice(bytes);
            if let [high, low, flags, ..] = self.begin[..]
                && self.content == 0
            {
                let role = u16::from_be_bytes([high, low]);
                if role != u16::from(ROLE_RESPONDER) {
                    return Err(Refused::Role(role));
                }
                self.keep = flags & KEEP_CONNECTION != 0;
                self.part = Part::Params;
            }
        } else if kind == Kind::Params as u8 {
            if self.params.len() + bytes.len() > PARAMS_MAX {
                return Err(Refused::TooLong);
            }
            self.params.extend_from_slice(bytes);
        } else if kind == Kind::Stdin as u8 {
            return Ok(Some(Asked::Body(range)));
        }
        Ok(None)
    }
}

/// Appends the answer to `Asked::Values`: one request at a time a connection.
pub fn values_answer(out: &mut Vec<u8>) {
    let mut values = Vec::new();
    super::pair(&mut values, b"FCGI_MPXS_CONNS", b"0");
    record(out, GET_VALUES + 1, 0, &values);
}

/// Appends bytes of the response, cut into records as needed; nothing for none.
pub fn stdout(out: &mut Vec<u8>, id: u16, bytes: &[u8]) {
    for piece in bytes.chunks(CONTENT_MAX) {
        record(out, Kind::Stdout as u8, id, piece);
    }
}

/// Appends bytes for the web server's error log.
pub fn stderr(out: &mut Vec<u8>, id: u16, bytes: &[u8]) {
    for piece in bytes.chunks(CONTENT_MAX) {
        record(out, Kind::Stderr as u8, id, piece);
    }
}

/// Appends the end of the response and of the request.
pub fn end(out: &mut Vec<u8>, id: u16, application_status: u32) {
    record(out, Kind::Stdout as u8, id, &[]);
    let [a, b, c, d] = application_status.to_be_bytes();
    record(out, Kind::End as u8, id, &[a, b, c, d, 0, 0, 0, 0]);
}

fn record(out: &mut Vec<u8>, kind: u8, id: u16, content: &[u8]) {
    let padding = padding(content.len());
    let [id_high, id_low] = id.to_be_bytes();
    let [high, low] = u16::try_from(content.len())
        .unwrap_or(u16::MAX)
        .to_be_bytes();
    out.extend_from_slice(&[VERSION, kind, id_high, id_low, high, low, padding, 0]);
    out.extend_from_slice(content);
    out.extend_from_slice(PADDING.get(..usize::from(padding)).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fastcgi::{Decoder, Event, STDIN_END, begin, stdin};

    /// The parameters, the body and what was told of ends.
    type Found = (Vec<u8>, Vec<u8>, Vec<Asked>);

    fn read(pieces: &[&[u8]]) -> Result<Found, Refused> {
        let (mut reader, mut body, mut told) = (Reader::default(), Vec::new(), Vec::new());
        for mut piece in pieces.iter().copied() {
            loop {
                let step = reader.read(piece)?;
                match step.asked {
                    Asked::More => break,
                    Asked::Body(range) => body.extend_from_slice(&piece[range]),
                    asked => told.push(asked),
                }
                piece = &piece[step.consumed..];
            }
        }
        Ok((reader.params().to_vec(), body, told))
    }

    fn request() -> Vec<u8> {
        let mut out = Vec::new();
        let mut params = begin(&mut out, true);
        params.pair(b"REQUEST_METHOD", b"POST");
        params.end().unwrap();
        stdin(&mut out, b"some bytes");
        out.extend_from_slice(&STDIN_END);
        out
    }

    #[test]
    fn a_request_is_read_however_it_is_cut() {
        let request = request();
        let whole = read(&[&request]).unwrap();
        assert_eq!(whole.1, b"some bytes");
        assert_eq!(whole.2, [Asked::Begun, Asked::BodyEnd]);
        assert_eq!(whole.0, super::super::params_of(&request));
        for at in 0..request.len() {
            let (left, right) = request.split_at(at);
            assert_eq!(read(&[left, right]).unwrap(), whole, "{at}");
        }
        let single: Vec<&[u8]> = request.chunks(1).collect();
        assert_eq!(read(&single).unwrap(), whole);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let request = request();
        let with = |at: usize, byte: u8| {
            let mut changed = request.clone();
            changed[at] = byte;
            read(&[&changed]).unwrap_err()
        };
        assert_eq!(with(0, 2), Refused::Version(2));
        assert_eq!(with(1, 6), Refused::Kind(6));
        assert_eq!(with(3, 0), Refused::Id(0));
        assert_eq!(with(9, 3), Refused::Role(3));
        assert_eq!(with(19, 9), Refused::Id(9));
    }

    #[test]
    fn parameters_have_a_limit() {
        let mut request = request()[..16].to_vec();
        for _ in 0..17 {
            record(&mut request, Kind::Params as u8, 1, &[b'x'; CONTENT_MAX]);
        }
        assert_eq!(read(&[&request]).unwrap_err(), Refused::TooLong);
    }

    #[test]
    fn responses_are_what_a_web_server_reads() {
        let mut out = Vec::new();
        stdout(&mut out, 1, &[b'a'; 70000]);
        stderr(&mut out, 1, b"notice");
        end(&mut out, 1, 3);
        let (mut decoder, mut rest, mut length) = (Decoder::new(), &out[..], 0);
        loop {
            let step = decoder.decode(rest).unwrap();
            match step.event {
                Event::Stdout(range) => length += range.len(),
                Event::End {
                    application_status, ..
                } => {
                    assert_eq!((application_status, length), (3, 70000));
                    break;
                }
                Event::More => panic!("it ends"),
                Event::Stderr(_) | Event::StdoutEnd => {}
            }
            rest = &rest[step.consumed..];
        }
    }
}
