//! Answers a stream's request: by the phases of every request, then head, body and trailer fields as frames.

use super::Active;
use super::body::{Sender, closed, failed};
use super::fields;
use super::request::Prepared;
use super::stream::{Sending, Stream};
use crate::connection::complaints;
use crate::connection::http1::recycle;
use crate::connection::writer::SendError;
use crate::http::client_stream::ClientStream;
use crate::http::request::Incoming;
use crate::http::{Body, Request, Response, body_reader, sent};
use crate::log;
use crate::pipeline::{hot, phases};
use bytes::Bytes;
use h2::Reason;
use http::{HeaderMap, StatusCode, header};
use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

/// Bytes that are read from a file at once.
const STEP: usize = 64 * 1024;

/// How long the rest of a request may be on its way when the answer has gone out.
const ON_ITS_WAY: Duration = Duration::from_millis(100);

/// Answers a request: at once if nothing has to be waited for, else in a task of its own.
pub fn answer(prepared: Prepared, active: Active) {
    let Some((prepared, active)) = answer_ready(prepared, active) else {
        return;
    };
    let mut answering = Box::pin(answer_later(prepared, active));
    let mut context = Context::from_waker(Waker::noop());
    if answering.as_mut().poll(&mut context).is_pending() {
        tokio::task::spawn_local(answering);
    }
}

/// Sends the response that is ready for a request; what is left of it goes out in a task. Gives back a request for which
/// none is ready.
fn answer_ready(prepared: Prepared, active: Active) -> Option<(Prepared, Active)> {
    // A request whose end is still to come is no less wrong for being answered already.
    if prepared.refused.is_some() || matches!(prepared.request.incoming, Incoming::Stream) {
        return Some((prepared, active));
    }
    let Some((ready, bytes)) = hot::find(&prepared.request) else {
        return Some((prepared, active));
    };
    let Some(fields) = ready.fields() else {
        return Some((prepared, active));
    };
    let Prepared {
        mut request,
        stream,
        ..
    } = prepared;
    ready.note(&mut request);
    let mut fields = fields.clone();
    fields.insert(header::DATE, fields::date());
    request.sent.status.set(200);
    let is_whole = bytes.is_empty();
    let sent = begin(&stream, &request, 200, fields, is_whole).and_then(|()| match is_whole {
        true => Ok(bytes),
        false => Sender::new(&request, &stream).at_once(bytes, true),
    });
    let finished = match sent {
        Ok(left) if !left.is_empty() => {
            tokio::task::spawn_local(answer_rest(request, stream, active, left));
            return None;
        }
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    conclude(&stream, &request, finished);
    recycle(request);
    None
}

/// Sends what the window did not let through at once.
async fn answer_rest(request: Box<Request>, stream: Rc<Stream>, active: Active, left: Bytes) {
    let sent = Sender::new(&request, &stream)
        .memory(left, true, None)
        .await;
    conclude(&stream, &request, sent);
    recycle(request);
    drop(active);
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
            if matches!(request.incoming, Incoming::Stream) {
                see_the_end(&stream).await;
            }
        }
        None => hang_up(&stream, &request),
    }
    recycle(request);
    drop(active);
}

/// Reads what is on its way of an answered request, so that what is wrong with it is told; then the client is told to send
/// no more.
async fn see_the_end(stream: &Stream) {
    let read = std::future::poll_fn(|context| {
        while let Some(Ok(_)) = ready!(stream.poll_data(context)) {}
        Poll::Ready(())
    });
    let _late = tokio::time::timeout(ON_ITS_WAY, read).await;
}

/// Ends the stream without an answer (nginx's 444); the reason is nginx's.
fn hang_up(stream: &Stream, request: &Request) {
    if request.sent.status.get() == 0 {
        request.sent.status.set(444);
    }
    stream.reset(Reason::PROTOCOL_ERROR);
    log::access::write(request);
}

/// Logs a request whose response went out or did not.
fn conclude(stream: &Stream, request: &Request, sent: Result<(), SendError>) {
    if let Err(error) = &sent {
        complaints::unsent(request, error);
        stream.reset(match error {
            SendError::TimedOut => Reason::PROTOCOL_ERROR,
            _ => Reason::INTERNAL_ERROR,
        });
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
    let fields = fields::of_response(request, &response);
    if request.generation.config.http.variables.uses_sent {
        sent::record(request, &response, false);
    }
    request.sent.status.set(response.status);
    if (response.file.is_some() || response.kept.is_some()) && !request.is_head() {
        let memory = match &body {
            Body::Memory(bytes) => Some(bytes),
            _ => None,
        };
        hot::keep(request, &response, hot::Written::Fields(&fields), memory);
    }
    begin(stream, request, response.status, fields, is_whole)?;
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
    status: u16,
    fields: HeaderMap,
    is_whole: bool,
) -> Result<(), SendError> {
    let sent = &request.sent;
    sent.bytes.set(sent.bytes.get() + fields::length(&fields));
    sent.header_bytes.set(sent.bytes.get());
    let mut head = http::Response::new(());
    // What HTTP/2 cannot say is the fault of who gave it.
    *head.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    *head.headers_mut() = fields;
    let mut sending = stream.sending.borrow_mut();
    let Sending::Awaiting(respond) = &mut *sending else {
        return Err(closed());
    };
    let begun = respond.send_response(head, is_whole).map_err(failed)?;
    *sending = Sending::Begun(begun);
    Ok(())
}
