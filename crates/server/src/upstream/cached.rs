//! The cache before an upstream: what is kept answers in its place, and what it answers may be kept. `cache::lookup` says
//! which; here it is done.

mod again; // responses that are sent again as they were
mod instead; // what is kept in place of a failure or 304
mod keep; // whether a response is kept, and how
mod serve; // responses of what is kept
mod strict; // the standard's rules for requests
mod told; // Cache-Status

pub use keep::Keep;
pub use strict::Doomed;
pub use told::tell;

use super::settings::Family;
use crate::cache;
use crate::cache::entry::{Entry, variant};
use crate::cache::fill::Fill;
use crate::cache::flight::Lead;
use crate::cache::lookup::{self, Found, Rules, Step, Waited};
use crate::cache::purge::{self, Asked};
use crate::cache::settings::{Choice, UseStale};
use crate::cache::zone::{Kept, Zone};
use crate::http::body::Body;
use crate::http::cached::{CacheStatus, Cached};
use crate::http::{Interrupt, Phase, Request, Response, thread};
use crate::log::error::{Level, write_request};
use crate::store::Key;
use bytes::Bytes;
use serve::{head, respond};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use wire::http1::{Known, Method};

/// How often a request looks a key up anew after it has waited.
const LOOKS_MAX: usize = 16;

/// A fetch that the cache has an interest in.
pub struct Fetch {
    zone: Arc<Zone>,
    text: Bytes,
    /// The key of the variant that was looked for: `text`, or one of its own.
    own_text: Bytes,
    status: CacheStatus,
    keeps: bool,
    found: Found,
    /// What is out of date must not be used, whatever the settings say.
    is_strict: bool,
    /// Why the upstream is asked, in RFC 9211's words.
    forwarded: Option<&'static str>,
    /// What is out of date.
    stale: Option<Kept>,
    lead: RefCell<Option<Lead>>,
    /// How the last try failed, as `proxy_cache_use_stale` names it.
    failed: Cell<u16>,
}

/// What the cache says to a request.
pub enum Looked {
    Answer(Box<Response>),
    /// The upstream is to be asked.
    Ask(Option<Rc<Fetch>>),
    /// The upstream is to be asked by a method that may change what is kept.
    AskUnsafe(Doomed),
    /// What is kept answers, and the upstream is to be asked in the background.
    AnswerAndAsk(Box<Response>, Rc<Fetch>),
}

/// The family's settings of the cache for a request.
fn settings(request: &Request, family: Family) -> &cache::Settings {
    let settings = &request.location().settings;
    match family {
        Family::Proxy => &settings.proxy_cache,
        Family::FastCgi => &settings.fastcgi_cache,
    }
}

fn now() -> i64 {
    i64::try_from(thread::unix_ms() / 1000).unwrap_or(i64::MAX)
}

/// The zone of a request, if it has one.
fn zone(request: &Request, family: Family) -> Phase<Option<Arc<Zone>>> {
    let template = match &settings(request, family).cache {
        Choice::Off => return Ok(None),
        Choice::Zone(named) => return Ok(named.zone.get().cloned()),
        Choice::Variable(template) => template,
    };
    let name = template.evaluate(request);
    if matches!(&name[..], b"" | b"off") {
        return Ok(None);
    }
    let family = match family {
        Family::Proxy => &cache::directive::PROXY_FAMILY,
        Family::FastCgi => &cache::directive::FASTCGI_FAMILY,
    };
    let found = request
        .generation
        .config
        .http
        .caches
        .find(&name, family.zones);
    if found.is_none() {
        let name = String::from_utf8_lossy(&name);
        write_request(
            request,
            Level::Error,
            format_args!("cache \"{name}\" not found"),
        );
        return Err(Interrupt::Status(500));
    }
    Ok(found.cloned())
}

