//! `expires`: the Expires and Cache-Control fields.

use crate::config::build::Build;
use crate::config::setting::Complaint;
use crate::http::{Request, Response, thread};
use crate::variables::Template;
use bytes::Bytes;
use conf::{Directive, values};
use std::cell::RefCell;
use wire::fields::date;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// `expires`.
#[derive(Debug, Clone, Default)]
pub enum Expires {
    #[default]
    Off,
    Fixed(Rule),
    /// The value has variables; true with `modified`.
    Variable(Template, bool),
}

/// How the time is worked out; times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    Off,
    Epoch,
    Max,
    /// From now on.
    Access(i64),
    /// From the last modification on.
    Modified(i64),
    /// At this time of the day, by the machine's clock.
    Daily(i64),
}

/// Reads the directive.
pub fn compile(build: &mut Build<'_>, directive: &Directive) -> Result<Expires, Complaint> {
    let (modified, value) = match &directive.args[..] {
        [value] => (false, value),
        [word, value] if &word[..] == b"modified" => (true, value),
        _ => return Err("invalid value".into()),
    };
    let template = Template::compile(value, &mut build.variables)?;
    if template.constant().is_none() {
        return Ok(Expires::Variable(template, modified));
    }
    match parse(value, modified) {
        Ok(Rule::Off) => Ok(Expires::Off),
        Ok(rule) => Ok(Expires::Fixed(rule)),
        Err(reason) => Err(format!("\"expires\" directive {reason}").into()),
    }
}

fn parse(value: &[u8], modified: bool) -> Result<Rule, &'static str> {
    match value {
        b"epoch" if !modified => return Ok(Rule::Epoch),
        b"max" if !modified => return Ok(Rule::Max),
        b"off" if !modified => return Ok(Rule::Off),
        _ => {}
    }
    let time = |text: &[u8]| {
        values::parse_sec(text)
            .and_then(|seconds| i64::try_from(seconds).ok())
            .ok_or("invalid value")
    };
    let seconds = match value {
        [b'@', ..] if modified => {
            return Err("daily time cannot be used with \"modified\" parameter");
        }
        [b'@', rest @ ..] => {
            return match time(rest)? {
                seconds if seconds > DAY_SECONDS => {
                    Err("daily time value must be less than 24 hours")
                }
                seconds => Ok(Rule::Daily(seconds)),
            };
        }
        [b'+', rest @ ..] => time(rest)?,
        [b'-', rest @ ..] => -time(rest)?,
        rest => time(rest)?,
    };
    Ok(match modified {
        true => Rule::Modified(seconds),
        false => Rule::Access(seconds),
    })
}

/// Sets both fields, in place of those that an upstream gave.
pub fn apply(expires: &Expires, request: &Request, response: &mut Response) {
    let rule = match expires {
        Expires::Off => return,
        Expires::Fixed(rule) => *rule,
        Expires::Variable(template, modified) => {
            // As in nginx, a value that cannot be read is none.
            match parse(&template.evaluate(request), *modified) {
                Ok(rule) => rule,
                Err(_) => return,
            }
        }
    };
    let now = (thread::unix_ms() / 1000) as i64;
    let modified = response.last_modified.as_ref().map(|last| last.seconds);
    let (time, age) = match rule {
        Rule::Off => return,
        Rule::Epoch => {
            return set(
                response,
                Bytes::from_static(b"Thu, 01 Jan 1970 00:00:01 GMT"),
                Bytes::from_static(b"no-cache"),
            );
        }
        Rule::Max => {
            return set(
                response,
                Bytes::from_static(b"Thu, 31 Dec 2037 23:55:55 GMT"),
                Bytes::from_static(b"max-age=315360000"),
            );
        }
        Rule::Access(0) | Rule::Modified(0) => (now, 0),
        Rule::Access(seconds) => (now.saturating_add(seconds), seconds),
        Rule::Modified(seconds) => match modified {
            None => (now.saturating_add(seconds), seconds),
            Some(modified) => {
                let time = modified.saturating_add(seconds);
                (
                    time,
                    if seconds < 0 {
                        -1
                    } else {
                        time.saturating_sub(now)
                    },
                )
            }
        },
        Rule::Daily(seconds) => {
            let time = next_time(seconds, now);
            (time, time - now)
        }
    };
    let cache_control = match age {
        ..0 => Bytes::from_static(b"no-cache"),
        age => Bytes::from(format!("max-age={age}")),
    };
    set(response, formatted(time), cache_control);
}

fn set(response: &mut Response, expires: Bytes, cache_control: Bytes) {
    response.headers.set("Expires", expires);
    response.headers.set("Cache-Control", cache_control);
}

/// The date's text; responses of the same second share it.
fn formatted(time: i64) -> Bytes {
    thread_local! {
        static LAST: RefCell<(i64, Bytes)> = const { RefCell::new((i64::MIN, Bytes::new())) };
    }
    LAST.with_borrow_mut(|last| {
        if last.0 != time {
            *last = (time, Bytes::copy_from_slice(&date::format(time)));
        }
        last.1.clone()
    })
}

/// The next moment after `now` at which the machine's clock shows `seconds` since midnight.
fn next_time(seconds: i64, now: i64) -> i64 {
    let offset = |at: i64| sys::machine::local_time(at).map_or(0, |local| i64::from(local.offset));
    let at_day = |days: i64| {
        let today = now + offset(now);
        let local = today - today.rem_euclid(DAY_SECONDS) + days * DAY_SECONDS + seconds;
        // The offset of that moment, which differs over a change to summer time.
        local - offset(local - offset(now))
    };
    let today = at_day(0);
    if today > now { today } else { at_day(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_as_nginx_reads_them() {
        for (value, modified, expected) in [
            ("1h", false, Ok(Rule::Access(3600))),
            ("+1d2h", false, Ok(Rule::Access(93_600))),
            ("-1", false, Ok(Rule::Access(-1))),
            ("0", true, Ok(Rule::Modified(0))),
            ("@15h30m", false, Ok(Rule::Daily(55_800))),
            ("epoch", false, Ok(Rule::Epoch)),
            ("max", false, Ok(Rule::Max)),
            ("off", false, Ok(Rule::Off)),
            ("max", true, Err("invalid value")),
            ("", false, Err("invalid value")),
            (
                "@25h",
                false,
                Err("daily time value must be less than 24 hours"),
            ),
            (
                "@1h",
                true,
                Err("daily time cannot be used with \"modified\" parameter"),
            ),
        ] {
            assert_eq!(parse(value.as_bytes(), modified), expected, "{value}");
        }
    }

    #[test]
    fn the_next_time_is_within_a_day() {
        let now = 1_700_000_000;
        for seconds in [0, 1, 43_200, 86_399] {
            let next = next_time(seconds, now);
            assert!(next > now && next <= now + DAY_SECONDS, "{seconds}: {next}");
            let shown = sys::machine::local_time(next).unwrap();
            let of_day = shown.hour * 3600 + shown.minute * 60 + shown.second;
            assert_eq!(i64::from(of_day), seconds);
        }
    }
}
