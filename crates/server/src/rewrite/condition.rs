//! `if (…)`: variables, comparisons, patterns and files.

use super::{Run, given_up};
use crate::config::build::Build;
use crate::config::setting::Complaint;
use crate::http::{Phase, Request};
use crate::log::error::{Level, write_request};
use crate::routing::directive::matcher;
use crate::routing::pattern::Matcher;
use crate::variables::{Template, VariableId};
use conf::Word;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The bit of a mode that lets the owner execute; nginx looks at no other.
const OWNER_EXECUTES: u32 = 0o100;

/// What is asked.
#[derive(Debug)]
pub enum Condition {
    /// Neither empty nor `0`.
    Variable(VariableId),
    Equal {
        variable: VariableId,
        value: Template,
        negate: bool,
    },
    Pattern {
        variable: VariableId,
        matcher: Matcher,
        negate: bool,
    },
    File {
        path: Template,
        test: FileTest,
        negate: bool,
    },
}

/// What is asked of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileTest {
    File,
    Directory,
    Exists,
    Executable,
}

impl Condition {
    /// Reads the words between `if` and its block, with nginx's errors.
    pub fn parse(build: &mut Build<'_>, words: &[Word]) -> Result<Condition, Complaint> {
        let parts = strip_parentheses(words)?;
        match parts[..] {
            [variable @ [b'$', _, ..]] => Ok(Condition::Variable(
                build.variables.reference(&variable[1..]),
            )),
            [variable @ [b'$', _, ..], operator, value] => {
                let variable = build.variables.reference(&variable[1..]);
                compare(build, variable, operator, value)
            }
            [operator @ ([b'-', _] | [b'!', b'-', _]), path] => {
                let negate = operator[0] == b'!';
                let test = match operator[operator.len() - 1] {
                    b'f' => FileTest::File,
                    b'd' => FileTest::Directory,
                    b'e' => FileTest::Exists,
                    b'x' => FileTest::Executable,
                    _ => {
                        Template::compile(path, &mut build.variables)?;
                        return Err(invalid(operator));
                    }
                };
                let path = Template::compile(path, &mut build.variables)?;
                Ok(Condition::File { path, test, negate })
            }
            [b"", ..] => Err(invalid(b")")),
            [first, ..] => Err(invalid(first)),
            [] => Err(invalid(b")")),
        }
    }
}

fn invalid(word: &[u8]) -> Complaint {
    format!("invalid condition \"{}\"", String::from_utf8_lossy(word)).into()
}

/// The words without the parentheses around them, which may stand by themselves.
fn strip_parentheses(words: &[Word]) -> Result<Vec<&[u8]>, Complaint> {
    let mut parts: Vec<&[u8]> = words.iter().map(|word| &word.bytes[..]).collect();
    let first = parts.first().copied().unwrap_or_default();
    let rest = first.strip_prefix(b"(").ok_or_else(|| invalid(first))?;
    parts[0] = rest;
    let last = parts.last().copied().unwrap_or_default();
    let rest = last.strip_suffix(b")").ok_or_else(|| invalid(last))?;
    let end = parts.len() - 1;
    parts[end] = rest;
    if rest.is_empty() {
        parts.pop();
    }
    if parts.len() > 1 && parts[0].is_empty() {
        parts.remove(0);
    }
    Ok(parts)
}

fn compare(
    build: &mut Build<'_>,
    variable: VariableId,
    operator: &[u8],
    value: &[u8],
) -> Result<Condition, Complaint> {
    let negate = operator.first() == Some(&b'!');
    Ok(match operator {
        b"=" | b"!=" => Condition::Equal {
            variable,
            value: Template::compile(value, &mut build.variables)?,
            negate,
        },
        b"~" | b"!~" | b"~*" | b"!~*" => Condition::Pattern {
            variable,
            matcher: matcher(build, value, operator.ends_with(b"*"))?,
            negate,
        },
        _ => {
            return Err(format!(
                "unexpected \"{}\" in condition",
                String::from_utf8_lossy(operator)
            )
            .into());
        }
    })
}

impl Run {
    /// Whether a condition holds.
    pub(super) fn holds(&mut self, request: &mut Request, condition: &Condition) -> Phase<bool> {
        let mut text = std::mem::take(&mut self.scratch);
        text.clear();
        let holds = match condition {
            Condition::Variable(variable) => {
                request.variable(*variable, &mut text);
                Ok(!text.is_empty() && text != b"0")
            }
            Condition::Equal {
                variable,
                value,
                negate,
            } => {
                request.variable(*variable, &mut text);
                let length = text.len();
                self.append(request, value, &mut text);
                let (left, right) = text.split_at(length);
                Ok((left == right) != *negate)
            }
            Condition::Pattern {
                variable,
                matcher,
                negate,
            } => {
                request.variable(*variable, &mut text);
                self.matches(request, matcher, &text)
                    .map(|matches| matches != *negate)
            }
            Condition::File { path, test, negate } => {
                self.append(request, path, &mut text);
                Ok(file_is(request, &text, *test) != *negate)
            }
        };
        self.scratch = text;
        holds
    }

    /// Matches a pattern; one that does not match leaves no captures behind.
    pub(super) fn matches(
        &self,
        request: &Request,
        matcher: &Matcher,
        subject: &[u8],
    ) -> Phase<bool> {
        let matches = matcher
            .matches(request, subject)
            .map_err(|error| given_up(request, subject, &error))?;
        if self.log {
            let verb = if matches { "matches" } else { "does not match" };
            write_request(
                request,
                Level::Notice,
                format_args!(
                    "\"{}\" {verb} \"{}\"",
                    String::from_utf8_lossy(&matcher.pattern.text),
                    String::from_utf8_lossy(subject)
                ),
            );
        }
        if !matches {
            request.captures.borrow_mut().positions.clear();
        }
        Ok(matches)
    }
}

fn file_is(request: &Request, path: &[u8], test: FileTest) -> bool {
    let status = match sys::file::status_at(Path::new(OsStr::from_bytes(path))) {
        Ok(status) => status,
        Err(error) => {
            let number = error.raw_os_error().unwrap_or_default();
            if !is_absence(&error) {
                write_request(
                    request,
                    Level::Critical,
                    format_args!(
                        "stat() \"{}\" failed ({number}: {})",
                        String::from_utf8_lossy(path),
                        sys::errno::text(number)
                    ),
                );
            }
            return false;
        }
    };
    match test {
        FileTest::File => status.is_file(),
        FileTest::Directory => status.is_directory(),
        FileTest::Exists => status.is_file() || status.is_directory() || status.is_symlink(),
        FileTest::Executable => status.mode & OWNER_EXECUTES != 0,
    }
}

/// ENOENT, ENOTDIR, ENAMETOOLONG: the file is not there, and nobody wonders.
fn is_absence(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename
    )
}
