//! `flv`: a film from the byte that `start` names, with a head of its own (pseudo-streaming).

use crate::config::build::Build;
use crate::config::directive::{Arity, LOCATION, Outcome, Set, row};
use crate::http::body::Part;
use crate::http::{Body, Request, Response};
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "flv",
    LOCATION,
    Arity::Exactly(0),
    flv,
    "Answer with films from the byte that the argument `start` names.",
)];

/// What was written in one block.
#[derive(Default, Debug, Clone)]
pub struct Raw {
    on: bool,
}

/// What holds in one block; inner blocks do not inherit it.
#[derive(Default, Debug, Clone)]
pub struct Settings {
    pub on: bool,
}

impl Raw {
    #[must_use]
    pub fn resolve(&self, _: &Settings) -> Settings {
        Settings { on: self.on }
    }
}

fn flv(build: &mut Build<'_>, _: &Directive) -> Outcome {
    build.location().flv.on = true;
    Ok(())
}

/// The head of a film with sound and picture, and the size of a tag before the first one.
const HEAD: &[u8] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";

/// Lets the response begin at `start`, where the request has one that lies in the file.
pub fn seek(request: &Request, response: &mut Response) {
    if !request.location().settings.flv.on {
        return;
    }
    let Some(whole) = response.body.as_part() else {
        return;
    };
    let start = argument(&request.args, b"start").and_then(conf::values::parse_number);
    let Some(start) = start.filter(|&start| start > 0 && start < whole.len()) else {
        return;
    };
    let rest = whole.slice(start, whole.len() - start);
    let parts = vec![Part::Memory(Bytes::from_static(HEAD)), rest];
    response.set_body(Body::Parts(parts));
    response.file = None;
    set_etag(response);
}

/// The ETag of a part of a film: of the file's time, and the length of the part.
pub fn set_etag(response: &mut Response) {
    if let (Some(_), Some(modified), Some(length)) = (
        &response.etag,
        &response.last_modified,
        response.content_length,
    ) {
        response.etag = Some(Bytes::from(format!(
            "\"{:x}-{length:x}\"",
            modified.seconds
        )));
    }
}

/// The value of the first argument of a name, in any case.
pub fn argument<'a>(args: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    args.split(|&byte| byte == b'&').find_map(|argument| {
        let equal = memchr::memchr(b'=', argument)?;
        argument[..equal]
            .eq_ignore_ascii_case(name)
            .then(|| &argument[equal + 1..])
    })
}
