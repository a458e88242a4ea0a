//! The phases of a request in their order: this file is the one place that knows it (DESIGN section 3).

use super::error_pages::{self, Settled};
use super::{filters, mirror, subrequest};
use crate::access::satisfy::{Answer, Verdict};
use crate::access::{allow_deny, auth_basic, auth_request, limit_except, real_ip};
use crate::acme::challenges;
use crate::config::model::LocationId;
use crate::content::{self, try_files};
use crate::filter::slice;
use crate::http::interrupt::Target;
use crate::http::{Interrupt, Phase, Request, Response};
use crate::image;
use crate::limit;
use crate::log::error::{Level, write_request};
use crate::rewrite::{self, Flow};
use crate::routing::locations;

/// How responses in pieces have the next one asked for.
const PIECES: slice::Asking = slice::Asking {
    twin: subrequest::twin,
    ask: subrequest::ask_piece,
};

/// nginx's limit on rewrites and internal redirects of one request.
pub const MAX_URI_CHANGES: u32 = 10;

/// Where the phases begin: anew after a redirect to a URI, at the location's after one to a named location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Server,
    Location,
}

/// Answers a request whose head was read and whose server is known. `None`: close without an answer.
pub async fn respond(request: &mut Request) -> Option<Response> {
    let outcome = run(request, Start::Server).await;
    follow(request, outcome).await
}

/// Follows internal redirects and error pages until there is a response.
async fn follow(request: &mut Request, mut outcome: Phase<Response>) -> Option<Response> {
    let mut image_is_settled = false;
    loop {
        let mut response = match outcome {
            Ok(response) => error_pages::with_error_status(request, response),
            Err(interrupt) => match error_pages::settle(request, interrupt) {
                Settled::Response(response) => *response,
                Settled::Hangup => return None,
                Settled::Redirect(target) => {
                    image_is_settled = false;
                    outcome = match redirect(request, target) {
                        Ok(start) => run(request, start).await,
                        Err(interrupt) => Err(interrupt),
                    };
                    continue;
                }
            },
        };
        if let Err(interrupt) = slice::apply(request, &mut response, PIECES) {
            outcome = Err(interrupt);
            continue;
        }
        let filtered = match image::apply(request, &mut response, &mut image_is_settled).await {
            Ok(()) => filters::apply(request, &mut response),
            refused => refused,
        };
        match filtered {
            Ok(()) => {
                mirror::prepare_post_action(request);
                return Some(response);
            }
            Err(interrupt) => outcome = Err(interrupt),
        }
    }
}

/// The same for one that begins at a named location.
pub async fn respond_named(request: &mut Request, name: bytes::Bytes) -> Option<Response> {
    Box::pin(follow(
        request,
        Err(Interrupt::Redirect(Target::Named(name))),
    ))
    .await
}

/// Lets the location that a request stands in answer it once more, past the phases before the content. What ends that
/// early is a status.
pub async fn respond_again(request: &mut Request) -> Option<Response> {
    match content::respond(request).await {
        Ok(response) => Some(response),
        Err(Interrupt::Respond(response)) => Some(*response),
        Err(Interrupt::Status(status)) => Some(Response::status(status)),
        Err(Interrupt::Redirect(_) | Interrupt::Hangup) => None,
    }
}

/// Answers a request that was refused before the phases (a head that does not parse); `error_page` applies.
pub async fn refuse(request: &mut Request, status: u16) -> Option<Response> {
    follow(request, Err(Interrupt::Status(status))).await
}

async fn run(request: &mut Request, start: Start) -> Phase<Response> {
    if start == Start::Server {
        if let Some(response) = challenges::respond(request) {
            request.location = request.server().base;
            return Ok(response);
        }
        rewrite_server(request)?;
        find_location(request)?;
    }
    rewrite_location(request)?;
    real_ip::apply(request);
    limit::requests::check(request).await?;
    limit::connections::check(request)?;
    access(request).await?;
    image::guard::check(request)?;
    try_files::check(request)?;
    crate::upstream::cached::purge_here(request)?;
    if !request.location().settings.mirror.is_off() {
        Box::pin(mirror::send(request)).await?;
    }
    content::respond(request).await
}

/// The checks of access in their order, and what they say together.
async fn access(request: &Request) -> Phase {
    // As in nginx, a request inside another one is let in as that was.
    if request.depth > 0 {
        return Ok(());
    }
    let mut verdict = Verdict::default();
    verdict.take(request, allow_deny::check(request)).await?;
    if !verdict.is_settled() {
        let answer = auth_basic::check(request).await;
        verdict.take(request, answer).await?;
    }
    if !verdict.is_settled() {
        let answer = ask_other(request).await;
        verdict.take(request, answer).await?;
    }
    verdict.conclude(request).await
}

