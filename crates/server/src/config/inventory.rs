//! What nginx 1.31 knows: every directive with its module, contexts and arguments, and every variable. Facts only; what
//! Gannet makes of each stands in the features' tables, in `accepted` and in `refused`.

use conf::table::{Arity, Contexts};
use std::sync::LazyLock;

/// One directive in one meaning, as nginx declares it.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub module: &'static str,
    pub name: &'static str,
    pub contexts: Contexts,
    /// The contexts as they are written in the table.
    pub places: &'static str,
    pub arity: Arity,
    /// The arguments as they are written in the table.
    pub arguments: &'static str,
    pub block: bool,
}

/// A variable, or a family of them when the name ends in `_`.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    pub module: &'static str,
    /// Without the `$`.
    pub name: &'static str,
}

const DIRECTIVES: &str = include_str!("inventory.tsv");
const VARIABLES: &str = include_str!("inventory_variables.tsv");

static ENTRIES: LazyLock<Vec<Entry>> =
    LazyLock::new(|| DIRECTIVES.lines().skip(1).filter_map(entry).collect());

/// nginx's directives, sorted by module.
#[must_use]
pub fn entries() -> &'static [Entry] {
    &ENTRIES
}

pub fn variables() -> impl Iterator<Item = Variable> {
    VARIABLES.lines().skip(1).filter_map(|line| {
        let (module, name) = line.split_once("\t$")?;
        Some(Variable { module, name })
    })
}

/// Whether nginx has this variable; `name` is in lower case and without the `$`.
#[must_use]
pub fn has_variable(name: &[u8]) -> bool {
    variables().any(|variable| match variable.name.ends_with('_') {
        true => name.len() > variable.name.len() && name.starts_with(variable.name.as_bytes()),
        false => name == variable.name.as_bytes(),
    })
}

fn entry(line: &'static str) -> Option<Entry> {
    let mut fields = line.split('\t');
    let (module, name) = (fields.next()?, fields.next()?);
    let (places, arguments) = (fields.next()?, fields.next()?);
    let count = arguments.strip_prefix("block ");
    Some(Entry {
        module,
        name,
        contexts: contexts(places)?,
        places,
        arity: arity(count.unwrap_or(arguments))?,
        arguments,
        block: count.is_some(),
    })
}

fn contexts(text: &str) -> Option<Contexts> {
    let mut all = Contexts::NONE;
    for place in text.split(", ") {
        all = all.or(match place {
            "main" => Contexts::MAIN,
            "events" => Contexts::EVENTS,
            "http" => Contexts::HTTP,
            "server" => Contexts::SERVER,
            "location" => Contexts::LOCATION,
            "if in server" => Contexts::SERVER_IF,
            "if in location" => Contexts::LOCATION_IF,
            "limit_except" => Contexts::LIMIT_EXCEPT,
            "upstream" => Contexts::UPSTREAM,
            _ => return None,
        });
    }
    Some(all)
}

fn arity(text: &str) -> Option<Arity> {
    if text == "on|off" {
        return Some(Arity::Flag);
    }
    if let Some(least) = text.strip_suffix('+') {
        return Some(Arity::AtLeast(least.parse().ok()?));
    }
    // `0 1` and `0 1-2` say that there may be none.
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (least, most) = first.split_once('-').unwrap_or((first, first));
    let most = match rest {
        "" => most,
        rest => rest.rsplit('-').next()?,
    };
    match (least.parse().ok()?, most.parse().ok()?) {
        (least, most) if least == most => Some(Arity::Exactly(least)),
        (least, most) => Some(Arity::Between(least, most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_understood() {
        assert_eq!(entries().len(), DIRECTIVES.lines().count() - 1);
        assert_eq!(variables().count(), VARIABLES.lines().count() - 1);
        assert!(entries().len() > 600 && variables().count() > 150);
    }

    #[test]
    fn arguments_are_read() {
        let table = [
            ("0", Arity::Exactly(0)),
            ("1+", Arity::AtLeast(1)),
            ("1-4", Arity::Between(1, 4)),
            ("0 1", Arity::Between(0, 1)),
            ("0 1-2", Arity::Between(0, 2)),
            ("on|off", Arity::Flag),
        ];
        for (text, expected) in table {
            assert_eq!(arity(text), Some(expected), "{text}");
        }
        assert_eq!(arity("some"), None);
    }

    #[test]
    fn families_of_variables_have_a_name_each() {
        for (name, known) in [
            ("uri", true),
            ("arg_x", true),
            ("arg_", false),
            ("upstream_http_etag", true),
            ("urix", false),
            ("", false),
        ] {
            assert_eq!(has_variable(name.as_bytes()), known, "{name}");
        }
    }
}
