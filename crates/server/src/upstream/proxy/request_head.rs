//! The head of a request to an upstream: the request line, the fields of `proxy_set_header` and the default ones, and
//! the client's own but for those that these replace. All that can be is worked out when the configuration is read.

use super::{Destination, Pass};
use crate::http::{Interrupt, Phase, Request};
use crate::log::error::{Level, write_request};
use crate::variables::Template;
use std::ops::Range;
use std::rc::Rc;
use wire::fields::date;
use wire::http1::Known;
use wire::uri::{Class, escape_into};

/// `proxy_http_version`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HttpVersion {
    Http10,
    #[default]
    Http11,
    Http2,
}

/// One `proxy_set_header`.
#[derive(Debug, Clone)]
pub struct SetField {
    pub name: Box<[u8]>,
    pub value: Template,
}

/// How the request's body is framed for the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body, and no word of one.
    None,
    Length(u64),
    Chunked,
}

/// The fields of a location's requests, in the order they are written.
#[derive(Debug, Default)]
pub struct Fields {
    pieces: Vec<Piece>,
    /// The client's fields that are not passed on: bit `n` for the known one of number `n`.
    known: u128,
    others: Vec<Box<[u8]>>,
}

#[derive(Debug)]
enum Piece {
    /// Whole lines.
    Text(Vec<u8>),
    /// `Name: ` and what stands behind it; nothing is written for an empty value.
    Value(Box<[u8]>, Template),
    /// Host of a location that sets none.
    ProxyHost,
    ContentLength,
    TransferEncoding,
    /// Whether what is kept still holds.
    IfModifiedSince,
    IfNoneMatch,
}

/// Fields that are replaced or dropped unless `proxy_set_header` speaks of them.
const DEFAULTS: &[&str] = &[
    "Host",
    "Connection",
    "Content-Length",
    "Transfer-Encoding",
    "TE",
    "Keep-Alive",
    "Expect",
    "Upgrade",
];

/// The same for what is fetched for the cache: all of the response, whatever the client has or wants.
const FETCH_DEFAULTS: &[&str] = &[
    "If-Modified-Since",
    "If-Unmodified-Since",
    "If-None-Match",
    "If-Match",
    "Range",
    "If-Range",
];

impl Fields {
    /// Joins what was written with the defaults; `fetches`: for requests whose responses may be kept.
    #[must_use]
    pub fn compile(set: &[SetField], version: HttpVersion, fetches: bool) -> Fields {
        let mut fields = Fields::default();
        for field in set {
            fields.replace(&field.name);
            match field.value.constant() {
                Some(value) if value.is_empty() => {}
                Some(value) => {
                    let mut line = [&field.name[..], b": "].concat();
                    let start = line.len();
                    line.extend_from_slice(&value);
                    make_one_line(&mut line[start..]);
                    line.extend_from_slice(b"\r\n");
                    fields.push_text(&line);
                }
                None => {
                    let name = [&field.name[..], b": "].concat().into();
                    fields.pieces.push(Piece::Value(name, field.value.clone()));
                }
            }
        }
        let others = if fetches { FETCH_DEFAULTS } else { &[] };
        for name in DEFAULTS.iter().chain(others) {
            if set
                .iter()
                .any(|field| field.name.eq_ignore_ascii_case(name.as_bytes()))
            {
                continue;
            }
            fields.replace(name.as_bytes());
            match (*name, version) {
                ("Host", _) => fields.pieces.push(Piece::ProxyHost),
                // A 1.1 connection stays open by itself.
                ("Connection", HttpVersion::Http10) => fields.push_text(b"Connection: close\r\n"),
                ("Content-Length", _) => fields.pieces.push(Piece::ContentLength),
                ("Transfer-Encoding", _) => fields.pieces.push(Piece::TransferEncoding),
                ("If-Modified-Since", _) => fields.pieces.push(Piece::IfModifiedSince),
                ("If-None-Match", _) => fields.pieces.push(Piece::IfNoneMatch),
                _ => {}
            }
        }
        fields
    }

