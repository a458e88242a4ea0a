//! What a request may ask of the cache where it follows RFC 9111: a fresher response, an older one, one that is kept or
//! none; and what an unsafe method does to what is kept.

use super::{Asking, serve, settings};
use crate::cache::bans::What;
use crate::cache::entry::Entry;
use crate::cache::lookup::Found;
use crate::cache::rfc9111::{self, CacheControl, State, Taken};
use crate::cache::tags;
use crate::cache::zone::Zone;
use crate::http::{Interrupt, Phase, Request, Response};
use std::sync::Arc;
use wire::http1::{Known, Method};

/// Whether a method may change what it is used on.
pub fn is_unsafe(method: Method) -> bool {
    !matches!(
        method,
        Method::Get | Method::Head | Method::Options | Method::Trace
    )
}

/// What the request says of the response that it wants; Pragma counts where Cache-Control says nothing.
fn wishes(request: &Request) -> CacheControl {
    let mut wishes = CacheControl::read(request.fields_known(Known::CacheControl));
    if request.field(Known::CacheControl).is_none() {
        let mut pragma = request.fields_named(b"Pragma");
        wishes.no_cache |= pragma.any(|value| value.eq_ignore_ascii_case(b"no-cache"));
    }
    wishes
}

impl Asking<'_> {
    /// What a response that is kept is to this request.
    pub fn found(&mut self, entry: &Entry, now: i64) -> Found {
        let rules = settings(self.request, self.family);
        let times = entry.times();
        let found = serve::found(times, now);
        if !rules.is_strict() {
            return found;
        }
        let buffer = &entry.facts.head;
        let (told, _) = rfc9111::told(&entry.head, buffer, rules.targeted());
        let state = State {
            valid_until: times.valid_until,
            age: age(entry, now),
            forbids_stale: told.forbids_stale(),
        };
        let none = Found::Stale {
            while_updating: false,
            on_error: false,
        };
        let taken = rfc9111::taken(&wishes(self.request), state, now);
        self.is_forced = found == Found::Fresh && taken == Taken::Stale;
        self.is_strict = self.is_forced || (state.forbids_stale && taken == Taken::Stale);
        match taken {
            Taken::Fresh => Found::Fresh,
            Taken::Stale if self.is_strict => none,
            Taken::Stale => found,
        }
    }

    /// Whether the upstream may be asked.
    pub fn may_ask(&self) -> Phase {
        let is_strict = settings(self.request, self.family).is_strict();
        match is_strict && wishes(self.request).only_if_cached {
            true => Err(Interrupt::Status(504)),
            false => Ok(()),
        }
    }
}

/// Seconds since a response that is kept was made.
fn age(entry: &Entry, now: i64) -> i64 {
    let stored = entry.times().stored;
    let at_first = rfc9111::age_at(&entry.head, &entry.facts.head, stored);
    at_first.saturating_add(now.saturating_sub(stored).max(0))
}

/// Tells how old a response is that is kept.
pub fn tell_age(response: &mut Response, entry: &Entry, now: i64) {
    response.take_out("Age");
    response.headers.push("Age", age(entry, now).to_string());
}

/// What an unsafe method makes void.
pub struct Doomed {
    pub zone: Arc<Zone>,
    pub text: Vec<u8>,
}

impl Doomed {
    /// Forgets it if the upstream did what it was asked, and the groups that it names (RFC 9875).
    pub fn settle(self, outcome: &Phase<Response>) {
        let Ok(response) = outcome else { return };
        if !matches!(response.status, 200..=399) {
            return;
        }
        self.zone.purge(&self.text);
        if let Some(groups) = response.headers.find("Cache-Group-Invalidation") {
            for group in tags::asked(groups) {
                self.zone.ban(What::Tag(group.into()), false);
            }
        }
    }
}
