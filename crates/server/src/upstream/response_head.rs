//! What an upstream's head becomes: the client's response with the fields that may pass, rewritten where the settings say
//! so, and what the upstream tells the server itself by `X-Accel-…`.

use super::proxy::{self, cookie, redirect};
use super::settings::{Family, IgnoredFields, Settings};
use crate::content::Content;
use crate::http::interrupt::Target;
use crate::http::response::LastModified;
use crate::http::{Interrupt, Phase, Request, Response};
use crate::log::error::{Level, write_request};
use bytes::Bytes;
use std::sync::Arc;
use wire::fields::date;
use wire::headers::HeaderList;
use wire::http1::body::parse_content_length;
use wire::http1::response::Head;
use wire::http1::{Field, Known};

/// What the upstream tells the server.
#[derive(Debug, Default)]
pub struct Instructions {
    pub redirect: Option<Redirect>,
    /// Bytes per second to the client.
    pub limit_rate: Option<u64>,
    /// In place of `proxy_buffering`.
    pub buffering: Option<bool>,
    /// X-Accel-Expires as it came, for a cache.
    pub expires: Option<Bytes>,
}

/// `X-Accel-Redirect`: where the request goes on, and what of the response goes with it.
#[derive(Debug)]
pub struct Redirect {
    pub target: Target,
    pub fields: HeaderList,
    pub content_type: Option<Bytes>,
}

/// A head that was understood. The response has no body yet.
#[derive(Debug)]
pub struct Received {
    pub response: Response,
    pub instructions: Instructions,
}

/// Whether a head can be understood without doubt, and its status; an error is in nginx's words. A FastCGI program says
/// the status in a field.
pub fn check(family: Family, head: &Head, buffer: &[u8]) -> Result<u16, String> {
    let mut length: Option<&Field> = None;
    let mut coding: Option<&Field> = None;
    for field in &head.fields {
        let (value, before) = match field.known {
            Known::ContentLength => (field.value.of(buffer), length.replace(field)),
            Known::TransferEncoding => (field.value.of(buffer), coding.replace(field)),
            _ => continue,
        };
        if let Some(before) = before {
            return Err(format!(
                "upstream sent duplicate header line: \"{}\", previous value: \"{}\"",
                line(field, buffer),
                line(before, buffer)
            ));
        }
        let shown = || String::from_utf8_lossy(value);
        if field.known == Known::ContentLength && parse_content_length(value).is_none() {
            let line = line(field, buffer);
            return Err(format!(
                "upstream sent invalid \"Content-Length\" header: \"{line}\""
            ));
        }
        if field.known == Known::TransferEncoding && !value.eq_ignore_ascii_case(b"chunked") {
            return Err(format!(
                "upstream sent unknown \"Transfer-Encoding\": \"{}\"",
                shown()
            ));
        }
    }
    if length.is_some() && coding.is_some() {
        return Err(
            "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time"
                .into(),
        );
    }
    match family {
        Family::Proxy => Ok(head.status),
        Family::FastCgi => cgi_status(head, buffer),
    }
}

fn line(field: &Field, buffer: &[u8]) -> String {
    let part = |bytes| String::from_utf8_lossy(bytes);
    format!(
        "{}: {}",
        part(field.name.of(buffer)),
        part(field.value.of(buffer))
    )
}

/// The status that a CGI head tells (RFC 3875, 6.3.3): in Status, or 302 with a Location, or 200.
fn cgi_status(head: &Head, buffer: &[u8]) -> Result<u16, String> {
    let Some(value) = head.value(Known::Status, buffer) else {
        let moved = head.value(Known::Location, buffer).is_some();
        return Ok(if moved { 302 } else { 200 });
    };
    let digits = value.get(..3).and_then(conf::values::parse_number);
    let status = digits.and_then(|status| u16::try_from(status).ok());
    status.ok_or_else(|| {
        let value = String::from_utf8_lossy(value);
        format!("upstream sent invalid status \"{value}\"")
    })
}

