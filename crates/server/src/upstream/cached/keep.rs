//! Whether a response is one to be kept, and its way into the zone while the client gets it.

use super::{Fetch, now, serve, settings};
use crate::cache;
use crate::cache::entry::{Entry, Facts, Times, variant, variant_text};
use crate::cache::fill::Fill;
use crate::cache::flight::Lead;
use crate::cache::forms;
use crate::cache::freshness::{self, Freshness, Ignored};
use crate::cache::rfc9111::{self, CacheControl};
use crate::http::body::{Body, BodyStream};
use crate::http::{Request, Response};
use crate::upstream::receive::Answer;
use crate::upstream::settings::{Family, IgnoredFields, Settings};
use bytes::Bytes;
use std::rc::Rc;
use std::sync::Arc;
use wire::fields::date;
use wire::http1::Known;
use wire::http1::response::Head;

/// What is to be done with a response that comes.
pub struct Keep {
    fetch: Rc<Fetch>,
    facts: Facts,
    text: Bytes,
}

impl Fetch {
    /// Notes how a try failed.
    pub fn note_failure(&self, condition: u16) {
        self.failed.set(condition);
    }

    /// Whether the response may be kept, as far as its head is known; then how.
    pub fn judge(
        self: &Rc<Self>,
        request: &mut Request,
        family: Family,
        relay: &Settings,
        answer: &Answer,
    ) -> Option<Keep> {
        let told = told(
            request,
            family,
            relay,
            (&answer.head, &answer.buffer),
            now(),
        );
        let is_whole = self.keeps && !told.refused;
        let keep = self.judged(request, family, relay, answer, told);
        if let Some(cached) = &mut request.cached {
            cached.forwarded_status = Some(answer.head.status);
            cached.is_kept = keep.is_some();
            cached.ttl = (keep.as_ref()).map(|keep| keep.facts.times.valid_until - now());
            cached.is_fetch = keep.is_some();
            cached.is_whole = is_whole;
        }
        if keep.is_none()
            && let Some(lead) = self.lead.take()
        {
            lead.refuse();
        }
        keep
    }

    fn judged(
        self: &Rc<Self>,
        request: &Request,
        family: Family,
        relay: &Settings,
        answer: &Answer,
        told: Freshness,
    ) -> Option<Keep> {
        let rules = settings(request, family);
        let unbuffered = match relay
            .ignore_headers
            .contains(IgnoredFields::X_ACCEL_BUFFERING)
        {
            true => !relay.buffering,
            false => match answer.head.value(Known::XAccelBuffering, &answer.buffer) {
                Some(value) if value.eq_ignore_ascii_case(b"yes") => false,
                Some(value) if value.eq_ignore_ascii_case(b"no") => true,
                _ => !relay.buffering,
            },
        };
        let status = answer.head.status;
        if !self.keeps || unbuffered || status == 101 || rules.no_cache.hold(request) {
            return None;
        }
        let now = now();
        let valid_until = valid_until(&told, rules, status, now)?;
        let has_conditions = matches!(status, 200 | 206);
        let field = |known| answer.head.value(known, &answer.buffer);
        let variant = match told.vary.is_empty() {
            true => 0,
            false => variant(request, &told.vary),
        };
        let facts = Facts {
            times: Times {
                valid_until,
                updating: told.updating,
                on_error: told.on_error,
                stored: now,
            },
            is_cgi: family == Family::FastCgi,
            is_bodiless: request.is_head() && !rules.convert_head,
            status,
            last_modified: field(Known::LastModified)
                .filter(|_| has_conditions)
                .and_then(date::parse),
            etag: field(Known::Etag)
                .filter(|_| has_conditions)
                .map_or_else(Bytes::new, Bytes::copy_from_slice),
            vary: Bytes::from(told.vary),
            variant,
            version: forms::next_version(),
            head: kept_head(rules, answer),
        };
        Some(Keep {
            fetch: Rc::clone(self),
            text: self.text_for(&facts),
            facts,
        })
    }
}

impl Fetch {
    /// The key that a response is kept under: the one that was looked up, unless the response varies in another way now
    /// than what is kept under the first.
    fn text_for(&self, facts: &Facts) -> Bytes {
        let is_own = self.own_text == self.text
            || (!facts.vary.is_empty() && variant_text(&self.text, facts.variant) == self.own_text);
        match is_own {
            true => self.own_text.clone(),
            false => self.text.clone(),
        }
    }
}

impl Keep {
    /// Keeps the response with this body on its way to the client.
    pub fn keep(mut self, request: &Request, response: &mut Response) {
        let to_head = request.is_head();
        let zone = Arc::clone(&self.fetch.zone);
        let lead = self.fetch.lead.take();
        self.facts.is_bodiless &= response.body.length() == Some(0);
        match std::mem::take(&mut response.body) {
            Body::Stream(stream) => self.stream(request, stream, lead, response),
            body => {
                let bytes = match &body {
                    Body::Memory(bytes) => bytes.clone(),
                    _ => Bytes::new(),
                };
                // A HEAD that was asked as such has no body, although its length is told.
                let is_whole = self.facts.is_bodiless
                    || (response.content_length).is_none_or(|length| length == bytes.len() as u64);
                if !is_whole {
                    response.body = if to_head { Body::Empty } else { body };
                    return;
                }
                if let Some(entry) = Entry::new(self.text, self.facts, Some(bytes)) {
                    response.forms = serve::forms(request, &zone, &entry, true);
                    zone.keep(Arc::new(entry));
                }
                response.body = if to_head { Body::Empty } else { body };
                if response.content_length.is_none() && !to_head {
                    let body = std::mem::take(&mut response.body);
                    response.body =
                        Body::Stream(crate::http::body_reader::stream(body, usize::MAX));
                }
            }
        }
    }

