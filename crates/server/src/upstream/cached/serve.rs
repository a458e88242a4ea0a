//! The client's response, made of what is kept: the head is read anew, with the settings of now.

use crate::cache::entry::{Entry, Times};
use crate::cache::forms::Forms;
use crate::cache::lookup::Found;
use crate::cache::zone::{Kept, Zone};
use crate::http::body::Body;
use crate::http::{Interrupt, Phase, Request, Response, thread};
use crate::upstream::answer::keep_fields_of;
use crate::upstream::response_head;
use crate::upstream::settings::Family;
use std::rc::Rc;
use std::sync::Arc;
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

/// Where a response's forms are kept, if its location makes some that are: a part of a response has none.
pub fn forms(
    request: &Request,
    zone: &Arc<Zone>,
    entry: &Entry,
    is_new: bool,
) -> Option<Rc<Forms>> {
    let settings = &request.location().settings;
    let makes = settings.compress.keeps_forms()
        || settings.small_light.on
        || !settings.image_filter.is_off();
    let is_whole = matches!(entry.facts.status, 200 | 403 | 404);
    (makes && is_whole && request.depth == 0).then(|| Forms::of(zone, entry, is_new))
}

/// The client's response of what is kept.
pub fn respond(
    request: &mut Request,
    family: Family,
    zone: &Arc<Zone>,
    kept: &Kept,
) -> Phase<Response> {
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
    response.forms = forms(request, zone, entry, false);
    response.body = match (&entry.body, &kept.file) {
        (Some(body), _) if response.content_length.is_some() || body.is_empty() => {
            Body::Memory(body.clone())
        }
        // As it came, in chunks.
        (Some(body), _) => Body::Stream(crate::http::body_reader::stream(
            Body::Memory(body.clone()),
            usize::MAX,
        )),
        (None, _) => {
            let body = kept.body().map_err(|_| Interrupt::Status(500))?;
            match response.content_length {
                Some(_) => body,
                None => Body::Stream(crate::http::body_reader::stream(body, 64 * 1024)),
            }
        }
    };
    Ok(response)
}
