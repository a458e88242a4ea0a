//! `limit_conn`: how many requests with one key are being served at a time (the preaccess phase). A request that was
//! counted is taken off when it ends, however it ends.

use super::requests::{LEVELS, status};
use super::zone::{Entries, Zone, Zones};
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, HTTP, Outcome, Set, flag, keyword, row};
use crate::config::zones;
use crate::http::request::AtEnd;
use crate::http::{Interrupt, Phase, Request};
use crate::log::error::{Level, write_request};
use crate::variables::Template;
use conf::table::Row;
use conf::{Directive, values};
use std::sync::Arc;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "limit_conn_zone",
        HTTP,
        Arity::Exactly(2),
        limit_conn_zone,
        "A zone that counts requests being served by a key: zone=NAME:SIZE.",
    ),
    row(
        "limit_conn",
        HSL,
        Arity::Exactly(2),
        limit_conn,
        "The most requests with one key of a zone at a time.",
    ),
    row(
        "limit_conn_log_level",
        HSL,
        Arity::Exactly(1),
        |b, d| keyword(&mut b.location().limit_connections.log_level, d, LEVELS),
        "At which level refused requests are logged.",
    ),
    row(
        "limit_conn_status",
        HSL,
        Arity::Exactly(1),
        |b, d| status(&mut b.location().limit_connections.status, d),
        "The status of refused requests.",
    ),
    row(
        "limit_conn_dry_run",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().limit_connections.dry_run, d),
        "Count and log, but let everything pass.",
    ),
];

/// The name of the feature among those that have zones.
const USER: &str = "limit_conn";
/// nginx takes no longer key.
const KEY_MAX: usize = 255;
/// As in nginx, no limit is as high.
const LIMIT_BOUND: u64 = 65_536;

// The limits of a block take the place of all the outer block's.
crate::config::setting::settings! {
    limits: Arc<Vec<Limit>> = Arc::default(),
    log_level: Level = Level::Error,
    status: u16 = 503,
    dry_run: bool = false,
}

/// One `limit_conn`.
#[derive(Debug, Clone)]
pub struct Limit {
    zone: Arc<Zone<Count>>,
    most: u32,
}

/// Requests with one key that are being served.
#[derive(Debug, Default, Clone, Copy)]
pub struct Count(u32);

/// The zones of a configuration that count connections.
pub type CountZones = Zones<Count>;

fn limit_conn_zone(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let text = &directive.args[0];
    let key = Template::compile(text, &mut build.variables)?;
    let word = &directive.args[1];
    let Some(parameter) = word.strip_prefix(b"zone=") else {
        return Err(format!("invalid parameter \"{word}\"").into());
    };
    let (name, size) = zones::parse(word, parameter)?;
    if name.is_empty() {
        return Err("\"limit_conn_zone\" must have \"zone\" parameter".into());
    }
    build.zones.add(name, size, USER)?;
    let zone = build.http.limits.connections.named(name);
    zone.declare("limit_conn_zone", text, key, size, 0)
}

fn limit_conn(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let [name, number] = &directive.args[..] else {
        return Err("invalid value".into());
    };
    build.zones.add(name, 0, USER)?;
    let zone = build.http.limits.connections.named(name);
    let limits = &mut build.location().limit_connections.limits.0;
    let limits = Arc::make_mut(limits.get_or_insert_default());
    if limits.iter().any(|limit| Arc::ptr_eq(&limit.zone, &zone)) {
        return Err("is duplicate".into());
    }
    let most = values::parse_number(number)
        .filter(|&most| most > 0)
        .ok_or_else(|| format!("invalid number of connections \"{number}\""))?;
    if most >= LIMIT_BOUND {
        return Err("connection limit must be less 65536".into());
    }
    limits.push(Limit {
        zone,
        most: most as u32,
    });
    Ok(())
}

impl Settings {
    /// Whether no request is ever limited.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.limits.is_empty()
    }
}

/// What the limits make of a request: `$limit_conn_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Rejected,
    RejectedDryRun,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Verdict::Passed => "PASSED",
            Verdict::Rejected => "REJECTED",
            Verdict::RejectedDryRun => "REJECTED_DRY_RUN",
        }
    }
}

/// A request's places in the zones that count it; dropping it gives them back.
#[derive(Default)]
struct Places(Vec<(Arc<Entries<Count>>, u128)>);

impl AtEnd for Places {}

impl Drop for Places {
    fn drop(&mut self) {
        for (entries, key) in &self.0 {
            let mut shard = entries.shard(*key);
            if let Some(count) = shard.find_mut(*key) {
                count.0 = count.0.saturating_sub(1);
                if count.0 == 0 {
                    shard.remove(*key);
                }
            }
        }
    }
}

/// Whether a key has a place left in its zone, which is then taken.
fn take(entries: &Entries<Count>, key: u128, most: u32) -> bool {
    let mut shard = entries.shard(key);
    if let Some(count) = shard.find_mut(key) {
        let free = count.0 < most;
        count.0 += u32::from(free);
        return free;
    }
    // As in nginx, a zone whose entries are all in use has no place for another key.
    if shard.is_full() {
        return false;
    }
    shard.touch(key).0.0 = 1;
    true
}

/// Lets a request in while its keys have places left. As in nginx it is asked once, whatever redirects follow inside the
/// server.
pub fn check(request: &mut Request) -> Phase {
    let settings = &request.location().settings.limit_connections;
    if settings.limits.is_empty() || request.limit_conn_status.get().is_some() {
        return Ok(());
    }
    let mut places = Places::default();
    let mut verdict = None;
    for limit in settings.limits.iter() {
        let Some(key) = key_hash(request, &limit.zone) else {
            continue;
        };
        let entries = limit.zone.entries();
        if !take(entries, key, limit.most) {
            verdict = Some(refuse(request, settings, &limit.zone.name));
            break;
        }
        verdict = Some(Verdict::Passed);
        places.0.push((Arc::clone(entries), key));
    }
    request.limit_conn_status.set(verdict.map(Verdict::as_str));
    let status = settings.status;
    match verdict {
        None | Some(Verdict::RejectedDryRun) => Ok(()),
        Some(Verdict::Rejected) => Err(Interrupt::Status(status)),
        Some(Verdict::Passed) => {
            request.at_end.push(Box::new(places));
            Ok(())
        }
    }
}

fn refuse(request: &Request, settings: &Settings, zone: &str) -> Verdict {
    let (verdict, dry_run) = match settings.dry_run {
        true => (Verdict::RejectedDryRun, ", dry run,"),
        false => (Verdict::Rejected, ""),
    };
    write_request(
        request,
        settings.log_level,
        format_args!("limiting connections{dry_run} by zone \"{zone}\""),
    );
    verdict
}

/// What stands for a request's key; `None`: the zone is not for it.
fn key_hash(request: &Request, zone: &Zone<Count>) -> Option<u128> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_and_given_back() {
        let mut zones = CountZones::default();
        let zone = zones.named(b"a");
        zone.declare("limit_conn_zone", b"$a", Template::literal("k"), 32_768, 0)
            .expect("the first time");
        let entries = zone.entries();
        assert!(take(entries, 1, 2) && take(entries, 1, 2) && !take(entries, 1, 2));
        let place = || Places(vec![(Arc::clone(entries), 1)]);
        drop(place());
        assert!(take(entries, 1, 2) && !take(entries, 1, 2));
        drop((place(), place()));
        assert!(entries.shard(1).peek(1).is_none());
        let mut taken = 0;
        for key in 0..2000_u128 {
            taken += usize::from(take(entries, key, 1));
        }
        assert_eq!(taken, entries.capacity);
    }
}
