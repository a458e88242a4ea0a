//! The server of the page: a thread for each connection, a request for each, nothing that another site could ask for.

use super::board::{Board, Wish};
use crate::report::html;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use wire::http1::Known;
use wire::http1::request::{Head, Limits, Parser};

/// Connections at a time; further ones are closed.
const CONNECTIONS_MAX: usize = 32;
/// Bytes of a request, its body included.
const REQUEST_MAX: usize = 16 * 1024;
/// How long a read or write may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A pause after a connection could not be accepted: most likely there are no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is served.
pub struct Site {
    page: String,
    address: SocketAddr,
    board: Arc<Board>,
    connections: AtomicUsize,
}

impl Site {
    pub fn new(page: String, address: SocketAddr, board: Arc<Board>) -> Site {
        Site {
            page,
            address,
            board,
            connections: AtomicUsize::new(0),
        }
    }
}

/// Serves for ever.
pub fn accept(listener: &TcpListener, site: &Arc<Site>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            std::thread::sleep(ACCEPT_PAUSE);
            continue;
        };
        if site.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            site.connections.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let shared = Arc::clone(site);
        let serve = move || {
            // A browser that goes away is no matter.
            let _gone = shared.serve(stream);
            shared.connections.fetch_sub(1, Ordering::Relaxed);
        };
        let name = "page connection".to_owned();
        if std::thread::Builder::new().name(name).spawn(serve).is_err() {
            site.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// An answer.
struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
}

impl Answer {
    fn new(kind: &'static str, body: String) -> Answer {
        Answer {
            status: "200 OK",
            kind,
            body,
        }
    }

    fn refused(status: &'static str, why: &str) -> Answer {
        Answer {
            status,
            kind: "text/plain",
            body: why.to_owned(),
        }
    }
}

/// A request, its head in the first bytes.
struct Asked {
    bytes: Vec<u8>,
    head: Head,
    body_start: usize,
}

impl Asked {
    fn value(&self, known: Known) -> Option<&str> {
        let value = self.head.value(known, &self.bytes)?;
        std::str::from_utf8(value).ok()
    }

    fn value_by_name(&self, name: &str) -> Option<&str> {
        let value = self.head.value_by_name(name.as_bytes(), &self.bytes)?;
        std::str::from_utf8(value).ok()
    }

    fn body(&self) -> &[u8] {
        self.bytes.get(self.body_start..).unwrap_or_default()
    }

    /// The number after `name=` in the arguments; 0 without.
    fn number(&self, name: &str) -> u64 {
        let args = self.head.args.map_or(&b""[..], |span| span.of(&self.bytes));
        let args = std::str::from_utf8(args).unwrap_or_default();
        let mut pairs = args.split('&').filter_map(|pair| pair.split_once('='));
        let value = pairs.find(|(key, _)| *key == name);
        value.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
    }
}

impl Site {
    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let answer = match read(&mut stream)? {
            Some(asked) => self.answer(&asked),
            None => Answer::refused("400 Bad Request", "what is that?"),
        };
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nConnection: close\r\n\r\n",
            answer.status,
            answer.kind,
            answer.body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(answer.body.as_bytes())
    }

    fn answer(&self, asked: &Asked) -> Answer {
        let host = asked.value(Known::Host).unwrap_or_default();
        if !is_own_name(host, self.address.ip()) {
            return Answer::refused("403 Forbidden", "not under this name");
        }
        let method = asked.head.method_span.of(&asked.bytes);
        let path = asked.head.path.of(&asked.bytes);
        match (method, path) {
            (b"GET", b"/") => Answer::new("text/html", self.page.clone()),
            (b"GET", b"/state") => {
                let from = usize::try_from(asked.number("from")).unwrap_or(usize::MAX);
                let state = self.board.show(asked.number("epoch"), from);
                Answer::new("application/json", state.to_string())
            }
            (b"GET", b"/report") => match self.board.report() {
                Some(report) => Answer::new("text/html", html::page(&report)),
                None => Answer::refused("404 Not Found", "no run has ended yet"),
            },
            (b"POST", b"/start" | b"/users" | b"/stop") if !is_own_request(asked, host) => {
                Answer::refused("403 Forbidden", "only from the page itself")
            }
            (b"POST", path @ (b"/start" | b"/users")) => {
                let wish = match serde_json::from_slice::<Wish>(asked.body()) {
                    Err(error) => return Answer::refused("400 Bad Request", &error.to_string()),
                    Ok(wish) => wish,
                };
                let done = match path {
                    b"/start" => self.board.start(&wish),
                    _ => self.board.change(&wish),
                };
                match done {
                    Ok(()) => Answer::new("text/plain", String::new()),
                    Err(why) => Answer::refused("409 Conflict", &why),
                }
            }
            (b"POST", b"/stop") => {
                self.board.stop();
                Answer::new("text/plain", String::new())
            }
            _ => Answer::refused("404 Not Found", "there is nothing here"),
        }
    }
}

/// Reads a request; `None` for what is none, or too large.
fn read(stream: &mut TcpStream) -> io::Result<Option<Asked>> {
    let (mut bytes, mut parser) = (Vec::new(), Parser::new());
    let limits = Limits::default();
    let mut body_start = None;
    loop {
        if body_start.is_none() && !bytes.is_empty() {
            match parser.parse(&bytes, &limits) {
                Ok(taken) => body_start = taken,
                Err(_) => return Ok(None),
            }
        }
        if let Some(body_start) = body_start {
            let length = parser.head().value(Known::ContentLength, &bytes);
            let length = length.map_or(Some(0), |value| {
                std::str::from_utf8(value).ok()?.parse::<usize>().ok()
            });
            match length {
                Some(length) if bytes.len() - body_start >= length => {
                    bytes.truncate(body_start + length);
                    let head = parser.take_head();
                    return Ok(Some(Asked {
                        bytes,
                        head,
                        body_start,
                    }));
                }
                Some(length) if length <= REQUEST_MAX => {}
                _ => return Ok(None),
            }
        }
        if bytes.len() >= REQUEST_MAX {
            return Ok(None);
        }
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(None);
        }
        bytes.extend_from_slice(piece.get(..count).unwrap_or_default());
    }
}

/// On the loopback address, only names that always mean this machine: others could be made to point here by any site
/// that is open in the same browser.
fn is_own_name(host: &str, address: IpAddr) -> bool {
    if !address.is_loopback() {
        return true;
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A browser asks first before it sends JSON to another site, and says where a script came from.
fn is_own_request(asked: &Asked, host: &str) -> bool {
    let kind = asked.value_by_name("content-type").unwrap_or_default();
    let origin = asked.value_by_name("origin");
    kind.split(';').next().unwrap_or_default().trim() == "application/json"
        && origin.is_none_or(|origin| origin.strip_prefix("http://") == Some(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_may_point_elsewhere_are_refused() {
        let loopback = IpAddr::from([127, 0, 0, 1]);
        for (host, own) in [
            ("127.0.0.1:8089", true),
            ("127.0.0.1", true),
            ("localhost:8089", true),
            ("LOCALHOST", true),
            ("[::1]:8089", true),
            ("[::1]", true),
            ("evil.example:8089", false),
            ("10.0.0.1:8089", false),
            ("localhost.evil.example", false),
            ("", false),
        ] {
            assert_eq!(is_own_name(host, loopback), own, "{host}");
        }
        assert!(is_own_name("tester.lan", IpAddr::from([0, 0, 0, 0])));
    }
}
