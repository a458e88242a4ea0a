//! `index`: the file that stands for a directory.

use super::file_cache::failure::libc_errno;
use super::file_cache::{self, Failure};
use super::static_files::{PathBuffer, check_alias, log_failure};
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, row};
use crate::http::interrupt::Target;
use crate::http::{Interrupt, Phase, Request};
use crate::log::error::{Level, write_request};
use crate::variables::Template;
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use std::sync::Arc;
use wire::http1::Method;

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "index",
    HSL,
    Arity::AtLeast(1),
    index,
    "The files that stand for a directory, the first that exists; the last may be a path.",
)];

crate::config::setting::settings! {
    files: Arc<Vec<Template>> = Arc::new(vec![Template::literal(Bytes::from_static(b"index.html"))]),
}

/// Further `index` directives of a block add to its list.
fn index(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let mut files = build.location().index.files.0.take().unwrap_or_default();
    for (at, name) in directive.args.iter().enumerate() {
        if name.first() == Some(&b'/') && at + 1 != directive.args.len() {
            build.warn(
                directive,
                "only the last index in \"index\" directive should be absolute",
            );
        }
        if name.is_empty() {
            return Err(format!("index \"{name}\" in \"index\" directive is invalid").into());
        }
        Arc::make_mut(&mut files).push(Template::compile(name, &mut build.variables)?);
    }
    build.location().index.files.0 = Some(files);
    Ok(())
}

/// Redirects inside the server to the first index file that exists.
pub fn respond(request: &Request) -> Phase {
    if request.uri.last() != Some(&b'/')
        || !matches!(request.method, Method::Get | Method::Head | Method::Post)
    {
        return Ok(());
    }
    check_alias(request)?;
    let mut path = PathBuffer::mapped(request);
    let directory = path.len();
    let mut directory_exists = false;
    for file in request.location().settings.index.files.iter() {
        path.truncate(directory);
        file.append(request, &mut path);
        let name = &path[directory..];
        if name.first() == Some(&b'/') {
            return Err(redirect(Bytes::copy_from_slice(name)));
        }
        match file_cache::look(request, &path) {
            Ok(_) => {
                let uri = [&request.uri, name].concat();
                return Err(redirect(Bytes::from(uri)));
            }
            Err(failure) => {
                let number = failure.number;
                if matches!(
                    number,
                    libc_errno::ENOTDIR | libc_errno::ENAMETOOLONG | libc_errno::EACCES
                ) {
                    return Err(refuse(request, &path, &failure));
                }
                if matches!(number, libc_errno::EMLINK | libc_errno::ELOOP) {
                    return Err(Interrupt::Status(403));
                }
                if !directory_exists {
                    check_directory(request, &path, directory)?;
                    directory_exists = true;
                }
                if number != libc_errno::ENOENT {
                    log_failure(request, Level::Critical, &path, &failure);
                    return Err(Interrupt::Status(500));
                }
            }
        }
    }
    Ok(())
}

fn redirect(path: Bytes) -> Interrupt {
    Interrupt::Redirect(Target::Uri { path, args: None })
}

/// An index file is missing: a directory that is missing as well ends the search. `path` names the file, as nginx
/// logs it, and its first `directory` bytes the directory.
fn check_directory(request: &Request, path: &[u8], directory: usize) -> Phase {
    let name = path[..directory].strip_suffix(b"/");
    match file_cache::look(request, name.unwrap_or(&path[..directory])) {
        Ok(file_cache::Kind::Directory) => Ok(()),
        Ok(file_cache::Kind::File) => {
            write_request(
                request,
                Level::Alert,
                format_args!(
                    "\"{}\" is not a directory",
                    String::from_utf8_lossy(&path[..directory])
                ),
            );
            Err(Interrupt::Status(500))
        }
        Err(failure) => match failure.number {
            libc_errno::ENOENT => Err(refuse(request, path, &failure)),
            // Searching the directory was allowed before.
            libc_errno::EACCES => Ok(()),
            _ => {
                log_failure(request, Level::Critical, path, &failure);
                Err(Interrupt::Status(500))
            }
        },
    }
}

/// 403 or 404, logged in nginx's words.
fn refuse(request: &Request, path: &[u8], failure: &Failure) -> Interrupt {
    let (status, what) = match failure.number {
        libc_errno::EACCES => (403, "forbidden"),
        _ => (404, "not found"),
    };
    if status == 403 || request.location().settings.static_files.log_not_found {
        write_request(
            request,
            Level::Error,
            format_args!(
                "\"{}\" is {what} ({})",
                String::from_utf8_lossy(path),
                failure.describe()
            ),
        );
    }
    Interrupt::Status(status)
}