/// Looks a request up. `own_key` appends the key of a family that has one where none is written.
pub async fn look(
    request: &mut Request,
    family: Family,
    own_key: impl FnOnce(&Request, &mut Vec<u8>),
) -> Phase<Looked> {
    request.cached = None;
    let rules = settings(request, family);
    let purge = rules.purge.clone();
    let asked = purge.map_or(Asked::Nothing, |purge| purge.asked(request));
    let is_named = rules.methods.contains(request.method) || asked != Asked::Nothing;
    let dooms = !is_named && rules.is_strict() && strict::is_unsafe(request.method);
    if matches!(rules.cache, Choice::Off) || !(is_named || dooms) {
        return Ok(Looked::Ask(None));
    }
    let Some(zone) = zone(request, family)? else {
        return Ok(Looked::Ask(None));
    };
    let mut text = Vec::with_capacity(128);
    match &settings(request, family).key {
        Some(key) => key.append(request, &mut text),
        None => own_key(request, &mut text),
    }
    if dooms {
        return Ok(Looked::AskUnsafe(Doomed { zone, text }));
    }
    match asked {
        Asked::Nothing => {}
        Asked::Forbidden => return Err(Interrupt::Status(403)),
        Asked::Key | Asked::All => {
            let all = asked == Asked::All;
            let purged = purge::carry_out(settings(request, family), request, &zone, &text, all);
            return Err(Interrupt::Status(if purged { 204 } else { 404 }));
        }
    }
    let mut asking = Asking {
        request,
        family,
        zone,
        own_text: Bytes::new(),
        text: Bytes::from(text),
        is_strict: false,
        is_forced: false,
    };
    asking.own_text = asking.text.clone();
    if settings(asking.request, family).bypass.hold(asking.request) {
        let fetch = asking.fetch(lookup::bypass(), Found::Nothing, None, None);
        return Ok(Looked::Ask(Some(fetch)));
    }
    asking.look().await
}

/// A location that only purges answers; others let the request go on.
pub fn purge_here(request: &Request) -> Phase {
    for family in [Family::Proxy, Family::FastCgi] {
        let rules = settings(request, family);
        let Some(purge) = &rules.purge else { continue };
        if request.location().content.is_relay() {
            continue;
        }
        let Some((zone, text)) = purge.place(request) else {
            continue;
        };
        let may = matches!(request.method, Method::Get | Method::Head | Method::Delete)
            || *request.method_name() == *b"PURGE";
        if !may {
            return Err(Interrupt::Status(405));
        }
        if !purge::carry_out(rules, request, &zone, &text, false) {
            return Err(Interrupt::Status(404));
        }
        let text = b"<html>\n<head><title>Successful purge</title></head>\n<body>\n\
            <center><h1>Successful purge</h1></center>\n</body>\n</html>\n";
        let mut response = Response::new(200, Body::Memory(Bytes::from_static(text)));
        response.content_type = Some(Bytes::from_static(b"text/html"));
        return Err(Interrupt::Respond(Box::new(response)));
    }
    Ok(())
}

/// A request and what it is looked up by.
struct Asking<'r> {
    request: &'r mut Request,
    family: Family,
    zone: Arc<Zone>,
    text: Bytes,
    own_text: Bytes,
    /// What is out of date must not be used, whatever the settings say.
    is_strict: bool,
    /// The request wants a fresher response than the one that is kept.
    is_forced: bool,
}

