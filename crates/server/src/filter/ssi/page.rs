//! A page with commands as a stream: its text, and the bodies of what it includes, in their order. Included pages are asked
//! for as soon as their command was read, so that several are on their way at a time.

use super::Asking;
use super::command::{self, Done};
use super::include::Include;
use crate::http::Request;
use crate::http::body::{BodyError, BodyStream, Chunk};
use crate::log::error::{Level, write_request};
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::fmt;
use std::task::{Context, Poll};
use wire::ssi::{Event, Parser};

/// Included pages of one page that are asked for ahead of their turn.
const AHEAD_MAX: usize = 16;
/// Bytes of text that wait behind an included page.
const TEXT_MAX: usize = 256 * 1024;
/// What is put in place of a command that failed.
const ERROR: &[u8] = b"[an error occurred while processing the directive]";

/// Where a page stands among `if`, `elif`, `else` and `endif`; only one level of them is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    #[default]
    None,
    If,
    Else,
}

/// How `echo` writes values.
#[derive(Debug, Clone, Copy)]
pub enum Encoding {
    None,
    Url,
    Entity,
}

/// A page whose commands are carried out.
pub struct Page {
    pub request: Box<Request>,
    pub asking: Asking,
    source: Box<dyn BodyStream>,
    parser: Parser,
    /// What is left of the piece being read.
    input: Bytes,
    has_ended: bool,
    queue: VecDeque<Item>,
    /// Bytes of text in the queue.
    queued: usize,
    pub condition: Condition,
    /// A branch was chosen.
    pub is_chosen: bool,
    /// Text goes into the response.
    pub is_shown: bool,
    /// The block whose text is being kept.
    pub block: Option<usize>,
    pub error: Bytes,
    pub encoding: Encoding,
    /// The subject and groups of the last pattern that matched.
    pub captures: crate::http::request::Captures,
}

enum Item {
    Text(Vec<u8>),
    Include(Box<Include>),
}

impl Page {
    #[must_use]
    pub fn new(request: Box<Request>, asking: Asking, source: Box<dyn BodyStream>) -> Page {
        let value_max = request.location().settings.ssi.value_length;
        Page {
            parser: Parser::new(usize::try_from(value_max).unwrap_or(usize::MAX)),
            request,
            asking,
            source,
            input: Bytes::new(),
            has_ended: false,
            queue: VecDeque::new(),
            queued: 0,
            condition: Condition::None,
            is_chosen: false,
            is_shown: true,
            block: None,
            error: Bytes::from_static(ERROR),
            encoding: Encoding::Entity,
            captures: Default::default(),
        }
    }

    /// Tells the error log what is wrong with a command.
    pub fn complain(&self, message: fmt::Arguments<'_>) {
        write_request(
            &self.request,
            Level::Error,
            format_args!("{message} while sending response to client"),
        );
    }

    /// Puts text into the response, as it is now.
    pub fn put(&mut self, text: &[u8]) {
        self.queued += text.len();
        match self.queue.back_mut() {
            Some(Item::Text(before)) => before.extend_from_slice(text),
            _ if text.is_empty() => {}
            _ => self.queue.push_back(Item::Text(text.to_vec())),
        }
    }

    /// The page's own text: into the response, or to the block that it stands in.
    fn put_own(&mut self, text: &[u8]) {
        if self.is_shown {
            return self.put(text);
        }
        if let Some(block) = self.block {
            command::keep_in_block(self, block, text);
        }
    }

    /// Whether more of the page may be read: not behind an included page that is waited for, nor too far ahead.
    fn may_read(&self) -> bool {
        if self.queued > TEXT_MAX {
            return false;
        }
        let mut ahead = 0;
        for item in &self.queue {
            if let Item::Include(include) = item {
                ahead += 1;
                if include.waits || ahead == AHEAD_MAX {
                    return false;
                }
            }
        }
        true
    }

    /// Reads what there is of the page, as far as that may be done now.
    fn read(&mut self) {
        let mut input = std::mem::take(&mut self.input);
        while !input.is_empty() && self.may_read() {
            let mut text = Vec::new();
            let mut rest = &input[..];
            let event = self.parser.next(&mut rest, &mut text);
            let taken = input.len() - rest.len();
            input.advance(taken);
            self.put_own(&text);
            match event {
                None => {}
                Some(Event::Complaint(complaint)) => self.complain(format_args!("{complaint}")),
                Some(Event::Broken) => self.put_error(),
                Some(Event::Command(command)) => match command::carry_out(self, &command) {
                    Ok(Done::Nothing) => {}
                    Ok(Done::Text(text)) => self.put(&text),
                    Ok(Done::Include(include)) => self.queue.push_back(Item::Include(include)),
                    Err(()) => self.put_error(),
                },
            }
        }
        self.input = input;
    }

    /// As in nginx also where text is left out.
    fn put_error(&mut self) {
        if !self.request.location().settings.ssi.silent_errors {
            let error = self.error.clone();
            self.put(&error);
        }
    }

    /// The next piece of what stands first; `None`: nothing can be sent before more is read.
    fn poll_first(&mut self, context: &mut Context<'_>) -> Option<Poll<Chunk>> {
        for item in &mut self.queue {
            if let Item::Include(include) = item {
                include.poll_answer(context, self.asking);
            }
        }
        while let Some(item) = self.queue.front_mut() {
            let bytes = match item {
                Item::Text(text) => {
                    let text = std::mem::take(text);
                    self.queued = self.queued.saturating_sub(text.len());
                    self.queue.pop_front();
                    Bytes::from(text)
                }
                Item::Include(include) => match include.poll_body(context, &self.request) {
                    Poll::Pending => return Some(Poll::Pending),
                    Poll::Ready(Some(chunk)) => return Some(Poll::Ready(chunk)),
                    Poll::Ready(None) => {
                        self.queue.pop_front();
                        continue;
                    }
                },
            };
            return Some(Poll::Ready(Chunk {
                bytes,
                flush: false,
            }));
        }
        None
    }
}

impl BodyStream for Page {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        loop {
            let is_pending = match self.poll_first(context) {
                Some(Poll::Ready(chunk)) => return Poll::Ready(Some(Ok(chunk))),
                Some(Poll::Pending) => true,
                None => false,
            };
            if !self.may_read() || (self.has_ended && self.input.is_empty()) {
                return match is_pending {
                    true => Poll::Pending,
                    false => Poll::Ready(None),
                };
            }
            if self.input.is_empty() {
                match self.source.poll_chunk(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(None) => self.has_ended = true,
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                    Poll::Ready(Some(Ok(chunk))) => self.input = chunk.bytes,
                }
            }
            self.read();
        }
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) {
        self.source.poll_fill(context);
        if let Some(Item::Include(include)) = self.queue.front_mut() {
            include.poll_fill(context);
        }
    }
}
