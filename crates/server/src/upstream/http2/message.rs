//! Heads of HTTP/1 as HTTP/2 has them, and back (RFC 9113, 8.2 and 8.3), so that everything before and behind an exchange
//! is the same for both.

use crate::http::status;
use http::header::{HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Method, Request, Uri};
use std::fmt::Write as _;

/// Fields that speak of one connection (RFC 9113, 8.2.2). TE may say one thing.
const OF_THE_CONNECTION: &[&[u8]] = &[
    b"connection",
    b"proxy-connection",
    b"keep-alive",
    b"transfer-encoding",
    b"upgrade",
];

/// A request made of the text that HTTP/1 would send.
#[derive(Debug)]
pub struct Outgoing<'t> {
    pub request: Request<()>,
    /// What stands behind the head.
    pub body: &'t [u8],
}

/// Reads a head that was written for an upstream; an error says what HTTP/2 cannot carry.
pub fn request(text: &[u8], https: bool) -> Result<Outgoing<'_>, String> {
    let (line, mut rest) = cut_line(text);
    let mut words = line.splitn(2, |&byte| byte == b' ');
    let method = words.next().unwrap_or_default();
    // The version stands behind the last space; a URI may have others in it.
    let target = words.next().unwrap_or_default();
    let target = match memchr::memrchr(b' ', target) {
        Some(end) => &target[..end],
        None => target,
    };
    let mut fields = HeaderMap::new();
    let mut authority: Option<&[u8]> = None;
    loop {
        let (line, behind) = cut_line(rest);
        rest = behind;
        if line.is_empty() {
            break;
        }
        let Some(colon) = memchr::memchr(b':', line) else {
            continue;
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"host") {
            authority.get_or_insert(value);
        } else if may_pass(name, value) {
            let named = |what: &[u8]| String::from_utf8_lossy(what).into_owned();
            let field = HeaderName::from_bytes(name)
                .map_err(|_| format!("invalid field name \"{}\"", named(name)))?;
            let value = HeaderValue::from_bytes(value)
                .map_err(|_| format!("invalid value of field \"{}\"", named(name)))?;
            fields.append(field, value);
        }
    }
    let authority = authority.unwrap_or_default();
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(method)
        .map_err(|_| format!("invalid method \"{}\"", String::from_utf8_lossy(method)))?;
    *request.uri_mut() = uri(target, authority, https)?;
    *request.headers_mut() = fields;
    Ok(Outgoing {
        request,
        body: rest,
    })
}

/// A line without its end, and what follows it.
fn cut_line(text: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memmem::find(text, b"\r\n") {
        Some(end) => (&text[..end], &text[end + 2..]),
        None => (text, &[]),
    }
}

fn may_pass(name: &[u8], value: &[u8]) -> bool {
    match name.eq_ignore_ascii_case(b"te") {
        true => value.eq_ignore_ascii_case(b"trailers"),
        false => !OF_THE_CONNECTION
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known)),
    }
}

fn uri(target: &[u8], authority: &[u8], https: bool) -> Result<Uri, String> {
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(match https {
        true => Scheme::HTTPS,
        false => Scheme::HTTP,
    });
    parts.authority = Some(Authority::try_from(authority).map_err(|_| {
        let shown = String::from_utf8_lossy(authority);
        format!("invalid host \"{shown}\"")
    })?);
    let path = path(target);
    parts.path_and_query = Some(
        PathAndQuery::try_from(&path[..])
            .map_err(|_| format!("invalid URI \"{}\"", String::from_utf8_lossy(&path)))?,
    );
    Uri::from_parts(parts).map_err(|error| error.to_string())
}

/// The target, with what no URI may hold escaped.
fn path(target: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(target.len() + 1);
    if target.first() != Some(&b'/') {
        path.push(b'/');
    }
    for &byte in target {
        match byte {
            b' ' | b'"' | b'#' | b'<' | b'>' | b'`' | 0..=0x1f | 0x7f..=0xff => {
                let mut shown = String::new();
                let _infallible = write!(shown, "%{byte:02X}");
                path.extend_from_slice(shown.as_bytes());
            }
            byte => path.push(byte),
        }
    }
    path
}

/// Writes a response's head as HTTP/1 has it.
pub fn write_response(code: u16, fields: &HeaderMap, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    match status::line(code) {
        Some(line) => out.extend_from_slice(line.as_bytes()),
        None => out.extend_from_slice(format!("{code:03} ").as_bytes()),
    }
    out.extend_from_slice(b"\r\n");
    for (name, value) in fields {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_becomes_one_of_http2() {
        for (text, https, expected) in [
            (
                "GET /a?b HTTP/2.0\r\nHost: h:8\r\nX-A: 1\r\nConnection: close\r\nTE: gzip\r\n\r\n",
                false,
                "GET http://h:8/a?b x-a=1",
            ),
            (
                "POST /a b HTTP/2.0\r\nHost: h\r\nTE: trailers\r\nUpgrade: x\r\n\r\nbody",
                true,
                "POST https://h/a%20b te=trailers body",
            ),
            (
                "GET <x>\u{e9} HTTP/2.0\r\nHost: h\r\nx-a:\r\nx-a: 2\r\n\r\n",
                false,
                "GET http://h/%3Cx%3E%C3%A9 x-a= x-a=2",
            ),
        ] {
            let outgoing = request(text.as_bytes(), https).expect(text);
            let mut shown = format!("{} {}", outgoing.request.method(), outgoing.request.uri());
            for (name, value) in outgoing.request.headers() {
                let _infallible = write!(shown, " {name}={}", value.to_str().expect("text"));
            }
            if !outgoing.body.is_empty() {
                let _infallible = write!(shown, " {}", String::from_utf8_lossy(outgoing.body));
            }
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn what_http2_cannot_carry_is_told() {
        for (text, expected) in [
            (
                "GET / HTTP/2.0\r\nHost: a b\r\n\r\n",
                "invalid host \"a b\"",
            ),
            (
                "GET / HTTP/2.0\r\nHost: h\r\nx y: 1\r\n\r\n",
                "invalid field name \"x y\"",
            ),
            (
                "G(T / HTTP/2.0\r\nHost: h\r\n\r\n",
                "invalid method \"G(T\"",
            ),
        ] {
            let error = request(text.as_bytes(), false).map(|_| ()).unwrap_err();
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn a_response_becomes_one_of_http1() {
        let mut fields = HeaderMap::new();
        fields.append("x-a", HeaderValue::from_static("1"));
        let mut out = Vec::new();
        write_response(404, &fields, &mut out);
        write_response(799, &HeaderMap::new(), &mut out);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "HTTP/1.1 404 Not Found\r\nx-a: 1\r\n\r\nHTTP/1.1 799 \r\n\r\n"
        );
    }
}
