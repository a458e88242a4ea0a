//! Files: a request's path under `root` or `alias`, served from the file cache.

use super::file_cache::{self, Failure, Lookup};
use super::{flv, mp4};
use crate::config::build::{Build, Paths};
use crate::config::directive::{Arity, HSL, HSLI, LOCATION, Outcome, Set, flag, row};
use crate::config::model::LocationKind;
use crate::filter;
use crate::http::file::Entry;
use crate::http::response::LastModified;
use crate::http::{Interrupt, Phase, Request, Response};
use crate::log::error::{Level, write_request};
use crate::precompress;
use crate::variables::Template;
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use std::cell::Cell;
use std::ffi::OsStr;
use std::ops::{Deref, DerefMut};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use wire::http1::Method;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "root",
        HSLI,
        Arity::Exactly(1),
        root,
        "The directory that a request's path is looked up in.",
    ),
    row(
        "alias",
        LOCATION,
        Arity::Exactly(1),
        alias,
        "What stands in place of the location's part of the path.",
    ),
    row(
        "etag",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().static_files.etag, d),
        "Whether files have an ETag.",
    ),
    row(
        "log_not_found",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().static_files.log_not_found, d),
        "Whether missing files are logged as errors.",
    ),
];

/// What of a request's path a root stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaces {
    /// `root`: the path is appended.
    Nothing,
    /// `alias`: in place of so many bytes, the location's name.
    Prefix(usize),
    /// `alias` in a regex location: in place of the whole path.
    Everything,
}

/// `root` or `alias`.
#[derive(Debug, Clone)]
pub struct Root {
    pub path: Template,
    pub replaces: Replaces,
    /// Where a path leads whose variables make it relative; ends with a slash. Empty where `path` was completed at load.
    pub prefix: Bytes,
}

impl Root {
    #[must_use]
    pub fn is_alias(&self) -> bool {
        self.replaces != Replaces::Nothing
    }

    /// The root where the configuration names none: `html` in the prefix.
    #[must_use]
    pub fn built_in(paths: &Paths) -> Root {
        let path = paths
            .in_prefix("html")
            .into_os_string()
            .into_encoded_bytes();
        Root {
            path: Template::literal(path),
            prefix: Bytes::new(),
            ..Root::default()
        }
    }
}

impl Default for Root {
    fn default() -> Root {
        Root {
            path: Template::literal(Bytes::new()),
            replaces: Replaces::Nothing,
            prefix: Bytes::from_static(b"/"),
        }
    }
}

crate::config::setting::settings! {
    root: Root = Root::default(),
    etag: bool = true,
    log_not_found: bool = true,
    internal: bool = false,
}

fn root(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    set_root(build, directive, false)
}

fn alias(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    if matches!(build.frame().kind, LocationKind::Named(_)) {
        return Err("the \"alias\" directive cannot be used inside the named location".into());
    }
    set_root(build, directive, true)
}

fn set_root(build: &mut Build<'_>, directive: &Directive, alias: bool) -> Outcome {
    if let Some(other) = &build.location().static_files.root.0 {
        let other_alias = other.replaces != Replaces::Nothing;
        return Err(if other_alias == alias {
            "is duplicate".into()
        } else {
            let before = if other_alias { "alias" } else { "root" };
            format!(
                "\"{}\" directive is duplicate, \"{before}\" directive was specified earlier",
                directive.name
            )
            .into()
        });
    }
    let text = &directive.args[0];
    for forbidden in [
        "$document_root",
        "${document_root}",
        "$realpath_root",
        "${realpath_root}",
    ] {
        if memchr::memmem::find(text, forbidden.as_bytes()).is_some() {
            let name = forbidden.trim_matches(['$', '{', '}']);
            return Err(format!(
                "the ${name} variable cannot be used in the \"{}\" directive",
                directive.name
            )
            .into());
        }
    }
    let mut path = text.to_vec();
    if !alias && path.last() == Some(&b'/') {
        path.pop();
    }
    let mut prefix = Bytes::new();
    if path.first() == Some(&b'$') {
        let directory = build.paths.in_prefix("").into_os_string();
        prefix = Bytes::from(directory.into_encoded_bytes());
    } else if path.first() != Some(&b'/') {
        let name = String::from_utf8_lossy(&path).into_owned();
        path = build
            .paths
            .in_prefix(&name)
            .into_os_string()
            .into_encoded_bytes();
    }
    let replaces = match &build.frame().kind {
        _ if !alias => Replaces::Nothing,
        LocationKind::Regex { .. } => Replaces::Everything,
        LocationKind::Prefix { path, .. } | LocationKind::Exact(path) => {
            Replaces::Prefix(path.len())
        }
        _ => Replaces::Prefix(0),
    };
    // What stands before it is a name of the system's, which may have a dollar sign in it.
    let path = match memchr::memchr(b'$', text) {
        Some(_) => Template::compile(&path, &mut build.variables)?,
        None => Template::literal(path),
    };
    build.location().static_files.root.0 = Some(Root {
        path,
        replaces,
        prefix,
    });
    Ok(())
}

/// Appends the location's root or alias alone (`$document_root`).
pub fn append_root(request: &Request, out: &mut Vec<u8>) {
    let root = &request.location().settings.static_files.root;
    let start = out.len();
    root.path.append(request, out);
    if out.get(start) != Some(&b'/') {
        out.splice(start..start, root.prefix.iter().copied());
    }
}

