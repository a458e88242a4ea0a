//! A page inside a page: asked for, answered, and then a body in the outer page, or the value of a variable.

use super::page::Page;
use super::{Asked, Asking, READ, command};
use crate::http::body::{BodyStream, Chunk};
use crate::http::{Body, Request, Response, body_reader};
use crate::log::error::{Level, write_request};
use bytes::Bytes;
use std::task::{Context, Poll};

/// An included page.
pub struct Include {
    asked: Option<Asked>,
    body: Option<Box<dyn BodyStream>>,
    /// What stands in for an empty or failed response.
    stub: Option<Bytes>,
    /// The body is kept for this variable.
    variable: Option<Vec<u8>>,
    value: Vec<u8>,
    /// Bytes that may be kept, as the location says that answered.
    value_max: u64,
    /// It is too large to be kept.
    is_too_large: bool,
    /// The outer page goes on after it.
    pub waits: bool,
    has_begun: bool,
}

impl Include {
    pub fn new(
        asked: Asked,
        stub: Option<Bytes>,
        variable: Option<Vec<u8>>,
        waits: bool,
    ) -> Include {
        Include {
            asked: Some(asked),
            body: None,
            stub,
            waits: waits || variable.is_some(),
            variable,
            value: Vec::new(),
            value_max: 0,
            is_too_large: false,
            has_begun: false,
        }
    }

    /// Takes the answer when it is there.
    pub fn poll_answer(&mut self, context: &mut Context<'_>, asking: Asking) {
        let Some(asked) = &mut self.asked else { return };
        let Poll::Ready((request, response)) = asked.as_mut().poll(context) else {
            return;
        };
        self.asked = None;
        self.value_max = request.location().settings.ssi.output_buffer_size;
        let stub = self.stub.take();
        match response {
            Some(response) if !has_failed(&request, &response) => {
                self.stub = stub;
                if self.variable.is_none() || response.status < 300 {
                    self.body = Some(body_reader::stream(response.body, READ));
                }
            }
            response => match (stub, response) {
                (Some(stub), _) => self.body = Some(stand_in(request, stub, asking)),
                (None, Some(response)) if self.variable.is_none() => {
                    self.body = Some(body_reader::stream(response.body, READ));
                }
                _ => {}
            },
        }
    }

    /// The next piece of the body, once it is its turn.
    pub fn poll_body(&mut self, context: &mut Context<'_>, outer: &Request) -> Poll<Option<Chunk>> {
        loop {
            if self.asked.is_some() {
                return Poll::Pending;
            }
            let polled = match &mut self.body {
                Some(body) => body.poll_chunk(context),
                None => Poll::Ready(None),
            };
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(chunk))) if chunk.bytes.is_empty() => {}
                Poll::Ready(Some(Ok(chunk))) => {
                    self.has_begun = true;
                    match self.variable {
                        None => return Poll::Ready(Some(chunk)),
                        Some(_) => self.keep(&chunk.bytes, outer),
                    }
                }
                // What broke off was told by whose body it is; the outer page goes on.
                Poll::Ready(None | Some(Err(_))) => {
                    self.body = None;
                    if let Some(stub) = self.stub.take().filter(|_| !self.has_begun) {
                        self.body = Some(body_reader::stream(Body::Memory(stub), READ));
                        continue;
                    }
                    if let Some(name) = self.variable.take() {
                        let value = std::mem::take(&mut self.value);
                        command::set_variable(outer, &name, Bytes::from(value));
                    }
                    return Poll::Ready(None);
                }
            }
        }
    }

    fn keep(&mut self, bytes: &[u8], outer: &Request) {
        let length = self.value.len() + bytes.len();
        if self.is_too_large || length as u64 <= self.value_max {
            if !self.is_too_large {
                self.value.extend_from_slice(bytes);
            }
            return;
        }
        self.is_too_large = true;
        self.value = Vec::new();
        write_request(
            outer,
            Level::Error,
            format_args!("too big subrequest response while sending response to client"),
        );
    }

    pub fn poll_fill(&mut self, context: &mut Context<'_>) {
        if let Some(body) = &mut self.body {
            body.poll_fill(context);
        }
    }
}

/// Whether a block stands in for a response: not where another server answered, whatever its status.
fn has_failed(request: &Request, response: &Response) -> bool {
    response.status >= 300 && request.upstream.is_none()
}

/// A block in place of a response passes as that would have.
fn stand_in(request: Box<Request>, stub: Bytes, asking: Asking) -> Box<dyn BodyStream> {
    let settings = &request.location().settings;
    let body = body_reader::stream(Body::Memory(stub), READ);
    match settings.ssi.on {
        true => Box::new(Page::new(request, asking, body)),
        false => body,
    }
}
