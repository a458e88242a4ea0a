//! `autoindex`: a directory's listing. The directory is read away from the network thread.

mod listing;

use super::file_cache::failure::libc_errno;
use super::static_files::PathBuffer;
use crate::config::directive::{Arity, HSL, Set, flag, keyword, row};
use crate::http::{Body, Interrupt, Phase, Request, Response};
use crate::log::error::{Level, write_request};
use bytes::Bytes;
use conf::table::Row;
use listing::{Listing, ReadError};
use wire::http1::Method;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "autoindex",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().autoindex.on, d),
        "Whether a directory without index file is listed.",
    ),
    row(
        "autoindex_exact_size",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().autoindex.exact_size, d),
        "Sizes in bytes instead of rounded ones, in HTML.",
    ),
    row(
        "autoindex_localtime",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().autoindex.local_time, d),
        "Times of the machine's time zone instead of UTC, in HTML.",
    ),
    row(
        "autoindex_format",
        HSL,
        Arity::Exactly(1),
        |b, d| {
            keyword(
                &mut b.location().autoindex.format,
                d,
                &[
                    ("html", Format::Html),
                    ("json", Format::Json),
                    ("jsonp", Format::Jsonp),
                    ("xml", Format::Xml),
                ],
            )
        },
        "The format of a listing.",
    ),
];

/// `autoindex_format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Html,
    Json,
    Jsonp,
    Xml,
}

crate::config::setting::settings! {
    on: bool = false,
    exact_size: bool = true,
    local_time: bool = false,
    format: Format = Format::Html,
}

/// Lists the directory of the request's path where `autoindex` is on.
pub async fn respond(request: &mut Request) -> Phase<Option<Response>> {
    let settings = &request.location().settings.autoindex;
    if !settings.on
        || request.uri.last() != Some(&b'/')
        || !matches!(request.method, Method::Get | Method::Head)
    {
        return Ok(None);
    }
    let callback = callback(request, settings.format)?;
    let mut path = PathBuffer::mapped(request).to_vec();
    if path.len() > 1 {
        path.pop();
    }
    let read = tokio::task::spawn_blocking(move || Listing::read(path)).await;
    let listing = match read {
        Ok(Ok(listing)) => listing,
        Ok(Err(error)) => return Err(failed(request, &error)),
        Err(_) => return Err(Interrupt::Status(500)),
    };
    let mut out = Vec::new();
    match (settings.format, &callback) {
        (Format::Html, _) => {
            listing.html(
                &request.uri,
                settings.exact_size,
                settings.local_time,
                &mut out,
            );
        }
        (Format::Xml, _) => listing.xml(&mut out),
        (_, None) => listing.json(&mut out),
        (_, Some(callback)) => {
            out.extend_from_slice(b"/* callback */\r\n");
            out.extend_from_slice(callback);
            out.push(b'(');
            listing.json(&mut out);
            out.extend_from_slice(b");");
        }
    }
    let mut response = Response::new(200, Body::Memory(Bytes::from(out)));
    // As nginx, which writes the head before it knows the length.
    response.clear_content_length();
    response.content_type = Some(Bytes::from_static(match (settings.format, callback) {
        (Format::Html, _) => b"text/html",
        (Format::Xml, _) => b"text/xml",
        (_, None) => b"application/json",
        (_, Some(_)) => b"application/javascript",
    }));
    if settings.format == Format::Xml {
        response.charset = Some(Bytes::from_static(b"utf-8"));
    }
    Ok(Some(response))
}

/// The function that JSONP calls: the argument `callback`, of letters, digits, `_` and `.`.
fn callback(request: &Request, format: Format) -> Phase<Option<Vec<u8>>> {
    if format != Format::Jsonp {
        return Ok(None);
    }
    let name = request.args.split(|&byte| byte == b'&').find_map(|arg| {
        let (name, value) = arg.split_at_checked(b"callback=".len())?;
        name.eq_ignore_ascii_case(b"callback=").then_some(value)
    });
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let valid = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    if !name.iter().all(valid) {
        write_request(
            request,
            Level::Info,
            format_args!(
                "client sent invalid callback name: \"{}\"",
                String::from_utf8_lossy(name)
            ),
        );
        return Err(Interrupt::Status(400));
    }
    Ok(Some(name.to_vec()))
}

fn failed(request: &Request, failure: &ReadError) -> Interrupt {
    let number = failure.error.raw_os_error().unwrap_or_default();
    let status = match number {
        libc_errno::ENOENT | libc_errno::ENOTDIR | libc_errno::ENAMETOOLONG => 404,
        libc_errno::EACCES => 403,
        _ => 500,
    };
    let level = match status {
        500 => Level::Critical,
        _ => Level::Error,
    };
    write_request(
        request,
        level,
        format_args!(
            "{} \"{}\" failed ({})",
            failure.call,
            String::from_utf8_lossy(&failure.path),
            sys::errno::Errno(&failure.error)
        ),
    );
    Interrupt::Status(status)
}