/// Makes the client's response of a head that was checked.
pub fn read(
    request: &Request,
    family: Family,
    settings: &Settings,
    head: &Head,
    buffer: &[u8],
) -> Phase<Received> {
    let status = head.status;
    let location = request.location();
    let pass = match &location.content {
        Content::Proxy(pass) => Some(Arc::clone(pass)),
        _ => None,
    };
    let mut reader = Reader {
        request,
        family,
        settings,
        pass: pass.as_deref(),
        received: Received {
            response: Response {
                status,
                status_line: Some(status_line(family, head, buffer, status)),
                // Whoever made the response has looked at the conditions, too.
                skip_conditions: true,
                allow_ranges: settings.force_ranges,
                single_range: settings.force_ranges,
                ..Response::default()
            },
            instructions: Instructions::default(),
        },
        kept: HeaderList::new(),
        redirect: None,
        redirect_type: None,
    };
    let mut seen = 0u128;
    for field in &head.fields {
        if is_single(field.known) {
            let bit = 1u128.checked_shl(field.known as u32).unwrap_or(0);
            if seen & bit != 0 {
                reader.complain_of_duplicate(field, head, buffer);
                continue;
            }
            seen |= bit;
        }
        reader.obey(field.known, field.value.of(buffer));
        reader.take(field.known, field.name.of(buffer), field.value.of(buffer))?;
    }
    reader.finish()
}

/// The status and the words behind it as the upstream wrote them.
fn status_line(family: Family, head: &Head, buffer: &[u8], status: u16) -> Bytes {
    let text = match family {
        Family::Proxy => head.status_text.of(buffer),
        Family::FastCgi => match head.value(Known::Status, buffer) {
            Some(value) => value,
            None if status == 302 => b"302 Moved Temporarily",
            None => b"200 OK",
        },
    };
    Bytes::copy_from_slice(text)
}

/// Fields of which the first counts, and the others are dropped.
fn is_single(known: Known) -> bool {
    matches!(
        known,
        Known::Status
            | Known::ContentType
            | Known::Date
            | Known::LastModified
            | Known::Etag
            | Known::Server
            | Known::Location
            | Known::Refresh
            | Known::Expires
            | Known::AcceptRanges
            | Known::ContentEncoding
            | Known::XAccelExpires
            | Known::XAccelRedirect
            | Known::XAccelLimitRate
            | Known::XAccelBuffering
            | Known::XAccelCharset
    )
}

struct Reader<'a> {
    request: &'a Request,
    family: Family,
    settings: &'a Settings,
    pass: Option<&'a proxy::Pass>,
    received: Received,
    /// What goes with the request if X-Accel-Redirect sends it elsewhere; hidden fields, too.
    kept: HeaderList,
    redirect: Option<Bytes>,
    redirect_type: Option<Bytes>,
}