impl Asking<'_> {
    async fn look(&mut self) -> Phase<Looked> {
        for _ in 0..LOOKS_MAX {
            let request = &*self.request;
            let (kept, own_text) = self
                .zone
                .find(&self.text, |vary| variant(request, vary))
                .await;
            self.own_text = own_text;
            // Unlike in nginx, what has no body answers HEAD alone.
            let kept = kept.filter(|kept| !kept.entry.facts.is_bodiless || request.is_head());
            let key = Key::of(&self.own_text);
            let now = now();
            let found = match &kept {
                Some(kept) => self.found(&kept.entry, now),
                None => match self.zone.failure(key, now) {
                    Some(status) => Found::Failure(status),
                    None => Found::Nothing,
                },
            };
            let rules = self.rules(key, found);
            let mut step = lookup::arrive(found, rules);
            let mut replaces = false;
            if step == Step::Wait {
                match self.wait(key).await {
                    Err(answered) => return answered,
                    Ok(None) => continue,
                    Ok(Some(next)) => {
                        replaces = true;
                        step = next;
                    }
                }
            }
            match (step, kept) {
                (Step::Fail(status), _) => {
                    self.note(CacheStatus::Hit, None);
                    return Err(Interrupt::Status(status));
                }
                (Step::Serve(status), Some(kept)) => {
                    return self.serve(status, &kept).map(Looked::Answer);
                }
                (Step::ServeAndUpdate(status), Some(kept)) => {
                    let Some(lead) = self.zone.lead(key, false) else {
                        return self.serve(CacheStatus::Updating, &kept).map(Looked::Answer);
                    };
                    let response = self.serve(status, &kept)?;
                    let asked = lookup::Fetch {
                        status: CacheStatus::Expired,
                        keeps: true,
                        leads: true,
                    };
                    let before = self.request.cached.take();
                    let fetch = self.fetch(asked, found, Some(kept), Some(lead));
                    self.request.cached = before;
                    return Ok(Looked::AnswerAndAsk(response, fetch));
                }
                (Step::Ask(mut asked), kept) => {
                    let lead = match asked.leads {
                        true => self.zone.lead(key, replaces),
                        false => None,
                    };
                    if asked.leads && lead.is_none() {
                        // Somebody else was quicker.
                        continue;
                    }
                    asked.keeps &= self.takes_whole();
                    self.may_ask()?;
                    return Ok(Looked::Ask(Some(self.fetch(asked, found, kept, lead))));
                }
                _ => {}
            }
        }
        Ok(Looked::Ask(None))
    }

    fn rules(&self, key: Key, found: Found) -> Rules {
        let rules = settings(self.request, self.family);
        let scarce = found == Found::Nothing
            && rules.min_uses > 1
            && self.zone.count_use(key) < rules.min_uses;
        Rules {
            lock: rules.lock,
            stale_while_updating: !self.is_strict && rules.use_stale.contains(UseStale::UPDATING),
            background_update: rules.background_update,
            scarce,
            busy: self.zone.flight(key).is_some(),
        }
    }

    /// Waits for somebody else's fetch. `Ok(None)`: look again.
    async fn wait(&mut self, key: Key) -> Result<Option<Step>, Phase<Looked>> {
        let rules = settings(self.request, self.family);
        let (timeout_ms, age_ms) = (rules.lock_timeout_ms, rules.lock_age_ms);
        let Some(flight) = self.zone.flight(key) else {
            return Ok(None);
        };
        let (waited, fill) = flight.wait(timeout_ms, age_ms).await;
        if let (Waited::Streaming, Some(fill)) = (waited, fill) {
            let facts = &fill.entry.facts;
            if !facts.vary.is_empty() && variant(self.request, &facts.vary) != facts.variant {
                return Ok(lookup::waited(Waited::Refused));
            }
            return Err(self.stream(&fill).map(Looked::Answer));
        }
        Ok(lookup::waited(waited))
    }

    /// Whether a fetch would be of the whole response: not of a range that begins too far on.
    fn takes_whole(&self) -> bool {
        let Some(most) = settings(self.request, self.family).max_range_offset else {
            return true;
        };
        let Some(value) = self.request.field(Known::Range) else {
            return true;
        };
        let Some(spec) = value.strip_prefix(b"bytes=") else {
            return true;
        };
        let spec = spec.trim_ascii_start();
        let digits = spec.iter().take_while(|byte| byte.is_ascii_digit()).count();
        match conf::values::parse_number(spec.get(..digits).unwrap_or_default()) {
            Some(start) => start < most,
            None => false,
        }
    }

    fn note(&mut self, status: CacheStatus, entry: Option<&Entry>) {
        let mut cached = Cached::new(status, self.text.clone());
        cached.stored = entry.map(|entry| entry.times().stored);
        cached.ttl = entry.map(|entry| entry.times().valid_until.saturating_sub(now()));
        cached.is_strict = settings(self.request, self.family).is_strict();
        cached.is_whole = entry.is_some();
        self.request.cached = Some(Box::new(cached));
    }

    fn fetch(
        &mut self,
        asked: lookup::Fetch,
        found: Found,
        stale: Option<Kept>,
        lead: Option<Lead>,
    ) -> Rc<Fetch> {
        self.note(asked.status, None);
        let rules = settings(self.request, self.family);
        let revalidates = rules.revalidate || rules.is_strict();
        let forwarded = Some(match asked.status {
            CacheStatus::Bypass => "bypass",
            CacheStatus::Miss if self.own_text != self.text => "vary-miss",
            CacheStatus::Miss => "uri-miss",
            _ if self.is_forced => "request",
            _ => "stale",
        });
        if let Some(cached) = &mut self.request.cached {
            cached.is_fetch = asked.keeps;
            cached.forwarded = forwarded;
            if let (true, CacheStatus::Expired, Some(kept)) = (revalidates, asked.status, &stale) {
                cached.last_modified = kept.entry.facts.last_modified;
                cached.etag = kept.entry.facts.etag.clone();
            }
        }
        Rc::new(Fetch {
            zone: Arc::clone(&self.zone),
            text: self.text.clone(),
            own_text: self.own_text.clone(),
            status: asked.status,
            keeps: asked.keeps,
            found,
            is_strict: self.is_strict,
            forwarded,
            stale,
            lead: RefCell::new(lead),
            failed: Cell::new(0),
        })
    }

    fn serve(&mut self, status: CacheStatus, kept: &Kept) -> Phase<Box<Response>> {
        self.note(status, Some(&kept.entry));
        let mut response = respond(self.request, self.family, &self.zone, kept)?;
        if status == CacheStatus::Hit {
            again::offer(self.request, self.family, &self.zone, kept, &mut response);
        }
        Ok(Box::new(response))
    }

    /// Reads along with what somebody else fetches.
    fn stream(&mut self, fill: &Arc<Fill>) -> Phase<Box<Response>> {
        self.note(CacheStatus::Hit, Some(&fill.entry));
        if let Some(cached) = &mut self.request.cached {
            cached.is_collapsed = true;
        }
        let mut response = head(self.request, self.family, &fill.entry)?;
        response.single_range = true;
        response.content_length = fill.length;
        response.forms = serve::forms(self.request, &self.zone, &fill.entry, false);
        response.body = match self.request.is_head() {
            true => Body::Empty,
            false => Body::Stream(Box::new(fill.reader())),
        };
        Ok(Box::new(response))
    }
}

