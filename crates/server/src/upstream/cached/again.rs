//! A kept response that was sent once and may be sent again without the phases: the same target at the same host leads to
//! the same key, as long as the key is made of nothing else.

use crate::cache::forms::Forms;
use crate::cache::zone::{Kept, Zone};
use crate::config::model::LocationId;
use crate::http::cached::{CacheStatus, Cached, Keepsake};
use crate::http::request::Proxied;
use crate::http::response::Repeat;
use crate::http::{Request, Response, thread};
use crate::store::Key;
use crate::upstream::settings::Family;
use bytes::Bytes;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use wire::http1::Known;

/// What tells whether a request means the same response.
#[derive(Debug)]
struct Again {
    family: Family,
    zone: Arc<Zone>,
    key: Key,
    text: Bytes,
    entry: Weak<crate::cache::entry::Entry>,
    location: LocationId,
    target: Box<[u8]>,
    host: Box<[u8]>,
    host_field: Option<Box<[u8]>>,
    is_tls: bool,
    proxied: Option<Proxied>,
    stored: i64,
    /// What of it was made of the response.
    forms: Option<Rc<Forms>>,
}

/// Lets a response that was found in memory be sent again, where the request's target, its host and the settings of its
/// location decide everything.
pub fn offer(
    request: &Request,
    family: Family,
    zone: &Arc<Zone>,
    kept: &Kept,
    response: &mut Response,
) {
    let entry = &kept.entry;
    let facts = &entry.facts;
    let gunzips = request.location().settings.gunzip.on;
    if request.location().repeat == Repeat::Never
        || request
            .generation
            .config
            .http
            .variables
            .uses_upstream_fields
        || facts.status != 200
        || !facts.vary.is_empty()
        || entry.body.is_none()
        || response.content_length.is_none()
        || entry.head.fields.iter().any(|field| depends(field.known))
        || (gunzips
            && entry
                .head
                .fields
                .iter()
                .any(|field| field.known == Known::ContentEncoding))
        || !entry.is_asked_for_again()
    {
        return;
    }
    response.kept = Some(Rc::new(Again {
        family,
        zone: Arc::clone(zone),
        key: entry.key(),
        text: entry.text.clone(),
        entry: Arc::downgrade(entry),
        location: request.location,
        target: request.text(request.head.request_uri).into(),
        host: request.host[..].into(),
        host_field: request.field(Known::Host).map(Into::into),
        is_tls: request.connection.is_tls(),
        proxied: request.proxied.clone(),
        stored: entry.times().stored,
        forms: response.forms.clone(),
    }));
}

/// Fields that are rewritten by variables, or tell the server something for one request.
fn depends(known: Known) -> bool {
    matches!(
        known,
        Known::Location
            | Known::Refresh
            | Known::SetCookie
            | Known::XAccelRedirect
            | Known::XAccelLimitRate
            | Known::XAccelBuffering
            | Known::XAccelCharset
    )
}

impl Keepsake for Again {
    fn target(&self) -> &[u8] {
        &self.target
    }

    fn is_for(&self, request: &Request) -> bool {
        *self.host == request.host[..]
            && self.host_field.as_deref() == request.field(Known::Host)
            && self.is_tls == request.connection.is_tls()
            && !settings_of(request, self).bypass.hold(request)
    }

    fn bytes(&self) -> Option<Bytes> {
        let entry = self.zone.current(self.key)?;
        let now = thread::unix_ms() / 1000;
        let is_same = std::ptr::eq(Weak::as_ptr(&self.entry), Arc::as_ptr(&entry));
        let holds = entry.times().valid_until >= i64::try_from(now).unwrap_or(i64::MAX);
        if !is_same || !holds {
            return None;
        }
        entry.note_use(now);
        if let Some(forms) = &self.forms {
            forms.note_use(now);
        }
        entry.body.clone()
    }

    fn note(&self, request: &mut Request) {
        let mut cached = Cached::new(CacheStatus::Hit, self.text.clone());
        cached.stored = Some(self.stored);
        cached.is_whole = true;
        request.cached = Some(Box::new(cached));
        request.proxied.clone_from(&self.proxied);
    }
}

fn settings_of<'r>(request: &'r Request, again: &Again) -> &'r crate::cache::Settings {
    let location = request.generation.config.location(again.location);
    match again.family {
        Family::Proxy => &location.settings.proxy_cache,
        Family::FastCgi => &location.settings.fastcgi_cache,
    }
}