/// Appends the file-system path of `uri` as the location maps it (`$request_filename`).
pub fn map_path(request: &Request, uri: &[u8], out: &mut Vec<u8>) {
    append_root(request, out);
    match request.location().settings.static_files.root.replaces {
        Replaces::Nothing => out.extend_from_slice(uri),
        Replaces::Prefix(length) => out.extend_from_slice(uri.get(length..).unwrap_or_default()),
        Replaces::Everything if request.uri_follows_alias => out.extend_from_slice(uri),
        Replaces::Everything => {}
    }
}

/// Whether `alias` has no file for the path, since a rewrite with `break` changed it in this location. nginx fails then,
/// even where the new path is one of the location's.
#[must_use]
pub fn alias_is_lost(request: &Request) -> bool {
    request.rewritten_in_place
        && request.location().settings.static_files.root.replaces != Replaces::Nothing
}

/// Ends a request whose path `alias` cannot map.
pub fn check_alias(request: &Request) -> Phase {
    if !alias_is_lost(request) {
        return Ok(());
    }
    write_request(
        request,
        Level::Alert,
        format_args!(
            "\"alias\" cannot be used in location \"{}\" where URI was rewritten",
            String::from_utf8_lossy(&request.location().name)
        ),
    );
    Err(Interrupt::Status(500))
}

thread_local! {
    static PATH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The thread's buffer for a path, so that a request for a file allocates none.
pub struct PathBuffer(Vec<u8>);

impl PathBuffer {
    /// The path of the request's file or directory.
    #[must_use]
    pub fn mapped(request: &Request) -> PathBuffer {
        let mut buffer = PathBuffer::empty();
        map_path(request, &request.uri, &mut buffer);
        buffer
    }

    #[must_use]
    pub fn empty() -> PathBuffer {
        let mut bytes = PATH.take();
        bytes.clear();
        PathBuffer(bytes)
    }
}

impl Drop for PathBuffer {
    fn drop(&mut self) {
        PATH.set(std::mem::take(&mut self.0));
    }
}

impl Deref for PathBuffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for PathBuffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

/// Serves the file of the request's path; `Ok(None)` where another handler is to answer.
pub async fn respond(request: &mut Request) -> Phase<Option<Response>> {
    if !matches!(request.method, Method::Get | Method::Head | Method::Post) {
        return Err(Interrupt::Status(405));
    }
    if request.uri.last() == Some(&b'/') {
        return Ok(None);
    }
    check_alias(request)?;
    let path = PathBuffer::mapped(request);
    match file_cache::lookup(request, &path).await {
        Lookup::File(entry) => {
            if request.method == Method::Post {
                return Err(Interrupt::Status(405));
            }
            let mut response = file_response(request, &entry);
            flv::seek(request, &mut response);
            if request.location().settings.mp4.on {
                Box::pin(mp4::cut(request, &path, &mut response)).await?;
            }
            // As with `gzip on`, which compresses what these filters made.
            if !filter::read_text(request, &response) {
                precompress::apply(request, &entry, &mut response).await;
            }
            Ok(Some(response))
        }
        // As in nginx only a directory that could be read has a path with a slash.
        Lookup::Directory => match sys::file::open(Path::new(OsStr::from_bytes(&path))) {
            Ok(_) => Err(Interrupt::Respond(Box::new(with_slash(request)))),
            Err(error) => Err(failed(request, &path, &Failure::new("open()", &error))),
        },
        Lookup::Failed(failure) => Err(failed(request, &path, &failure)),
        Lookup::Other => {
            write_request(
                request,
                Level::Critical,
                format_args!(
                    "\"{}\" is not a regular file",
                    String::from_utf8_lossy(&path)
                ),
            );
            Err(Interrupt::Status(404))
        }
    }
}

/// The redirect from a directory's name to its path with a slash.
fn with_slash(request: &Request) -> Response {
    let mut location = Vec::with_capacity(request.uri.len() + request.args.len() + 2);
    wire::uri::escape_into(&request.uri, wire::uri::Class::Uri, &mut location);
    location.push(b'/');
    if !request.args.is_empty() {
        location.push(b'?');
        location.extend_from_slice(&request.args);
    }
    Response {
        location: Some(Bytes::from(location)),
        ..Response::status(301)
    }
}

/// The response that sends a whole file.
#[must_use]
pub fn file_response(request: &Request, entry: &Rc<Entry>) -> Response {
    let settings = &request.location().settings;
    let mut response = Response::new(200, entry.body());
    response.content_type = settings.mime.of_path(&request.uri);
    response.last_modified = Some(LastModified {
        seconds: entry.modified,
        text: entry.last_modified.clone(),
    });
    if settings.static_files.etag {
        response.etag = Some(entry.etag.clone());
    }
    response.allow_ranges = true;
    response.file = Some(Rc::clone(entry));
    response
}

/// The status for a file that could not be opened, logged as nginx logs it.
fn failed(request: &Request, path: &[u8], failure: &Failure) -> Interrupt {
    let status = failure.status();
    if status != 404 || request.location().settings.static_files.log_not_found {
        log_failure(request, failure.level(), path, failure);
    }
    Interrupt::Status(status)
}

/// `open() "PATH" failed (2: No such file or directory)`.
pub fn log_failure(request: &Request, level: Level, path: &[u8], failure: &Failure) {
    write_request(
        request,
        level,
        format_args!(
            "{} \"{}\" failed ({})",
            failure.call,
            String::from_utf8_lossy(path),
            failure.describe()
        ),
    );
}
