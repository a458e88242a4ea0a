//! One URL after another, on a connection that is kept where the server keeps it; for tools that fetch without measuring.

use crate::response::Reader;
use crate::target::{Endpoint, Scheme, Target, plain};
use crate::tls::Tls;
use rustls::{ClientConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that are read at once.
const READ: usize = 64 * 1024;
/// A response that takes longer is given up, however steadily it comes.
const WHOLE_MAX: Duration = Duration::from_secs(600);

/// How URLs are fetched.
#[derive(Clone, Debug)]
pub struct Options {
    /// None: HTTPS is refused.
    pub tls: Option<Tls>,
    /// To connect, and between two pieces of a response.
    pub timeout: Duration,
    pub headers: Vec<(String, String)>,
    /// The server that is asked, whatever server a URL names.
    pub server: Option<SocketAddr>,
}

/// A response.
#[derive(Debug)]
pub struct Fetched {
    pub status: u16,
    /// Of the body.
    pub bytes: u64,
    /// As much of the body as was to be kept.
    pub body: Vec<u8>,
}

enum Connection {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// Fetches, one at a time.
pub struct Fetcher {
    options: Arc<Options>,
    open: Option<(Endpoint, Connection)>,
    reader: Reader,
}

impl Fetcher {
    #[must_use]
    pub fn new(options: Arc<Options>) -> Fetcher {
        Fetcher {
            options,
            open: None,
            reader: Reader::default(),
        }
    }

    /// Fetches a URL and keeps so many bytes of its body.
    pub fn get(&mut self, target: &Target, keep: usize) -> Result<Fetched, String> {
        let is_kept = |(endpoint, _): &(Endpoint, Connection)| endpoint.is_same(&target.endpoint);
        if let Some((endpoint, connection)) = self.open.take().filter(is_kept) {
            // The server may have closed it meanwhile.
            if let Ok(fetched) = self.exchange(target, endpoint, connection, keep) {
                return Ok(fetched);
            }
        }
        let (endpoint, connection) = self.connect(target)?;
        self.exchange(target, endpoint, connection, keep)
    }

    fn connect(&self, target: &Target) -> Result<(Endpoint, Connection), String> {
        let mut endpoint = target.endpoint.clone();
        match self.options.server {
            Some(address) => endpoint.addresses = vec![address],
            None => endpoint.resolve()?,
        }
        let mut failed = "there is no address".to_owned();
        for address in &endpoint.addresses {
            match TcpStream::connect_timeout(address, self.options.timeout) {
                Ok(stream) => {
                    let connection = self.secured(&endpoint, stream)?;
                    return Ok((endpoint, connection));
                }
                Err(error) => failed = plain(&error),
            }
        }
        Err(format!("cannot connect: {failed}"))
    }

    fn secured(&self, endpoint: &Endpoint, stream: TcpStream) -> Result<Connection, String> {
        let timeout = Some(self.options.timeout);
        (stream.set_read_timeout(timeout))
            .and_then(|()| stream.set_write_timeout(timeout))
            .map_err(|error| plain(&error))?;
        if endpoint.scheme == Scheme::Http {
            return Ok(Connection::Plain(stream));
        }
        let tls = self.options.tls.as_ref().ok_or("HTTPS is not ready")?;
        let client = ClientConnection::new(Arc::clone(&tls.config), tls.name(endpoint)?)
            .map_err(|error| error.to_string())?;
        let stream = StreamOwned::new(client, stream);
        Ok(Connection::Tls(Box::new(stream)))
    }

    fn exchange(
        &mut self,
        target: &Target,
        endpoint: Endpoint,
        mut connection: Connection,
        keep: usize,
    ) -> Result<Fetched, String> {
        let begun = Instant::now();
        connection
            .write(&self.head(target))
            .map_err(|error| plain(&error))?;
        self.reader.start(false, keep);
        let mut piece = vec![0; READ];
        while !self.reader.is_done() {
            if begun.elapsed() > WHOLE_MAX {
                return Err("the response takes too long".into());
            }
            let read = connection.read(&mut piece).map_err(|error| plain(&error))?;
            let bytes = piece.get(..read).unwrap_or_default();
            if read == 0 && !self.reader.end() {
                return Err("the connection ended before the response did".into());
            }
            (self.reader.feed(bytes)).map_err(|invalid| invalid.as_str().to_owned())?;
        }
        if self.reader.keep_alive {
            self.open = Some((endpoint, connection));
        }
        Ok(Fetched {
            status: self.reader.status,
            bytes: self.reader.body_bytes,
            body: std::mem::take(&mut self.reader.kept.body),
        })
    }

    fn head(&self, target: &Target) -> Vec<u8> {
        let mut head = format!("GET {} HTTP/1.1\r\n", target.path);
        let named = |name: &str| {
            let mut headers = self.options.headers.iter();
            headers.any(|(own, _)| own.eq_ignore_ascii_case(name))
        };
        if !named("host") {
            head += &format!("Host: {}\r\n", target.endpoint.authority);
        }
        if !named("user-agent") {
            head += "User-Agent: gannet-warm\r\n";
        }
        for (name, value) in &self.options.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        head.into_bytes()
    }
}

impl Connection {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Connection::Plain(stream) => stream.write_all(bytes),
            Connection::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Connection::Plain(stream) => stream.read(into),
            Connection::Tls(stream) => stream.read(into),
        }
    }
}
