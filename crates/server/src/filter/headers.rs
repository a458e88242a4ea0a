//! `add_header` and `add_trailer`: fields of the configuration's own, and how blocks inherit them.

use super::expires::{self, Expires};
use crate::config::build::Build;
use crate::config::directive::{Arity, HSLI, Set, keyword, row};
use crate::config::setting::Setting;
use crate::http::response::{LastModified, Repeat};
use crate::http::{Request, Response};
use crate::variables::{Template, template};
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use std::sync::Arc;
use wire::fields::date;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "add_header",
        HSLI,
        Arity::Between(2, 3),
        |b, d| {
            let added = added(b, d)?;
            b.location().headers.headers.push(added);
            Ok(())
        },
        "A field to add to responses that succeeded, or with `always` to all.",
    ),
    row(
        "add_header_inherit",
        HSLI,
        Arity::Exactly(1),
        |b, d| keyword(&mut b.location().headers.header_inheritance, d, INHERITANCE),
        "Whether add_header of the outer block is used here: where there is none (on), never, or as well (merge).",
    ),
    row(
        "add_trailer",
        HSLI,
        Arity::Between(2, 3),
        |b, d| {
            let added = added(b, d)?;
            b.location().headers.trailers.push(added);
            Ok(())
        },
        "A field to add after the body.",
    ),
    row(
        "add_trailer_inherit",
        HSLI,
        Arity::Exactly(1),
        |b, d| {
            keyword(
                &mut b.location().headers.trailer_inheritance,
                d,
                INHERITANCE,
            )
        },
        "Whether add_trailer of the outer block is used here: where there is none (on), never, or as well (merge).",
    ),
    row(
        "expires",
        HSLI,
        Arity::Between(1, 2),
        |b, d| {
            let expires = expires::compile(b, d)?;
            b.location().headers.expires.set(expires)
        },
        "How long a response stays fresh: Expires and Cache-Control.",
    ),
];

const INHERITANCE: &[(&str, Inheritance)] = &[
    ("on", Inheritance::On),
    ("off", Inheritance::Off),
    ("merge", Inheritance::Merge),
];

/// `add_header_inherit` and `add_trailer_inherit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Inheritance {
    /// The outer block's fields are used where this one has none.
    #[default]
    On,
    Off,
    /// The outer block's fields follow this one's.
    Merge,
}

/// The fields of a response that `add_header` replaces instead of adding to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Special {
    LastModified,
    ETag,
}

/// One `add_header` or `add_trailer`.
#[derive(Debug, Clone)]
pub struct Added {
    name: Vec<u8>,
    special: Option<Special>,
    value: Template,
    /// It is the same whenever the same response is sent again: what is kept by a cache is a hit then.
    is_repeated: bool,
    always: bool,
}

/// What was written in one block.
#[derive(Default, Debug, Clone)]
pub struct Raw {
    pub headers: Vec<Added>,
    pub header_inheritance: Setting<Inheritance>,
    pub trailers: Vec<Added>,
    pub trailer_inheritance: Setting<Inheritance>,
    pub expires: Setting<Expires>,
}

/// What holds in one block.
#[derive(Default, Debug, Clone)]
pub struct Settings {
    /// Anything of this file applies at all.
    active: bool,
    headers: Arc<Vec<Added>>,
    header_inheritance: Inheritance,
    trailers: Arc<Vec<Added>>,
    trailer_inheritance: Inheritance,
    expires: Expires,
}

impl Settings {
    /// Whether the same headers are added to every response of the same file, and for how long.
    #[must_use]
    pub fn repeat(&self) -> Repeat {
        let constant = self.headers.iter().all(|added| added.is_repeated);
        match self.expires {
            _ if !constant || !self.trailers.is_empty() => Repeat::Never,
            Expires::Variable(..) => Repeat::Never,
            Expires::Fixed(_) => Repeat::WithinSecond,
            Expires::Off => Repeat::Always,
        }
    }
}

