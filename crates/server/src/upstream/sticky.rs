//! `sticky`: requests of a client go to the server that the client was given before, as a cookie of the server's own, a
//! route in the request, or a session that was learnt from a response says. A server that cannot take the request leaves
//! it to the balancing method.

pub mod directive; // sticky
pub mod sessions; // what `learn` has learnt

use super::group::endpoint::Endpoint;
use super::group::{Choice, Group, Peer};
use crate::http::{Request, Response, thread};
use crate::variables::Template;
use bytes::Bytes;
use sessions::Sessions;
use wire::fields::{cookie, date};
use wire::http1::Known;

/// How clients are bound.
#[derive(Debug)]
pub enum Sticky {
    Cookie(Box<Cookie>),
    /// The first of these that is not empty names the server.
    Route(Vec<Template>),
    Learn {
        create: Vec<Template>,
        lookup: Vec<Template>,
        /// Of the zone.
        sessions: Sessions,
    },
}

/// The cookie that names a server.
#[derive(Debug, Default)]
pub struct Cookie {
    pub name: Bytes,
    pub expires: Option<Expires>,
    pub domain: Option<Template>,
    pub path: Option<Bytes>,
    pub same_site: Option<Template>,
    pub http_only: bool,
    pub secure: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expires {
    /// Seconds from the response on.
    After(u64),
    /// As late as nginx goes: the end of 2037.
    Max,
}

/// 31 Dec 2037 23:55:55 GMT.
const LATEST: i64 = 2_145_916_555;

impl Sticky {
    /// What the request says about its server; nothing for a client that is not bound.
    #[must_use]
    pub fn bound(&self, request: &Request) -> Option<Bytes> {
        match self {
            Sticky::Cookie(own) => {
                let fields = request.head.fields.iter();
                let values = fields
                    .filter(|field| field.known == Known::Cookie)
                    .map(|field| request.text(field.value));
                let value = cookie::find(values, &own.name)?;
                Some(Bytes::copy_from_slice(value))
            }
            Sticky::Route(routes) => first(routes, request),
            Sticky::Learn {
                lookup, sessions, ..
            } => sessions.find(&first(lookup, request)?, thread::unix_ms()),
        }
    }
}

/// The first value that is not empty.
fn first(templates: &[Template], request: &Request) -> Option<Bytes> {
    let mut values = templates.iter().map(|template| template.evaluate(request));
    values.find(|value| !value.is_empty())
}

/// A server that answered, and what is to be told of it.
#[derive(Debug)]
pub struct Bond {
    /// What names the server.
    id: Bytes,
    /// The request named it.
    is_known: bool,
}

impl Bond {
    /// The bond to the server of a try, where the group has such.
    #[must_use]
    pub fn of(group: &Group, choice: &Choice, peer: &Peer) -> Option<Bond> {
        group.sticky.as_ref()?;
        let id = id(&peer.endpoint);
        Some(Bond {
            is_known: choice.named.as_ref() == Some(&id),
            id,
        })
    }

    /// Tells the client its server, or learns the session that the response begins.
    pub fn settle(bond: Option<Bond>, group: &Group, request: &Request, response: &mut Response) {
        let Some(bond) = bond else { return };
        match &group.sticky {
            Some(Sticky::Cookie(cookie)) if !bond.is_known => {
                let value = cookie.set(&bond.id, request);
                response.headers.push("Set-Cookie", value);
            }
            Some(Sticky::Learn {
                create, sessions, ..
            }) => {
                if let Some(session) = first(create, request) {
                    sessions.learn(session, bond.id, thread::unix_ms());
                }
            }
            _ => {}
        }
    }
}

/// What names a server: its route, or the digest of its address.
#[must_use]
pub fn id(endpoint: &Endpoint) -> Bytes {
    match endpoint.parameters.route.is_empty() {
        false => endpoint.parameters.route.clone(),
        true => endpoint
            .digest
            .get_or_init(|| digest(&endpoint.name))
            .clone(),
    }
}

fn digest(name: &[u8]) -> Bytes {
    use md5::Digest;
    let mut text = Vec::with_capacity(32);
    for byte in md5::Md5::digest(name) {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).map_or(b'0', |digit| digit as u8));
        }
    }
    text.into()
}

impl Cookie {
    /// The value of a Set-Cookie field.
    fn set(&self, id: &[u8], request: &Request) -> Vec<u8> {
        let mut out = [&self.name[..], b"=", id].concat();
        if let Some(expires) = self.expires {
            let at = match expires {
                Expires::Max => LATEST,
                Expires::After(seconds) => {
                    let now = thread::unix_ms() / 1000;
                    now.saturating_add(seconds).min(LATEST as u64) as i64
                }
            };
            out.extend_from_slice(b"; Expires=");
            out.extend_from_slice(&date::format(at));
        }
        if let Some(domain) = &self.domain {
            out.extend_from_slice(b"; Domain=");
            domain.append(request, &mut out);
        }
        if let Some(path) = &self.path {
            out.extend_from_slice(b"; Path=");
            out.extend_from_slice(path);
        }
        if self.http_only {
            out.extend_from_slice(b"; HttpOnly");
        }
        if self.secure {
            out.extend_from_slice(b"; Secure");
        }
        let same_site = self.same_site.as_ref().map(|text| text.evaluate(request));
        if let Some(value) = same_site.filter(|value| !value.is_empty()) {
            let is = |word: &str| value.eq_ignore_ascii_case(word.as_bytes());
            let known = ["Lax", "None"].into_iter().find(|word| is(word));
            out.extend_from_slice(b"; SameSite=");
            out.extend_from_slice(known.unwrap_or("Strict").as_bytes());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_route_or_digest() {
        assert_eq!(digest(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(digest(b"127.0.0.1:80").len(), 32);
    }
}
