//! Answers a stream's request: by the phases of every request, then head, body and trailer fields as frames.

use super::Active;
use super::body::{Sender, closed, failed};
use super::fields;
use super::request::Prepared;
use super::stream::{Sending, Stream};
use crate::connection::complaints;
use crate::connection::http1::recycle;
use crate::connection::writer::SendError;
use crate::http::{Body, Request, Response, body_reader, sent};
use crate::log;
use crate::pipeline::phases;
use h2::Reason;
use std::future::Future;
use std::task::{Context, Waker};

/// Bytes that are read from a file at once.
const STEP: usize = 64 * 1024;

/// Answers a request: at once if nothing has to be waited for, else in a task of its own.
pub fn answer(prepared: Prepared, active: Active) {
    let mut answering = Box::pin(answer_later(prepared, active));
    let mut context = Context::from_waker(Waker::noop());
    if answering.as_mut().poll(&mut context).is_pending() {
        tokio::task::spawn_local(answering);
    }
}

async fn answer_later(prepared: Prepared, active: Active) {
    let Prepared {
        mut request,
        stream,
        refused,
    } = prepared;
    let response = match refused {
        None => phases::respond(&mut request).await,
        Some(408) => None,
        Some(status) => phases::refuse(&mut request, status).await,
    };
    match response {
        Some(response) => {
            let sent = send(&stream, &request, response).await;
            conclude(&stream, &request, sent);
        }
        None => hang_up(&stream, &request),
    }
    recycle(request);
    drop(active);
}

/// Ends the stream without an answer (nginx's 444).
fn hang_up(stream: &Stream, request: &Request) {
    if request.sent.status.get() == 0 {
        request.sent.status.set(444);
    }
    stream.reset(Reason::INTERNAL_ERROR);
    log::access::write(request);
}

/// Logs a request whose response went out or did not.
fn conclude(stream: &Stream, request: &Request, sent: Result<(), SendError>) {
    if let Err(error) = &sent {
        complaints::unsent(request, error);
        stream.reset(Reason::INTERNAL_ERROR);
    } else {
        request.sent.complete.set(true);
    }
    log::access::write(request);
}

/// Sends head and body.
async fn send(stream: &Stream, request: &Request, mut response: Response) -> Result<(), SendError> {
    let body = match std::mem::take(&mut response.body) {
        _ if request.is_head() || matches!(response.status, 204 | 304) => Body::Empty,
        // HTTP/2 has no connection to give away.
        Body::Tunnel(_) => return Err(SendError::Truncated),
        body => body,
    };
    let has_end = match &body {
        Body::Empty => true,
        Body::Memory(bytes) => bytes.is_empty(),
        _ => false,
    };
    let is_whole = has_end && (request.is_head() || !response.expects_trailers);
    begin(stream, request, &response, is_whole)?;
    if is_whole {
        return Ok(());
    }
    let mut sender = Sender::new(request, stream);
    match body {
        Body::Empty => sender.end(&[]),
        Body::Memory(bytes) => {
            let ends = !response.expects_trailers;
            sender.memory(bytes, ends, None).await?;
            match ends {
                true => Ok(()),
                false => sender.end(&[]),
            }
        }
        body => {
            let mut source = body_reader::stream(body, STEP);
            sender.pieces(&mut *source, response.expects_trailers).await
        }
    }
}

/// Sends the head.
fn begin(
    stream: &Stream,
    request: &Request,
    response: &Response,
    is_whole: bool,
) -> Result<(), SendError> {
    let fields = fields::of_response(request, response);
    if request.generation.config.http.variables.uses_sent {
        sent::record(request, response, false);
    }
    let sent = &request.sent;
    sent.status.set(response.status);
    sent.bytes.set(sent.bytes.get() + fields::length(&fields));
    sent.header_bytes.set(sent.bytes.get());
    let mut head = http::Response::new(());
    // What HTTP/2 cannot say is the fault of who gave it.
    *head.status_mut() =
        http::StatusCode::from_u16(response.status).unwrap_or(http::StatusCode::BAD_GATEWAY);
    *head.headers_mut() = fields;
    let mut sending = stream.sending.borrow_mut();
    let Sending::Awaiting(respond) = &mut *sending else {
        return Err(closed());
    };
    let begun = respond.send_response(head, is_whole).map_err(failed)?;
    *sending = Sending::Begun(begun);
    Ok(())
}