impl Raw {
    /// The settings of a block inside one with the settings `parent`.
    #[must_use]
    pub fn resolve(&self, parent: &Settings) -> Settings {
        let header_inheritance = self.header_inheritance.or(&parent.header_inheritance);
        let trailer_inheritance = self.trailer_inheritance.or(&parent.trailer_inheritance);
        let headers = inherit(header_inheritance, &self.headers, &parent.headers);
        let trailers = inherit(trailer_inheritance, &self.trailers, &parent.trailers);
        let expires = self.expires.or(&parent.expires);
        Settings {
            active: !headers.is_empty() || !trailers.is_empty() || !matches!(expires, Expires::Off),
            headers,
            header_inheritance,
            trailers,
            trailer_inheritance,
            expires,
        }
    }
}

fn inherit(inheritance: Inheritance, own: &[Added], outer: &Arc<Vec<Added>>) -> Arc<Vec<Added>> {
    match inheritance {
        Inheritance::On if own.is_empty() => Arc::clone(outer),
        Inheritance::On | Inheritance::Off => Arc::new(own.to_vec()),
        Inheritance::Merge => Arc::new([own, outer.as_slice()].concat()),
    }
}

fn added(
    build: &mut Build<'_>,
    directive: &Directive,
) -> Result<Added, crate::config::setting::Complaint> {
    let always = match directive.args.get(2) {
        None => false,
        Some(word) if &word[..] == b"always" => true,
        Some(word) => return Err(format!("invalid parameter \"{word}\"").into()),
    };
    let name = directive.args[0].to_vec();
    let special = match () {
        () if name.eq_ignore_ascii_case(b"Last-Modified") => Some(Special::LastModified),
        () if name.eq_ignore_ascii_case(b"ETag") => Some(Special::ETag),
        () => None,
    };
    Ok(Added {
        name,
        special,
        value: Template::compile(&directive.args[1], &mut build.variables)?,
        is_repeated: template::names(&directive.args[1])
            .all(|name| name.eq_ignore_ascii_case(b"upstream_cache_status")),
        always,
    })
}

/// The statuses that fields without `always` are added to.
fn succeeded(status: u16) -> bool {
    matches!(status, 200 | 201 | 204 | 206 | 301..=304 | 307 | 308)
}

/// Adds what the location's settings say.
pub fn apply(request: &Request, response: &mut Response) {
    let settings = &request.location().settings.headers;
    if !settings.active {
        return;
    }
    let succeeded = succeeded(response.status);
    if succeeded {
        expires::apply(&settings.expires, request, response);
    }
    for added in settings.headers.iter() {
        if succeeded || added.always {
            add(request, response, added);
        }
    }
    let has_body = !matches!(response.status, 204 | 304);
    response.expects_trailers = has_body
        && settings.trailers.iter().any(|added| {
            (succeeded || added.always)
                && added.value.constant().is_none_or(|value| !value.is_empty())
        });
}

/// Adds a field with a value; without one, `Last-Modified` and `ETag` are taken away.
fn add(request: &Request, response: &mut Response, added: &Added) {
    let value = added.value.evaluate(request);
    match added.special {
        Some(Special::ETag) => response.etag = (!value.is_empty()).then_some(value),
        Some(Special::LastModified) if value.is_empty() => response.forget_last_modified(),
        Some(Special::LastModified) => {
            response.last_modified = date::parse(&value).map(|seconds| LastModified {
                seconds,
                text: Bytes::new(),
            });
            response.headers.set("Last-Modified", value);
        }
        None if value.is_empty() => {}
        None => response.headers.push(added.name.clone(), value),
    }
}

/// Appends the trailer fields of a response that was sent, as lines.
pub fn append_trailers(request: &Request, out: &mut Vec<u8>) {
    let succeeded = succeeded(request.sent.status.get());
    for added in request.location().settings.headers.trailers.iter() {
        if !(succeeded || added.always) {
            continue;
        }
        let value = added.value.evaluate(request);
        if value.is_empty() {
            continue;
        }
        let mut line = wire::headers::HeaderList::new();
        line.push(added.name.clone(), value);
        line.write_to(out);
    }
}
