//! `error_page`, and the built-in pages: what becomes of a request that a phase interrupted.

use super::phases::MAX_URI_CHANGES;
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, HSLI, Outcome, Set, flag, row};
use crate::http::interrupt::Target;
use crate::http::{Body, Interrupt, Request, Response, status, user_agent};
use crate::variables::Template;
use bytes::Bytes;
use conf::table::Row;
use conf::{Directive, values};
use std::sync::Arc;
use wire::http1::{Method, Version};

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "error_page",
        HSLI,
        Arity::AtLeast(2),
        error_page,
        "Where a request goes that ended in one of these statuses.",
    ),
    row(
        "recursive_error_pages",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().error_pages.recursive, d),
        "Whether error pages may have error pages.",
    ),
];

/// What `=` in `error_page` says of the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// No `=`: the original status.
    Original,
    /// `=`: the status that the page's request gives.
    Own,
    /// `=CODE`.
    Code(u16),
}

/// One status of an `error_page` directive.
#[derive(Debug, Clone)]
pub struct ErrorPage {
    status: u16,
    answer: Answer,
    target: Template,
    /// Arguments of a target without variables.
    args: Option<Bytes>,
}

crate::config::setting::settings! {
    pages: Arc<Vec<ErrorPage>> = Arc::default(),
    recursive: bool = false,
}

fn error_page(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let (target, before) = directive.args.split_last().ok_or("invalid value")?;
    let (codes, answer) = match before.split_last() {
        Some((word, codes)) if word.first() == Some(&b'=') => {
            if codes.is_empty() {
                return Err(format!("invalid value \"{word}\"").into());
            }
            let answer = match &word[1..] {
                b"" => Answer::Own,
                digits => Answer::Code(
                    values::parse_number(digits)
                        .filter(|&code| code <= 999)
                        .ok_or_else(|| format!("invalid value \"{word}\""))?
                        as u16,
                ),
            };
            (codes, answer)
        }
        _ => (before, Answer::Original),
    };
    let mut text = &target[..];
    let mut args = None;
    if text.first() == Some(&b'/')
        && !text.contains(&b'$')
        && let Some(question) = memchr::memchr(b'?', text)
    {
        args = Some(Bytes::copy_from_slice(&text[question + 1..]));
        text = &text[..question];
    }
    let template = Template::compile(text, &mut build.variables)?;
    let mut pages = build
        .location()
        .error_pages
        .pages
        .0
        .take()
        .unwrap_or_default();
    let list = Arc::make_mut(&mut pages);
    for code in codes {
        let number =
            values::parse_number(code).ok_or_else(|| format!("invalid value \"{code}\""))?;
        if number == 499 {
            return Err(format!("invalid value \"{code}\"").into());
        }
        if !(300..=599).contains(&number) {
            return Err(format!("value \"{code}\" must be between 300 and 599").into());
        }
        let answer = match (number, answer) {
            // The statuses that only nginx knows are answered as 400 unless the directive says otherwise.
            (494..=497, Answer::Original) => Answer::Code(400),
            _ => answer,
        };
        list.push(ErrorPage {
            status: number as u16,
            answer,
            target: template.clone(),
            args: args.clone(),
        });
    }
    build.location().error_pages.pages.0 = Some(pages);
    Ok(())
}

impl Settings {
    /// Whether a status has a page of the configuration's.
    #[must_use]
    pub fn has_page(&self, status: u16) -> bool {
        self.pages.iter().any(|page| page.status == status)
    }
}

/// What becomes of an interrupted request.
pub enum Settled {
    Response(Box<Response>),
    Redirect(Target),
    Hangup,
}

/// Applies `error_page` to an interrupt; without one the built-in page answers.
pub fn settle(request: &mut Request, interrupt: Interrupt) -> Settled {
    let (code, response) = match interrupt {
        Interrupt::Hangup => return Settled::Hangup,
        Interrupt::Redirect(target) => return Settled::Redirect(target),
        Interrupt::Respond(response)
            if response.status < 300 || !matches!(response.body, Body::Empty) =>
        {
            return Settled::Response(Box::new(with_error_status(request, *response)));
        }
        Interrupt::Respond(response) => (response.status, *response),
        Interrupt::Status(code @ (408 | 444 | 499)) => {
            request.sent.status.set(code);
            return Settled::Hangup;
        }
        Interrupt::Status(code) => (code, Response::status(code)),
    };
    request.error_status = Some(code);
    keep_alive_after(request, code);
    let settings = request.location().settings.error_pages.clone();
    let is_cycle = request.uri_changes > MAX_URI_CHANGES;
    if is_cycle || request.error_page_used {
        return Settled::Response(Box::new(page(request, response)));
    }
    let Some(error_page) = settings.pages.iter().find(|page| page.status == code) else {
        return Settled::Response(Box::new(page(request, response)));
    };
    // As in nginx the location that the first error was met in decides whether another may have a page.
    request.error_page_used = !settings.recursive;
    send(request, error_page, response)
}