    fn push_text(&mut self, line: &[u8]) {
        match self.pieces.last_mut() {
            Some(Piece::Text(text)) => text.extend_from_slice(line),
            _ => self.pieces.push(Piece::Text(line.to_vec())),
        }
    }

    /// The client's field of this name is not passed on.
    fn replace(&mut self, name: &[u8]) {
        match Known::from_name(name) {
            Known::Other => self.others.push(name.into()),
            known => self.known |= bit(known),
        }
    }

    fn replaces(&self, known: Known, name: &[u8]) -> bool {
        match known {
            Known::Other => (self.others.iter()).any(|other| other.eq_ignore_ascii_case(name)),
            known => self.known & bit(known) != 0,
        }
    }

    fn write(&self, request: &Request, framing: Framing, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match (piece, framing) {
                (Piece::Text(text), _) => out.extend_from_slice(text),
                (Piece::Value(name, value), _) => write_value(request, name, value, out),
                (Piece::ProxyHost, _) => {
                    let host = request
                        .proxied
                        .as_ref()
                        .map_or(&b""[..], |proxied| &proxied.host);
                    out.extend_from_slice(b"Host: ");
                    out.extend_from_slice(host);
                    out.extend_from_slice(b"\r\n");
                }
                (Piece::ContentLength, Framing::Length(length)) => {
                    out.extend_from_slice(b"Content-Length: ");
                    out.extend_from_slice(length.to_string().as_bytes());
                    out.extend_from_slice(b"\r\n");
                }
                (Piece::TransferEncoding, Framing::Chunked) => {
                    out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
                }
                (Piece::ContentLength | Piece::TransferEncoding, _) => {}
                (Piece::IfModifiedSince, _) => {
                    let cached = request.cached.as_ref();
                    if let Some(seconds) = cached.and_then(|cached| cached.last_modified) {
                        out.extend_from_slice(b"If-Modified-Since: ");
                        out.extend_from_slice(&date::format(seconds));
                        out.extend_from_slice(b"\r\n");
                    }
                }
                (Piece::IfNoneMatch, _) => {
                    let cached = request.cached.as_ref();
                    if let Some(etag) = cached.map(|cached| &cached.etag).filter(|e| !e.is_empty())
                    {
                        out.extend_from_slice(b"If-None-Match: ");
                        out.extend_from_slice(etag);
                        out.extend_from_slice(b"\r\n");
                    }
                }
            }
        }
    }
}

fn bit(known: Known) -> u128 {
    1u128.checked_shl(known as u32).unwrap_or(0)
}

fn write_value(request: &Request, name: &[u8], value: &Template, out: &mut Vec<u8>) {
    let before = out.len();
    out.extend_from_slice(name);
    let start = out.len();
    value.append(request, out);
    if out.len() == start {
        out.truncate(before);
        return;
    }
    make_one_line(&mut out[start..]);
    out.extend_from_slice(b"\r\n");
}

/// What would end the line, or confuse its reader, becomes a space: unlike in nginx, no value can add a field.
fn make_one_line(value: &mut [u8]) {
    for byte in value {
        if matches!(byte, b'\r' | b'\n' | 0) {
            *byte = b' ';
        }
    }
}

/// A request that was written.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    /// Where the URI stands in it, for the error log.
    pub uri: Range<usize>,
    /// No body will follow the response's head.
    pub is_head: bool,
    /// `proxy_set_body` made the body, and it stands behind the head.
    pub has_body: bool,
}