/// `auth_request`.
async fn ask_other(request: &Request) -> Phase<Answer> {
    let Some(uri) = &request.location().settings.auth_request.uri else {
        return Ok(Answer::NotAsked);
    };
    let Some(mut other) = subrequest::new(request, uri, b"") else {
        return Err(Interrupt::Status(500));
    };
    let response = subrequest::answer(&mut other).await;
    auth_request::judge(request, &other, response)
}

fn rewrite_server(request: &mut Request) -> Phase {
    request.location = request.server().base;
    real_ip::apply(request);
    let generation = std::rc::Rc::clone(&request.generation);
    rewrite::run(request, &generation.config.server(request.server).program)?;
    Ok(())
}

/// Runs the location's program; a changed URI looks for its location anew.
fn rewrite_location(request: &mut Request) -> Phase {
    let generation = std::rc::Rc::clone(&request.generation);
    loop {
        let program = &generation.config.location(request.location).program;
        match rewrite::run(request, program)? {
            Flow::Continue => return Ok(()),
            Flow::UriChanged => {
                let uri = String::from_utf8_lossy(&request.uri).into_owned();
                count_change(request, format_args!("processing \"{uri}\""))?;
                find_location(request)?;
            }
        }
    }
}

/// Counts a change of the path; one too many is a cycle. Its 500 has no error page of the configuration.
fn count_change(request: &mut Request, what: std::fmt::Arguments<'_>) -> Phase {
    request.uri_changes += 1;
    if request.uri_changes > MAX_URI_CHANGES {
        write_request(
            request,
            Level::Error,
            format_args!("rewrite or internal redirection cycle while {what}"),
        );
        return Err(Interrupt::Status(500));
    }
    Ok(())
}

/// Finds the location of the request's path and checks what holds before its rewrites.
fn find_location(request: &mut Request) -> Phase {
    let generation = std::rc::Rc::clone(&request.generation);
    let http = &generation.config.http;
    let base = request.server().base;
    let found = locations::find(http, &http.locations[base as usize].routes, request)
        .map_err(|error| rewrite::given_up(request, &request.uri, &error))?;
    request.location = found.unwrap_or(base);
    enter_location(request)
}

fn enter_location(request: &mut Request) -> Phase {
    // Each location on the way counts, and the method is that of then.
    if request
        .location()
        .settings
        .keepalive
        .disable
        .holds_for(request)
    {
        request.keep_alive = false;
    }
    let location = request.location();
    if location.settings.static_files.internal && !request.internal {
        return Err(Interrupt::Status(404));
    }
    if let Some(other) = limit_except::other_settings(request) {
        request.location = other;
    }
    let limit = request.location().settings.request_body.max_size;
    if let Some(length) = request.content_length
        && limit != 0
        && length > limit
        && !request.body_refused
    {
        request.body_refused = true;
        write_request(
            request,
            Level::Error,
            format_args!("client intended to send too large body: {length} bytes"),
        );
        return Err(Interrupt::Status(413));
    }
    content::redirect_to_slash(request)
}

/// Moves the request to the target of an internal redirect.
fn redirect(request: &mut Request, target: Target) -> Phase<Start> {
    request.uri_follows_alias = false;
    request.rewritten_in_place = false;
    request.proxied = None;
    request.sliced.take();
    match target {
        Target::Uri { path, args } => {
            let uri = String::from_utf8_lossy(&path);
            count_change(request, format_args!("internally redirecting to \"{uri}\""))?;
            request.uri.clear();
            request.uri.extend_from_slice(&path);
            if let Some(args) = args {
                request.args.clear();
                request.args.extend_from_slice(&args);
            }
            request.internal = true;
            request.uri_changed = true;
            Ok(Start::Server)
        }
        Target::Named(name) => {
            let text = String::from_utf8_lossy(&name);
            count_change(
                request,
                format_args!("redirect to named location \"{text}\""),
            )?;
            let found: Option<LocationId> = request.server().named.get(&name).copied();
            let Some(location) = found else {
                write_request(
                    request,
                    Level::Error,
                    format_args!("could not find named location \"{text}\""),
                );
                return Err(Interrupt::Status(500));
            };
            request.internal = true;
            request.location = location;
            if let Some(other) = limit_except::other_settings(request) {
                request.location = other;
            }
            Ok(Start::Location)
        }
    }
}
