//! `proxy_pass`: requests that are passed on by HTTP. The relay does the talking; here is what is asked and how the
//! answer is changed.

pub mod cookie; // Set-Cookie of responses
pub mod redirect; // Location and Refresh of responses
pub mod request_head; // what is sent
pub mod settings; // the directives

pub use request_head::{Framing, Written, write_key};
pub use settings::{DIRECTIVES, Raw, Settings};

use super::address::{Behind, Place};
use super::group::GroupId;
use super::target::Target;
use crate::config::build::Build;
use crate::config::directive::Outcome;
use crate::config::model::LocationKind;
use crate::content::Content;
use crate::http::request::Proxied;
use crate::http::{Interrupt, Phase, Request};
use crate::log::error::{Level, write_request};
use crate::variables::Template;
use bytes::Bytes;
use conf::Directive;
use std::sync::Arc;

const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// A `proxy_pass`.
#[derive(Debug)]
pub struct Pass {
    to: To,
    /// What the URI of `proxy_pass` stands in place of.
    location: Bytes,
    /// `proxy_redirect default`: what stands before a Location of the upstream's, and what takes its place.
    default_redirect: Option<(Bytes, Bytes)>,
}

#[derive(Debug)]
enum To {
    Fixed {
        group: GroupId,
        proxied: Proxied,
        uri: Bytes,
    },
    Variable(Template),
}

/// Where one request goes.
#[derive(Debug)]
pub enum Destination {
    Group(GroupId),
    /// What variables made: `target::find` knows the servers.
    Place(Box<Place>),
}

/// What follows `http://` or `https://`, and whether it was the latter; an error for anything else.
fn after_scheme(url: &[u8]) -> Result<(&[u8], bool), &'static str> {
    let strip = |scheme: &[u8]| {
        let (start, rest) = url.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    if let Some(rest) = strip(b"http://") {
        return Ok((rest, false));
    }
    match strip(b"https://") {
        Some(rest) => Ok((rest, true)),
        None => Err("invalid URL prefix"),
    }
}

/// The port where none is written.
fn default_port(https: bool) -> u16 {
    if https { HTTPS_PORT } else { HTTP_PORT }
}

impl Proxied {
    fn of(place: &Place, https: bool) -> Proxied {
        let is_unix = place
            .address
            .as_ref()
            .is_some_and(|address| address.is_unix());
        let port = match is_unix {
            true => Bytes::new(),
            false => Bytes::from(place.port.to_string()),
        };
        let host = match is_unix {
            true => Bytes::from_static(b"localhost"),
            false if place.no_port || place.port == default_port(https) => place.host.clone(),
            false => Bytes::from([&place.host[..], b":", &port].concat()),
        };
        Proxied {
            host,
            port,
            https,
            body_length: None,
            chunked: false,
        }
    }
}

impl Pass {
    /// Whether TLS may be spoken to the upstream.
    #[must_use]
    pub fn may_be_secure(&self) -> bool {
        match &self.to {
            To::Fixed { proxied, .. } => proxied.https,
            To::Variable(_) => true,
        }
    }

    /// `proxy_pass URL`.
    pub fn set(build: &mut Build<'_>, directive: &Directive) -> Outcome {
        if matches!(build.frame().content, Some(Content::Proxy(_))) {
            return Err("is duplicate".into());
        }
        let url = &directive.args[0];
        if url.contains(&b'$') {
            let template = Template::compile(url, &mut build.variables)?;
            let pass = Pass {
                to: To::Variable(template),
                location: Bytes::new(),
                default_redirect: None,
            };
            build.frame().content = Some(Content::Proxy(Arc::new(pass)));
            return Ok(());
        }
        let (rest, https) = after_scheme(url)?;
        let place = Place::parse(rest, default_port(https), Behind::Uri).map_err(|error| {
            format!("{error} in upstream \"{}\"", String::from_utf8_lossy(rest))
        })?;
        let Target::Group(group) = Target::of(build, directive, &place)? else {
            return Err("invalid value".into());
        };
        let (location, takes_uri) = replaced_name(&build.frame().kind);
        if !place.uri.is_empty() && !takes_uri {
            return Err("\"proxy_pass\" cannot have URI part in location given by regular expression, or inside named location, or inside \"if\" statement, or inside \"limit_except\" block".into());
        }
        let default_redirect = match place.uri.is_empty() {
            true => ([url, &b"/"[..]].concat().into(), Bytes::from_static(b"/")),
            false => (Bytes::copy_from_slice(url), location.clone()),
        };
        let pass = Pass {
            to: To::Fixed {
                group,
                proxied: Proxied::of(&place, https),
                uri: place.uri,
            },
            location,
            default_redirect: Some(default_redirect),
        };
        build.frame().content = Some(Content::Proxy(Arc::new(pass)));
        Ok(())
    }

    /// Where a request goes. From here on `$proxy_host` and its kin have values.
    pub fn destination(&self, request: &mut Request) -> Phase<Destination> {
        let template = match &self.to {
            To::Fixed { group, proxied, .. } => {
                request.proxied = Some(proxied.clone());
                return Ok(Destination::Group(*group));
            }
            To::Variable(template) => template,
        };
        let url = template.evaluate(request);
        let place = after_scheme(&url)
            // nginx wants more than the scheme here.
            .and_then(|(rest, https)| {
                if rest.is_empty() {
                    Err("invalid URL prefix")
                } else {
                    Ok((rest, https))
                }
            })
            .map_err(|error| (error, "in", &url[..]))
            .and_then(|(rest, https)| {
                Place::parse(rest, default_port(https), Behind::Uri)
                    .map(|place| (place, https))
                    .map_err(|error| (error, "in upstream", rest))
            });
        match place {
            Ok((place, https)) => {
                request.proxied = Some(Proxied::of(&place, https));
                Ok(Destination::Place(Box::new(place)))
            }
            Err((error, before, what)) => {
                let what = String::from_utf8_lossy(what);
                write_request(
                    request,
                    Level::Error,
                    format_args!("{error} {before} \"{what}\""),
                );
                Err(Interrupt::Status(500))
            }
        }
    }

    /// The URI that was written behind the address, if any.
    fn uri<'d>(&'d self, destination: &'d Destination) -> &'d [u8] {
        match (destination, &self.to) {
            (Destination::Place(place), _) => &place.uri,
            (Destination::Group(_), To::Fixed { uri, .. }) => uri,
            (Destination::Group(_), To::Variable(_)) => &[],
        }
    }
}

/// The name of a location that the URI of proxy_pass stands in place of, and whether there may be a URI.
fn replaced_name(kind: &LocationKind) -> (Bytes, bool) {
    match kind {
        LocationKind::Prefix { path, .. } | LocationKind::Exact(path) => (path.clone(), true),
        LocationKind::Regex(_)
        | LocationKind::Named(_)
        | LocationKind::If
        | LocationKind::LimitExcept
        | LocationKind::None => (Bytes::new(), false),
    }
}
