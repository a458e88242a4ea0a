//! `log_format`: compiled while the configuration is read to pieces of text and numbers of variables. A line is made in
//! place in one buffer: a variable appends its value there, and only a value with bytes to escape is touched again.

use crate::config::build::Build;
use crate::config::directive::{Arity, HTTP, Outcome, Set, row};
use crate::config::setting::Complaint;
use crate::http::Request;
use crate::variables::VariableId;
use crate::variables::registry::Registry;
use conf::Directive;
use conf::table::Row;
use std::sync::Arc;

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "log_format",
    HTTP,
    Arity::AtLeast(2),
    log_format,
    "A named format for lines of the access log.",
)];

/// The format that is always there.
const COMBINED: &[u8] = b"combined";
const COMBINED_TEXT: &[u8] =
    b"$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
    \"$http_referer\" \"$http_user_agent\"";

/// Variables whose values hold nothing that any escaping changes.
const PLAIN: &[&[u8]] = &[
    b"body_bytes_sent",
    b"bytes_sent",
    b"connection",
    b"connection_requests",
    b"msec",
    b"pipe",
    b"remote_addr",
    b"request_id",
    b"request_length",
    b"request_time",
    b"status",
    b"time_iso8601",
    b"time_local",
];

/// How the values of variables are escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    /// `"`, `\` and everything that is not printable ASCII as `\xXX`.
    Default,
    Json,
    None,
}

#[derive(Debug)]
enum Piece {
    Text(Box<[u8]>),
    Variable { id: VariableId, plain: bool },
}

/// A compiled format.
#[derive(Debug)]
pub struct Format {
    escape: Escape,
    pieces: Vec<Piece>,
}

/// The formats of the configuration by name.
#[derive(Debug, Default)]
pub struct RawFormats {
    formats: Vec<(Box<[u8]>, Arc<Format>)>,
}

impl RawFormats {
    /// The format of a name; `combined` is compiled when it is first asked for.
    pub fn find(&mut self, name: &[u8], registry: &mut Registry) -> Option<Arc<Format>> {
        let known = self.formats.iter().find(|(known, _)| **known == *name);
        if let Some((_, format)) = known {
            return Some(Arc::clone(format));
        }
        if name != COMBINED {
            return None;
        }
        let mut pieces = Vec::new();
        compile(COMBINED_TEXT, registry, &mut pieces).ok()?;
        let escape = Escape::Default;
        let format = Arc::new(Format { escape, pieces });
        self.formats.push((name.into(), Arc::clone(&format)));
        Some(format)
    }

    /// The format of logs that name none.
    pub fn combined(&mut self, registry: &mut Registry) -> Arc<Format> {
        self.find(COMBINED, registry)
            .expect("the built-in format compiles")
    }
}

fn log_format(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let (name, mut texts) = directive.args.split_first().ok_or("invalid value")?;
    let formats = &build.http.log_formats.formats;
    if **name == *COMBINED || formats.iter().any(|(known, _)| **known == **name) {
        return Err(format!("duplicate \"log_format\" name \"{name}\"").into());
    }
    let mut escape = Escape::Default;
    if let Some((first, rest)) = texts.split_first()
        && let Some(word) = first.strip_prefix(b"escape=")
    {
        escape = match word {
            b"json" => Escape::Json,
            b"none" => Escape::None,
            b"default" => Escape::Default,
            other => {
                let other = String::from_utf8_lossy(other);
                return Err(format!("unknown log format escaping \"{other}\"").into());
            }
        };
        texts = rest;
    }
    let mut pieces = Vec::new();
    for text in texts {
        compile(text, &mut build.variables, &mut pieces)?;
    }
    let format = Arc::new(Format { escape, pieces });
    let formats = &mut build.http.log_formats.formats;
    formats.push(((**name).into(), format));
    Ok(())
}

