//! Reading the head of an upstream's response.

use super::body::Framing;
use super::early_hints;
use super::failure::{Failure, Stage};
use super::line::Line;
use super::response_head;
use super::settings::{Family, Settings};
use crate::http::Request;
use crate::http::trace::{Attempt, Late, Severity};
use crate::net::Timer;
use std::task::Poll;
use wire::fastcgi::{self, Event};
use wire::http1::Known;
use wire::http1::Version;
use wire::http1::body::{Framing as HttpFraming, response_framing};
use wire::http1::response::{Head, Parser};

/// A response whose head has come.
pub struct Answer {
    /// The head as it came, and of HTTP what came behind it.
    pub buffer: Vec<u8>,
    pub head_length: usize,
    pub head: Head,
    pub from: From,
    /// It came before the request was sent whole.
    pub is_early: bool,
}

impl Answer {
    /// The head as it came.
    #[must_use]
    pub fn head_bytes(&self) -> &[u8] {
        self.buffer.get(..self.head_length).unwrap_or_default()
    }
}

/// What is known of the rest.
pub enum From {
    Http,
    /// A stream of HTTP/2.
    Http2 {
        no_body: bool,
    },
    /// The records of a program, those behind the head not read yet.
    FastCgi {
        decoder: Box<fastcgi::Decoder>,
        rest: Vec<u8>,
    },
}

/// What reading some bytes came to.
enum Step {
    More,
    Whole(usize),
}

/// Reads a head.
pub struct Receiver<'a> {
    pub request: &'a Request,
    pub settings: &'a Settings,
    pub attempt: &'a Attempt,
    pub late: &'a Late,
    pub fastcgi: &'a super::fastcgi::Settings,
}

impl Receiver<'_> {
    /// With `sending` the request is not whole yet: `None` if it was but an interim response, so that the rest is sent.
    pub async fn receive(
        &self,
        line: &Line,
        family: Family,
        timer: &mut Timer,
        sending: bool,
    ) -> Result<Option<Answer>, Failure> {
        match family {
            Family::Proxy => self.http(line, timer, sending).await,
            Family::FastCgi => self.fastcgi(line, timer).await.map(Some),
        }
    }

    /// Reads once, and hands what came to `take`.
    async fn read<T>(
        &self,
        line: &Line,
        timer: &mut Timer,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Failure> {
        let stage = Stage::ReadingHead;
        let mut take = Some(take);
        let mut waiting = false;
        let read = std::future::poll_fn(|context| {
            let polled = line.poll_read(context, |bytes| {
                let received = &self.attempt.bytes_received;
                received.set(received.get() + bytes.len() as u64);
                match bytes {
                    [] => None,
                    bytes => take.take().map(|take| take(bytes)),
                }
            });
            match polled {
                Poll::Ready(Ok(Some(taken))) => return Poll::Ready(Ok(taken)),
                Poll::Ready(Ok(None)) => return Poll::Ready(Err(Failure::Closed(stage))),
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(Err(Failure::call("recv()", error, stage)));
                }
                Poll::Pending => {}
            }
            if self.settings.heeds_client(self.request)
                && self.request.poll_client_ended(context).is_ready()
            {
                return Poll::Ready(Err(Failure::ClientGone(stage)));
            }
            if !std::mem::replace(&mut waiting, true) {
                timer.set(self.settings.read_timeout_ms);
            }
            timer
                .poll_expired(context)
                .map(|()| Err(Failure::TimedOut(stage)))
        })
        .await;
        if waiting {
            timer.clear();
        }
        read
    }

    async fn http(
        &self,
        line: &Line,
        timer: &mut Timer,
        sending: bool,
    ) -> Result<Option<Answer>, Failure> {
        let mut parser = Parser::new();
        let mut buffer = Vec::new();
        loop {
            self.read(line, timer, |bytes| buffer.extend_from_slice(bytes))
                .await?;
            while let Step::Whole(length) = self.parse(&mut parser, &buffer)? {
                let head = parser.head();
                // Interim responses are not the answer; 101 is one.
                if !matches!(head.status, 100 | 102..=199) {
                    response_head::check(Family::Proxy, head, &buffer).map_err(Failure::Invalid)?;
                    return Ok(Some(Answer {
                        head: parser.take_head(),
                        head_length: length,
                        buffer,
                        from: From::Http,
                        is_early: false,
                    }));
                }
                early_hints::pass(self.request, head, &buffer);
                buffer.drain(..length);
                parser.reset();
                if buffer.is_empty() && sending {
                    return Ok(None);
                }
                if buffer.is_empty() {
                    break;
                }
            }
        }
    }

    fn parse(&self, parser: &mut Parser, buffer: &[u8]) -> Result<Step, Failure> {
        let most = usize::try_from(self.settings.buffer_size).unwrap_or(usize::MAX);
        match parser.parse(buffer, most) {
            Ok(Some(length)) => Ok(Step::Whole(length)),
            Ok(None) => Ok(Step::More),
            Err(error) => Err(Failure::Invalid(error.to_string())),
        }
    }

    async fn fastcgi(&self, line: &Line, timer: &mut Timer) -> Result<Answer, Failure> {
        let mut parser = Parser::for_cgi();
        let mut decoder = Box::new(fastcgi::Decoder::new());
        let mut buffer = Vec::new();
        loop {
            let mut read = self.read(line, timer, <[u8]>::to_vec).await?;
            let mut at = 0;
            loop {
                let step = decoder
                    .decode(&read[at..])
                    .map_err(|error| Failure::Invalid(format!("upstream sent {error}")))?;
                let data = match step.event {
                    Event::More => break,
                    Event::Stdout(range) => Some(range),
                    Event::Stderr(range) => {
                        self.complain(&read[at..][range])?;
                        None
                    }
                    Event::StdoutEnd => None,
                    Event::End { .. } => {
                        let text = "upstream prematurely closed FastCGI stdout";
                        return Err(Failure::Invalid(text.into()));
                    }
                };
                if let Some(range) = data {
                    buffer.extend_from_slice(&read[at..][range]);
                }
                at += step.consumed;
                if let Step::Whole(length) = self.parse(&mut parser, &buffer)? {
                    read.drain(..at);
                    let mut head = parser.take_head();
                    head.status = response_head::check(Family::FastCgi, &head, &buffer)
                        .map_err(Failure::Invalid)?;
                    return Ok(Answer {
                        head,
                        head_length: length,
                        buffer,
                        from: From::FastCgi {
                            decoder,
                            rest: read,
                        },
                        is_early: false,
                    });
                }
            }
        }
    }

    /// What a program writes to its standard error is for the log; `fastcgi_catch_stderr` may make it fail.
    fn complain(&self, bytes: &[u8]) -> Result<(), Failure> {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\r', '\n']);
        let stage = Stage::ReadingHead.as_str();
        self.late.say(
            Severity::Error,
            format!("FastCGI sent in stderr: \"{text}\" {stage}"),
        );
        match self.fastcgi.catches(bytes) {
            true => Err(Failure::Invalid("FastCGI stderr was caught".into())),
            false => Ok(()),
        }
    }
}

