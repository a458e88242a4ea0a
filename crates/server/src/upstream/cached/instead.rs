//! What is kept in place of what an upstream did not answer, or answered with a failure or 304.

use super::keep::{told, valid_until};
use super::serve::respond;
use super::{Fetch, now, settings};
use crate::cache;
use crate::cache::entry::{Entry, Facts, Times};
use crate::cache::lookup::{self, Outcome};
use crate::cache::rfc9111;
use crate::cache::zone::Kept;
use crate::http::cached::{CacheStatus, Cached};
use crate::http::{Interrupt, Phase, Request, Response};
use crate::store::Key;
use crate::upstream::receive::Answer;
use crate::upstream::settings::{Family, Settings};
use bytes::Bytes;
use std::sync::Arc;
use wire::fields::date;
use wire::http1::Known;

impl Fetch {
    /// What is kept in place of an answer: of a failure, or of 304.
    pub fn in_place_of(
        &self,
        request: &mut Request,
        family: Family,
        relay: &Settings,
        answer: &Answer,
    ) -> Option<Phase<Response>> {
        let rules = settings(request, family);
        let status = answer.head.status;
        let outcome = match status {
            304 if rules.revalidate || rules.is_strict() => Outcome::NotModified,
            status if rules.use_stale.contains_status(status) && !self.is_strict => Outcome::Named,
            _ => Outcome::Other,
        };
        let kept = self.stale.as_ref()?;
        let becomes = lookup::after(self.status, self.found, outcome)?;
        if becomes == CacheStatus::Revalidated {
            let kept = self.freshen(request, family, relay, kept, answer);
            return Some(self.answer(request, family, &kept, becomes, Some(status)));
        }
        Some(self.answer(request, family, kept, becomes, Some(status)))
    }

    /// What is kept holds anew; where the standard is followed, with the fields of the 304.
    fn freshen(
        &self,
        request: &Request,
        family: Family,
        relay: &Settings,
        kept: &Kept,
        answer: &Answer,
    ) -> Kept {
        let now = now();
        let rules = settings(request, family);
        let entry = renewed(rules, kept, answer).unwrap_or_else(|| Arc::clone(&kept.entry));
        let is_new = !Arc::ptr_eq(&entry, &kept.entry);
        let said = told(request, family, relay, (&answer.head, &answer.buffer), now);
        let said = match said.valid_until {
            Some(_) if !is_new => said,
            // The 304 says nothing of it: what was said at first holds, counted from now.
            _ => told(
                request,
                family,
                relay,
                (&entry.head, &entry.facts.head),
                now,
            ),
        };
        if let Some(valid_until) = valid_until(&said, rules, entry.facts.status, now) {
            let times = Times {
                valid_until,
                updating: said.updating,
                on_error: said.on_error,
                stored: now,
            };
            match is_new {
                false => {
                    entry.set_times(times);
                    self.zone.freshened(&entry);
                }
                true => {
                    let facts = Facts {
                        times,
                        ..entry.facts.clone()
                    };
                    let body = entry.body.clone();
                    if let Some(entry) = Entry::new(entry.text.clone(), facts, body).map(Arc::new) {
                        let file = kept.file.clone();
                        match &file {
                            None => self.zone.keep(Arc::clone(&entry)),
                            Some(file) => self.zone.rewrite(&entry, file),
                        }
                        return Kept { entry, file };
                    }
                }
            }
        }
        Kept {
            entry,
            file: kept.file.clone(),
        }
    }

    fn answer(
        &self,
        request: &mut Request,
        family: Family,
        kept: &Kept,
        status: CacheStatus,
        forwarded_status: Option<u16>,
    ) -> Phase<Response> {
        drop(self.lead.take());
        let mut cached = Cached::new(status, self.text.clone());
        let times = kept.entry.times();
        cached.stored = Some(times.stored);
        cached.is_whole = true;
        cached.is_strict = settings(request, family).is_strict();
        cached.forwarded = self.forwarded;
        cached.forwarded_status = forwarded_status;
        cached.ttl = Some(times.valid_until.saturating_sub(now()));
        request.cached = Some(Box::new(cached));
        respond(request, family, &self.zone, kept)
    }

    /// What answers where no upstream did.
    pub fn after_failure(
        &self,
        request: &mut Request,
        family: Family,
        interrupt: Interrupt,
    ) -> Phase<Response> {
        let rules = settings(request, family);
        let failed = self.failed.get();
        if failed == 0 {
            return Err(interrupt);
        }
        let named = rules.use_stale.contains(failed) && !self.is_strict;
        let outcome = Outcome::Failure { named };
        if let (Some(kept), Some(status)) =
            (&self.stale, lookup::after(self.status, self.found, outcome))
        {
            return self.answer(request, family, kept, status, None);
        }
        if let Interrupt::Status(status @ (502 | 504)) = interrupt {
            self.keep_failure(request, family, status);
        }
        Err(interrupt)
    }

    /// Remembers the status of an answer whose place a page of the configuration takes. As in nginx only its fields and
    /// the times of the settings are asked for that, not `proxy_no_cache`.
    pub fn keep_page(&self, request: &Request, family: Family, relay: &Settings, answer: &Answer) {
        let now = now();
        let status = answer.head.status;
        let told = told(request, family, relay, (&answer.head, &answer.buffer), now);
        let until = valid_until(&told, settings(request, family), status, now);
        if let Some(until) = until.filter(|_| self.keeps_failures()) {
            self.zone
                .keep_failure(Key::of(&self.own_text), status, until);
        }
    }

    /// As in nginx, not where the cache was bypassed.
    fn keeps_failures(&self) -> bool {
        self.keeps && self.status != CacheStatus::Bypass
    }

    /// Remembers that the answer is this status, if the settings keep it.
    fn keep_failure(&self, request: &Request, family: Family, status: u16) {
        let seconds = settings(request, family).valid.seconds(status);
        if let Some(seconds) = seconds.filter(|_| self.keeps_failures()) {
            let until = now().saturating_add_unsigned(seconds);
            self.zone
                .keep_failure(Key::of(&self.own_text), status, until);
        }
    }
}

/// What is kept with the fields of a 304, where the standard is followed.
fn renewed(rules: &cache::Settings, kept: &Kept, answer: &Answer) -> Option<Arc<Entry>> {
    let entry = &kept.entry;
    if !rules.is_strict() {
        return None;
    }
    let old = (&entry.head, &entry.facts.head[..]);
    let new = (&answer.head, &answer.buffer[..]);
    let head = Bytes::from(rfc9111::renewed(old, Some(new))?);
    let mut facts = entry.facts.clone();
    facts.head = head;
    let mut renewed = Entry::new(entry.text.clone(), facts, entry.body.clone())?;
    let field = |known| renewed.head.value(known, &renewed.facts.head);
    let last_modified = field(Known::LastModified).and_then(date::parse);
    let etag = field(Known::Etag).map_or_else(Bytes::new, Bytes::copy_from_slice);
    renewed.facts.last_modified = last_modified;
    renewed.facts.etag = etag;
    Some(Arc::new(renewed))
}
