//! `slice`: a response that was asked for in pieces (`$slice_range`) becomes one. Its first piece is there; the others are
//! asked for by requests inside the first, each when the one before was read. Ranges are cut of the whole.

use super::ssi::Asked;
use crate::config::directive::{Arity, HSL, Set, row, size};
use crate::http::body::{BodyError, BodyStream, Chunk};
use crate::http::sliced::Sliced;
use crate::http::{Body, Interrupt, Phase, Request, Response, body_reader};
use crate::log::error::{Level, write_request};
use bytes::{Buf, Bytes};
use conf::table::Row;
use std::ops::Range;
use std::task::{Context, Poll, ready};

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "slice",
    HSL,
    Arity::Exactly(1),
    |b, d| size(&mut b.location().slice.size, d),
    "Bytes of the pieces that a response is asked for in; 0: it is asked for as a whole.",
)];

crate::config::setting::settings! {
    size: u64 = 0,
}

/// Bytes read from a file at once.
const READ: usize = 64 * 1024;

/// How pieces are asked for; the filters stand below the phases.
#[derive(Clone, Copy)]
pub struct Asking {
    /// The same request for as long as its body goes on.
    pub twin: fn(&Request) -> Box<Request>,
    /// Has a request for the piece that begins here answered, which is logged under this status; `None`: it would stand
    /// too deep.
    pub ask: fn(&Request, u64, u16) -> Option<Asked>,
}

/// Where a piece lies, and of how much.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    range: Range<u64>,
    complete: u64,
}

/// Makes the whole response of its first piece.
pub fn apply(request: &Request, response: &mut Response, asking: Asking) -> Phase {
    let Sliced::From(start) = request.sliced.get() else {
        return Ok(());
    };
    if response.status != 206 {
        request.sliced.set(Sliced::Over);
        return Ok(());
    }
    let size = request.location().settings.slice.size;
    let place = place_of(response, start, size).map_err(|reason| {
        write_request(request, Level::Error, format_args!("{reason}"));
        request.sent.status.set(206);
        Interrupt::Hangup
    })?;
    response.status = 200;
    response.status_line = None;
    response.content_length = Some(place.complete);
    response.take_out("Content-Range");
    response.take_out("Accept-Ranges");
    response.accept_ranges = false;
    response.allow_ranges = true;
    response.single_range = true;
    if !request.is_head() {
        response.body = Body::Stream(Box::new(Slices {
            etag: response.etag.clone(),
            current: Some(body_reader::stream(
                std::mem::take(&mut response.body),
                READ,
            )),
            request: (asking.twin)(request),
            asking,
            asked: None,
            asked_from: 0,
            size,
            complete: place.complete,
            at: place.range.start,
            end: place.range.end,
            from: 0,
            status: 200,
        }));
    }
    Ok(())
}

/// Checks that a response is the piece that was asked for; an error in nginx's words.
fn place_of(response: &Response, start: u64, size: u64) -> Result<Place, String> {
    let field = response.headers.find("Content-Range");
    let read = field.and_then(|field| content_range(field));
    let Some((range, complete)) = read else {
        return Err("invalid range in slice response".into());
    };
    let Some(complete) = complete else {
        return Err("no complete length in slice response".into());
    };
    let end = start.saturating_add(size).min(complete);
    if range != (start..end) {
        let Range { start, end } = range;
        return Err(format!("unexpected range in slice response: {start}-{end}"));
    }
    Ok(Place { range, complete })
}

/// Reads a Content-Range (RFC 9110 section 14.4), with blanks where nginx takes them.
fn content_range(value: &[u8]) -> Option<(Range<u64>, Option<u64>)> {
    let mut rest = value.strip_prefix(b"bytes ")?;
    let start = number(&mut rest)?;
    literal(&mut rest, b'-')?;
    let last = number(&mut rest)?;
    literal(&mut rest, b'/')?;
    skip_blanks(&mut rest);
    let complete = match rest.strip_prefix(b"*") {
        Some(behind) => {
            rest = behind;
            None
        }
        None => Some(number(&mut rest)?),
    };
    rest.is_empty().then_some(())?;
    Some((start..last.checked_add(1)?, complete))
}

fn skip_blanks(rest: &mut &[u8]) {
    while let Some(behind) = rest.strip_prefix(b" ") {
        *rest = behind;
    }
}

fn literal(rest: &mut &[u8], byte: u8) -> Option<()> {
    skip_blanks(rest);
    *rest = rest.strip_prefix(&[byte])?;
    Some(())
}

/// A number between blanks.
fn number(rest: &mut &[u8]) -> Option<u64> {
    skip_blanks(rest);
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    let number = conf::values::parse_number(digits)?;
    skip_blanks(rest);
    Some(number)
}