/// A copy of a request that fetches in the background what it is answered from.
pub fn background(request: &Request, fetch: &Fetch) -> Box<Request> {
    let buffers = crate::http::request::Buffers {
        buffer: request.buffer.clone(),
        head: request.head.clone(),
        uri: request.uri.clone(),
        args: request.args.clone(),
        host: request.host.clone(),
        slots: Rc::new(RefCell::new(request.slots.borrow().clone())),
        ..Default::default()
    };
    let (generation, connection) = (
        Rc::clone(&request.generation),
        Rc::clone(&request.connection),
    );
    let mut copy = Request::new(generation, connection, request.started_ms, buffers);
    copy.depth = request.depth;
    copy.real_remote.clone_from(&request.real_remote);
    // HEAD stays what it is: the upstream is asked with GET for it unless `proxy_cache_convert_head` is off.
    copy.method = request.method;
    copy.version = request.version;
    copy.host_port = request.host_port;
    copy.server = request.server;
    copy.location = request.location;
    copy.internal = request.internal;
    copy.uri_changed = request.uri_changed;
    copy.uri_follows_alias = request.uri_follows_alias;
    copy.rewritten_in_place = request.rewritten_in_place;
    copy.proxied.clone_from(&request.proxied);
    let captures = request.captures.borrow();
    copy.captures
        .borrow_mut()
        .subject
        .clone_from(&captures.subject);
    copy.captures
        .borrow_mut()
        .positions
        .clone_from(&captures.positions);
    let mut cached = Cached::new(CacheStatus::Expired, fetch.text.clone());
    cached.is_fetch = true;
    copy.cached = Some(Box::new(cached));
    Box::new(copy)
}

/// What was fetched in the background has no client: a body that is not kept is read to its end, so that the upstream is
/// done with it.
pub fn drain(fetched: Phase<Response>, copy: &Request) {
    crate::log::error::write_late(copy);
    if let Ok(response) = fetched
        && let Body::Stream(mut stream) = response.body
    {
        drop(tokio::task::spawn_local(async move {
            while let Some(Ok(_)) = std::future::poll_fn(|context| stream.poll_chunk(context)).await
            {
            }
        }));
    }
}

/// The end of a fetch: what is kept answers if the upstream did not.
pub fn settle(
    request: &mut Request,
    family: Family,
    fetch: Option<Rc<Fetch>>,
    outcome: Phase<Response>,
) -> Phase<Response> {
    match (outcome, fetch) {
        (Err(interrupt), Some(fetch)) => fetch.after_failure(request, family, interrupt),
        (outcome, _) => outcome,
    }
}
