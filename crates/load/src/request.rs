//! A request as a plan holds it, and its bytes on an HTTP/1.1 connection.

use crate::template::Template;
use bytes::Bytes;

/// What is sent, before the values of a scenario are in their places.
#[derive(Clone, Debug)]
pub struct Request {
    /// The number of its server in the plan.
    pub endpoint: usize,
    pub method: String,
    pub path: Template,
    /// In the order they are sent; `Host` first, no `Content-Length`.
    pub headers: Vec<(String, Template)>,
    pub body: Option<Template>,
    /// Speaks HTTP/1.0.
    pub http10: bool,
    /// Asked for again on a new connection when the server closed a kept one.
    pub may_repeat: bool,
    /// The bytes for HTTP/1, where no value has a place in them.
    pub prepared: Option<Bytes>,
    /// The head for HTTP/2, in the same case.
    pub prepared_http2: Option<http::Request<()>>,
}

/// Fields that HTTP/2 says otherwise, or forbids (RFC 9113, 8.2.2).
const CONNECTIONS: &[&str] = &[
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Fields that the client itself writes.
const OWN: &[&str] = &["content-length", "transfer-encoding"];

impl Request {
    /// Puts the parts together. `headers` are the caller's; they win over the usual ones of the same name.
    pub fn new(
        endpoint: usize,
        authority: &str,
        method: &str,
        path: Template,
        headers: &[(String, Template)],
        body: Option<Template>,
    ) -> Request {
        let given = |name: &str| {
            headers
                .iter()
                .any(|(other, _)| other.eq_ignore_ascii_case(name))
        };
        let mut list = Vec::new();
        for (name, value) in [
            ("Host", authority),
            (
                "User-Agent",
                concat!("gannet-load/", env!("CARGO_PKG_VERSION")),
            ),
            ("Accept", "*/*"),
        ] {
            if !given(name) {
                list.push((name.to_owned(), Template::fixed(value)));
            }
        }
        let kept = headers
            .iter()
            .filter(|(name, _)| !OWN.contains(&name.to_ascii_lowercase().as_str()));
        list.extend(kept.cloned());
        // Host stands first, whoever gave it.
        list.sort_by_key(|(name, _)| !name.eq_ignore_ascii_case("host"));
        Request {
            endpoint,
            method: method.to_owned(),
            path,
            headers: list,
            body,
            http10: false,
            may_repeat: is_idempotent(method),
            prepared: None,
            prepared_http2: None,
        }
    }

    /// Makes the bytes ready where they are the same each time. `close` asks for a connection a request.
    pub fn prepare(&mut self, close: bool) {
        if close {
            let mine = |name: &str| name.eq_ignore_ascii_case("connection");
            self.headers.retain(|(name, _)| !mine(name));
            let value = Template::fixed("close");
            self.headers.push(("Connection".to_owned(), value));
        }
        let fixed = self.path.is_fixed()
            && self.headers.iter().all(|(_, value)| value.is_fixed())
            && self.body.as_ref().is_none_or(Template::is_fixed);
        self.prepared = fixed.then(|| {
            let mut out = Vec::new();
            self.write(&[], &[], &mut out);
            Bytes::from(out)
        });
    }

    /// Makes the head for HTTP/2 ready where it is the same each time; tells when it cannot be one.
    pub fn prepare_http2(&mut self, scheme: &str) -> Result<(), String> {
        let head = self.head_http2(scheme, &[], &[]);
        let fixed = self.path.is_fixed() && self.headers.iter().all(|(_, value)| value.is_fixed());
        if fixed {
            self.prepared_http2 = Some(head?);
        }
        Ok(())
    }

    /// The head for HTTP/2: `Host` becomes the authority. `cookies` as for `write`.
    pub fn head_http2(
        &self,
        scheme: &str,
        values: &[Vec<u8>],
        cookies: &[u8],
    ) -> Result<http::Request<()>, String> {
        let clean = |text: &Template, blank: &[u8]| {
            let mut bytes = Vec::new();
            push_clean(text, values, &mut bytes, blank);
            bytes
        };
        let host = self
            .headers
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let authority = host.map_or_else(Vec::new, |(_, value)| clean(value, b" "));
        let mut target = format!("{scheme}://").into_bytes();
        target.extend_from_slice(&authority);
        target.extend_from_slice(&clean(&self.path, b"%20"));
        let target = http::Uri::try_from(target).map_err(|error| format!("HTTP/2: {error}"))?;
        let mut request = http::Request::builder()
            .method(self.method.as_str())
            .uri(target)
            .version(http::Version::HTTP_2);
        for (name, value) in &self.headers {
            if !CONNECTIONS.contains(&name.to_ascii_lowercase().as_str()) {
                request = request.header(name.as_str(), clean(value, b" "));
            }
        }
        // More than one such field is allowed here (RFC 9113, 8.2.3).
        if !cookies.is_empty() {
            request = request.header("cookie", cookies);
        }
        if let Some(body) = &self.body {
            request = request.header("content-length", body.text(values).len());
        }
        request.body(()).map_err(|error| format!("HTTP/2: {error}"))
    }

    /// Appends the bytes for HTTP/1.1. A value with a line end cannot split the head: it becomes a blank. `cookies` are
    /// those of the user's jar.
    pub fn write(&self, values: &[Vec<u8>], cookies: &[u8], out: &mut Vec<u8>) {
        let body = self.body.as_ref().map(|body| body.text(values));
        out.extend_from_slice(self.method.as_bytes());
        out.push(b' ');
        push_clean(&self.path, values, out, b"%20");
        out.extend_from_slice(if self.http10 {
            b" HTTP/1.0\r\n"
        } else {
            b" HTTP/1.1\r\n"
        });
        for (name, value) in &self.headers {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            push_clean(value, values, out, b" ");
            if !cookies.is_empty() && name.eq_ignore_ascii_case("cookie") {
                out.extend_from_slice(b"; ");
                out.extend_from_slice(cookies);
            }
            out.extend_from_slice(b"\r\n");
        }
        let is_cookie = |(name, _): &(String, Template)| name.eq_ignore_ascii_case("cookie");
        if !cookies.is_empty() && !self.headers.iter().any(is_cookie) {
            out.extend_from_slice(b"Cookie: ");
            out.extend_from_slice(cookies);
            out.extend_from_slice(b"\r\n");
        }
        let wants_length = matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        let length = body.as_ref().map_or(0, Vec::len);
        if body.is_some() || wants_length {
            out.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body.as_deref().unwrap_or_default());
    }
}

/// Whether asking twice does no more than asking once (RFC 9110, 9.2.2).
fn is_idempotent(method: &str) -> bool {
    matches!(
        method,
        "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE"
    )
}

/// Appends the text; what would end the line, or in a path the word, is replaced by `blank`.
fn push_clean(text: &Template, values: &[Vec<u8>], out: &mut Vec<u8>, blank: &[u8]) {
    let start = out.len();
    text.write(values, out);
    let in_path = blank.len() > 1;
    let bad = |b: &u8| matches!(b, b'\r' | b'\n' | 0) || (in_path && *b == b' ');
    if !out[start..].iter().any(bad) {
        return;
    }
    let text = out.split_off(start);
    for byte in text {
        if bad(&byte) {
            out.extend_from_slice(blank);
        } else {
            out.push(byte);
        }
    }
}

/// Cuts `Name: value`, as `-H` gives it.
pub fn header(text: &str) -> Result<(String, String), String> {
    let wrong = || {
        format!(
            "\"{}\" is no header line \"Name: value\"",
            text.escape_debug()
        )
    };
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) || value.contains(['\r', '\n', '\0']) {
        return Err(wrong());
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

/// Whether a word can be a method.
pub fn is_method(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphabetic() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Names;

    fn text(request: &Request, values: &[Vec<u8>]) -> String {
        let mut out = Vec::new();
        request.write(values, &[], &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn heads_are_complete_and_the_caller_s_headers_win() {
        let headers = [
            ("user-agent".to_owned(), Template::fixed("x")),
            ("Content-Length".to_owned(), Template::fixed("9")),
            ("HOST".to_owned(), Template::fixed("other")),
        ];
        let mut request = Request::new(0, "a:8080", "GET", Template::fixed("/p?q"), &headers, None);
        request.prepare(true);
        let expected = "GET /p?q HTTP/1.1\r\nHOST: other\r\nAccept: */*\r\nuser-agent: x\r\nConnection: close\r\n\r\n";
        assert_eq!(request.prepared.as_deref(), Some(expected.as_bytes()));
        let body = Some(Template::fixed("abc"));
        let post = Request::new(0, "a", "POST", Template::fixed("/"), &[], body);
        assert!(text(&post, &[]).ends_with("Accept: */*\r\nContent-Length: 3\r\n\r\nabc"));
        let empty = Request::new(0, "a", "PUT", Template::fixed("/"), &[], None);
        assert!(text(&empty, &[]).ends_with("Content-Length: 0\r\n\r\n"));
    }

    #[test]
    fn a_value_cannot_split_the_request() {
        let mut names = Names::default();
        names.define("v");
        let place = || Template::parse("{v}", &names);
        let headers = [("X".to_owned(), place())];
        let body = Some(Template::parse("[{v}]", &names));
        let mut request = Request::new(
            0,
            "a",
            "GET",
            Template::parse("/{v}", &names),
            &headers,
            body,
        );
        request.prepare(false);
        assert!(request.prepared.is_none());
        let sent = text(&request, &[b"a b\r\nc".to_vec()]);
        assert!(sent.starts_with("GET /a%20b%20%20c HTTP/1.1\r\n"), "{sent}");
        assert!(
            sent.contains("\r\nX: a b  c\r\nContent-Length: 8\r\n\r\n[a b\r\nc]"),
            "{sent}"
        );
    }

    #[test]
    fn header_lines_are_cut() {
        assert_eq!(header("A-b: c: d "), Ok(("A-b".into(), "c: d".into())));
        for bad in ["", "a", ": b", "a b: c", "a: b\nc"] {
            assert!(header(bad).is_err(), "{bad}");
        }
    }
}
