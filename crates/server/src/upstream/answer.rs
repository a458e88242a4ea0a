//! The client's response, made of an upstream's: its fields, where it sends the request instead, and its body.

use super::body::{Ending, Limits, UpstreamBody};
use super::failure::Stage;
use super::group::Peer;
use super::idle::{self, Link, Owner};
use super::line::Line;
use super::pooled;
use super::receive::{Answer, From};
use super::relay::Job;
use super::response_head::{self, Instructions, Redirect};
use super::settings::{Family, Settings};
use super::store_file::StoreFile;
use crate::http::body::Body;
use crate::http::trace::Attempt;
use crate::http::{Interrupt, Phase, Request, Response};
use crate::log::error::{Level, write_late, write_request};
use crate::net::tunnel::{Times, Tunnel};
use bytes::Bytes;
use std::rc::Rc;
use wire::http1::Known;

/// Makes the client's response of the upstream's.
pub fn finish(
    request: &mut Request,
    job: &Job,
    settings: &Settings,
    line: Line,
    mut answer: Answer,
    mut ending: Finish,
) -> Phase<Response> {
    let attempt = Rc::clone(&ending.attempt);
    attempt.status.set(answer.head.status);
    keep_fields(request, &answer);
    let received = response_head::read(request, job.family, settings, &answer.head, &answer.buffer)
        .inspect_err(|_| attempt.end())?;
    let (mut response, mut instructions) = (received.response, received.instructions);
    let (framing, length) = answer
        .framing(job.is_head, job.keep)
        .map_err(|text| refuse(request, &attempt, &text))?;
    let interrupt = intercept(request, settings, &response, &attempt).or_else(|| {
        if let Some(rate) = instructions.limit_rate {
            request.limit_rate.set(Some(rate));
        }
        let redirect = instructions.redirect.take()?;
        attempt.end();
        Some(go_on(request, redirect))
    });
    if let Some(interrupt) = interrupt {
        if let (Line::Leased(lease), Some(framing), From::FastCgi { rest, .. }) =
            (line, framing, &answer.from)
        {
            pooled::discard(lease, framing, rest, response.status);
        }
        return Err(interrupt);
    }
    if response.content_type.is_some() {
        request.content_type = None;
    }
    let is_switch = answer.head.status == 101 || response.status == 101;
    ending.keeps &= !answer.is_early && answer.keeps_alive() && !is_switch;
    request.keep_alive &= !is_switch;
    let line = match line {
        Line::Own(link) if response.status == 101 && request.field(Known::Upgrade).is_some() => {
            return Ok(switch(settings, link, answer, response));
        }
        line => line,
    };
    let to_head = request.is_head() || job.is_head;
    let has_body = framing.is_some();
    let Some(framing) = framing.filter(|_| !to_head || job.family == Family::FastCgi) else {
        attempt.end();
        // A body that nobody asked for is still to come.
        let clean = !has_body && answer.head_length == answer.buffer.len();
        ending.complete(line, clean);
        response.content_length = length;
        response.body = Body::Empty;
        return Ok(response);
    };
    let late = request.upstream.as_ref();
    let late = late.map_or_else(Rc::default, |trace| Rc::clone(&trace.late));
    let line = match (line, &answer.from) {
        // A head alone is wanted: the child goes on when the rest was read.
        (Line::Leased(lease), From::FastCgi { rest, .. }) if to_head => {
            attempt.end();
            pooled::discard(lease, framing, rest, attempt.status.get());
            response.content_length = length;
            response.body = Body::Empty;
            return Ok(response);
        }
        (line, _) => line,
    };
    ending.file = StoreFile::begin(request, settings, job.family, &response, &late);
    let limits = limits(request, settings, job.family, &instructions);
    let body = UpstreamBody::new(line, framing, limits, Box::new(ending), attempt, late);
    response.content_length = length;
    response.body = begin(body, &answer);
    write_late(request);
    Ok(response)
}

/// The body with what came of it behind the head; one that is whole already is no stream.
fn begin(mut body: UpstreamBody, answer: &Answer) -> Body {
    let behind = &answer.buffer[answer.head_length..];
    match &answer.from {
        From::Http => body.begin(behind),
        From::FastCgi { rest, .. } => {
            body.begin_unwrapped(behind);
            body.begin(rest);
        }
    }
    match body.take_whole() {
        Some(bytes) => Body::Memory(bytes),
        None => Body::Stream(Box::new(body)),
    }
}

fn refuse(request: &Request, attempt: &Attempt, text: &str) -> Interrupt {
    let stage = Stage::ReadingHead.as_str();
    write_request(request, Level::Error, format_args!("{text} {stage}"));
    attempt.status.set(502);
    attempt.end();
    Interrupt::Status(502)
}

