//! `dav_methods`: PUT, DELETE, MKCOL, COPY and MOVE change files (RFC 4918). What is checked of requests is here; `files`
//! does the work on the blocking pool.

mod files;

use super::static_files::{self, PathBuffer};
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, flag, number, row};
use crate::http::request::RequestBody;
use crate::http::{Interrupt, Phase, Request, Response};
use crate::log::error::{Level, write_request};
use crate::request_body;
use crate::upstream::settings::store_access;
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use files::{Change, Failed};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use sys::errno::Errno;
use wire::fields::date;
use wire::http1::Method;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "dav_methods",
        HSL,
        Arity::AtLeast(1),
        methods,
        "The methods that change files: put, delete, mkcol, copy, move; off: none.",
    ),
    row(
        "create_full_put_path",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().dav.create_full_put_path, d),
        "Whether PUT makes the directories that are missing.",
    ),
    row(
        "min_delete_depth",
        HSL,
        Arity::Exactly(1),
        |b, d| number(&mut b.location().dav.min_delete_depth, d),
        "How many parts a path must have for DELETE.",
    ),
    row(
        "dav_access",
        HSL,
        Arity::Between(1, 3),
        |b, d| {
            b.location().dav.access.vacant()?;
            let mode = store_access(&d.args)?;
            b.location().dav.access.set(mode)
        },
        "The rights to files and directories that are made.",
    ),
];

/// A set of methods, a bit each in the order of `METHODS`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Methods(u8);

const METHODS: &[(&str, Method)] = &[
    ("put", Method::Put),
    ("delete", Method::Delete),
    ("mkcol", Method::Mkcol),
    ("copy", Method::Copy),
    ("move", Method::Move),
];

impl Methods {
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn contains(self, method: Method) -> bool {
        let place = METHODS.iter().position(|(_, known)| *known == method);
        place.is_some_and(|place| self.0 & (1 << place) != 0)
    }
}

crate::config::setting::settings! {
    methods: Methods = Methods::default(),
    create_full_put_path: bool = false,
    min_delete_depth: u64 = 0,
    access: u32 = 0o600,
}

fn methods(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    // Further directives of a block add to the first.
    let methods = build.location().dav.methods.0.get_or_insert_default();
    for word in &directive.args {
        if word.eq_ignore_ascii_case(b"off") {
            continue;
        }
        let place = METHODS
            .iter()
            .position(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
        methods.0 |= 1 << place.ok_or_else(|| format!("invalid value \"{word}\""))?;
    }
    Ok(())
}

/// How deep a change reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Zero,
    One,
    Infinity,
    Invalid,
}

/// Carries out a method that changes files; `Ok(None)`: it is none of the location's.
pub async fn respond(request: &mut Request) -> Phase<Option<Response>> {
    if !request
        .location()
        .settings
        .dav
        .methods
        .contains(request.method)
    {
        return Ok(None);
    }
    let response = match request.method {
        Method::Put => put(request).await,
        Method::Delete => delete(request).await,
        Method::Mkcol => make_collection(request).await,
        _ => copy_or_move(request).await,
    };
    response.map(Some)
}

fn refuse<T>(request: &Request, status: u16, message: std::fmt::Arguments<'_>) -> Phase<T> {
    write_request(request, Level::Error, message);
    Err(Interrupt::Status(status))
}

/// Only PUT has a body.
fn check_body(request: &Request, name: &str) -> Phase {
    match request.content_length.is_some_and(|length| length > 0) || request.chunked {
        true => refuse(
            request,
            415,
            format_args!("{name} with body is unsupported"),
        ),
        false => Ok(()),
    }
}

fn path_of(request: &Request) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&PathBuffer::mapped(request)))
}

fn depth(request: &Request, default: Depth) -> Depth {
    let Some(value) = request.fields_named(b"Depth").next() else {
        return default;
    };
    match value {
        b"0" => Depth::Zero,
        b"1" => Depth::One,
        b"infinity" => Depth::Infinity,
        value => {
            let value = String::from_utf8_lossy(value);
            write_request(
                request,
                Level::Error,
                format_args!("client sent invalid \"Depth\" header: \"{value}\""),
            );
            Depth::Invalid
        }
    }
}

