//! A row of a feature's `DIRECTIVES` table, and the setters that most rows need.

use super::build::Build;
use super::setting::{Complaint, Setting};
use conf::Directive;
use conf::table::{Contexts, Row};
use conf::values;

/// What a row does with the directive it was found for.
pub type Set = fn(&mut Build<'_>, &Directive) -> Result<(), Complaint>;
pub type Outcome = Result<(), Complaint>;

pub const HTTP: Contexts = Contexts::HTTP;
pub const SERVER: Contexts = Contexts::SERVER;
pub const LOCATION: Contexts = Contexts::LOCATION;
/// `http`, `server`, `location`.
pub const HSL: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);
/// `http`, `server`.
pub const HS: Contexts = Contexts::HTTP.or(Contexts::SERVER);
/// `http`, `server`, `location`, `if in location`.
pub const HSLI: Contexts = HSL.or(Contexts::LOCATION_IF);
/// `server`, `location`.
pub const SL: Contexts = Contexts::SERVER.or(Contexts::LOCATION);
/// Where the directives of the rewrite module stand.
pub const REWRITE: Contexts = SL.or(Contexts::SERVER_IF).or(Contexts::LOCATION_IF);

pub use conf::table::Arity;

/// A directive without a block.
pub const fn row(
    name: &'static str,
    contexts: Contexts,
    arity: Arity,
    set: Set,
    doc: &'static str,
) -> Row<Set> {
    Row {
        name,
        contexts,
        arity,
        block: false,
        set,
        doc,
    }
}

/// A directive with a block.
pub const fn block(
    name: &'static str,
    contexts: Contexts,
    arity: Arity,
    set: Set,
    doc: &'static str,
) -> Row<Set> {
    Row {
        name,
        contexts,
        arity,
        block: true,
        set,
        doc,
    }
}

/// `on` or `off`, in any case.
pub fn parse_flag(directive: &Directive) -> Result<bool, Complaint> {
    let word = &directive.args[0];
    values::parse_flag(word).ok_or_else(|| {
        format!(
            "invalid value \"{word}\" in \"{}\" directive, it must be \"on\" or \"off\"",
            directive.name
        )
        .into()
    })
}

pub fn flag(setting: &mut Setting<bool>, directive: &Directive) -> Outcome {
    setting.vacant()?.set(parse_flag(directive)?)
}

/// A size in bytes (`8k`, `1m`).
pub fn size(setting: &mut Setting<u64>, directive: &Directive) -> Outcome {
    let setting = setting.vacant()?;
    setting.set(values::parse_size(&directive.args[0]).ok_or("invalid value")?)
}

/// An offset in bytes (`8k`, `1m`, `2g`).
pub fn offset(setting: &mut Setting<u64>, directive: &Directive) -> Outcome {
    let setting = setting.vacant()?;
    setting.set(values::parse_offset(&directive.args[0]).ok_or("invalid value")?)
}

/// A time kept in milliseconds.
pub fn msec(setting: &mut Setting<u64>, directive: &Directive) -> Outcome {
    let setting = setting.vacant()?;
    setting.set(values::parse_msec(&directive.args[0]).ok_or("invalid value")?)
}

/// A time kept in seconds.
pub fn sec(setting: &mut Setting<u64>, directive: &Directive) -> Outcome {
    let setting = setting.vacant()?;
    setting.set(values::parse_sec(&directive.args[0]).ok_or("invalid value")?)
}

pub fn number(setting: &mut Setting<u64>, directive: &Directive) -> Outcome {
    let setting = setting.vacant()?;
    setting.set(values::parse_number(&directive.args[0]).ok_or("invalid number")?)
}

/// `number size`, as in `large_client_header_buffers 4 8k`.
pub fn buffers(setting: &mut Setting<(u64, u64)>, directive: &Directive) -> Outcome {
    let setting = setting.vacant()?;
    let bufs = values::parse_bufs(&directive.args[0], &directive.args[1]).ok_or("invalid value")?;
    setting.set((bufs.number, bufs.size))
}

/// One word of a closed set.
pub fn keyword<T: Copy>(
    setting: &mut Setting<T>,
    directive: &Directive,
    words: &[(&str, T)],
) -> Outcome {
    let setting = setting.vacant()?;
    let written: &[u8] = &directive.args[0];
    // As nginx, which compares words of such sets without regard to case.
    let same = |word: &str| word.as_bytes().eq_ignore_ascii_case(written);
    match words.iter().find(|(word, _)| same(word)) {
        Some((_, value)) => setting.set(*value),
        None => Err(format!("invalid value \"{}\"", directive.args[0]).into()),
    }
}
