//! A blocking client that trusts nothing: one request, and every byte of the answer compared.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::cases;

const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// A response head larger than this is not one of ours.
const HEAD_LIMIT: usize = 16 * 1024;

/// A connection on which requests are made one after the other.
pub struct Client {
    stream: TcpStream,
    address: SocketAddr,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Client { stream, address })
    }

    /// Fetches the body of `size` and returns the bytes of the whole response. Fails unless it is a 200
    /// with exactly `body`.
    pub fn fetch(&mut self, body: &[u8], close: bool) -> Result<usize> {
        self.fetch_path(&cases::url_path(body.len()), body, close)
    }

    /// The same of any path.
    pub fn fetch_path(&mut self, path: &str, body: &[u8], close: bool) -> Result<usize> {
        let connection = if close { "Connection: close\r\n" } else { "" };
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\n{connection}\r\n",
            self.address
        );
        self.stream.write_all(request.as_bytes())?;
        let mut response = Vec::new();
        let head = self.read_head(&mut response)?;
        let text = String::from_utf8_lossy(&response[..head]).into_owned();
        ensure!(text.starts_with("HTTP/1.1 200 "), "not a 200:\n{text}");
        let length = content_length(&text)?;
        ensure!(
            length == body.len(),
            "Content-Length {length} instead of {}",
            body.len()
        );
        let mut received = response.split_off(head);
        let missing = length
            .checked_sub(received.len())
            .context("more than the body came")?;
        let start = received.len();
        received.resize(start + missing, 0);
        self.stream.read_exact(&mut received[start..])?;
        ensure!(received == body, "the body of {path} differs");
        Ok(head + length)
    }

    /// Reads until the head is whole; returns its length. What follows it may be in `response` too.
    fn read_head(&mut self, response: &mut Vec<u8>) -> Result<usize> {
        let mut chunk = [0; 4096];
        loop {
            if let Some(end) = response.windows(4).position(|window| window == b"\r\n\r\n") {
                return Ok(end + 4);
            }
            ensure!(
                response.len() < HEAD_LIMIT,
                "the response has no end of head"
            );
            match self.stream.read(&mut chunk)? {
                0 => bail!("the connection was closed before a response"),
                count => response.extend_from_slice(&chunk[..count]),
            }
        }
    }
}

fn content_length(head: &str) -> Result<usize> {
    let named = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())?
    };
    head.lines()
        .find_map(named)
        .with_context(|| format!("no Content-Length:\n{head}"))
}
