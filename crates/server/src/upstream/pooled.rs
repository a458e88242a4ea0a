//! `fastcgi_pass pool:NAME`: the child of a pool is asked as any FastCGI program is, once there is one. What the pool
//! knows better than a server far away: who waits, for how long, and that there is no child.

use super::answer::{self, Finish};
use super::body::Framing;
use super::failure::{Failure, Stage};
use super::line::Line;
use super::relay::{Job, Way, begin_attempt, exchange};
use super::response_head;
use super::send::NotSent;
use super::settings::{Family, Settings};
use crate::cache::settings::UseStale;
use crate::http::body::Body;
use crate::http::trace::Trace;
use crate::http::{Interrupt, Phase, Request, Response};
use crate::log::error::{Level, write_late, write_request};
use crate::net::Timer;
use crate::pool::{Begun, Lease, Pool, PoolId, Unavailable};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use wire::fastcgi::{Event, params_of};
use wire::http1::response::Parser;

/// Asks the pool, and another of its children if the first one failed and the settings want that.
pub async fn ask(request: &mut Request, mut job: Job, id: PoolId) -> Phase<Response> {
    let generation = Rc::clone(&request.generation);
    let location = generation.config.location(request.location);
    let settings = &location.settings.fastcgi_relay;
    let Some(pool) = generation.config.http.pools.get(id) else {
        return Err(Interrupt::Status(502));
    };
    let mut tries = settings.next_upstream_tries.max(1);
    Trace::begin_group(&mut request.upstream);
    loop {
        tries -= 1;
        let attempt = begin_attempt(request, &job, &pool.peer);
        let lease = match begin(request, settings, &job, pool).await? {
            Begun::Lease(lease) => lease,
            Begun::Answer(text) => {
                let response = own_answer(request, settings, text);
                attempt
                    .status
                    .set(response.as_ref().map_or(502, |response| response.status));
                attempt.end();
                return response;
            }
        };
        if let Some(trace) = &mut request.upstream {
            let waited = u64::try_from(lease.queue_time().as_millis()).unwrap_or(u64::MAX);
            trace.queued_ms = Some(trace.queued_ms.unwrap_or(0).saturating_add(waited));
        }
        attempt.connect_ms.set(Some(attempt.elapsed_ms()));
        let fate = lease.fate();
        let line = Line::Leased(Box::new(lease));
        let (mut way, timer) = (Way::default(), Timer::default());
        let tried = exchange(request, &mut job, settings, line, &attempt, &mut way, timer).await;
        write_late(request);
        let failure = match tried {
            Ok((line, answer)) => {
                let end = Finish::leased(&attempt);
                return answer::finish(request, &job, settings, line, answer, end);
            }
            Err(NotSent::Interrupt(interrupt)) => {
                attempt.end();
                return Err(interrupt);
            }
            Err(NotSent::Failure(_)) if fate.was_terminated() => {
                Failure::TimedOut(Stage::ReadingHead)
            }
            Err(NotSent::Failure(failure)) => failure,
        };
        attempt.end();
        attempt.status.set(failure.status());
        job.note_failure(failure.stale_condition());
        if let Some((level, text)) = failure.message() {
            write_request(request, level, format_args!("{text}"));
        }
        let goes_on =
            tries > 0 && failure.may_go_on(settings) && job.may_go_on(request, settings, &way);
        if !goes_on {
            return Err(Interrupt::Status(failure.status()));
        }
    }
}

/// Waits for a child, unless the client goes away meanwhile.
async fn begin(
    request: &Request,
    settings: &Settings,
    job: &Job,
    pool: &Arc<Pool>,
) -> Phase<Begun> {
    let mut begun = pin!(pool.begin(params_of(&job.head)));
    let begun = std::future::poll_fn(|context| {
        if let Poll::Ready(begun) = begun.as_mut().poll(context) {
            return Poll::Ready(Some(begun));
        }
        match settings.heeds_client(request) {
            true => request.poll_client_ended(context).map(|()| None),
            false => Poll::Pending,
        }
    })
    .await;
    let refused = match begun {
        None => {
            let gone = Failure::ClientGone(Stage::Connecting);
            if let Some((level, text)) = gone.message() {
                write_request(request, level, format_args!("{text}"));
            }
            return Err(Interrupt::Status(499));
        }
        Some(Ok(begun)) => return Ok(begun),
        Some(Err(refused)) => refused,
    };
    let name = &pool.name;
    job.note_failure(UseStale::ERROR);
    let (what, retry_after) = match &refused {
        Unavailable::Full { retry_after } => ("its queue is full", retry_after),
        Unavailable::TooOld { retry_after } => ("the request has waited too long", retry_after),
        Unavailable::NoChild { reason } => {
            let text = format_args!("pool \"{name}\" has no worker: {reason}");
            write_request(request, Level::Error, text);
            return Err(Interrupt::Status(502));
        }
        Unavailable::Unusable { error } => {
            let reason = sys::errno::Errno(error);
            let text = format_args!("dup() failed ({reason}) while connecting to upstream");
            write_request(request, Level::Alert, text);
            return Err(Interrupt::Status(500));
        }
    };
    write_request(
        request,
        Level::Error,
        format_args!("pool \"{name}\" is overloaded: {what}"),
    );
    let mut response = Response::status(503);
    response
        .headers
        .push("Retry-After", retry_after.to_string());
    Err(Interrupt::Respond(Box::new(response)))
}

/// A response that the pool gave itself.
fn own_answer(request: &Request, settings: &Settings, text: Vec<u8>) -> Phase<Response> {
    let mut parser = Parser::for_cgi();
    let Ok(Some(head_length)) = parser.parse(&text, text.len()) else {
        return Err(Interrupt::Status(502));
    };
    let head = parser.take_head();
    let received = response_head::read(request, Family::FastCgi, settings, &head, &text)?;
    let mut response = received.response;
    let body = text.get(head_length..).unwrap_or_default();
    response.set_body(Body::Memory(bytes::Bytes::copy_from_slice(body)));
    Ok(response)
}

/// How much of an unwanted response is read before its child is told to stop.
const DISCARD_MAX: usize = 1 << 20;

/// Nobody wants the rest of a response (`X-Accel-Redirect`, a page of the configuration in its place): it is read to its
/// end, so that the child goes on to its next request on the same connection.
pub fn discard(lease: Box<Lease>, framing: Framing, begun: &[u8], status: u16) {
    let Framing::FastCgi { mut decoder, .. } = framing else {
        return;
    };
    let mut taken = 0;
    let mut skip = move |mut bytes: &[u8]| {
        taken += bytes.len();
        loop {
            match decoder.decode(bytes) {
                Err(_) => return Some(false),
                Ok(step) => match step.event {
                    Event::End { .. } => return Some(step.consumed == bytes.len()),
                    Event::More if taken > DISCARD_MAX => return Some(false),
                    Event::More => return None,
                    _ => bytes = &bytes[step.consumed..],
                },
            }
        }
    };
    if let Some(clean) = skip(begun) {
        return lease.finish(clean, status);
    }
    tokio::task::spawn_local(async move {
        let clean = std::future::poll_fn(|context| {
            loop {
                let Some(stream) = lease.stream() else {
                    return Poll::Ready(false);
                };
                let read = stream.poll_read(context, |bytes| match bytes {
                    [] => Some(false),
                    bytes => skip(bytes),
                });
                match read {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(None)) => {}
                    Poll::Ready(Ok(Some(clean))) => return Poll::Ready(clean),
                    Poll::Ready(Err(_)) => return Poll::Ready(false),
                }
            }
        })
        .await;
        lease.finish(clean, status);
    });
}
