//! Requests inside a request: they have a path of their own and share the head, the client and the variables of the one
//! they belong to. They pass the phases without those of access, and their response goes to whom started them.

use super::phases;
use crate::filter::ssi::Asked;
use crate::http::body::{BodyError, BodyStream, Chunk};
use crate::http::request::{Buffers, Captures};
use crate::http::sliced::Sliced;
use crate::http::{Request, Response, body_reader};
use crate::log;
use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use wire::http1::Method;

/// How deep requests may stand inside one another, as in nginx.
const DEPTH_MAX: u8 = 51;
/// Bytes read from a file at once.
const READ: usize = 32 * 1024;

/// A request inside `parent` for a path with its arguments; `None`: it would stand too deep.
#[must_use]
pub fn new(parent: &Request, path: &[u8], args: &[u8]) -> Option<Box<Request>> {
    let depth = parent.depth + 1;
    if depth > DEPTH_MAX {
        return None;
    }
    let mut request = copy(parent, path, args);
    request.depth = depth;
    request.method = Method::Get;
    request.internal = true;
    request.uri_changed = true;
    request.content_length = None;
    Some(request)
}

/// The same request for the variables and the requests inside it, while its body goes on without it.
#[must_use]
pub fn twin(request: &Request) -> Box<Request> {
    let twin = copy(request, &request.uri, &request.args);
    let captures = request.captures.borrow();
    *twin.captures.borrow_mut() = Captures {
        subject: captures.subject.clone(),
        positions: captures.positions.clone(),
    };
    twin
}

fn copy(parent: &Request, path: &[u8], args: &[u8]) -> Box<Request> {
    let buffers = Buffers {
        buffer: parent.buffer.clone(),
        head: parent.head.clone(),
        uri: path.to_vec(),
        args: args.to_vec(),
        host: parent.host.clone(),
        slots: Rc::clone(&parent.slots),
        ..Buffers::default()
    };
    let (generation, connection) = (Rc::clone(&parent.generation), Rc::clone(&parent.connection));
    let mut request = Request::new(generation, connection, parent.started_ms, buffers);
    request.depth = parent.depth;
    request.stream.clone_from(&parent.stream);
    request.real_remote.clone_from(&parent.real_remote);
    request.method = parent.method;
    request.version = parent.version;
    request.host_port = parent.host_port;
    request.server = parent.server;
    request.location = parent.location;
    request.internal = parent.internal;
    request.uri_changed = parent.uri_changed;
    request.content_length = parent.content_length;
    request.sent.status.set(parent.sent.status.get());
    request.includes.clone_from(&parent.includes);
    request.keep_alive = parent.keep_alive;
    request.received.set(parent.received.get());
    request.limit_req_status.set(parent.limit_req_status.get());
    request
        .limit_conn_status
        .set(parent.limit_conn_status.get());
    *request.id.borrow_mut() = *parent.id.borrow();
    Box::new(request)
}

/// Has a request inside `parent` answered; `None`: it would stand too deep.
#[must_use]
pub fn ask(parent: &Request, path: &[u8], args: &[u8]) -> Option<Asked> {
    let mut request = new(parent, path, args)?;
    Some(Box::pin(async move {
        let response = answer(&mut request).await;
        (request, response)
    }))
}

/// Has a request like `parent` answered that asks for the piece from `start` on: its location's content answers at once.
/// A piece is logged under the status of the whole.
#[must_use]
pub fn ask_piece(parent: &Request, start: u64, logged: u16) -> Option<Asked> {
    let mut request = twin(parent);
    request.depth += 1;
    if request.depth > DEPTH_MAX {
        return None;
    }
    request.sliced.set(Sliced::From(start));
    Some(Box::pin(async move {
        let response = Box::pin(phases::respond_again(&mut request)).await;
        if let Some(response) = &response {
            request.sent.status.set(match response.status {
                206 => logged,
                other => other,
            });
        }
        if request.location().settings.access_log.subrequests {
            log::access::write(&request);
        }
        (request, response)
    }))
}

/// Has a request answered; the fields that it was sent are noted for its variables.
pub async fn answer(request: &mut Request) -> Option<Response> {
    let response = Box::pin(phases::respond(request)).await;
    if let Some(response) = &response {
        request.sent.status.set(response.status);
    }
    if request.location().settings.access_log.subrequests {
        log::access::write(request);
    }
    response
}

type Answering = Pin<Box<dyn Future<Output = Option<Response>>>>;

/// The body of the answer to a request inside `parent` for a path; it is asked when the body is first wanted.
#[must_use]
pub fn body(parent: &Request, path: &[u8]) -> Box<dyn BodyStream> {
    let answering: Option<Answering> = new(parent, path, b"").map(|mut request| {
        let answering: Answering = Box::pin(async move { answer(&mut request).await });
        answering
    });
    Box::new(Answer {
        answering,
        body: None,
    })
}

/// A body that is there when its request was answered.
struct Answer {
    answering: Option<Answering>,
    body: Option<Box<dyn BodyStream>>,
}

impl BodyStream for Answer {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if let Some(answering) = &mut self.answering {
            let Poll::Ready(response) = answering.as_mut().poll(context) else {
                return Poll::Pending;
            };
            self.answering = None;
            self.body = response.map(|response| body_reader::stream(response.body, READ));
        }
        match &mut self.body {
            Some(body) => body.poll_chunk(context),
            None => Poll::Ready(None),
        }
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) {
        if let Some(body) = &mut self.body {
            body.poll_fill(context);
        }
    }

    fn trailers(&mut self) -> Vec<(Bytes, Bytes)> {
        Vec::new()
    }
}