impl Reader<'_> {
    fn complain_of_duplicate(&self, field: &Field, head: &Head, buffer: &[u8]) {
        let first = head.fields.iter().find(|first| first.known == field.known);
        let previous = first.map(|first| line(first, buffer)).unwrap_or_default();
        write_request(
            self.request,
            Level::Warning,
            format_args!(
                "upstream sent duplicate header line: \"{}\", previous value: \"{previous}\", ignored while reading response header from upstream",
                line(field, buffer)
            ),
        );
    }

    /// Takes note of what a field tells the server.
    fn obey(&mut self, known: Known, value: &[u8]) {
        let ignored = |field| self.settings.ignore_headers.contains(field);
        let instructions = &mut self.received.instructions;
        match known {
            Known::XAccelRedirect if !ignored(IgnoredFields::X_ACCEL_REDIRECT) => {
                self.redirect = Some(Bytes::copy_from_slice(value));
            }
            Known::XAccelExpires if !ignored(IgnoredFields::X_ACCEL_EXPIRES) => {
                instructions.expires = Some(Bytes::copy_from_slice(value));
            }
            Known::XAccelLimitRate if !ignored(IgnoredFields::X_ACCEL_LIMIT_RATE) => {
                instructions.limit_rate = conf::values::parse_number(value);
            }
            Known::XAccelBuffering if !ignored(IgnoredFields::X_ACCEL_BUFFERING) => {
                instructions.buffering = match &value.to_ascii_lowercase()[..] {
                    b"yes" => Some(true),
                    b"no" => Some(false),
                    _ => None,
                };
            }
            Known::XAccelCharset if !ignored(IgnoredFields::X_ACCEL_CHARSET) => {
                self.received.response.override_charset = Some(Bytes::copy_from_slice(value));
            }
            _ => {}
        }
    }

    /// Passes a field on, as it is or rewritten.
    fn take(&mut self, known: Known, name: &[u8], value: &[u8]) -> Phase {
        let hidden = self.settings.hides(self.family, known, name);
        let goes_along = matches!(
            known,
            Known::SetCookie
                | Known::ContentDisposition
                | Known::Expires
                | Known::CacheControl
                | Known::AcceptRanges
        );
        if known == Known::ContentType && self.redirect_type.is_none() {
            self.redirect_type = Some(Bytes::copy_from_slice(value));
        }
        if hidden && !goes_along {
            return Ok(());
        }
        let mut passed = Bytes::copy_from_slice(value);
        match known {
            Known::Connection
            | Known::KeepAlive
            | Known::TransferEncoding
            | Known::ContentLength => return Ok(()),
            Known::AcceptRanges if self.cuts_ranges() => return Ok(()),
            Known::ContentType => {
                self.received.response.set_content_type(passed);
                return Ok(());
            }
            Known::SetCookie if self.pass.is_some() => {
                if let Some(changed) = cookie::set_cookie(self.request, value)? {
                    passed = changed.into();
                }
            }
            Known::Refresh => {
                if let Some(pass) = self.pass
                    && let Some(changed) = redirect::refresh(self.request, pass, value)?
                {
                    passed = changed.into();
                }
            }
            Known::Location => {
                if let Some(pass) = self.pass
                    && let Some(changed) = redirect::location(self.request, pass, value)?
                {
                    passed = changed.into();
                    let absolute = self.request.location().settings.redirect.absolute;
                    if absolute && passed.first() == Some(&b'/') {
                        self.received.response.location = Some(passed);
                        return Ok(());
                    }
                }
            }
            Known::LastModified => {
                self.received.response.last_modified =
                    date::parse(value).map(|seconds| LastModified {
                        seconds,
                        text: Bytes::new(),
                    });
            }
            Known::Etag => {
                let response = &mut self.received.response;
                response.etag = Some(passed);
                response.etag_place = response.headers.len();
                return Ok(());
            }
            Known::Server => self.received.response.has_server = true,
            Known::Date => self.received.response.has_date = true,
            _ => {}
        }
        if goes_along {
            self.kept.push(name.to_vec(), passed.clone());
        }
        if !hidden {
            self.received.response.headers.push(name.to_vec(), passed);
        }
        Ok(())
    }

    /// Whether ranges are the server's matter: by the settings, or because the response is the whole one.
    fn cuts_ranges(&mut self) -> bool {
        if self.settings.force_ranges {
            return true;
        }
        let is_whole = self.request.cached.as_ref().is_some_and(|c| c.is_whole);
        self.received.response.allow_ranges |= is_whole;
        self.received.response.single_range |= is_whole;
        is_whole
    }

    fn finish(mut self) -> Phase<Received> {
        // As in nginx, a server whose Server and Date pass and which sends none leaves the response without.
        if self.family == Family::Proxy {
            let passes = |known: Known, name: &[u8]| !self.settings.hides(self.family, known, name);
            self.received.response.has_server |= passes(Known::Server, b"Server");
            self.received.response.has_date |= passes(Known::Date, b"Date");
        }
        if let Some(uri) = self.redirect.take() {
            self.received.instructions.redirect = Some(Redirect {
                target: target(self.request, &uri)?,
                fields: self.kept,
                content_type: self.redirect_type,
            });
        }
        Ok(self.received)
    }
}