/// Does the work where it may take its time.
async fn change(request: &Request, change: Change) -> Phase<u16> {
    let done = tokio::task::spawn_blocking(move || files::carry_out(change)).await;
    match done {
        Ok(Ok(status)) => Ok(status),
        Ok(Err(Failed::Status { status, message })) => {
            refuse(request, status, format_args!("{message}"))
        }
        Ok(Err(Failed::System {
            call,
            path,
            error,
            missing,
        })) => {
            let (status, level) = files::meaning(&error, missing);
            let (path, reason) = (path.display(), Errno(&error));
            let level = match level {
                true => Level::Critical,
                false => Level::Error,
            };
            write_request(
                request,
                level,
                format_args!("{call} \"{path}\" failed ({reason})"),
            );
            Err(Interrupt::Status(status))
        }
        Err(_) => Err(Interrupt::Status(500)),
    }
}

/// The response to a change that succeeded; what was made has a Location.
fn changed(request: &Request, status: u16) -> Response {
    let mut response = Response::status(status);
    if status == 201 {
        response.content_length = Some(0);
        if matches!(request.method, Method::Put | Method::Mkcol) {
            let path = wire::uri::escape(&request.uri, wire::uri::Class::Uri);
            response.location = Some(Bytes::copy_from_slice(&path));
        }
    }
    response
}

async fn put(request: &mut Request) -> Phase<Response> {
    if request.uri.last() == Some(&b'/') {
        return refuse(request, 409, format_args!("cannot PUT to a collection"));
    }
    if request.fields_named(b"Content-Range").next().is_some() {
        return refuse(request, 501, format_args!("PUT with range is unsupported"));
    }
    static_files::check_alias(request)?;
    request_body::read::read(request).await?;
    let dav = &request.location().settings.dav;
    let (access, makes_path) = (dav.access, dav.create_full_put_path);
    let modified = request
        .fields_named(b"Date")
        .next()
        .and_then(date::parse)
        .and_then(|seconds| u64::try_from(seconds).ok());
    let temporary = match &request.body {
        RequestBody::File(file) => file.path.clone(),
        body => {
            let bytes = match body {
                RequestBody::Memory(bytes) => bytes.clone(),
                _ => Bytes::new(),
            };
            let created = request.location().settings.request_body.temp_path.create();
            let mut file = match created {
                Ok(file) => file,
                Err((path, error)) => {
                    let (path, reason) = (path.display(), Errno(&error));
                    return refuse(
                        request,
                        500,
                        format_args!("open() \"{path}\" failed ({reason})"),
                    );
                }
            };
            if let Err(error) = file.write(&bytes) {
                let (path, reason) = (file.path.display(), Errno(&error));
                return refuse(
                    request,
                    500,
                    format_args!("write() \"{path}\" failed ({reason})"),
                );
            }
            // It goes with the request unless it has found its place.
            let path = file.path.clone();
            request.body = RequestBody::File(std::rc::Rc::new(file));
            path
        }
    };
    let done = change(
        request,
        Change::Put {
            temporary,
            target: path_of(request),
            access,
            modified,
            makes_path,
        },
    );
    let status = done.await?;
    Ok(changed(request, status))
}

async fn delete(request: &Request) -> Phase<Response> {
    check_body(request, "DELETE")?;
    let least = request.location().settings.dav.min_delete_depth;
    if least > 0 {
        let slashes = request
            .uri
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'/');
        let inner = slashes.filter(|(place, _)| place + 1 < request.uri.len());
        let found = inner.count() as u64;
        if found < least {
            return refuse(
                request,
                409,
                format_args!("insufficient URI depth:{found} to DELETE"),
            );
        }
    }
    static_files::check_alias(request)?;
    let status = change(
        request,
        Change::Delete {
            path: path_of(request),
            is_collection: request.uri.last() == Some(&b'/'),
            is_whole: match depth(request, Depth::Infinity) {
                Depth::Infinity => Some(true),
                Depth::Zero => Some(false),
                _ => None,
            },
        },
    );
    Ok(changed(request, status.await?))
}