/// Appends the pieces of `text`. Unlike elsewhere, `$1` is no capture here but a variable that does not exist.
fn compile(text: &[u8], registry: &mut Registry, pieces: &mut Vec<Piece>) -> Result<(), Complaint> {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let mut rest = text;
    while let Some(dollar) = memchr::memchr(b'$', rest) {
        push_text(&rest[..dollar], pieces);
        let after = &rest[dollar + 1..];
        let braced = after.first() == Some(&b'{');
        let start = &after[usize::from(braced)..];
        let length = start.iter().take_while(|byte| is_name(byte)).count();
        let (name, tail) = start.split_at(length);
        if braced && tail.first() != Some(&b'}') && !start.is_empty() {
            return Err(format!(
                "the closing bracket in \"{}\" variable is missing",
                String::from_utf8_lossy(name)
            )
            .into());
        }
        if name.is_empty() {
            let shown = String::from_utf8_lossy(&rest[dollar..]);
            return Err(format!("invalid parameter \"{shown}\"").into());
        }
        pieces.push(Piece::Variable {
            id: registry.reference(name),
            plain: PLAIN.contains(&name),
        });
        rest = &tail[usize::from(braced)..];
    }
    push_text(rest, pieces);
    Ok(())
}

fn push_text(text: &[u8], pieces: &mut Vec<Piece>) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Text(before)) => *before = [before, text].concat().into(),
        _ => pieces.push(Piece::Text(text.into())),
    }
}

impl Format {
    /// Appends the line for `request`, without a line end.
    pub fn append(&self, request: &Request, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Variable { id, plain } => {
                    let start = out.len();
                    if !request.variable(*id, out) {
                        out.truncate(start);
                        if self.escape == Escape::Default {
                            out.push(b'-');
                        }
                    } else if !plain {
                        self.escape.apply(out, start);
                    }
                }
            }
        }
    }
}

impl Escape {
    /// Escapes what stands in `out` from `start` on.
    fn apply(self, out: &mut Vec<u8>, start: usize) {
        let special: fn(u8) -> bool = match self {
            Escape::Default => |byte| !(0x20..0x7f).contains(&byte) || matches!(byte, b'"' | b'\\'),
            Escape::Json => |byte| byte < 0x20 || matches!(byte, b'"' | b'\\'),
            Escape::None => return,
        };
        let Some(first) = out[start..].iter().position(|&byte| special(byte)) else {
            return;
        };
        let dirty = out.split_off(start + first);
        for byte in dirty {
            match self {
                _ if !special(byte) => out.push(byte),
                Escape::Json => escape_json(byte, out),
                _ => out.extend_from_slice(&[b'\\', b'x', hex(byte >> 4), hex(byte & 15)]),
            }
        }
    }
}

fn escape_json(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        0x08 => out.extend_from_slice(b"\\b"),
        0x0c => out.extend_from_slice(b"\\f"),
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        _ => out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte & 15)]),
    }
}

fn hex(digit: u8) -> u8 {
    b"0123456789ABCDEF"[usize::from(digit & 15)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(escape: Escape, value: &[u8]) -> String {
        let mut out = b"before\"".to_vec();
        out.extend_from_slice(value);
        escape.apply(&mut out, 7);
        assert!(out.starts_with(b"before\""));
        String::from_utf8_lossy(&out[7..]).into_owned()
    }

    #[test]
    fn values_are_escaped_as_nginx_does() {
        let value = b"a\"b\\c\x01\x1f\x20~\x7f\xff\n";
        assert_eq!(
            escaped(Escape::Default, value),
            "a\\x22b\\x5Cc\\x01\\x1F ~\\x7F\\xFF\\x0A"
        );
        assert_eq!(
            escaped(Escape::Json, b"a\"b\\c\x01\x1f\t\r\n\x08\x0c\x7f"),
            "a\\\"b\\\\c\\u0001\\u001F\\t\\r\\n\\b\\f\x7f"
        );
        assert_eq!(escaped(Escape::None, b"\"\\"), "\"\\");
        assert_eq!(escaped(Escape::Default, b""), "");
    }

    #[test]
    fn formats_that_do_not_compile() {
        for (text, complaint) in [
            ("$", "invalid parameter \"$\""),
            ("a $-b", "invalid parameter \"$-b\""),
            ("${}", "invalid parameter \"${}\""),
            ("${", "invalid parameter \"${\""),
            (
                "${uri",
                "the closing bracket in \"uri\" variable is missing",
            ),
            ("${a-b}", "the closing bracket in \"a\" variable is missing"),
        ] {
            let failed = compile(text.as_bytes(), &mut Registry::default(), &mut Vec::new());
            assert_eq!(failed.unwrap_err().text, complaint, "{text}");
        }
    }
}
