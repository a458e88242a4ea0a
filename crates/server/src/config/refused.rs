//! Directives of nginx that Gannet does not have yet: using one is an error, unless the value asks for nothing.

use super::accepted::once;
use super::build::Build;
use super::directive::{Outcome, parse_flag};
use conf::Directive;

/// A value of a refused directive that leaves things as they are.
pub struct Neutral {
    pub name: &'static str,
    pub values: &'static [&'static str],
    /// Why nothing is lost.
    pub reason: &'static str,
}

const fn neutral(
    name: &'static str,
    values: &'static [&'static str],
    reason: &'static str,
) -> Neutral {
    Neutral {
        name,
        values,
        reason,
    }
}

const OFF: &[&str] = &["off"];
const NOT_DONE: &str = "it asks for what is so anyway.";

pub const NEUTRAL: &[Neutral] = &[neutral("http3", OFF, NOT_DONE)];

#[must_use]
pub fn find(name: &[u8]) -> Option<&'static Neutral> {
    NEUTRAL
        .iter()
        .find(|neutral| neutral.name.as_bytes() == name)
}

/// The setter of a directive that is not here yet.
pub fn refuse(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let asks_nothing = find(&directive.name).is_some_and(|neutral| {
        let written = |value: &&str| directive.args[0].eq_ignore_ascii_case(value.as_bytes());
        directive.args.len() == 1 && neutral.values.iter().any(written)
    });
    if asks_nothing {
        return once(build, directive);
    }
    Err(format!(
        "\"{}\" directive is not supported by gannet yet",
        directive.name
    )
    .into())
}

/// The same for one that takes `on` or `off`.
pub fn refuse_flag(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    parse_flag(directive)?;
    refuse(build, directive)
}
