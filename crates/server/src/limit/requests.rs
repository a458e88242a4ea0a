//! `limit_req`: how many requests with one key are served in a second. What comes faster waits for its turn, as far as
//! `burst` allows, or is refused (the preaccess phase).

use super::zone::{Zone, Zones};
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, HTTP, Outcome, Set, flag, keyword, row};
use crate::config::setting::Setting;
use crate::config::zones;
use crate::http::{Interrupt, Phase, Request, thread};
use crate::log::error::{Level, write_request};
use crate::variables::Template;
use conf::table::Row;
use conf::{Directive, values};
use std::sync::Arc;
use std::time::Duration;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "limit_req_zone",
        HTTP,
        Arity::Exactly(3),
        limit_req_zone,
        "A zone that counts requests by a key: zone=NAME:SIZE rate=N r/s or r/m.",
    ),
    row(
        "limit_req",
        HSL,
        Arity::Between(1, 3),
        limit_req,
        "Requests keep to a zone's rate; burst=N may wait, or with nodelay or delay=N come at once.",
    ),
    row(
        "limit_req_log_level",
        HSL,
        Arity::Exactly(1),
        |b, d| keyword(&mut b.location().limit_requests.log_level, d, LEVELS),
        "At which level refused requests are logged; delayed ones are one level below.",
    ),
    row(
        "limit_req_status",
        HSL,
        Arity::Exactly(1),
        |b, d| status(&mut b.location().limit_requests.status, d),
        "The status of refused requests.",
    ),
    row(
        "limit_req_dry_run",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().limit_requests.dry_run, d),
        "Count and log, but let everything pass.",
    ),
];

/// The name of the feature among those that have zones.
const USER: &str = "limit_req";
/// Thousandths of a request, in which rates and bursts are counted.
const REQUEST: u64 = 1000;
/// nginx takes no longer key.
const KEY_MAX: usize = 65_535;

/// The levels that refusals are logged at.
pub const LEVELS: &[(&str, Level)] = &[
    ("info", Level::Info),
    ("notice", Level::Notice),
    ("warn", Level::Warning),
    ("error", Level::Error),
];

// The limits of a block take the place of all the outer block's.
crate::config::setting::settings! {
    limits: Arc<Vec<Limit>> = Arc::default(),
    log_level: Level = Level::Error,
    status: u16 = 503,
    dry_run: bool = false,
}

/// One `limit_req`; burst and delay in thousandths of a request.
#[derive(Debug, Clone)]
pub struct Limit {
    zone: Arc<Zone<Rate>>,
    burst: u64,
    /// Requests beyond the rate that do not wait.
    delay: u64,
}

/// What is known of the requests with one key.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Milliseconds since 1970; 0: never.
    last_ms: u64,
    /// How far ahead of the rate the requests were then, in thousandths of one.
    excess: u64,
}

/// What the limits make of a request: `$limit_req_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Delayed,
    Rejected,
    DelayedDryRun,
    RejectedDryRun,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Verdict::Passed => "PASSED",
            Verdict::Delayed => "DELAYED",
            Verdict::Rejected => "REJECTED",
            Verdict::DelayedDryRun => "DELAYED_DRY_RUN",
            Verdict::RejectedDryRun => "REJECTED_DRY_RUN",
        }
    }
}

fn limit_req_zone(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let text = &directive.args[0];
    let key = Template::compile(text, &mut build.variables)?;
    let mut zone = None;
    let mut rate = REQUEST;
    for word in &directive.args[1..] {
        if let Some(parameter) = word.strip_prefix(b"zone=") {
            zone = Some(zones::parse(word, parameter)?);
        } else if let Some(written) = word.strip_prefix(b"rate=") {
            rate = parse_rate(written).ok_or_else(|| format!("invalid rate \"{word}\""))?;
        } else {
            return Err(format!("invalid parameter \"{word}\"").into());
        }
    }
    let Some((name, size)) = zone.filter(|(name, _)| !name.is_empty()) else {
        return Err("\"limit_req_zone\" must have \"zone\" parameter".into());
    };
    build.zones.add(name, size, USER)?;
    let zone = build.http.limits.requests.named(name);
    zone.declare("limit_req_zone", text, key, size, rate)
}

/// `N`, `Nr/s` or `Nr/m`, in thousandths of a request in a second.
fn parse_rate(text: &[u8]) -> Option<u64> {
    let (digits, seconds) = match text.strip_suffix(b"r/m") {
        Some(digits) => (digits, 60),
        None => (text.strip_suffix(b"r/s").unwrap_or(text), 1),
    };
    let count = values::parse_number(digits).filter(|&count| count > 0)?;
    Some(count.saturating_mul(REQUEST) / seconds)
}

