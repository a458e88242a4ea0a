//! `add_before_body` and `add_after_body`: the bodies of other requests around a response's own.

use super::compress::forget_identity;
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, row};
use crate::config::setting::Setting;
use crate::http::body::{BodyError, BodyStream, Chunk};
use crate::http::media_types::{self, MediaTypes};
use crate::http::{Body, Request, Response, body_reader};
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use std::collections::VecDeque;
use std::task::{Context, Poll};

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "add_before_body",
        HSL,
        Arity::Exactly(1),
        |b, d| path(b, d, |raw| &mut raw.before),
        "The path of a request whose body is put before the response's.",
    ),
    row(
        "add_after_body",
        HSL,
        Arity::Exactly(1),
        |b, d| path(b, d, |raw| &mut raw.after),
        "The path of a request whose body is put after the response's.",
    ),
    row(
        "addition_types",
        HSL,
        Arity::AtLeast(1),
        |b, d| media_types::add(b, d, |b| &mut b.location().addition.types.0),
        "The types of responses that get additions, beside text/html.",
    ),
];

crate::config::setting::settings! {
    before: Bytes = Bytes::new(),
    after: Bytes = Bytes::new(),
    types: MediaTypes = MediaTypes::default(),
}

/// Bytes read from a file at once.
const READ: usize = 32 * 1024;

fn path(
    build: &mut Build<'_>,
    directive: &Directive,
    field: fn(&mut Raw) -> &mut Setting<Bytes>,
) -> Outcome {
    let path = Bytes::copy_from_slice(&directive.args[0]);
    field(&mut build.location().addition).set(path)
}

impl Settings {
    /// Whether nothing is ever added.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }
}

/// Whether something is added to a response.
#[must_use]
pub fn applies(request: &Request, response: &Response) -> bool {
    let settings = &request.location().settings.addition;
    !settings.is_off()
        && request.depth == 0
        && response.status == 200
        && settings.types.contains(response.content_type.as_deref())
}

/// Puts the additions around the body; `ask` gives the body of another request inside this one.
pub fn apply(
    request: &Request,
    response: &mut Response,
    ask: fn(&Request, &[u8]) -> Box<dyn BodyStream>,
) {
    if !applies(request, response) {
        return;
    }
    let settings = &request.location().settings.addition;
    response.note_rewritten();
    forget_identity(response);
    if request.is_head() {
        return;
    }
    let own = body_reader::stream(std::mem::take(&mut response.body), READ);
    let mut parts = VecDeque::from([own]);
    if !settings.before.is_empty() {
        parts.push_front(ask(request, &settings.before));
    }
    if !settings.after.is_empty() {
        parts.push_back(ask(request, &settings.after));
    }
    response.body = Body::Stream(Box::new(Parts(parts)));
}

/// Bodies one after the other.
struct Parts(VecDeque<Box<dyn BodyStream>>);

impl BodyStream for Parts {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        while let Some(part) = self.0.front_mut() {
            match part.poll_chunk(context) {
                Poll::Ready(None) => drop(self.0.pop_front()),
                polled => return polled,
            }
        }
        Poll::Ready(None)
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) {
        if let Some(part) = self.0.front_mut() {
            part.poll_fill(context);
        }
    }
}
