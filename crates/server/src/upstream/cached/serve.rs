//! The client's response, made of what is kept: the head is read anew, with the settings of now.

use crate::cache::entry::{Entry, Times};
use crate::cache::lookup::Found;
use crate::cache::zone::Kept;
use crate::http::body::{Body, FileRange, OpenFile};
use crate::http::{Interrupt, Phase, Request, Response, thread};
use crate::upstream::answer::keep_fields_of;
use crate::upstream::response_head;
use crate::upstream::settings::Family;
use std::rc::Rc;
use wire::http1::Known;

/// Whether what is kept is out of date, and what it may be used for then.
pub fn found(times: Times, now: i64) -> Found {
    if times.valid_until >= now {
        return Found::Fresh;
    }
    Found::Stale {
        while_updating: times.valid_until.saturating_add(times.updating) >= now,
        on_error: times.valid_until.saturating_add(times.on_error) >= now,
    }
}

/// The client's response of an entry, without its body: the head is read anew, with the settings of now.
pub fn head(request: &Request, family: Family, entry: &Entry) -> Phase<Response> {
    let settings = match family {
        Family::Proxy => &request.location().settings.proxy_relay,
        Family::FastCgi => &request.location().settings.fastcgi_relay,
    };
    let buffer = &entry.facts.head;
    let received = response_head::read(request, family, settings, &entry.head, buffer)?;
    if let Some(rate) = received.instructions.limit_rate {
        request.limit_rate.set(Some(rate));
    }
    let mut response = received.response;
    response.single_range = false;
    response.skip_conditions = false;
    if request
        .cached
        .as_ref()
        .is_some_and(|cached| cached.is_strict)
    {
        super::strict::tell_age(&mut response, entry, super::now());
    }
    let length = entry.head.value(Known::ContentLength, buffer);
    response.content_length = length.and_then(wire::http1::body::parse_content_length);
    Ok(response)
}

/// The client's response of what is kept.
pub fn respond(request: &mut Request, family: Family, kept: &Kept) -> Phase<Response> {
    let entry = &kept.entry;
    keep_fields_of(request, &entry.head, &entry.facts.head);
    let mut response = head(request, family, entry)?;
    entry.note_use(thread::unix_ms() / 1000);
    if response.content_type.is_some() {
        request.content_type = None;
    }
    if request.is_head() {
        return Ok(response);
    }
    response.body = match (&entry.body, &kept.file) {
        (Some(body), _) if response.content_length.is_some() || body.is_empty() => {
            Body::Memory(body.clone())
        }
        // As it came, in chunks.
        (Some(body), _) => Body::Stream(crate::http::body_reader::stream(
            Body::Memory(body.clone()),
            usize::MAX,
        )),
        (None, Some(kept)) => {
            let file = kept.file.try_clone().map_err(|_| Interrupt::Status(500))?;
            let range = Body::File(FileRange {
                file: Rc::new(OpenFile { fd: file.into() }),
                offset: kept.offset,
                length: kept.length,
            });
            match response.content_length {
                Some(_) => range,
                None => Body::Stream(crate::http::body_reader::stream(range, 64 * 1024)),
            }
        }
        (None, None) => Body::Empty,
    };
    Ok(response)
}
