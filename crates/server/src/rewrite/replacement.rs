//! `rewrite PATTERN REPLACEMENT [FLAG]`: another path and other arguments, or a redirect.

use super::{Run, Step, redirect};
use crate::config::build::Build;
use crate::config::setting::Complaint;
use crate::http::{Interrupt, Phase, Request};
use crate::log::error::{Level, write_request};
use crate::routing::directive::matcher;
use crate::routing::pattern::Matcher;
use crate::variables::Template;
use bytes::Bytes;
use conf::Word;
use wire::uri::unescape_redirect;

/// What follows a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flag {
    /// The statements that follow.
    None,
    Last,
    Break,
    Redirect(u16),
}

/// A `rewrite`.
#[derive(Debug)]
pub struct Rewrite {
    matcher: Matcher,
    flag: Flag,
    replacement: Replacement,
    /// The request's arguments are put behind the new ones: there is no `?` at the end.
    keep_args: bool,
}

#[derive(Debug)]
enum Replacement {
    /// A redirect's target as a whole.
    Location { target: Template, has_args: bool },
    Uri {
        path: Template,
        /// What stands behind a `?`; captures in it are escaped.
        args: Option<Template>,
    },
}

impl Rewrite {
    /// Reads the words after `rewrite`, with nginx's errors.
    pub fn parse(build: &mut Build<'_>, words: &[Word]) -> Result<Rewrite, Complaint> {
        let (pattern, text) = (&words[0], &words[1][..]);
        let matcher = matcher(build, pattern, false)?;
        if text.is_empty() {
            return Err("empty replacement".into());
        }
        let (text, keep_args) = match text.strip_suffix(b"?") {
            Some(text) => (text, false),
            None => (text, true),
        };
        let leads_away = [&b"http://"[..], b"https://", b"$scheme"]
            .iter()
            .any(|scheme| text.starts_with(scheme));
        let flag = match words.get(2).map(|word| &word[..]) {
            Some(b"redirect") => Flag::Redirect(302),
            Some(b"permanent") => Flag::Redirect(301),
            None | Some(b"last" | b"break") if leads_away => Flag::Redirect(302),
            None => Flag::None,
            Some(b"last") => Flag::Last,
            Some(b"break") => Flag::Break,
            Some(other) => {
                return Err(
                    format!("invalid parameter \"{}\"", String::from_utf8_lossy(other)).into(),
                );
            }
        };
        let replacement = match flag {
            Flag::Redirect(_) => Replacement::Location {
                target: Template::compile(text, &mut build.variables)?,
                has_args: text.contains(&b'?'),
            },
            _ => {
                let (path, args) = match memchr::memchr(b'?', text) {
                    Some(question) => (&text[..question], Some(&text[question + 1..])),
                    None => (text, None),
                };
                let path = Template::compile(path, &mut build.variables)?;
                let args = args
                    .map(|args| Template::compile(args, &mut build.variables))
                    .transpose()?;
                Replacement::Uri { path, args }
            }
        };
        Ok(Rewrite {
            matcher,
            flag,
            replacement,
            keep_args,
        })
    }
}

impl Run {
    /// Rewrites the request's path if it matches.
    pub(super) fn rewrite(&mut self, request: &mut Request, rewrite: &Rewrite) -> Phase<Step> {
        if !self.matches(request, &rewrite.matcher, &request.uri)? {
            return Ok(Step::Next);
        }
        request.internal = true;
        let (path, args) = match (&rewrite.replacement, rewrite.flag) {
            (Replacement::Location { target, has_args }, Flag::Redirect(status)) => {
                let target = self.location(request, target, *has_args, rewrite.keep_args);
                return Err(redirect(status, target));
            }
            (Replacement::Uri { path, args }, _) => (path, args),
            (Replacement::Location { .. }, _) => return Ok(Step::Next),
        };
        let mut uri = Vec::with_capacity(request.uri.len() + 32);
        path.append(request, &mut uri);
        if let Some(args) = args {
            let mut new = Vec::with_capacity(request.args.len() + 32);
            args.append_with(request, &mut new, request.path_was_escaped());
            if rewrite.keep_args && !request.args.is_empty() {
                new.push(b'&');
                new.extend_from_slice(&request.args);
            }
            request.args = new;
        } else if !rewrite.keep_args {
            request.args.clear();
        }
        self.escape = false;
        self.uri_changed = rewrite.flag != Flag::Break;
        request.rewritten_in_place |= rewrite.flag == Flag::Break;
        request.uri_changed = true;
        request.uri = uri;
        if self.log {
            write_request(
                request,
                Level::Notice,
                format_args!(
                    "rewritten data: \"{}\", args: \"{}\"",
                    String::from_utf8_lossy(&request.uri),
                    String::from_utf8_lossy(&request.args)
                ),
            );
        }
        if request.uri.is_empty() {
            write_request(
                request,
                Level::Error,
                format_args!("the rewritten URI has a zero length"),
            );
            return Err(Interrupt::Status(500));
        }
        Ok(match rewrite.flag {
            Flag::None => Step::Next,
            _ => Step::Stop,
        })
    }

    /// The target of a redirect, with the request's arguments where they are kept.
    fn location(
        &self,
        request: &Request,
        target: &Template,
        has_args: bool,
        keep_args: bool,
    ) -> Bytes {
        let mut text = Vec::new();
        target.append_with(request, &mut text, request.path_was_escaped());
        let mut text = unescape_redirect(&text).into_owned();
        if keep_args && !request.args.is_empty() {
            text.push(if has_args { b'&' } else { b'?' });
            text.extend_from_slice(&request.args);
        }
        if self.log {
            write_request(
                request,
                Level::Notice,
                format_args!("rewritten redirect: \"{}\"", String::from_utf8_lossy(&text)),
            );
        }
        Bytes::from(text)
    }
}
