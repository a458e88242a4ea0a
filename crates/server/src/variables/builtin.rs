//! The built-in variables: a table of names and functions that append the value.

use super::registry::Kind;
use crate::http::Request;

/// Appends a variable's value; false means "not found", which logs print as `-`.
pub type Evaluate = fn(&Request, &mut Vec<u8>) -> bool;
/// The same for `$arg_NAME` and its kin: the second argument is NAME.
pub type EvaluateSuffix = fn(&Request, &[u8], &mut Vec<u8>) -> bool;

const FIXED: &[(&str, Evaluate)] = &[
    ("uri", uri),
    ("document_uri", uri),
    ("args", args),
    ("query_string", args),
    ("is_args", |request, out| {
        if !request.args.is_empty() {
            out.push(b'?');
        }
        true
    }),
];

const PREFIXED: &[(&str, EvaluateSuffix)] = &[];

/// Names that `set` may assign although they are built in.
const ASSIGNABLE: &[&str] = &["args", "query_string", "limit_rate"];

/// How the built-in variable `name` is worked out.
#[must_use]
pub fn find(name: &[u8]) -> Option<Kind> {
    if let Some((_, evaluate)) = FIXED.iter().find(|(fixed, _)| fixed.as_bytes() == name) {
        return Some(Kind::Builtin(*evaluate));
    }
    PREFIXED.iter().find_map(|(prefix, evaluate)| {
        let suffix = name.strip_prefix(prefix.as_bytes())?;
        Some(Kind::Prefixed(*evaluate, suffix.into()))
    })
}

#[must_use]
pub fn is_assignable(name: &[u8]) -> bool {
    ASSIGNABLE
        .iter()
        .any(|assignable| assignable.as_bytes() == name)
}

fn uri(request: &Request, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(&request.uri);
    true
}

fn args(request: &Request, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(&request.args);
    true
}
