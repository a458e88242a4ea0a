//! A client that asks for content codings and undoes none.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Result, bail, ensure};

const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection that asks for a coding and counts the bytes of the bodies.
pub struct Client {
    stream: BufReader<TcpStream>,
    pub address: SocketAddr,
    body: Vec<u8>,
    /// Whether the last body was a copy made ahead: what is compressed on the fly has a weak tag.
    pub is_copy: bool,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Client {
            stream: BufReader::with_capacity(1 << 20, stream),
            address,
            body: Vec::new(),
            is_copy: false,
        })
    }

    /// Fetches a file in a coding (`identity`: none) and says how many bytes its body has.
    pub fn fetch(&mut self, path: &str, coding: &str) -> Result<usize> {
        let request = format!(
            "GET /{path} HTTP/1.1\r\nHost: {}\r\nAccept-Encoding: {coding}\r\n\r\n",
            self.address
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (mut line, mut coded, mut length) = (String::new(), coding == "identity", None);
        self.is_copy = false;
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let field = line.trim_end().to_ascii_lowercase();
            if field.is_empty() {
                break;
            }
            coded |= field.strip_prefix("content-encoding: ") == Some(coding);
            self.is_copy |= field.starts_with("etag: \"");
            if let Some(value) = field.strip_prefix("content-length: ") {
                length = Some(value.parse::<usize>()?);
            }
        }
        ensure!(coded, "{path} came without {coding}");
        let mut all = 0;
        loop {
            let size = match length {
                Some(length) => length,
                None => self.chunk_size()?,
            };
            self.body.resize(size, 0);
            self.stream.read_exact(&mut self.body)?;
            all += size;
            if length.is_none() {
                self.stream.read_line(&mut line)?;
            }
            if length.is_some() || size == 0 {
                return Ok(all);
            }
        }
    }

    fn chunk_size(&mut self) -> Result<usize> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        match usize::from_str_radix(line.trim_end(), 16) {
            Ok(size) => Ok(size),
            Err(_) => bail!("no size of a chunk: {line:?}"),
        }
    }
}
