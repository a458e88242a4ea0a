//! Files: a request's path under `root` or `alias`, served from the file cache.

use super::file_cache::{self, Entry, Lookup};
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, HSLI, LOCATION, Outcome, Set, flag, row};
use crate::config::model::LocationKind;
use crate::http::response::LastModified;
use crate::http::{Interrupt, Phase, Request, Response};
use crate::pipeline::redirect;
use crate::variables::Template;
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
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

/// `root` or `alias`.
#[derive(Debug, Clone)]
pub struct Root {
    pub path: Template,
    /// The path of the location is replaced, not appended to.
    pub alias: bool,
    /// Bytes of the location's name that an alias replaces.
    pub replaced: usize,
}

crate::config::setting::settings! {
    root: Root = Root { path: Template::literal(Bytes::from_static(b"/usr/share/nginx/html")), alias: false, replaced: 0 },
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
        return Err(if other.alias == alias {
            "is duplicate".into()
        } else {
            let before = if other.alias { "alias" } else { "root" };
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
    if path.first() != Some(&b'$') && path.first() != Some(&b'/') {
        let name = String::from_utf8_lossy(&path).into_owned();
        path = build
            .paths
            .in_prefix(&name)
            .into_os_string()
            .into_encoded_bytes();
    }
    let replaced = match &build.frame().kind {
        LocationKind::Prefix { path, .. } | LocationKind::Exact(path) => path.len(),
        _ => 0,
    };
    let path = Template::compile(&path, &mut build.variables)?;
    build.location().static_files.root.0 = Some(Root {
        path,
        alias,
        replaced,
    });
    Ok(())
}

/// Appends the file-system path of `uri` as the location maps it (`$request_filename`).
pub fn map_path(request: &Request, uri: &[u8], out: &mut Vec<u8>) {
    let location = request.location();
    let root = &location.settings.static_files.root;
    root.path.append(request, out);
    if !root.alias {
        out.extend_from_slice(uri);
        return;
    }
    // In a regex location an alias is the whole path.
    if !matches!(location.kind, LocationKind::Regex { .. }) {
        out.extend_from_slice(uri.get(root.replaced..).unwrap_or_default());
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
    let mut path = Vec::with_capacity(128);
    map_path(request, &request.uri, &mut path);
    match file_cache::lookup(request, &path).await {
        Lookup::File(entry) => {
            if request.method == Method::Post {
                return Err(Interrupt::Status(405));
            }
            Ok(Some(file_response(request, &entry)))
        }
        Lookup::Directory => Err(Interrupt::Respond(Box::new(redirect::to_directory(
            request,
        )))),
        Lookup::Failed(failure) => Err(failed(request, &path, &failure)),
        Lookup::Other => Err(Interrupt::Status(404)),
    }
}

/// The response that sends a whole file.
#[must_use]
pub fn file_response(request: &Request, entry: &Entry) -> Response {
    let settings = &request.location().settings;
    let mut response = Response::new(200, entry.body());
    response.content_type = Some(settings.mime.of_path(&request.uri));
    response.last_modified = Some(LastModified {
        seconds: entry.modified,
        text: entry.last_modified.clone(),
    });
    if settings.static_files.etag {
        response.etag = Some(entry.etag.clone());
    }
    response.allow_ranges = true;
    response
}

/// The status for a file that could not be opened, logged as nginx logs it.
fn failed(request: &Request, path: &[u8], failure: &file_cache::Failure) -> Interrupt {
    let status = failure.status();
    if status != 404 || request.location().settings.static_files.log_not_found {
        crate::log::error::write_request(
            request,
            failure.level(),
            format_args!(
                "{} \"{}\" failed ({})",
                failure.call,
                String::from_utf8_lossy(path),
                failure.describe()
            ),
        );
    }
    Interrupt::Status(status)
}
