//! What is kept in place of what an upstream did not answer, or answered with a failure or 304.

use super::keep::{ignored, valid_until};
use super::serve::respond;
use super::{Fetch, now, settings};
use crate::cache;
use crate::cache::entry::Times;
use crate::cache::freshness::{self, Freshness, Ignored};
use crate::cache::lookup::{self, Outcome};
use crate::cache::zone::Kept;
use crate::http::cached::{CacheStatus, Cached};
use crate::http::{Interrupt, Phase, Request, Response};
use crate::store::Key;
use crate::upstream::receive::Answer;
use crate::upstream::settings::{Family, Settings};

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
            304 if rules.revalidate => Outcome::NotModified,
            status if rules.use_stale.contains_status(status) => Outcome::Named,
            _ => Outcome::Other,
        };
        let kept = self.stale.as_ref()?;
        let becomes = lookup::after(self.status, self.found, outcome)?;
        if becomes == CacheStatus::Revalidated {
            let now = now();
            let told = freshness::read(&answer.head, &answer.buffer, ignored(relay), now);
            self.freshen(kept, told, rules, ignored(relay), now);
        }
        Some(self.answer(request, family, kept, becomes))
    }

    fn freshen(
        &self,
        kept: &Kept,
        told: Freshness,
        rules: &cache::Settings,
        ignored: Ignored,
        now: i64,
    ) {
        let entry = &kept.entry;
        let told = match told.valid_until {
            Some(_) => told,
            // The 304 says nothing of it: what was said at first holds, counted from now.
            None => freshness::read(&entry.head, &entry.facts.head, ignored, now),
        };
        if let Some(valid_until) = valid_until(&told, rules, entry.facts.status, now) {
            entry.set_times(Times {
                valid_until,
                updating: told.updating,
                on_error: told.on_error,
                stored: now,
            });
            self.zone.freshened(entry);
        }
    }

    fn answer(
        &self,
        request: &mut Request,
        family: Family,
        kept: &Kept,
        status: CacheStatus,
    ) -> Phase<Response> {
        drop(self.lead.take());
        let mut cached = Cached::new(status, self.text.clone());
        cached.stored = Some(kept.entry.times().stored);
        cached.is_whole = true;
        request.cached = Some(Box::new(cached));
        respond(request, family, kept)
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
        let named = rules.use_stale.contains(failed);
        let outcome = Outcome::Failure { named };
        if let (Some(kept), Some(status)) =
            (&self.stale, lookup::after(self.status, self.found, outcome))
        {
            return self.answer(request, family, kept, status);
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
        let told = freshness::read(&answer.head, &answer.buffer, ignored(relay), now);
        let until = valid_until(&told, settings(request, family), status, now);
        if let Some(until) = until.filter(|_| self.keeps) {
            self.zone
                .keep_failure(Key::of(&self.own_text), status, until);
        }
    }

    /// Remembers that the answer is this status, if the settings keep it.
    fn keep_failure(&self, request: &Request, family: Family, status: u16) {
        let seconds = settings(request, family).valid.seconds(status);
        if let Some(seconds) = seconds.filter(|_| self.keeps) {
            let until = now().saturating_add_unsigned(seconds);
            self.zone
                .keep_failure(Key::of(&self.own_text), status, until);
        }
    }
}
