//! `empty_gif`: a picture of one transparent pixel.

use super::Content;
use crate::config::build::Build;
use crate::config::directive::{Arity, LOCATION, Outcome, Set, row};
use crate::http::response::LastModified;
use crate::http::{Body, Interrupt, Phase, Request, Response};
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use wire::fields::date;
use wire::http1::Method;

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "empty_gif",
    LOCATION,
    Arity::Exactly(0),
    empty_gif,
    "Answer with a picture of one transparent pixel.",
)];

/// GIF89a, 1 by 1: a table of two colours, the second transparent, and one pixel of it.
const PICTURE: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x01\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x01\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02L\x01\x00;";
/// Mon, 28 Sep 1970 06:00:00 GMT: nginx's date for it.
const MODIFIED: i64 = 23_349_600;

fn empty_gif(build: &mut Build<'_>, _: &Directive) -> Outcome {
    build.frame().content = Some(Content::EmptyGif);
    Ok(())
}

pub fn respond(request: &Request) -> Phase<Response> {
    if !matches!(request.method, Method::Get | Method::Head) {
        return Err(Interrupt::Status(405));
    }
    let mut response = Response::new(200, Body::Memory(Bytes::from_static(PICTURE)));
    response.content_type = Some(Bytes::from_static(b"image/gif"));
    response.last_modified = Some(LastModified {
        seconds: MODIFIED,
        text: Bytes::copy_from_slice(&date::format(MODIFIED)),
    });
    Ok(response)
}