impl Answer {
    /// How the end of the body is found, `None` if there is no body; and the length that the response says it has. An error
    /// is in nginx's words.
    pub fn framing(
        &mut self,
        to_head: bool,
        keep: bool,
    ) -> Result<(Option<Framing>, Option<u64>), String> {
        let length = self
            .head
            .value(Known::ContentLength, &self.buffer)
            .and_then(wire::http1::body::parse_content_length);
        if let From::FastCgi { decoder, .. } = &mut self.from {
            let framing = Framing::FastCgi {
                decoder: std::mem::take(decoder),
                left: length.filter(|_| !to_head && !matches!(self.head.status, 204 | 304)),
                keep,
            };
            return Ok((Some(framing), length));
        }
        if let From::Http2 { no_body } = self.from {
            let has_none = no_body || to_head || matches!(self.head.status, 204 | 304);
            return Ok(((!has_none).then_some(Framing::UntilClose), length));
        }
        let framing = response_framing(&self.head.fields, &self.buffer, self.head.status, to_head)
            .map_err(|error| format!("upstream sent invalid response: {}", error.as_str()))?;
        Ok(match framing {
            HttpFraming::None => (None, length),
            HttpFraming::Length(length) => (Some(Framing::Length(length)), Some(length)),
            HttpFraming::Chunked => {
                let decoder = wire::http1::chunked::Decoder::keeping_trailers();
                (Some(Framing::Chunked(Box::new(decoder))), None)
            }
            HttpFraming::UntilClose => (Some(Framing::UntilClose), None),
        })
    }

    /// Whether an HTTP upstream leaves the connection open.
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        if let From::FastCgi { .. } | From::Http2 { .. } = self.from {
            return true;
        }
        let closes = self.head.fields.iter().any(|field| {
            let value = field.value.of(&self.buffer).to_ascii_lowercase();
            field.known == Known::Connection && memchr::memmem::find(&value, b"close").is_some()
        });
        self.head.version >= Version::Http11 && !closes
    }
}