async fn make_collection(request: &Request) -> Phase<Response> {
    check_body(request, "MKCOL")?;
    if request.uri.last() != Some(&b'/') {
        return refuse(
            request,
            409,
            format_args!("MKCOL can create a collection only"),
        );
    }
    static_files::check_alias(request)?;
    let access = request.location().settings.dav.access;
    let path = path_of(request);
    let status = change(request, Change::MakeCollection { path, access }).await?;
    Ok(changed(request, status))
}

async fn copy_or_move(request: &mut Request) -> Phase<Response> {
    let is_move = request.method == Method::Move;
    check_body(request, "COPY and MOVE")?;
    let target = destination(request)?;
    let is_collection = request.uri.last() == Some(&b'/');
    if is_collection != (target.last() == Some(&b'/')) {
        let (from, to) = (
            String::from_utf8_lossy(&request.uri),
            String::from_utf8_lossy(&target),
        );
        return refuse(
            request,
            409,
            format_args!(
                "both URI \"{from}\" and \"Destination\" URI \"{to}\" should be either collections or non-collections"
            ),
        );
    }
    match (depth(request, Depth::Infinity), is_move) {
        (Depth::Infinity, _) | (Depth::Zero, false) => {}
        (_, false) => {
            return refuse(
                request,
                400,
                format_args!("\"Depth\" header must be 0 or infinity"),
            );
        }
        (_, true) => {
            return refuse(
                request,
                400,
                format_args!("\"Depth\" header must be infinity"),
            );
        }
    }
    let overwrites = match request.fields_named(b"Overwrite").next() {
        None | Some(b"T" | b"t") => true,
        Some(b"F" | b"f") => false,
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            return refuse(
                request,
                400,
                format_args!("client sent invalid \"Overwrite\" header: \"{other}\""),
            );
        }
    };
    static_files::check_alias(request)?;
    let from = path_of(request);
    let former = std::mem::replace(&mut request.uri, target);
    let to = path_of(request);
    request.uri = former;
    let access = request.location().settings.dav.access;
    let status = change(
        request,
        Change::Copy {
            from,
            to,
            is_collection,
            is_move,
            overwrites,
            access,
        },
    );
    let status = status.await?;
    Ok(changed(request, status))
}

/// The path that the Destination field names.
fn destination(request: &Request) -> Phase<Vec<u8>> {
    let Some(value) = request.fields_named(b"Destination").next() else {
        return refuse(
            request,
            400,
            format_args!("client sent no \"Destination\" header"),
        );
    };
    let shown = String::from_utf8_lossy(value);
    let path = match value.first() {
        Some(b'/') => value,
        _ => {
            let scheme: &[u8] = if request.connection.is_tls() {
                b"https://"
            } else {
                b"http://"
            };
            let known = value
                .get(..scheme.len())
                .is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
            let rest = value
                .get(scheme.len()..)
                .filter(|_| known)
                .unwrap_or_default();
            let Some(slash) = memchr::memchr(b'/', rest) else {
                return refuse(
                    request,
                    400,
                    format_args!("client sent invalid \"Destination\" header: \"{shown}\""),
                );
            };
            let (authority, path) = rest.split_at(slash);
            let host = authority
                .split(|&byte| byte == b':')
                .next()
                .unwrap_or_default();
            if !host.eq_ignore_ascii_case(&request.host) {
                return refuse(
                    request,
                    400,
                    format_args!(
                        "\"Destination\" URI \"{shown}\" is handled by different repository than the source URI"
                    ),
                );
            }
            path
        }
    };
    match wire::uri::split_inside(path) {
        Some((path, _)) => Ok(path.into_owned()),
        None => refuse(
            request,
            400,
            format_args!("client sent invalid \"Destination\" header: \"{shown}\""),
        ),
    }
}