fn send(request: &mut Request, error_page: &ErrorPage, response: Response) -> Settled {
    match error_page.answer {
        Answer::Original => {}
        Answer::Own => request.error_status = None,
        Answer::Code(code) => request.error_status = Some(code),
    }
    let target = error_page.target.evaluate(request);
    request.error_location = response.location.clone();
    match target.first() {
        Some(b'/') => {
            if request.method != Method::Head {
                request.method = Method::Get;
            }
            let (path, args) = match error_page.target.constant() {
                Some(path) => (path, error_page.args.clone()),
                None => match memchr::memchr(b'?', &target) {
                    Some(question) => {
                        (target.slice(..question), Some(target.slice(question + 1..)))
                    }
                    None => (target, None),
                },
            };
            Settled::Redirect(Target::Uri {
                path,
                args: Some(args.unwrap_or_default()),
            })
        }
        Some(b'@') => Settled::Redirect(Target::Named(target)),
        _ => {
            let code = match error_page.answer {
                Answer::Code(code @ (301 | 302 | 303 | 307 | 308)) => code,
                _ => 302,
            };
            request.error_status = Some(code);
            let response = Response {
                status: code,
                location: Some(target),
                ..response
            };
            Settled::Response(Box::new(page(request, response)))
        }
    }
}

/// The status that `error_page` decided on takes the place of the response's own.
#[must_use]
pub fn with_error_status(request: &mut Request, mut response: Response) -> Response {
    if let Some(status) = request.error_status {
        response.status = status;
        response.status_line = None;
    }
    if response.location.is_none() {
        response.location = request.error_location.take();
    }
    response
}

/// The built-in page of a status, for the settings that the request has now.
#[must_use]
pub fn built_in(request: &mut Request, code: u16) -> Response {
    request.error_status = Some(code);
    keep_alive_after(request, code);
    page(request, Response::status(code))
}

/// After some errors the connection ends, whatever page the client gets.
fn keep_alive_after(request: &mut Request, code: u16) {
    request.keep_alive &= !matches!(code, 400 | 413 | 414 | 495..=497 | 500 | 501);
}

/// Fills in the built-in page of the response's status and leaves out what has no page.
fn page(request: &mut Request, mut response: Response) -> Response {
    let code = response.status;
    response.skip_conditions = true;
    response.status = match code {
        494..=497 => 400,
        code => code,
    };
    let Some(title) = status::page_title(code) else {
        response.content_length = (response.status != 204).then_some(0);
        return response;
    };
    response.content_type = Some(Bytes::from_static(b"text/html"));
    let settings = &request.location().settings;
    let browser = user_agent::browser(request);
    if let (301 | 302, true, true, Some(location)) = (
        code,
        browser.msie,
        settings.redirect.msie_refresh,
        &response.location,
    ) {
        let body = refresh(location);
        response.status = 200;
        response.location = None;
        response.set_body(Body::Memory(body));
        return response;
    }
    let pad = settings.redirect.msie_padding
        && code >= 400
        && (browser.msie || browser.chrome)
        && request.version >= Version::Http10;
    let page = html(code, title, settings.transmission.server_tokens.text(), pad);
    response.set_body(Body::Memory(page));
    response
}

/// A page that redirects, for browsers that keep the fragment of the page before.
fn refresh(location: &[u8]) -> Bytes {
    let mut page = b"<html><head><meta http-equiv=\"Refresh\" content=\"0; URL=".to_vec();
    wire::uri::escape_into(location, wire::uri::Class::Refresh, &mut page);
    page.extend_from_slice(b"\"></head><body></body></html>\r\n");
    Bytes::from(page)
}

/// Browsers that show pages of their own in place of short ones get pages that are not short.
const PADDING: &str = "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n";
const PADDING_LINES: usize = 6;

fn html(code: u16, title: &str, server: &str, pad: bool) -> Bytes {
    let padding = if pad {
        PADDING.repeat(PADDING_LINES)
    } else {
        String::new()
    };
    let note = match code {
        494 => "<center>Request Header Or Cookie Too Large</center>\r\n",
        495 => "<center>The SSL certificate error</center>\r\n",
        496 => "<center>No required SSL certificate was sent</center>\r\n",
        497 => "<center>The plain HTTP request was sent to HTTPS port</center>\r\n",
        _ => "",
    };
    let heading = if note.is_empty() {
        title
    } else {
        "400 Bad Request"
    };
    Bytes::from(format!(
        "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{heading}</h1></center>\r\n{note}<hr><center>{server}</center>\r\n</body>\r\n</html>\r\n{padding}"
    ))
}
