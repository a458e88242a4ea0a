//! `disable_symlinks`: opens a path component by component and refuses symbolic links on the way. nginx does so too for
//! each request; nothing of it is kept.

use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, row};
use crate::http::Request;
use crate::variables::Template;
use conf::Directive;
use conf::table::Row;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use sys::file::{self, Step};

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "disable_symlinks",
    HSL,
    Arity::Between(1, 2),
    disable_symlinks,
    "Refuse paths with symbolic links, all or those whose owner is not the file's.",
)];

/// Which links are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refuse {
    All,
    OfOthers,
}

/// `disable_symlinks`, unless it is off.
#[derive(Debug, Clone)]
pub struct Guard {
    refuse: Refuse,
    /// `from=`: the part of the path that is not checked.
    from: Option<Template>,
}

crate::config::setting::settings! {
    guard: Option<Guard> = None,
}

fn disable_symlinks(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let (mut refuse, mut from) = (None, None);
    for word in &directive.args {
        let mode = match &word[..] {
            b"off" => None,
            b"on" => Some(Refuse::All),
            b"if_not_owner" => Some(Refuse::OfOthers),
            other => {
                let text = other.strip_prefix(b"from=");
                let text = text.ok_or_else(|| format!("invalid parameter \"{word}\""))?;
                from = Some(Template::compile(text, &mut build.variables)?);
                continue;
            }
        };
        if refuse.replace(mode).is_some() {
            let (first, second) = (&directive.args[0], &directive.args[1]);
            return Err(format!("duplicate parameters \"{first} {second}\"").into());
        }
    }
    let guard = match (refuse, from) {
        (None, _) => {
            return Err(
                "\"disable_symlinks\" must have \"off\", \"on\" or \"if_not_owner\" parameter"
                    .into(),
            );
        }
        (Some(None), Some(_)) => {
            return Err("\"from=\" cannot be used with \"off\" parameter".into());
        }
        (Some(None), None) => None,
        (Some(Some(refuse)), from) => Some(Guard { refuse, from }),
    };
    build.location().symlinks.guard.set(guard)
}

/// What failed to open, for the log.
pub struct Refused {
    pub call: &'static str,
    pub error: io::Error,
}

impl Guard {
    /// Opens the file or directory at `path`, refusing links with `ELOOP` or, on the way, `ENOTDIR`.
    pub fn open(&self, request: &Request, path: &[u8]) -> Result<File, Refused> {
        let unchecked = match &self.from {
            Some(from) => unchecked(path, &from.evaluate(request)),
            None => Some(0),
        };
        let Some(unchecked) = unchecked else {
            return file::open(as_path(path)).map_err(|error| Refused {
                call: "open()",
                error,
            });
        };
        let start = match unchecked {
            0 => &path[..usize::from(path.first() == Some(&b'/'))],
            length => &path[..length],
        };
        let start = match start {
            b"" => None,
            start => Some(
                file::open_step(None, as_path(start), Step::Directory, true).map_err(|error| {
                    Refused {
                        call: "open()",
                        error,
                    }
                })?,
            ),
        };
        self.walk(start, &path[unchecked..])
            .map_err(|error| Refused {
                call: "openat()",
                error,
            })
    }

    fn walk(&self, start: Option<File>, path: &[u8]) -> io::Result<File> {
        let mut directory = start;
        let mut names = path
            .split(|&byte| byte == b'/')
            .filter(|name| !name.is_empty())
            .peekable();
        while let Some(name) = names.next() {
            let last = names.peek().is_none();
            let step = match last && path.last() != Some(&b'/') {
                true => Step::File,
                false => Step::Directory,
            };
            let opened = self.step(directory.as_ref(), as_path(name), step)?;
            if last {
                return Ok(opened);
            }
            directory = Some(opened);
        }
        directory.map_or_else(|| file::open(as_path(b".")), Ok)
    }

    fn step(&self, directory: Option<&File>, name: &Path, step: Step) -> io::Result<File> {
        if self.refuse == Refuse::All {
            return file::open_step(directory, name, step, false);
        }
        let opened = file::open_step(directory, name, step, true)?;
        // Opened without following, a link gives its own owner.
        let link = file::open_step(directory, name, Step::Entry, false)?;
        if file::status(&link)?.uid != file::status(&opened)?.uid {
            return Err(io::Error::from_raw_os_error(
                super::file_cache::failure::libc_errno::ELOOP,
            ));
        }
        Ok(opened)
    }
}

/// The length of the part of `path` that `from` exempts; `None` if that is all of it.
fn unchecked(path: &[u8], from: &[u8]) -> Option<usize> {
    if from.is_empty() || !path.starts_with(from) {
        return Some(0);
    }
    match path.get(from.len()) {
        None => None,
        Some(b'/') => Some(from.len()),
        Some(_) if from.ends_with(b"/") => Some(from.len() - 1),
        Some(_) => Some(0),
    }
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_that_is_not_checked() {
        for (path, from, expected) in [
            ("/a/b/c", "", Some(0)),
            ("/a/b/c", "/a/b", Some(4)),
            ("/a/b/c", "/a/b/", Some(4)),
            ("/a/b/c", "/a/", Some(2)),
            ("/ab/c", "/a", Some(0)),
            ("/a/b", "/a/b", None),
            ("/a", "/a/b", Some(0)),
            ("/a", "/", Some(0)),
        ] {
            assert_eq!(
                unchecked(path.as_bytes(), from.as_bytes()),
                expected,
                "{path} from {from}"
            );
        }
    }
}
