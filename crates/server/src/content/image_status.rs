//! `image_status`: what is known and counted of pictures, as JSON.

use super::Content;
use crate::config::build::Build;
use crate::config::directive::{Arity, Outcome, SL, Set, row};
use crate::http::{Body, Interrupt, Phase, Request, Response};
use crate::image::counts::{COUNTS, value};
use crate::image::work;
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use wire::http1::Method;

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "image_status",
    SL,
    Arity::Exactly(0),
    image_status,
    "Answer with the counters of pictures, as JSON.",
)];

fn image_status(build: &mut Build<'_>, _: &Directive) -> Outcome {
    build.frame().content = Some(Content::ImageStatus);
    Ok(())
}

/// The page.
pub fn respond(request: &Request) -> Phase<Response> {
    if !matches!(request.method, Method::Get | Method::Head) {
        return Err(Interrupt::Status(405));
    }
    let http = &request.generation.config.http.image;
    let store = http.built_in.store(http);
    let numbers = [
        ("under_way", work::under_way()),
        ("made", value(&COUNTS.made)),
        ("found", value(&COUNTS.found)),
        ("joined", value(&COUNTS.joined)),
        ("refused", value(&COUNTS.refused)),
        ("busy", value(&COUNTS.busy)),
        ("given", value(&COUNTS.given)),
        ("bytes_in", value(&COUNTS.bytes_in)),
        ("bytes_out", value(&COUNTS.bytes_out)),
        ("entries", store.entries() as u64),
        ("bytes", store.bytes()),
        ("bytes_max", store.bytes_max()),
        ("evicted", store.evicted()),
    ];
    let members = numbers.map(|(name, number)| format!("  \"{name}\": {number}"));
    let text = format!("{{\n{}\n}}\n", members.join(",\n"));
    let mut response = Response::new(200, Body::Memory(Bytes::from(text)));
    response.content_type = Some(Bytes::from_static(b"application/json"));
    response.skip_conditions = true;
    Ok(response)
}
