//! When a connection is kept for further requests, for how long, and how it is closed.

use crate::config::directive::{Arity, HSL, Outcome, Set, flag, keyword, msec, number, row};
use crate::http::{Request, user_agent};
use conf::table::Row;
use conf::{Directive, values};
use wire::http1::Method;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "keepalive_timeout",
        HSL,
        Arity::Between(1, 2),
        keepalive_timeout,
        "How long an idle connection is kept, and the Keep-Alive field's value.",
    ),
    row(
        "keepalive_requests",
        HSL,
        Arity::Exactly(1),
        |b, d| number(&mut b.location().keepalive.requests, d),
        "Requests a connection may carry.",
    ),
    row(
        "keepalive_time",
        HSL,
        Arity::Exactly(1),
        |b, d| msec(&mut b.location().keepalive.time_ms, d),
        "How long a connection may carry requests at all.",
    ),
    row(
        "keepalive_min_timeout",
        HSL,
        Arity::Exactly(1),
        |b, d| msec(&mut b.location().keepalive.min_timeout_ms, d),
        "How long an idle connection is kept at least when the server shuts down.",
    ),
    row(
        "keepalive_disable",
        HSL,
        Arity::Between(1, 2),
        keepalive_disable,
        "Browsers that are not offered keep-alive.",
    ),
    row(
        "lingering_close",
        HSL,
        Arity::Exactly(1),
        |b, d| {
            keyword(
                &mut b.location().keepalive.lingering_close,
                d,
                &[
                    ("off", Lingering::Off),
                    ("on", Lingering::On),
                    ("always", Lingering::Always),
                ],
            )
        },
        "Whether to read on for a while before closing.",
    ),
    row(
        "lingering_time",
        HSL,
        Arity::Exactly(1),
        |b, d| msec(&mut b.location().keepalive.lingering_time_ms, d),
        "The longest lingering.",
    ),
    row(
        "lingering_timeout",
        HSL,
        Arity::Exactly(1),
        |b, d| msec(&mut b.location().keepalive.lingering_timeout_ms, d),
        "The longest wait for more data while lingering.",
    ),
    row(
        "reset_timedout_connection",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().keepalive.reset_timedout, d),
        "Reset timed-out connections instead of closing them.",
    ),
];

/// `lingering_close`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lingering {
    Off,
    On,
    Always,
}

/// `keepalive_disable`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Disable {
    pub msie6: bool,
    pub safari: bool,
}

impl Disable {
    /// Whether this client's browser is one of those; Internet Explorer only for POST, as in nginx.
    #[must_use]
    pub fn holds_for(self, request: &Request) -> bool {
        (self.msie6 && request.method == Method::Post && user_agent::browser(request).msie6)
            || (self.safari && user_agent::browser(request).safari)
    }
}

crate::config::setting::settings! {
    timeout_ms: u64 = 75_000,
    /// Seconds for the `Keep-Alive: timeout=` field; `None`: no field.
    header_seconds: Option<u64> = None,
    requests: u64 = 1000,
    time_ms: u64 = 3_600_000,
    min_timeout_ms: u64 = 0,
    disable: Disable = Disable { msie6: true, safari: false },
    lingering_close: Lingering = Lingering::On,
    lingering_time_ms: u64 = 30_000,
    lingering_timeout_ms: u64 = 5_000,
    reset_timedout: bool = false,
}

fn keepalive_timeout(
    build: &mut crate::config::build::Build<'_>,
    directive: &Directive,
) -> Outcome {
    let raw = &mut build.location().keepalive;
    raw.timeout_ms
        .set(values::parse_msec(&directive.args[0]).ok_or("invalid value")?)?;
    let header = match directive.args.get(1) {
        Some(word) => Some(values::parse_sec(word).ok_or("invalid value")?),
        None => None,
    };
    raw.header_seconds.set(header)
}

fn keepalive_disable(
    build: &mut crate::config::build::Build<'_>,
    directive: &Directive,
) -> Outcome {
    let mut disable = Disable::default();
    for (index, word) in directive.args.iter().enumerate() {
        if directive.args[..index].contains(word) {
            build.warn(directive, format!("duplicate value \"{word}\""));
        }
        match &word.to_ascii_lowercase()[..] {
            b"none" => {}
            b"msie6" => disable.msie6 = true,
            b"safari" => disable.safari = true,
            _ => return Err(format!("invalid value \"{word}\"").into()),
        }
    }
    build.location().keepalive.disable.set(disable)
}