    fn stream(
        self,
        request: &Request,
        stream: Box<dyn BodyStream>,
        lead: Option<Lead>,
        response: &mut Response,
    ) {
        let zone = Arc::clone(&self.fetch.zone);
        let begun = zone
            .store
            .writer(&self.text, &self.facts.encode(), 0)
            .and_then(|writer| Ok((writer.file()?, writer)));
        let (file, writer) = match begun {
            Ok((file, writer)) => (Some(file), Some(writer)),
            Err(error) => {
                zone.complain("write", &error);
                (None, None)
            }
        };
        let offset = writer.as_ref().map_or(0, |writer| writer.body_offset());
        let Some(entry) = Entry::new(self.text, self.facts, None) else {
            response.body = Body::Stream(stream);
            return;
        };
        let length = response.content_length;
        let fill = Fill::new(Arc::new(entry), length, file, offset);
        response.body = match request.is_head() {
            true => Body::Empty,
            false => Body::Stream(Box::new(fill.reader())),
        };
        response.forms = serve::forms(request, &zone, &fill.entry, true);
        if let Some(lead) = &lead {
            lead.comes(&fill);
        }
        let fetching = cache::fill::Fetching {
            zone,
            fill,
            writer,
            lead,
        };
        drop(tokio::task::spawn_local(fetching.run(stream)));
    }
}

pub fn ignored(relay: &Settings) -> Ignored {
    let has = |field| relay.ignore_headers.contains(field);
    Ignored {
        x_accel_expires: has(IgnoredFields::X_ACCEL_EXPIRES),
        expires: has(IgnoredFields::EXPIRES),
        cache_control: has(IgnoredFields::CACHE_CONTROL),
        set_cookie: has(IgnoredFields::SET_COOKIE),
        vary: has(IgnoredFields::VARY),
    }
}

/// The head as it is kept; the standard has fields stay out that Connection names.
fn kept_head(rules: &cache::Settings, answer: &Answer) -> Bytes {
    let whole = answer.head_bytes();
    let is_named = rules.is_strict() && answer.head.value(Known::Connection, whole).is_some();
    let renewed = match is_named {
        true => rfc9111::renewed((&answer.head, whole), None),
        false => None,
    };
    renewed.map_or_else(|| Bytes::copy_from_slice(whole), Bytes::from)
}

/// What the fields of a response say of its use.
pub fn told(
    request: &Request,
    family: Family,
    relay: &Settings,
    (head, buffer): (&Head, &[u8]),
    now: i64,
) -> Freshness {
    let rules = settings(request, family);
    if !rules.is_strict() {
        let mut told = freshness::read(head, buffer, ignored(relay), now);
        if !rules.targeted().is_empty() {
            told = targeted(told, rules.targeted(), (head, buffer), ignored(relay), now);
        }
        return told;
    }
    let asked = rfc9111::Asked {
        authorization: request.field(Known::Authorization).is_some(),
        no_store: CacheControl::read(request.fields_named(b"Cache-Control")).no_store,
    };
    rfc9111::read((head, buffer), ignored(relay), rules.targeted(), asked, now)
}

/// The same in nginx's way, with a field that stands above Cache-Control and Expires where there is one.
fn targeted(
    told: Freshness,
    names: &[Box<[u8]>],
    (head, buffer): (&Head, &[u8]),
    ignored: Ignored,
    now: i64,
) -> Freshness {
    let (own, is_targeted) = rfc9111::told(head, buffer, names);
    if !is_targeted || ignored.cache_control {
        return told;
    }
    let others = Ignored {
        cache_control: true,
        expires: true,
        ..ignored
    };
    let mut told = freshness::read(head, buffer, others, now);
    if told.valid_until.is_some() {
        return told;
    }
    let seconds = own.shared_max_age.or(own.max_age);
    told.refused |= own.no_store || own.no_cache || own.private || seconds == Some(0);
    told.valid_until = seconds.map(|seconds| now.saturating_add(seconds));
    told.updating = own.while_revalidate;
    told.on_error = own.if_error;
    told
}

/// Until when a response holds; `None`: it is not kept.
pub fn valid_until(
    told: &Freshness,
    rules: &cache::Settings,
    status: u16,
    now: i64,
) -> Option<i64> {
    if told.refused {
        return None;
    }
    let by_settings = || {
        let seconds = rules.valid.seconds(status)?;
        Some(now.saturating_add_unsigned(seconds))
    };
    let by_guess = || told.guess.map(|seconds| now.saturating_add(seconds));
    (told.valid_until.or_else(by_settings)).or_else(by_guess)
}