/// Appends the head of the request that is sent to `destination`, and the body that `proxy_set_body` makes.
pub fn write(
    request: &mut Request,
    pass: &Pass,
    destination: &Destination,
    framing: Framing,
    out: &mut Vec<u8>,
) -> Phase<Written> {
    let generation = Rc::clone(&request.generation);
    let settings = &generation.config.location(request.location).settings;
    let body = (settings.proxy.body.as_ref()).map(|template| template.evaluate(request));
    let framing = match &body {
        Some(body) => Framing::Length(body.len() as u64),
        None => framing,
    };
    if let Some(proxied) = &mut request.proxied {
        proxied.chunked = framing == Framing::Chunked;
        proxied.body_length = match framing {
            Framing::Length(length) => Some(length),
            Framing::None | Framing::Chunked => None,
        };
    }
    let start = out.len();
    let fetches = request
        .cached
        .as_ref()
        .is_some_and(|cached| cached.is_fetch);
    match &settings.proxy.method {
        _ if request.cached.is_some() && request.is_head() && settings.proxy_cache.convert_head => {
            out.extend_from_slice(b"GET");
        }
        Some(method) => {
            method.append(request, out);
            make_one_line(&mut out[start..]);
        }
        None => out.extend_from_slice(request.method_name()),
    }
    let is_head = out[start..] == *b"HEAD";
    out.push(b' ');
    let uri = out.len();
    write_uri(request, pass, destination, out);
    if out.len() == uri {
        write_request(
            request,
            Level::Error,
            format_args!("zero length URI to proxy"),
        );
        return Err(Interrupt::Status(500));
    }
    let uri = uri..out.len();
    out.extend_from_slice(match settings.proxy.http_version {
        HttpVersion::Http10 => b" HTTP/1.0\r\n",
        HttpVersion::Http11 => b" HTTP/1.1\r\n",
        // The head is made one of HTTP/2 when it is sent.
        HttpVersion::Http2 => b" HTTP/2.0\r\n",
    });
    let fields = match fetches {
        true => &settings.proxy.fetch_fields,
        false => &settings.proxy.fields,
    };
    fields.write(request, framing, out);
    if settings.proxy_relay.pass_request_headers {
        write_client_s(request, fields, out);
    }
    out.extend_from_slice(b"\r\n");
    if let Some(body) = &body {
        out.extend_from_slice(body);
    }
    Ok(Written {
        uri,
        is_head,
        has_body: body.is_some(),
    })
}