/// `proxy_intercept_errors`: a page of the configuration takes the response's place.
fn intercept(
    request: &mut Request,
    settings: &Settings,
    response: &Response,
    attempt: &Attempt,
) -> Option<Interrupt> {
    let pages = &request.location().settings.error_pages;
    if !settings.intercept_errors || response.status < 300 || !pages.has_page(response.status) {
        return None;
    }
    attempt.end();
    let kept = response.headers.iter().filter(|header| {
        response.status == 401 && header.name.eq_ignore_ascii_case(b"WWW-Authenticate")
    });
    let fields = request.fields.get_mut();
    for header in kept {
        fields.push(header.name.clone(), header.value.clone());
    }
    let mut page = Response::status(response.status);
    page.location = response.location.clone();
    Some(Interrupt::Respond(Box::new(page)))
}

/// Keeps the fields as they came, for `$upstream_http_…`.
fn keep_fields(request: &mut Request, answer: &Answer) {
    if !request
        .generation
        .config
        .http
        .variables
        .uses_upstream_fields
    {
        return;
    }
    let copy = |span: wire::http1::Span| Bytes::copy_from_slice(span.of(&answer.buffer));
    if let Some(trace) = &mut request.upstream {
        let fields = answer.head.fields.iter();
        trace.fields = fields
            .map(|field| (copy(field.name), copy(field.value)))
            .collect();
    }
}

/// `X-Accel-Redirect`: the request goes on inside the server, with some of the response's fields.
fn go_on(request: &mut Request, redirect: Redirect) -> Interrupt {
    if request.method != wire::http1::Method::Head {
        request.method = wire::http1::Method::Get;
    }
    request.content_type = redirect.content_type;
    *request.fields.get_mut() = redirect.fields;
    Interrupt::Redirect(redirect.target)
}

/// The two connections become one.
fn switch(settings: &Settings, link: Link, answer: Answer, mut response: Response) -> Response {
    response.body = Body::Tunnel(Box::new(Tunnel {
        stream: link.stream,
        received: answer.buffer[answer.head_length..].to_vec(),
        times: Times {
            read_timeout_ms: settings.read_timeout_ms,
        },
    }));
    response.content_length = None;
    response
}

fn limits(
    request: &Request,
    settings: &Settings,
    family: Family,
    instructions: &Instructions,
) -> Limits {
    let (number, size) = settings.buffers;
    let buffering = instructions.buffering.unwrap_or(settings.buffering);
    let (memory, file) = match buffering {
        true => (number.saturating_mul(size), settings.max_temp_file_size),
        false => (settings.buffer_size, 0),
    };
    Limits {
        buffering,
        memory,
        file,
        pass_trailers: settings.pass_trailers,
        client: (!settings.ignore_client_abort).then(|| request.client()),
        temp: settings.temp_path(family),
        read_timeout_ms: settings.read_timeout_ms,
        rate: match buffering {
            true => settings.limit_rate.evaluate(request),
            false => 0,
        },
    }
}

/// What is done at the end of a response.
pub struct Finish {
    owner: Option<Owner>,
    /// It counts as busy until this is dropped.
    peer: Option<Peer>,
    attempt: Rc<Attempt>,
    /// The connection may be kept.
    keeps: bool,
    /// Where the response is kept (`proxy_store`).
    file: Option<StoreFile>,
}

impl Finish {
    #[must_use]
    pub fn new(owner: Owner, peer: Peer, attempt: &Rc<Attempt>, keeps: bool) -> Finish {
        Finish {
            owner: Some(owner),
            peer: Some(peer),
            attempt: Rc::clone(attempt),
            keeps,
            file: None,
        }
    }
}

impl Finish {
    /// For a child of a pool.
    #[must_use]
    pub fn leased(attempt: &Rc<Attempt>) -> Finish {
        Finish {
            owner: None,
            peer: None,
            attempt: Rc::clone(attempt),
            keeps: true,
            file: None,
        }
    }
}

impl Ending for Finish {
    fn saw(&mut self, bytes: &[u8]) {
        if let Some(file) = &mut self.file {
            file.write(bytes);
        }
    }

    fn complete(&mut self, line: Line, clean: bool) {
        if let Some(file) = self.file.take() {
            file.complete();
        }
        if let Some(peer) = self.peer.take() {
            peer.note_response_time(self.attempt.response_ms.get().unwrap_or_default());
        }
        match (line, self.owner.take()) {
            (Line::Own(link), Some(owner)) if clean && self.keeps => idle::put(&owner, link),
            (Line::Leased(lease), _) => {
                lease.finish(clean && self.keeps, self.attempt.status.get());
            }
            _ => {}
        }
    }
}
