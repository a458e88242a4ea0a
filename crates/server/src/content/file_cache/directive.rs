//! `open_file_cache` and its kin.

use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, flag, number, row, sec};
use conf::table::Row;
use conf::{Directive, values};

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "open_file_cache",
        HSL,
        Arity::Between(1, 2),
        open_file_cache,
        "Keep files open, and what is known of directories, without looking at them at each request.",
    ),
    row(
        "open_file_cache_valid",
        HSL,
        Arity::Exactly(1),
        |b, d| sec(&mut b.location().file_cache.valid_seconds, d),
        "How long what is kept is taken for true.",
    ),
    row(
        "open_file_cache_min_uses",
        HSL,
        Arity::Exactly(1),
        |b, d| number(&mut b.location().file_cache.min_uses, d),
        "Uses within the time of `inactive` from which on a file is kept open.",
    ),
    row(
        "open_file_cache_errors",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().file_cache.errors, d),
        "Whether missing files are kept in mind, too.",
    ),
    row(
        "open_file_cache_events",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().file_cache.events, d),
        "Accepted: nginx has such events on BSD only.",
    ),
];

/// `open_file_cache`.
#[derive(Debug, Clone, Copy)]
pub struct OpenFileCache {
    /// Entries of one thread.
    pub max: usize,
    pub inactive_ms: u64,
}

/// nginx's `inactive` where none is named.
const INACTIVE_SECONDS: u64 = 60;

crate::config::setting::settings! {
    open: Option<OpenFileCache> = None,
    valid_seconds: u64 = 60,
    min_uses: u64 = 1,
    errors: bool = false,
    events: bool = false,
}

impl Settings {
    #[must_use]
    pub fn valid_ms(&self) -> u64 {
        self.valid_seconds.saturating_mul(1000)
    }
}

fn open_file_cache(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let (mut max, mut inactive, mut off) = (None, INACTIVE_SECONDS, false);
    for word in &directive.args {
        let invalid = || format!("invalid \"open_file_cache\" parameter \"{word}\"");
        if let Some(text) = word.strip_prefix(b"max=") {
            let number = values::parse_number(text).filter(|&number| number > 0);
            max = Some(number.ok_or_else(invalid)?);
        } else if let Some(text) = word.strip_prefix(b"inactive=") {
            inactive = values::parse_sec(text).ok_or_else(invalid)?;
        } else if &word[..] == b"off" {
            off = true;
        } else {
            return Err(invalid().into());
        }
    }
    let open = match (off, max) {
        (true, _) => None,
        (false, None) => {
            return Err("\"open_file_cache\" must have the \"max\" parameter".into());
        }
        (false, Some(max)) => Some(OpenFileCache {
            max: usize::try_from(max).unwrap_or(usize::MAX),
            inactive_ms: inactive.saturating_mul(1000),
        }),
    };
    build.location().file_cache.open.set(open)
}
