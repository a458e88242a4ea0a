//! What becomes of a request that the cache was asked for: what is known of the key and what the settings say in, the next
//! step out. No clock, no disk: the table in docs/cache.md is this file.

use crate::http::cached::CacheStatus;

/// What is known of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Nothing,
    Fresh,
    /// It is out of date, but its upstream allowed to use it while a new one is fetched, or if there is none to be had.
    Stale {
        while_updating: bool,
        on_error: bool,
    },
    /// The last answer was this failure, and it still holds.
    Failure(u16),
}

/// What the settings and the request say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rules {
    /// `proxy_cache_lock`.
    pub lock: bool,
    /// `proxy_cache_use_stale updating`.
    pub stale_while_updating: bool,
    /// `proxy_cache_background_update`.
    pub background_update: bool,
    /// This is a background update itself.
    pub is_update: bool,
    /// The key was asked for less often than `proxy_cache_min_uses`.
    pub scarce: bool,
    /// Somebody is fetching the key's response.
    pub busy: bool,
}

/// How an upstream is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetch {
    pub status: CacheStatus,
    /// What comes may be kept.
    pub keeps: bool,
    /// Others are told that somebody fetches, and may wait for it.
    pub leads: bool,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Answer with what is kept.
    Serve(CacheStatus),
    /// Answer with what is kept, and have a new one fetched meanwhile.
    ServeAndUpdate(CacheStatus),
    /// Answer with the failure that is kept.
    Fail(u16),
    Ask(Fetch),
    /// Somebody fetches it: take part in that.
    Wait,
}

/// A request has come whose conditions do not bypass the cache.
#[must_use]
pub fn arrive(found: Found, rules: Rules) -> Step {
    let ask = |status, keeps, leads| {
        Step::Ask(Fetch {
            status,
            keeps,
            leads,
        })
    };
    match found {
        Found::Fresh => Step::Serve(CacheStatus::Hit),
        Found::Failure(status) => Step::Fail(status),
        Found::Nothing if rules.scarce => ask(CacheStatus::Miss, false, false),
        Found::Nothing if rules.lock && rules.busy => Step::Wait,
        Found::Nothing => ask(CacheStatus::Miss, true, rules.lock),
        Found::Stale { while_updating, .. } => {
            let usable = (rules.stale_while_updating || while_updating) && !rules.is_update;
            match (usable, rules.busy) {
                (true, true) => Step::Serve(CacheStatus::Updating),
                (true, false) if rules.background_update => {
                    Step::ServeAndUpdate(CacheStatus::Stale)
                }
                (_, busy) => ask(CacheStatus::Expired, true, !busy),
            }
        }
    }
}

/// The conditions bypass the cache; what comes is kept all the same.
#[must_use]
pub fn bypass() -> Fetch {
    Fetch {
        status: CacheStatus::Bypass,
        keeps: true,
        leads: false,
    }
}

/// What ends the waiting for somebody else's fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The response has begun to come: it is sent on as it comes.
    Streaming,
    /// It is kept, or the fetch failed: the key is looked up again.
    Ended,
    /// The response is not one to be kept: everybody asks for himself.
    Refused,
    /// `proxy_cache_lock_timeout`.
    TimedOut,
    /// `proxy_cache_lock_age`: one more may ask.
    TooOld,
}

/// Where a request goes that has waited; `None`: it looks the key up again.
#[must_use]
pub fn waited(how: Waited) -> Option<Step> {
    let ask = |keeps, leads| {
        Step::Ask(Fetch {
            status: CacheStatus::Miss,
            keeps,
            leads,
        })
    };
    match how {
        Waited::Streaming => Some(Step::Serve(CacheStatus::Hit)),
        Waited::Ended => None,
        Waited::Refused => Some(ask(true, false)),
        Waited::TimedOut => Some(ask(false, false)),
        Waited::TooOld => Some(ask(true, true)),
    }
}

