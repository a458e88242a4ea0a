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
            let usable = rules.stale_while_updating || while_updating;
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

    const DOCS: &str = include_str!("../../../../docs/cache.md");

    /// The lines of a table of the page, without its head.
    fn rows(head: &str) -> Vec<&'static str> {
        let lines = DOCS.lines().skip_while(|line| !line.starts_with(head));
        lines
            .skip(2)
            .take_while(|line| line.starts_with('|'))
            .collect()
    }

    /// Everything that can be known and said.
    fn all() -> Vec<(Found, Rules)> {
        let bools = [false, true];
        let mut founds = vec![Found::Nothing, Found::Fresh, Found::Failure(502)];
        for (while_updating, on_error) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            founds.push(Found::Stale {
                while_updating,
                on_error,
            });
        }
        let mut all = Vec::new();
        for found in founds {
            for bits in 0..32_u32 {
                let bit = |number: u32| bools[(bits >> number & 1) as usize];
                let rules = Rules {
                    lock: bit(0),
                    stale_while_updating: bit(1),
                    background_update: bit(2),
                    scarce: bit(3),
                    busy: bit(4),
                };
                all.push((found, rules));
            }
        }
        all
    }

    fn is_usable(found: Found, rules: Rules) -> bool {
        let allowed = matches!(found, Found::Stale { while_updating, .. } if while_updating);
        rules.stale_while_updating || allowed
    }

    fn asks(step: Step, status: CacheStatus, keeps: bool) -> bool {
        matches!(step, Step::Ask(fetch) if fetch.status == status && fetch.keeps == keeps)
    }

    /// What a cell of the page means.
    fn is_found(cell: &str, found: Found) -> bool {
        match cell {
            "nothing" => found == Found::Nothing,
            "a response that holds" => found == Found::Fresh,
            "a failure that is kept (`proxy_cache_valid 502 …`)" => {
                matches!(found, Found::Failure(_))
            }
            "a response out of date" => matches!(found, Found::Stale { .. }),
            _ => panic!("{cell}"),
        }
    }

    fn does_hold(cell: &str, found: Found, rules: Rules) -> bool {
        match cell {
            "" => true,
            "asked for less often than `proxy_cache_min_uses`" => rules.scarce,
            "`proxy_cache_lock`, somebody fetches it" => rules.lock && rules.busy,
            "usable while updating*, somebody fetches" => is_usable(found, rules) && rules.busy,
            "usable while updating*, `proxy_cache_background_update`" => {
                is_usable(found, rules) && rules.background_update
            }
            _ => panic!("{cell}"),
        }
    }

    fn is_step(cell: &str, status: &str, step: Step) -> bool {
        use CacheStatus::{Expired, Hit, Miss, Stale, Updating};
        match (cell, status) {
            ("it answers", "HIT") => matches!(step, Step::Serve(Hit) | Step::Fail(_)),
            ("it answers", "UPDATING") => step == Step::Serve(Updating),
            ("it answers, a new one is fetched in the background", "STALE") => {
                step == Step::ServeAndUpdate(Stale)
            }
            ("the upstream is asked", "MISS") => asks(step, Miss, true),
            ("the upstream is asked", "EXPIRED") => asks(step, Expired, true),
            ("the upstream is asked, nothing is kept", "MISS") => asks(step, Miss, false),
            ("the request waits for that fetch", "") => step == Step::Wait,
            _ => panic!("{cell} {status}"),
        }
    }

    #[test]
    fn the_page_s_table_is_what_happens() {
        let rows = rows("| what is known of the key |");
        let mut used = vec![false; rows.len()];
        for (found, rules) in all() {
            let means = |row: &&str| {
                let cells: Vec<&str> = row.split('|').map(str::trim).collect();
                is_found(cells[1], found) && does_hold(cells[2], found, rules)
            };
            let number = rows.iter().position(means).expect("a row");
            let cells: Vec<&str> = rows[number].split('|').map(str::trim).collect();
            let step = arrive(found, rules);
            assert!(
                is_step(cells[3], cells[4], step),
                "{found:?} {rules:?} {step:?}"
            );
            used[number] = true;
        }
        assert!(
            used.iter().all(|used| *used),
            "a row that nothing leads to: {used:?}"
        );
    }

    #[test]
    fn the_page_s_table_of_waiting_is_what_happens() {
        let rows = rows("| what comes |");
        let told: Vec<(String, String)> = rows
            .iter()
            .map(|row| {
                row.split('|')
                    .map(|cell| cell.trim().to_owned())
                    .collect::<Vec<_>>()
            })
            .map(|cells| (cells[1].clone(), cells[2].clone()))
            .collect();
        let ask = |keeps, leads| Some(self::ask(CacheStatus::Miss, keeps, leads));
        let expected = [
            (
                "the head of a response that is to be kept",
                Waited::Streaming,
                "the request reads the response along while it comes: HIT",
                Some(Step::Serve(CacheStatus::Hit)),
            ),
            (
                "the fetch ended without one",
                Waited::Ended,
                "the key is looked up again",
                None,
            ),
            (
                "the response is not one to be kept",
                Waited::Refused,
                "every request asks for itself",
                ask(true, false),
            ),
            (
                "`proxy_cache_lock_timeout`",
                Waited::TimedOut,
                "the upstream is asked, nothing is kept",
                ask(false, false),
            ),
            (
                "`proxy_cache_lock_age`",
                Waited::TooOld,
                "one more request leads",
                ask(true, true),
            ),
        ];
        assert_eq!(told.len(), expected.len());
        for ((what, done), (event, how, text, step)) in told.iter().zip(expected) {
            assert_eq!((what.as_str(), done.as_str()), (event, text));
            assert_eq!(waited(how), step, "{event}");
        }
    }

    #[test]
    fn the_page_s_table_of_outcomes_is_what_happens() {
        let rows = rows("| what it came to |");
        let outcomes = [
            Outcome::Failure { named: false },
            Outcome::Failure { named: true },
            Outcome::Named,
            Outcome::NotModified,
            Outcome::Other,
        ];
        let mut used = vec![false; rows.len()];
        for (found, _) in all() {
            let Found::Stale { on_error, .. } = found else {
                continue;
            };
            for outcome in outcomes {
                let means = |row: &&str| match row.split('|').nth(1).unwrap_or_default().trim() {
                    "a failure or a status that `proxy_cache_use_stale` names" => {
                        matches!(outcome, Outcome::Named | Outcome::Failure { named: true })
                    }
                    "no answer (not a status), within stale-if-error or stale-while-revalidate of \
                     the response's own" => on_error && matches!(outcome, Outcome::Failure { .. }),
                    "304, with `proxy_cache_revalidate`" => outcome == Outcome::NotModified,
                    "anything else" => true,
                    other => panic!("{other}"),
                };
                let number = rows.iter().position(means).expect("a row");
                let status = rows[number].split('|').nth(3).unwrap_or_default().trim();
                let becomes = after(CacheStatus::Expired, found, outcome);
                let told = becomes.unwrap_or(CacheStatus::Expired).as_str();
                assert_eq!(told, status, "{found:?} {outcome:?}");
                used[number] = true;
            }
        }
        assert!(used.iter().all(|used| *used), "{used:?}");
    }

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
            (USABLE, "", ask(Expired, true, true)),
            (USABLE, "busy", Step::Serve(Updating)),
            (USABLE, "background", Step::ServeAndUpdate(Stale)),
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
