//! `server`, `server_name`, `location` and `internal`: the blocks that routing works on.

use super::hosts::ServerName;
use super::pattern::{Matcher, Pattern};
use crate::config::build::Build;
use crate::config::directive::{Arity, HTTP, LOCATION, Outcome, SERVER, SL, Set, block, row};
use crate::config::model::{Child, LocationKind};
use crate::config::setting::Complaint;
use crate::variables::VariableId;
use bytes::Bytes;
use conf::Directive;
use conf::table::{Contexts, Row};

pub const DIRECTIVES: &[Row<Set>] = &[
    block(
        "server",
        HTTP,
        Arity::Exactly(0),
        server,
        "A virtual server.",
    ),
    row(
        "server_name",
        SERVER,
        Arity::AtLeast(1),
        server_name,
        "The names a server answers for.",
    ),
    block(
        "location",
        SL,
        Arity::Between(1, 2),
        location,
        "Settings for the paths that match.",
    ),
    row(
        "internal",
        LOCATION,
        Arity::Exactly(0),
        |b, _| b.location().static_files.internal.set(true),
        "Only requests that were redirected inside the server.",
    ),
];

fn server(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let frame = build.nested(directive, Contexts::SERVER, LocationKind::None)?;
    build.frame().children.push(Child::Server(Box::new(frame)));
    Ok(())
}

fn server_name(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    for word in &directive.args {
        parse_name(build, directive, word)?;
    }
    Ok(())
}

fn parse_name(build: &mut Build<'_>, directive: &Directive, word: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(word);
    let misplaced = match word {
        [b'*', rest @ ..] => rest.len() < 2 || rest[0] != b'.',
        [b'.'] => true,
        _ => false,
    };
    if misplaced {
        return Err(format!("server name \"{text}\" is invalid").into());
    }
    if word.contains(&b'/') {
        let message = format!("server name \"{text}\" has suspicious symbols");
        build.warn(directive, message);
    }
    let name = match word {
        b"~" => return Err(format!("empty regex in server name \"{text}\"").into()),
        [b'~', pattern @ ..] => ServerName::pattern(word, matcher(build, pattern, true)?),
        word if word.eq_ignore_ascii_case(b"$hostname") => {
            let name = sys::machine::hostname()
                .map_err(|error| format!("gethostname() failed: {error}"))?;
            ServerName::plain(name.as_bytes())
        }
        word => ServerName::plain(word),
    };
    build.frame().names.push(name);
    Ok(())
}

/// Compiles a pattern and numbers the variables that its named groups assign.
pub fn matcher(
    build: &mut Build<'_>,
    text: &[u8],
    ignore_case: bool,
) -> Result<Matcher, Complaint> {
    let pattern = compile(text, ignore_case)?;
    let groups = named_groups(build, &pattern)?;
    Ok(Matcher { pattern, groups })
}

/// Compiles a pattern of the configuration; the error is worded as nginx words PCRE's.
pub fn compile(text: &[u8], ignore_case: bool) -> Result<Pattern, Complaint> {
    Ok(Pattern::compile(text, ignore_case)?)
}

/// Numbers the variables that a pattern's named groups assign.
pub fn named_groups(
    build: &mut Build<'_>,
    pattern: &Pattern,
) -> Result<Vec<(usize, VariableId)>, Complaint> {
    pattern
        .named_groups()
        .map(|(group, name)| Ok((group, build.variables.assigned(name.as_bytes())?)))
        .collect()
}

fn regex_kind(
    build: &mut Build<'_>,
    text: &[u8],
    ignore_case: bool,
) -> Result<LocationKind, Complaint> {
    Ok(LocationKind::Regex(matcher(build, text, ignore_case)?))
}

fn location(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let kind = match &directive.args[..] {
        [path] => bare_location(build, path)?,
        [modifier, path] => match &modifier[..] {
            b"=" => LocationKind::Exact(Bytes::copy_from_slice(path)),
            b"^~" => LocationKind::Prefix {
                path: Bytes::copy_from_slice(path),
                no_regex: true,
            },
            b"~" => regex_kind(build, path, false)?,
            b"~*" => regex_kind(build, path, true)?,
            _ => return Err(format!("invalid location modifier \"{modifier}\"").into()),
        },
        _ => return Err("invalid number of arguments in \"location\" directive".into()),
    };
    check_nesting(build, &kind)?;
    let frame = build.nested(directive, Contexts::LOCATION, kind)?;
    build
        .frame()
        .children
        .push(Child::Location(Box::new(frame)));
    Ok(())
}

/// `location /path`, and the modifiers written without a space (`=/path`, `~pattern`).
fn bare_location(build: &mut Build<'_>, word: &[u8]) -> Result<LocationKind, Complaint> {
    Ok(match word {
        [b'=', path @ ..] => LocationKind::Exact(Bytes::copy_from_slice(path)),
        [b'^', b'~', path @ ..] => LocationKind::Prefix {
            path: Bytes::copy_from_slice(path),
            no_regex: true,
        },
        [b'~', b'*', pattern @ ..] => regex_kind(build, pattern, true)?,
        [b'~', pattern @ ..] => regex_kind(build, pattern, false)?,
        [b'@', ..] => LocationKind::Named(Bytes::copy_from_slice(word)),
        path => LocationKind::Prefix {
            path: Bytes::copy_from_slice(path),
            no_regex: false,
        },
    })
}

fn name_of(kind: &LocationKind) -> Vec<u8> {
    match kind {
        LocationKind::Prefix { path, .. }
        | LocationKind::Exact(path)
        | LocationKind::Named(path) => path.to_vec(),
        LocationKind::Regex(matcher) => matcher.pattern.text.to_vec(),
        _ => Vec::new(),
    }
}

/// nginx's rules for a location inside a location.
fn check_nesting(build: &mut Build<'_>, kind: &LocationKind) -> Outcome {
    let name = String::from_utf8_lossy(&name_of(kind)).into_owned();
    let outer = &build.frame().kind;
    let outer_name = String::from_utf8_lossy(&name_of(outer)).into_owned();
    match (outer, kind) {
        (LocationKind::None, _) => Ok(()),
        (LocationKind::Exact(_), _) => Err(format!(
            "location \"{name}\" cannot be inside the exact location \"{outer_name}\""
        )
        .into()),
        (LocationKind::Named(_), _) => Err(format!(
            "location \"{name}\" cannot be inside the named location \"{outer_name}\""
        )
        .into()),
        (_, LocationKind::Named(_)) => {
            Err(format!("named location \"{name}\" can be on the server level only").into())
        }
        // As in nginx even a pattern is compared like a path.
        (_, LocationKind::Prefix { path, .. } | LocationKind::Exact(path))
            if !path.starts_with(&name_of(outer)) =>
        {
            Err(format!("location \"{name}\" is outside location \"{outer_name}\"").into())
        }
        _ => Ok(()),
    }
}