/// What an upstream that was asked came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No answer: a failure that `proxy_cache_use_stale` names or not.
    Failure {
        named: bool,
    },
    /// An answer with a status that `proxy_cache_use_stale` names; stale-if-error is not for these, as in nginx.
    Named,
    /// 304 where `proxy_cache_revalidate` had asked.
    NotModified,
    Other,
}

/// The status to answer with what is kept under; `None`: the answer is passed on.
#[must_use]
pub fn after(asked: CacheStatus, found: Found, outcome: Outcome) -> Option<CacheStatus> {
    let Found::Stale { on_error, .. } = found else {
        return None;
    };
    match outcome {
        _ if asked != CacheStatus::Expired => None,
        Outcome::Failure { named } if named || on_error => Some(CacheStatus::Stale),
        Outcome::Named => Some(CacheStatus::Stale),
        Outcome::NotModified => Some(CacheStatus::Revalidated),
        Outcome::Failure { .. } | Outcome::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALE: Found = Found::Stale {
        while_updating: false,
        on_error: false,
    };
    const USABLE: Found = Found::Stale {
        while_updating: true,
        on_error: true,
    };

    fn rules(words: &str) -> Rules {
        let has = |word| words.split(' ').any(|other| other == word);
        Rules {
            lock: has("lock"),
            stale_while_updating: has("updating"),
            background_update: has("background"),
            is_update: has("is_update"),
            scarce: has("scarce"),
            busy: has("busy"),
        }
    }

    fn ask(status: CacheStatus, keeps: bool, leads: bool) -> Step {
        Step::Ask(Fetch {
            status,
            keeps,
            leads,
        })
    }

    #[test]
    fn the_table() {
        use CacheStatus::{Expired, Hit, Miss, Stale, Updating};
        for (found, words, expected) in [
            (Found::Fresh, "", Step::Serve(Hit)),
            (Found::Fresh, "lock busy scarce", Step::Serve(Hit)),
            (Found::Failure(502), "busy", Step::Fail(502)),
            (Found::Nothing, "", ask(Miss, true, false)),
            (Found::Nothing, "busy", ask(Miss, true, false)),
            (Found::Nothing, "lock", ask(Miss, true, true)),
            (Found::Nothing, "lock busy", Step::Wait),
            (Found::Nothing, "lock busy scarce", ask(Miss, false, false)),
            (STALE, "", ask(Expired, true, true)),
            (STALE, "busy", ask(Expired, true, false)),
            (STALE, "background", ask(Expired, true, true)),
            (STALE, "updating", ask(Expired, true, true)),
            (STALE, "updating busy", Step::Serve(Updating)),
            (STALE, "updating background", Step::ServeAndUpdate(Stale)),
            (STALE, "updating background busy", Step::Serve(Updating)),
            (STALE, "updating is_update", ask(Expired, true, true)),
            (USABLE, "", ask(Expired, true, true)),
            (USABLE, "busy", Step::Serve(Updating)),
            (USABLE, "background", Step::ServeAndUpdate(Stale)),
            (
                USABLE,
                "background is_update busy",
                ask(Expired, true, false),
            ),
        ] {
            assert_eq!(arrive(found, rules(words)), expected, "{found:?} {words}");
        }
    }

    #[test]
    fn what_is_kept_stands_in_for_failures() {
        use CacheStatus::{Bypass, Expired, Miss, Revalidated, Stale};
        let failure = |named| Outcome::Failure { named };
        for (asked, found, outcome, expected) in [
            (Expired, STALE, failure(true), Some(Stale)),
            (Expired, STALE, failure(false), None),
            (Expired, USABLE, failure(false), Some(Stale)),
            (Expired, STALE, Outcome::Named, Some(Stale)),
            (Bypass, STALE, Outcome::Named, None),
            (Expired, USABLE, Outcome::Other, None),
            (Expired, STALE, Outcome::NotModified, Some(Revalidated)),
            (Expired, STALE, Outcome::Other, None),
            (Bypass, STALE, failure(true), None),
            (Miss, Found::Nothing, failure(true), None),
        ] {
            assert_eq!(after(asked, found, outcome), expected);
        }
    }
}
