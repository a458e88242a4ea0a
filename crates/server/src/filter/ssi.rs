//! `ssi`: pages with commands in comments, which include other pages. `page` goes through a page, `command` does what its
//! commands say; what a command looks like is `wire::ssi`'s matter.

mod command;
mod include;
mod page;

use super::compress::forget_identity;
use crate::config::directive::{Arity, HSL, HSLI, Set, flag, row, size};
use crate::http::media_types::{self, MediaTypes};
use crate::http::{Body, Request, Response, body_reader};
use conf::table::Row;
use std::future::Future;
use std::pin::Pin;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "ssi",
        HSLI,
        Arity::Flag,
        |b, d| flag(&mut b.location().ssi.on, d),
        "Whether commands in pages are carried out (server side includes).",
    ),
    row(
        "ssi_silent_errors",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().ssi.silent_errors, d),
        "Whether a command that fails leaves nothing in the page.",
    ),
    row(
        "ssi_ignore_recycled_buffers",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().ssi.ignore_recycled_buffers, d),
        "Accepted: buffers are counted, not recycled.",
    ),
    row(
        "ssi_min_file_chunk",
        HSL,
        Arity::Exactly(1),
        |b, d| size(&mut b.location().ssi.min_file_chunk, d),
        "Accepted: a page's text is in memory when it is searched, and sent from there.",
    ),
    row(
        "ssi_value_length",
        HSL,
        Arity::Exactly(1),
        |b, d| size(&mut b.location().ssi.value_length, d),
        "The most bytes of a parameter's value in a command.",
    ),
    row(
        "ssi_types",
        HSL,
        Arity::AtLeast(1),
        |b, d| media_types::add(b, d, |b| &mut b.location().ssi.types.0),
        "The types of pages with commands, beside text/html.",
    ),
    row(
        "ssi_last_modified",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().ssi.last_modified, d),
        "Whether pages with commands keep their Last-Modified.",
    ),
    row(
        "subrequest_output_buffer_size",
        HSL,
        Arity::Exactly(1),
        |b, d| size(&mut b.location().ssi.output_buffer_size, d),
        "The most bytes of a response that `include` keeps in a variable.",
    ),
];

crate::config::setting::settings! {
    on: bool = false,
    silent_errors: bool = false,
    ignore_recycled_buffers: bool = false,
    min_file_chunk: u64 = 1024,
    value_length: u64 = 256,
    types: MediaTypes = MediaTypes::default(),
    last_modified: bool = false,
    output_buffer_size: u64 = 4096,
}

/// Bytes read from a file at once.
const READ: usize = 32 * 1024;

/// A request inside another one, being answered.
pub type Asked = Pin<Box<dyn Future<Output = (Box<Request>, Option<Response>)>>>;

/// How a page has others asked; the filters stand below the phases.
#[derive(Clone, Copy)]
pub struct Asking {
    /// The same request for as long as its body goes on.
    pub twin: fn(&Request) -> Box<Request>,
    /// Has a request for a path with arguments answered; `None`: it would stand too deep.
    pub ask: fn(&Request, &[u8], &[u8]) -> Option<Asked>,
}

/// Whether commands in a response are carried out.
#[must_use]
pub fn applies(request: &Request, response: &Response) -> bool {
    let settings = &request.location().settings.ssi;
    settings.on
        && response.content_length != Some(0)
        && response.content_type.is_some()
        && settings.types.contains(response.content_type.as_deref())
}

/// Carries out the commands in a page of one of the types.
pub fn apply(request: &Request, response: &mut Response, asking: Asking) {
    if !applies(request, response) {
        return;
    }
    response.note_rewritten();
    forget_identity(response);
    if !request.location().settings.ssi.last_modified {
        response.forget_last_modified();
        response.etag = None;
    }
    if request.is_head() && request.depth == 0 {
        return;
    }
    request.includes.get_or_init(Default::default);
    let body = body_reader::stream(std::mem::take(&mut response.body), READ);
    let page = page::Page::new((asking.twin)(request), asking, body);
    response.body = Body::Stream(Box::new(page));
}
