//! stub
use super::receive::Answer;
use super::settings::{Family, Settings};
use crate::http::interrupt::Target;
use crate::http::{Request, Response};
use bytes::Bytes;
use wire::http1::Known;

#[derive(Default)]
pub struct Instructions {
    pub redirect: Option<Target>,
    pub limit_rate: Option<u64>,
    pub buffering: Option<bool>,
}
pub struct Received {
    pub response: Response,
    pub instructions: Instructions,
}
pub fn read(
    _request: &Request,
    family: Family,
    settings: &Settings,
    answer: &Answer,
) -> Result<Received, String> {
    let mut response = Response {
        status: answer.head.status,
        ..Response::default()
    };
    if family == Family::FastCgi {
        response.status = 200;
    }
    for field in &answer.head.fields {
        let (name, value) = (
            field.name.of(&answer.buffer),
            Bytes::copy_from_slice(field.value.of(&answer.buffer)),
        );
        match field.known {
            Known::ContentType => response.content_type = Some(value),
            Known::ContentLength | Known::Connection | Known::TransferEncoding => {}
            known if settings.hides(family, known, name) => {}
            _ => response.headers.push(name.to_vec(), value),
        }
    }
    Ok(Received {
        response,
        instructions: Instructions::default(),
    })
}
