//! The client's response, made of an upstream's: its fields, where it sends the request instead, and its body.

use super::body::{Ending, Framing, Limits, UpstreamBody};
use super::failure::Stage;
use super::group::Peer;
use super::idle::{self, Link, Owner, Wire};
use super::line::Line;
use super::pooled;
use super::receive::{Answer, From};
use super::relay::Job;
use super::response_head::{self, Instructions, Redirect};
use super::settings::{Family, Settings};
use super::store_file::StoreFile;
use crate::http::body::Body;
use crate::http::trace::{Attempt, Late};
use crate::http::{Interrupt, Phase, Request, Response};
use crate::log::error::{Level, write_late, write_request};
use crate::net::tunnel::{Times, Tunnel};
use bytes::Bytes;
use std::rc::Rc;
use std::task::{Context, Waker};
use wire::http1::Known;
use wire::http1::response::Head;

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
    if let Some(fetch) = &job.fetch
        && let Some(kept) = fetch.in_place_of(request, job.family, settings, &answer)
    {
        attempt.end();
        let framing = answer.framing(job.is_head, job.keep);
        give_back(line, framing.ok().and_then(|(framing, _)| framing), &answer);
        return kept;
    }
    keep_fields_of(request, &answer.head, &answer.buffer);
    let fetch = job.fetch.as_ref();
    let keep = fetch.and_then(|fetch| fetch.judge(request, job.family, settings, &answer));
    let received = response_head::read(request, job.family, settings, &answer.head, &answer.buffer)
        .inspect_err(|_| attempt.end())?;
    let (mut response, mut instructed) = (received.response, received.instructions);
    let (framing, length) = answer
        .framing(job.is_head, job.keep)
        .map_err(|text| refuse(request, &attempt, &text))?;
    response.skip_conditions &= !request.cached.as_ref().is_some_and(|c| c.is_whole);
    let interrupt = elsewhere(request, job, &answer, settings, &response, &mut instructed);
    if let Some(interrupt) = interrupt {
        attempt.end();
        give_back(line, framing, &answer);
        return Err(interrupt);
    }
    if response.content_type.is_some() {
        request.content_type = None;
    }
    ending.keeps &= keeps_alive(request, &answer, &response);
    let line = match line {
        Line::Own(link) if is_switch(request, &response) => {
            return Ok(switch(settings, link, answer, response));
        }
        line => line,
    };
    let to_head = request.is_head() || job.is_head;
    let has_body = framing.is_some();
    let is_kept = keep.is_some();
    // A head alone is wanted: the child goes on when the rest was read.
    let (line, framing) = match (line, framing, &answer.from) {
        (Line::Leased(lease), Some(framing), From::FastCgi { rest, .. }) if to_head && !is_kept => {
            attempt.end();
            pooled::discard(lease, framing, rest, attempt.status.get());
            response.content_length = length;
            return Ok(response);
        }
        (line, framing, _) => (line, framing),
    };
    let is_wanted = !to_head || job.family == Family::FastCgi || (is_kept && !job.is_head);
    let Some(framing) = framing.filter(|_| is_wanted) else {
        attempt.end();
        // A body that nobody asked for is still to come.
        let clean = !has_body && answer.head_length == answer.buffer.len();
        ending.complete(line, clean);
        response.content_length = length;
        keep.into_iter()
            .for_each(|keep| keep.keep(request, &mut response));
        return Ok(response);
    };
    let late = late_of(request);
    ending.file = StoreFile::begin(request, settings, job.family, &response, &late);
    let limits = limits(request, settings, job.family, &instructed, keep.is_some());
    let body = UpstreamBody::new(line, framing, limits, Box::new(ending), attempt, late);
    response.content_length = length;
    response.body = begin(body, &answer);
    keep.into_iter()
        .for_each(|keep| keep.keep(request, &mut response));
    write_late(request);
    Ok(response)
}

/// Where the body tells what it comes to.
fn late_of(request: &Request) -> Rc<Late> {
    let trace = request.upstream.as_ref();
    trace.map_or_else(Rc::default, |trace| Rc::clone(&trace.late))
}

