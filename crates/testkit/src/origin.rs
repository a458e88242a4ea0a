//! A toy upstream: answers canned replies by path, and echoes the request it got on every other path.

use crate::acceptor::Acceptor;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const READ_LIMIT: Duration = Duration::from_secs(10);
const REQUEST_LIMIT: usize = 16 * 1024 * 1024;

pub struct Origin {
    acceptor: Acceptor,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Path without arguments → the whole reply as bytes.
    replies: HashMap<String, Vec<u8>>,
    connections: AtomicUsize,
    requests: AtomicUsize,
}

impl Origin {
    pub fn start(replies: HashMap<String, Vec<u8>>) -> std::io::Result<Origin> {
        let state = Arc::new(State {
            replies,
            ..State::default()
        });
        let shared = Arc::clone(&state);
        let acceptor = Acceptor::start(move |stream| {
            shared.connections.fetch_add(1, Ordering::Relaxed);
            shared.serve(stream);
        })?;
        Ok(Origin { acceptor, state })
    }

    pub fn port(&self) -> u16 {
        self.acceptor.port()
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
    }

    /// Requests answered so far.
    pub fn requests(&self) -> usize {
        self.state.requests.load(Ordering::Relaxed)
    }
}

impl State {
    /// Serves one connection until either side closes it.
    fn serve(&self, mut stream: TcpStream) {
        let _ = stream.set_read_timeout(Some(READ_LIMIT));
        let mut received = Vec::new();
        while let Some(length) = read_request(&mut stream, &mut received) {
            let request: Vec<u8> = received.drain(..length).collect();
            self.requests.fetch_add(1, Ordering::Relaxed);
            let (reply, close) = self.answer(&request);
            if stream.write_all(&reply).is_err() || close {
                return;
            }
        }
    }

    /// The reply, and whether the connection ends after it.
    fn answer(&self, request: &[u8]) -> (Vec<u8>, bool) {
        let head = String::from_utf8_lossy(request);
        let target = head.split(' ').nth(1).unwrap_or("/");
        let path = target.split('?').next().unwrap_or(target);
        if let Some(reply) = self.replies.get(path) {
            let lower = String::from_utf8_lossy(reply).to_ascii_lowercase();
            let framed =
                lower.contains("\r\ncontent-length:") || lower.contains("\r\ntransfer-encoding:");
            return (
                reply.clone(),
                !framed || lower.contains("\r\nconnection: close"),
            );
        }
        let close = head.contains("HTTP/1.0")
            || head.to_ascii_lowercase().contains("\r\nconnection: close");
        let mut reply = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n",
            request.len()
        );
        reply.push_str(if close {
            "Connection: close\r\n\r\n"
        } else {
            "\r\n"
        });
        let mut reply = reply.into_bytes();
        if !head.starts_with("HEAD ") {
            reply.extend_from_slice(request);
        }
        (reply, close)
    }
}

/// Reads until `received` begins with a whole request, and gives its length.
fn read_request(stream: &mut TcpStream, received: &mut Vec<u8>) -> Option<usize> {
    let mut buffer = [0; 16 * 1024];
    loop {
        if let Some(length) = request_length(received) {
            return Some(length);
        }
        let count = stream.read(&mut buffer).ok()?;
        if count == 0 || received.len() > REQUEST_LIMIT {
            return None;
        }
        received.extend_from_slice(&buffer[..count]);
    }
}

fn request_length(bytes: &[u8]) -> Option<usize> {
    let head = crate::reply::find(bytes, b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    if text.contains("\r\ntransfer-encoding: chunked") {
        return Some(head + crate::reply::find(&bytes[head..], b"0\r\n\r\n")? + 5);
    }
    let length = text
        .split("\r\ncontent-length: ")
        .nth(1)
        .and_then(|rest| rest.split('\r').next()?.parse().ok());
    let whole = head + length.unwrap_or(0_usize);
    (bytes.len() >= whole).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::Origin;
    use crate::client::Client;
    use std::collections::HashMap;

    #[test]
    fn echoes_and_answers_what_it_was_told() {
        let canned = HashMap::from([(
            "/a".to_string(),
            b"HTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\nx".to_vec(),
        )]);
        let origin = Origin::start(canned).expect("it starts");
        let mut client = Client::connect(origin.port()).expect("it listens");
        client.send(b"GET /a?b HTTP/1.1\r\n\r\n");
        assert_eq!(
            client.read_reply("GET").map(|reply| reply.status()),
            Some(404)
        );
        client.send_in_pieces(b"POST /b HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 4);
        let reply = client.read_reply("POST").expect("a reply");
        assert!(reply.text().ends_with("\r\n\r\nabc"));
        assert_eq!((origin.connections(), origin.requests()), (1, 2));
    }
}