/// A body in pieces.
struct Slices {
    /// What the pieces are asked for inside of.
    request: Box<Request>,
    asking: Asking,
    etag: Option<Bytes>,
    size: u64,
    /// As the first piece has it; another word of a later one is met when nothing comes.
    complete: u64,
    /// The piece that is read, where its next byte lies in the whole, and where it ends.
    current: Option<Box<dyn BodyStream>>,
    at: u64,
    end: u64,
    /// The piece that is asked for.
    asked: Option<Asked>,
    asked_from: u64,
    /// The next byte that is wanted.
    from: u64,
    /// Of the response: 200, or 206 where a range is cut of it.
    status: u16,
}

impl Slices {
    fn fail(&self, request: &Request, reason: &str) -> BodyError {
        write_request(request, Level::Error, format_args!("{reason}"));
        BodyError {
            reason: reason.into(),
        }
    }

    fn ask(&mut self) -> Result<(), BodyError> {
        let is_next = self.from >= self.end && self.from - self.end < self.size;
        self.asked_from = match is_next {
            true => self.end,
            false => self.from - self.from % self.size,
        };
        self.asked = (self.asking.ask)(&self.request, self.asked_from, self.status);
        match self.asked {
            Some(_) => Ok(()),
            None => Err(self.fail(&self.request, "subrequests cycle in slice response")),
        }
    }

    /// A piece that was asked for has come.
    fn take(&mut self, request: &Request, response: Option<Response>) -> Result<(), BodyError> {
        let Some(response) = response else {
            return Err(self.fail(request, "missing slice response"));
        };
        if response.status != 206 {
            let reason = format!(
                "unexpected status code {} in slice response",
                response.status
            );
            return Err(self.fail(request, &reason));
        }
        if self.etag.is_some() && self.etag != response.etag {
            return Err(self.fail(request, "etag mismatch in slice response"));
        }
        self.etag.clone_from(&response.etag);
        let place = place_of(&response, self.asked_from, self.size)
            .map_err(|reason| self.fail(request, &reason))?;
        self.at = place.range.start;
        self.end = place.range.end;
        self.current = Some(body_reader::stream(response.body, READ));
        Ok(())
    }

    /// What of a chunk of the piece that is read is wanted.
    fn cut(&mut self, mut chunk: Chunk) -> Chunk {
        let length = chunk.bytes.len() as u64;
        let before = self.from.saturating_sub(self.at).min(length);
        chunk.bytes.advance(before as usize);
        self.at += length;
        self.from = self.from.max(self.at);
        chunk
    }
}

impl BodyStream for Slices {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        loop {
            if self.current.is_some() && self.from < self.at {
                // No range was cut, although one was asked for: the whole is wanted.
                self.current = None;
            }
            if let Some(current) = &mut self.current {
                match ready!(current.poll_chunk(context)) {
                    Some(Ok(chunk)) => {
                        let wanted = self.from < self.at + chunk.bytes.len() as u64;
                        let chunk = self.cut(chunk);
                        if self.at > self.end {
                            let error = self.fail(&self.request, "too long slice response");
                            return Poll::Ready(Some(Err(error)));
                        }
                        if wanted || chunk.flush {
                            return Poll::Ready(Some(Ok(chunk)));
                        }
                    }
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None if self.at < self.end => {
                        let error = self.fail(&self.request, "too short slice response");
                        return Poll::Ready(Some(Err(error)));
                    }
                    None => self.current = None,
                }
                continue;
            }
            if let Some(asked) = &mut self.asked {
                let (request, response) = ready!(asked.as_mut().poll(context));
                self.asked = None;
                if let Err(error) = self.take(&request, response) {
                    return Poll::Ready(Some(Err(error)));
                }
                continue;
            }
            if self.from >= self.complete {
                return Poll::Ready(None);
            }
            if let Err(error) = self.ask() {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) {
        if let Some(current) = &mut self.current {
            current.poll_fill(context);
        }
    }

    /// What lies before is not asked for.
    fn leave_out(&mut self, bytes: u64) -> u64 {
        self.from = bytes;
        self.status = 206;
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_read_as_nginx_reads_them() {
        for (value, expected) in [
            ("bytes 0-9/100", Some((0..10, Some(100)))),
            ("bytes  0 - 9 / 100 ", Some((0..10, Some(100)))),
            ("bytes 5-9/*", Some((5..10, None))),
            ("bytes 5-9/", None),
            ("bytes 5-/10", None),
            ("bytes 5-9/10x", None),
            ("bytes=5-9/10", None),
            ("bytes */10", None),
            ("bytes 5-99999999999999999999/10", None),
            ("", None),
        ] {
            assert_eq!(content_range(value.as_bytes()), expected, "{value}");
        }
    }
}