/// Where X-Accel-Redirect leads: a named location, or a path with arguments, which must not climb.
fn target(request: &Request, uri: &[u8]) -> Phase<Target> {
    if uri.first() == Some(&b'@') {
        return Ok(Target::Named(Bytes::copy_from_slice(uri)));
    }
    let (path, args) = match memchr::memchr(b'?', uri) {
        Some(mark) => (&uri[..mark], &uri[mark + 1..]),
        None => (uri, &[][..]),
    };
    let decoded = wire::uri::unescape(path);
    if is_unsafe(path) || is_unsafe(&decoded) {
        let shown = String::from_utf8_lossy(&decoded);
        write_request(
            request,
            Level::Error,
            format_args!(
                "unsafe URI \"{shown}\" was detected while reading response header from upstream"
            ),
        );
        return Err(Interrupt::Status(404));
    }
    Ok(Target::Uri {
        path: Bytes::copy_from_slice(&decoded),
        args: Some(Bytes::copy_from_slice(args)),
    })
}

/// Whether a path is empty, holds a zero byte or goes up.
fn is_unsafe(path: &[u8]) -> bool {
    path.is_empty()
        || path.contains(&0)
        || path.split(|&byte| byte == b'/').any(|part| part == b"..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::http1::response::Parser;

    fn checked(family: Family, text: &str) -> Result<u16, String> {
        let mut parser = match family {
            Family::Proxy => Parser::new(),
            Family::FastCgi => Parser::for_cgi(),
        };
        let parsed = parser.parse(text.as_bytes(), 4096);
        assert_eq!(parsed, Ok(Some(text.len())), "{text}");
        check(family, parser.head(), text.as_bytes())
    }

    #[test]
    fn heads_that_could_be_read_in_two_ways_are_refused() {
        for (fields, expected) in [
            ("Content-Length: 5\r\n", Ok(200)),
            ("Transfer-Encoding: Chunked\r\n", Ok(200)),
            (
                "Content-Length: 5\r\nContent-length: 6\r\n",
                Err(
                    "upstream sent duplicate header line: \"Content-length: 6\", previous value: \"Content-Length: 5\"",
                ),
            ),
            (
                "Content-Length: abc\r\n",
                Err("upstream sent invalid \"Content-Length\" header: \"Content-Length: abc\""),
            ),
            (
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                Err(
                    "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time",
                ),
            ),
            (
                "Transfer-Encoding: gzip\r\n",
                Err("upstream sent unknown \"Transfer-Encoding\": \"gzip\""),
            ),
            ("Status: 404 No\r\n", Ok(200)),
        ] {
            let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
            assert_eq!(
                checked(Family::Proxy, &text),
                expected.map_err(str::to_owned),
                "{text}"
            );
        }
    }

    #[test]
    fn programs_tell_the_status_in_a_field() {
        for (fields, expected) in [
            ("X: y\r\n", Ok(200)),
            ("Location: /x\r\n", Ok(302)),
            ("Status: 404 Not Found\r\n", Ok(404)),
            ("Location: /x\r\nStatus: 201\r\n", Ok(201)),
            ("Status: 20\r\n", Err("upstream sent invalid status \"20\"")),
            (
                "Status: abc\r\n",
                Err("upstream sent invalid status \"abc\""),
            ),
        ] {
            let text = format!("{fields}\r\n");
            assert_eq!(
                checked(Family::FastCgi, &text),
                expected.map_err(str::to_owned),
                "{text}"
            );
        }
    }

    #[test]
    fn paths_that_climb_are_unsafe() {
        for (path, unsafe_) in [
            ("/a/b", false),
            ("/a/..b", false),
            ("/a..", false),
            ("", true),
            ("/..", true),
            ("/a/../b", true),
            ("..", true),
            ("/a\0", true),
        ] {
            assert_eq!(is_unsafe(path.as_bytes()), unsafe_, "{path:?}");
        }
    }
}
