//! `try_files`: the first of several files that exists, or else another URI, named location or status.

use super::file_cache::failure::libc_errno;
use super::file_cache::{self, Kind};
use super::static_files::{PathBuffer, Replaces, append_root, check_alias, log_failure};
use crate::config::build::Build;
use crate::config::directive::{Arity, Outcome, SL, Set, row};
use crate::config::setting::Setting;
use crate::http::interrupt::Target;
use crate::http::{Interrupt, Phase, Request};
use crate::log::error::Level;
use crate::variables::Template;
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use conf::values;
use std::sync::Arc;

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "try_files",
    SL,
    Arity::AtLeast(2),
    try_files,
    "The files to look for, then where the request goes if none exists.",
)];

/// The highest status that `=CODE` may name.
const CODE_MAX: u64 = 999;

/// A file (or, with a slash at the end, a directory) to look for.
#[derive(Debug)]
struct Candidate {
    name: Template,
    directory: bool,
}

/// What happens when nothing was found.
#[derive(Debug)]
enum Fallback {
    Code(u16),
    Target(Template),
}

/// A `try_files` directive.
#[derive(Debug)]
pub struct TryFiles {
    candidates: Vec<Candidate>,
    fallback: Fallback,
}

/// What was written in one block.
#[derive(Default, Debug, Clone)]
pub struct Raw {
    pub try_files: Setting<Arc<TryFiles>>,
}

/// What holds in one block.
#[derive(Default, Debug, Clone)]
pub struct Settings {
    pub try_files: Option<Arc<TryFiles>>,
}

impl Settings {
    /// Whether no files are looked for.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.try_files.is_none()
    }
}

impl Raw {
    /// As in nginx, inner blocks do not inherit `try_files`.
    #[must_use]
    pub fn resolve(&self, _: &Settings) -> Settings {
        Settings {
            try_files: self.try_files.0.clone(),
        }
    }
}

fn try_files(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let (last, files) = directive.args.split_last().ok_or("invalid value")?;
    let mut candidates = Vec::with_capacity(files.len());
    for file in files {
        let (name, directory) = match file.strip_suffix(b"/") {
            Some(name) => (name, true),
            None => (&file[..], false),
        };
        candidates.push(Candidate {
            name: Template::compile(name, &mut build.variables)?,
            directory,
        });
    }
    let fallback = match last.strip_prefix(b"=") {
        Some(digits) => Fallback::Code(
            values::parse_number(digits)
                .filter(|&code| code <= CODE_MAX)
                .ok_or_else(|| format!("invalid code \"{last}\""))? as u16,
        ),
        None => Fallback::Target(Template::compile(last, &mut build.variables)?),
    };
    build.location().try_files.try_files.set(Arc::new(TryFiles {
        candidates,
        fallback,
    }))
}

/// Looks the files up and sends the request on.
pub fn check(request: &mut Request) -> Phase {
    let Some(settings) = &request.location().settings.try_files.try_files else {
        return Ok(());
    };
    let settings = Arc::clone(settings);
    check_alias(request)?;
    let replaces = request.location().settings.static_files.root.replaces;
    let mut path = PathBuffer::empty();
    append_root(request, &mut path);
    let root = path.len();
    for candidate in &settings.candidates {
        path.truncate(root);
        append_name(request, &candidate.name, replaces, &mut path);
        match file_cache::look(request, &path) {
            Ok(kind) if (kind == Kind::Directory) == candidate.directory => {
                take(request, &path[root..], candidate.directory, replaces);
                return Ok(());
            }
            Ok(_) => {}
            Err(failure) => {
                let missing = matches!(
                    failure.number,
                    libc_errno::ENOENT | libc_errno::ENOTDIR | libc_errno::ENAMETOOLONG
                );
                if !missing {
                    log_failure(request, Level::Critical, &path, &failure);
                }
            }
        }
    }
    match &settings.fallback {
        Fallback::Code(code) => Err(Interrupt::Status(*code)),
        Fallback::Target(target) => {
            path.clear();
            append_name(request, target, replaces, &mut path);
            Err(Interrupt::Redirect(fallback_target(&path)))
        }
    }
}

/// Appends a candidate's name; below an alias nginx takes the location's name off one that was made of variables.
fn append_name(request: &Request, name: &Template, replaces: Replaces, path: &mut Vec<u8>) {
    let start = path.len();
    name.append(request, path);
    if let Replaces::Prefix(length) = replaces
        && name.constant().is_none()
        && let Some(location) = request.uri.get(..length)
        && path[start..].starts_with(location)
    {
        path.drain(start..start + length);
    }
}

/// Makes the name that was found the request's path.
fn take(request: &mut Request, name: &[u8], directory: bool, replaces: Replaces) {
    match replaces {
        Replaces::Nothing => {
            request.uri.clear();
            request.uri.extend_from_slice(name);
        }
        Replaces::Prefix(length) => {
            request.uri.truncate(length);
            request.uri.extend_from_slice(name);
        }
        // nginx leaves the path as it is for a directory.
        Replaces::Everything if directory => {}
        Replaces::Everything => {
            request.uri.clear();
            request.uri.extend_from_slice(name);
            request.uri_follows_alias = true;
        }
    }
}

/// `@name`, or a path with arguments: without `?` the request's arguments are dropped.
fn fallback_target(text: &[u8]) -> Target {
    if text.first() == Some(&b'@') {
        return Target::Named(Bytes::copy_from_slice(text));
    }
    let (path, args) = match memchr::memchr(b'?', text) {
        Some(question) => (&text[..question], &text[question + 1..]),
        None => (text, &b""[..]),
    };
    Target::Uri {
        path: Bytes::copy_from_slice(path),
        args: Some(Bytes::copy_from_slice(args)),
    }
}