/// Whether the connection may serve another request; one that becomes another protocol's serves none on either side.
fn keeps_alive(request: &mut Request, answer: &Answer, response: &Response) -> bool {
    let is_switch = answer.head.status == 101 || response.status == 101;
    request.keep_alive &= !is_switch;
    !answer.is_early && answer.keeps_alive() && !is_switch
}

/// Where the request goes on instead of to the client: a page of the configuration, or where X-Accel-Redirect leads.
fn elsewhere(
    request: &mut Request,
    job: &Job,
    answer: &Answer,
    settings: &Settings,
    response: &Response,
    instructions: &mut Instructions,
) -> Option<Interrupt> {
    if let Some(page) = intercept(request, settings, response) {
        if let Some(fetch) = &job.fetch {
            fetch.keep_page(request, job.family, settings, answer);
        }
        return Some(page);
    }
    if let Some(rate) = instructions.limit_rate {
        request.limit_rate.set(Some(rate));
    }
    let redirect = instructions.redirect.take()?;
    Some(go_on(request, redirect))
}

/// Nobody wants the rest of a response: a child of a pool is brought to its end, another connection is closed.
fn give_back(line: Line, framing: Option<Framing>, answer: &Answer) {
    if let (Line::Leased(lease), Some(framing), From::FastCgi { rest, .. }) =
        (line, framing, &answer.from)
    {
        pooled::discard(lease, framing, rest, answer.head.status);
    }
}

/// The body with what came of it behind the head; one that is whole already is no stream.
fn begin(mut body: UpstreamBody, answer: &Answer) -> Body {
    let behind = &answer.buffer[answer.head_length..];
    match &answer.from {
        From::Http => body.begin(behind),
        From::Http2 { .. } => {
            let _later = body.poll_receive(&mut Context::from_waker(Waker::noop()));
        }
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
fn intercept(request: &mut Request, settings: &Settings, response: &Response) -> Option<Interrupt> {
    let pages = &request.location().settings.error_pages;
    if !settings.intercept_errors || response.status < 300 || !pages.has_page(response.status) {
        return None;
    }
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
pub fn keep_fields_of(request: &mut Request, head: &Head, buffer: &[u8]) {
    if !request
        .generation
        .config
        .http
        .variables
        .uses_upstream_fields
    {
        return;
    }
    let copy = |span: wire::http1::Span| Bytes::copy_from_slice(span.of(buffer));
    let trace = request.upstream.get_or_insert_default();
    let fields = head.fields.iter();
    trace.fields = fields
        .map(|field| (copy(field.name), copy(field.value)))
        .collect();
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

/// Whether the client has asked for the protocol that the upstream changes to.
fn is_switch(request: &Request, response: &Response) -> bool {
    response.status == 101 && request.field(Known::Upgrade).is_some()
}

/// The two connections become one.
fn switch(settings: &Settings, link: Link, answer: Answer, mut response: Response) -> Response {
    // HTTP/2 has no such status.
    if let Wire::Plain(stream) = link.wire {
        response.body = Body::Tunnel(Box::new(Tunnel {
            stream,
            received: answer.buffer[answer.head_length..].to_vec(),
            times: Times {
                read_timeout_ms: settings.read_timeout_ms,
            },
        }));
    }
    response.content_length = None;
    response
}

fn limits(
    request: &Request,
    settings: &Settings,
    family: Family,
    instructions: &Instructions,
    keeps: bool,
) -> Limits {
    let (number, size) = settings.buffers;
    let buffering = instructions.buffering.unwrap_or(settings.buffering);
    let (memory, file) = match buffering {
        // What is kept is taken as fast as it comes, and is in a file of its own.
        true if keeps => (number.saturating_mul(size), 0),
        true => (number.saturating_mul(size), settings.max_temp_file_size),
        false => (settings.buffer_size, 0),
    };
    Limits {
        buffering,
        memory,
        file,
        pass_trailers: settings.pass_trailers,
        client: (!settings.ignore_client_abort && !keeps).then(|| request.client()),
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