fn limit_req(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let (mut name, mut burst, mut delay) = (None, 0, Some(0));
    for word in &directive.args {
        if let Some(text) = word.strip_prefix(b"zone=") {
            build.zones.add(text, 0, USER)?;
            name = Some(text);
        } else if let Some(text) = word.strip_prefix(b"burst=") {
            burst = positive(text).ok_or_else(|| format!("invalid burst value \"{word}\""))?;
        } else if let Some(text) = word.strip_prefix(b"delay=") {
            let requests =
                positive(text).ok_or_else(|| format!("invalid delay value \"{word}\""))?;
            delay = Some(requests);
        } else if &word[..] == b"nodelay" {
            delay = None;
        } else {
            return Err(format!("invalid parameter \"{word}\"").into());
        }
    }
    let name = name.ok_or("\"limit_req\" must have \"zone\" parameter")?;
    let zone = build.http.limits.requests.named(name);
    let limits = &mut build.location().limit_requests.limits.0;
    let limits = Arc::make_mut(limits.get_or_insert_default());
    if limits.iter().any(|limit| Arc::ptr_eq(&limit.zone, &zone)) {
        return Err("is duplicate".into());
    }
    limits.push(Limit {
        zone,
        burst: burst.saturating_mul(REQUEST),
        delay: delay.map_or(u64::MAX, |delay: u64| delay.saturating_mul(REQUEST)),
    });
    Ok(())
}

fn positive(text: &[u8]) -> Option<u64> {
    values::parse_number(text).filter(|&number| number > 0)
}

/// A status that a refused request is answered with.
pub fn status(setting: &mut Setting<u16>, directive: &Directive) -> Outcome {
    let setting = setting.vacant()?;
    let number = values::parse_number(&directive.args[0]).ok_or("invalid number")?;
    match u16::try_from(number) {
        Ok(status @ 400..=599) => setting.set(status),
        _ => Err("value must be between 400 and 599".into()),
    }
}

impl Settings {
    /// Whether no request is ever limited.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.limits.is_empty()
    }
}

impl Rate {
    /// How far ahead of the rate the requests are with one more now.
    fn excess_at(self, now_ms: u64, rate: u64) -> u64 {
        let passed = elapsed(now_ms, self.last_ms);
        let served = u128::from(rate) * u128::from(passed) / 1000;
        let served = u64::try_from(served).unwrap_or(u64::MAX);
        (self.excess + REQUEST).saturating_sub(served)
    }

    /// Counts a request. A first one is not ahead of anything.
    fn account(&mut self, new: bool, now_ms: u64, rate: u64) -> u64 {
        if new {
            self.excess = 0;
            self.last_ms = now_ms;
        } else {
            self.excess = self.excess_at(now_ms, rate);
            if elapsed(now_ms, self.last_ms) > 0 {
                self.last_ms = now_ms;
            }
        }
        self.excess
    }
}

/// Milliseconds since `last_ms`. A clock that was put back a little stands still, one that was put back far goes on.
fn elapsed(now_ms: u64, last_ms: u64) -> u64 {
    const FAR_MS: u64 = 60_000;
    match now_ms.checked_sub(last_ms) {
        Some(passed) => passed,
        None if last_ms - now_ms > FAR_MS => 1,
        None => 0,
    }
}

/// What the limits say of a request: by the zone that decides, how far it is ahead, and how long it has to wait.
struct Judgement<'a> {
    zone: &'a str,
    excess: u64,
    /// `None`: it is refused.
    delay_ms: Option<u64>,
}

/// Asks all limits; only if none refuses, the request counts in each. `None`: no limit is for this request.
fn judge<'a>(request: &Request, limits: &'a [Limit]) -> Option<Judgement<'a>> {
    let now_ms = thread::unix_ms();
    let mut hashes = [None; LIMITS_ON_STACK];
    let mut more = Vec::new();
    let mut any = false;
    for (index, limit) in limits.iter().enumerate() {
        let hash = key_hash(request, &limit.zone);
        match hashes.get_mut(index) {
            Some(place) => *place = hash,
            None => more.push(hash),
        }
        let Some(hash) = hash else { continue };
        any = true;
        let rate = limit.zone.entries().shard(hash).peek(hash).copied();
        let excess = rate.map_or(0, |rate| rate.excess_at(now_ms, limit.zone.rate()));
        if excess > limit.burst {
            return Some(Judgement {
                zone: &limit.zone.name,
                excess,
                delay_ms: None,
            });
        }
    }
    if !any {
        return None;
    }
    let mut judgement = Judgement {
        zone: "",
        excess: 0,
        delay_ms: Some(0),
    };
    // As nginx, from the last to the first; the longest delay holds.
    for (index, limit) in limits.iter().enumerate().rev() {
        let hash = match index.checked_sub(LIMITS_ON_STACK) {
            None => hashes[index],
            Some(index) => more[index],
        };
        let Some(hash) = hash else { continue };
        let rate = limit.zone.rate();
        let mut shard = limit.zone.entries().shard(hash);
        let (state, new) = shard.touch(hash);
        let excess = state.account(new, now_ms, rate);
        drop(shard);
        if excess <= limit.delay {
            continue;
        }
        let delay_ms = (excess - limit.delay).saturating_mul(1000) / rate.max(1);
        if Some(delay_ms) > judgement.delay_ms {
            judgement = Judgement {
                zone: &limit.zone.name,
                excess,
                delay_ms: Some(delay_ms),
            };
        }
    }
    Some(judgement)
}