/// The client's fields as they came, but for those that are replaced.
fn write_client_s(request: &Request, fields: &Fields, out: &mut Vec<u8>) {
    for field in &request.head.fields {
        let name = request.text(field.name);
        if fields.replaces(field.known, name) {
            continue;
        }
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(request.text(field.value));
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends what a response is kept under where no key is written: the server, and the URI it is asked for.
pub fn write_key(request: &Request, pass: &Pass, destination: &Destination, out: &mut Vec<u8>) {
    let is_secure = request
        .proxied
        .as_ref()
        .is_some_and(|proxied| proxied.https);
    out.extend_from_slice(if is_secure { b"https://" } else { b"http://" });
    if let Some(proxied) = &request.proxied {
        out.extend_from_slice(&proxied.host);
    }
    write_uri(request, pass, destination, out);
}

/// The URI: what variables made of it; or the client's as it came; or the current one, with the URI of proxy_pass in
/// place of the location's name.
fn write_uri(request: &Request, pass: &Pass, destination: &Destination, out: &mut Vec<u8>) {
    let uri = pass.uri(destination);
    if let (Destination::Place(_), false) = (destination, uri.is_empty()) {
        if uri.first() == Some(&b'?') {
            out.push(b'/');
        }
        return write_variable_uri(uri, out);
    }
    if uri.is_empty() && !request.uri_changed {
        out.extend_from_slice(request.text(request.head.request_uri));
        return;
    }
    let mut rest = &request.uri[..];
    // A rewrite that stayed in the location left its name behind.
    if !request.rewritten_in_place && !uri.is_empty() {
        out.extend_from_slice(uri);
        rest = rest.get(pass.location.len()..).unwrap_or_default();
    }
    let escaped = memchr::memchr(b'%', request.text(request.head.path)).is_some();
    match escaped || request.internal {
        true => escape_into(rest, Class::Uri, out),
        false => out.extend_from_slice(rest),
    }
    if !request.args.is_empty() {
        out.push(b'?');
        write_variable_uri(&request.args, out);
    }
}

/// As variables made it; but unlike in nginx a decoded path cannot end the request line.
fn write_variable_uri(uri: &[u8], out: &mut Vec<u8>) {
    let mut rest = uri;
    while let Some(at) = rest.iter().position(|&byte| byte < b' ' || byte == 0x7f) {
        let (before, after) = rest.split_at(at);
        out.extend_from_slice(before);
        escape_into(&after[..1], Class::Uri, out);
        rest = &after[1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::registry::Registry;

    fn fields(set: &[(&str, &str)], version: HttpVersion) -> Fields {
        let mut registry = Registry::default();
        let set: Vec<SetField> = set
            .iter()
            .map(|(name, value)| SetField {
                name: name.as_bytes().into(),
                value: Template::compile(value.as_bytes(), &mut registry).expect("a value"),
            })
            .collect();
        Fields::compile(&set, version, false)
    }

    fn shown(fields: &Fields) -> String {
        let mut out = String::new();
        for piece in &fields.pieces {
            out += &match piece {
                Piece::Text(text) => String::from_utf8_lossy(text).replace("\r\n", "|"),
                Piece::Value(name, _) => format!("{}$|", String::from_utf8_lossy(name)),
                Piece::ProxyHost => "HOST|".to_owned(),
                Piece::ContentLength => "LENGTH|".to_owned(),
                Piece::TransferEncoding => "CHUNKED|".to_owned(),
                Piece::IfModifiedSince => "MODIFIED|".to_owned(),
                Piece::IfNoneMatch => "NONE|".to_owned(),
            };
        }
        out
    }

    #[test]
    fn fields_are_joined_with_the_defaults() {
        for (set, version, expected) in [
            (
                &[][..],
                HttpVersion::Http10,
                "HOST|Connection: close|LENGTH|CHUNKED|",
            ),
            (&[], HttpVersion::Http11, "HOST|LENGTH|CHUNKED|"),
            (
                &[("host", "x"), ("X-A", "1"), ("X-B", "$host"), ("X-C", "")],
                HttpVersion::Http11,
                "host: x|X-A: 1|X-B: $|LENGTH|CHUNKED|",
            ),
            (
                &[
                    ("Connection", ""),
                    ("content-length", ""),
                    ("Upgrade", "a\r\nb"),
                ],
                HttpVersion::Http10,
                "Upgrade: a  b|HOST|CHUNKED|",
            ),
            (
                &[("X", "1"), ("x", "2")],
                HttpVersion::Http11,
                "X: 1|x: 2|HOST|LENGTH|CHUNKED|",
            ),
        ] {
            assert_eq!(shown(&fields(set, version)), expected, "{set:?}");
        }
    }

    #[test]
    fn replaced_fields_of_the_client_are_known_beforehand() {
        let fields = fields(&[("X-Own", "1"), ("Cookie", "")], HttpVersion::Http11);
        for (name, replaced) in [
            ("x-own", true),
            ("cookie", true),
            ("Host", true),
            ("TE", true),
            ("keep-alive", true),
            ("Expect", true),
            ("UPGRADE", true),
            ("connection", true),
            ("Accept", false),
            ("X-Own-2", false),
            ("Proxy-Connection", false),
        ] {
            let known = Known::from_name(name.as_bytes());
            assert_eq!(fields.replaces(known, name.as_bytes()), replaced, "{name}");
        }
    }

    #[test]
    fn every_known_field_has_a_bit() {
        assert!((Known::ProxyAuthorization as u32) < u128::BITS);
    }

    #[test]
    fn variables_cannot_end_the_request_line() {
        for (uri, expected) in [
            ("/a b?c", "/a b?c"),
            ("/a\r\nX: y\u{7f}", "/a%0D%0AX: y%7F"),
            ("", ""),
        ] {
            let mut out = Vec::new();
            write_variable_uri(uri.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }
}