/// Limits of one location whose keys need no allocation.
const LIMITS_ON_STACK: usize = 4;

/// What stands for a request's key; `None`: the zone is not for it.
fn key_hash(request: &Request, zone: &Zone<Rate>) -> Option<u128> {
    zone.with_key(request, |key| match key.len() {
        0 => None,
        1..=KEY_MAX => Some(zone.entries().hash(key)),
        _ => {
            let shown = String::from_utf8_lossy(key);
            write_request(
                request,
                Level::Error,
                format_args!(
                    "the value of the \"{}\" key is more than {KEY_MAX} bytes: \"{shown}\"",
                    zone.key_text()
                ),
            );
            None
        }
    })
}

/// Lets a request pass, wait, or go away. As in nginx it is asked once, whatever redirects follow inside the server.
pub async fn check(request: &Request) -> Phase {
    let settings = &request.location().settings.limit_requests;
    if settings.limits.is_empty() || request.limit_req_status.get().is_some() {
        return Ok(());
    }
    let Some(judgement) = judge(request, &settings.limits) else {
        return Ok(());
    };
    let (verdict, delay_ms) = match (judgement.delay_ms, settings.dry_run) {
        (None, false) => (Verdict::Rejected, 0),
        (None, true) => (Verdict::RejectedDryRun, 0),
        (Some(0), _) => (Verdict::Passed, 0),
        (Some(delay_ms), false) => (Verdict::Delayed, delay_ms),
        (Some(_), true) => (Verdict::DelayedDryRun, 0),
    };
    request.limit_req_status.set(Some(verdict.as_str()));
    if verdict != Verdict::Passed {
        log(request, settings, &judgement);
    }
    match verdict {
        Verdict::Rejected => Err(Interrupt::Status(settings.status)),
        Verdict::Delayed => {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn log(request: &Request, settings: &Settings, judgement: &Judgement<'_>) {
    let dry_run = match settings.dry_run {
        true => ", dry run",
        false => "",
    };
    let (what, level, comma) = match (judgement.delay_ms, settings.log_level) {
        (None, level) => ("limiting requests", level, ""),
        (Some(_), Level::Error) => ("delaying request", Level::Warning, ","),
        (Some(_), Level::Warning) => ("delaying request", Level::Notice, ","),
        (Some(_), _) => ("delaying request", Level::Info, ","),
    };
    write_request(
        request,
        level,
        format_args!(
            "{what}{dry_run}, excess: {}.{:03}{comma} by zone \"{}\"",
            judgement.excess / 1000,
            judgement.excess % 1000,
            judgement.zone
        ),
    );
}

/// The zones of a configuration that count requests.
pub type RateZones = Zones<Rate>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        for (text, rate) in [
            ("1r/s", Some(1000)),
            ("30r/m", Some(500)),
            ("5", Some(5000)),
            ("1r/m", Some(16)),
            ("0r/s", None),
            ("r/s", None),
            ("1r/h", None),
        ] {
            assert_eq!(parse_rate(text.as_bytes()), rate, "{text}");
        }
    }

    #[test]
    fn the_excess_drains_with_time() {
        let mut state = Rate::default();
        assert_eq!(state.account(true, 5000, 2000), 0);
        assert_eq!(state.account(false, 5000, 2000), 1000);
        assert_eq!(state.account(false, 5250, 2000), 1500);
        assert_eq!(state.excess_at(6000, 2000), 1000);
        assert_eq!(state.excess_at(60_000, 2000), 0);
        // The clock was put back.
        assert_eq!(state.excess_at(5200, 2000), 2500);
        let late = Rate {
            last_ms: 100_000,
            excess: 0,
        };
        assert_eq!(late.excess_at(1000, 2000), 998);
    }
}
