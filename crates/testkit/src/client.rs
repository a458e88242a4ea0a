//! A client that sends exactly the bytes it is given and reads until the server closes or one reply is complete.

use crate::queue;
use crate::reply::{self, Reply};
use rustls::ClientConnection;
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// No case waits longer than this for a byte.
pub const READ_LIMIT: Duration = Duration::from_secs(10);
/// A server that leaves bytes unread for so long will not read them.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);
const DRAIN_POLL: Duration = Duration::from_micros(100);

pub struct Client {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    received: Vec<u8>,
}

/// How the stream ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Closed,
    /// Closed with our bytes unread, so that what the server had sent may be lost.
    Reset,
    /// Nothing came within `READ_LIMIT`.
    Silent,
}

impl Client {
    pub fn connect(port: u16) -> std::io::Result<Client> {
        Client::connect_from(IpAddr::from([127, 0, 0, 1]), port)
    }

    /// Connects to 127.0.0.1 from the given loopback address.
    pub fn connect_from(source: IpAddr, port: u16) -> std::io::Result<Client> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        if source != IpAddr::from([127, 0, 0, 1]) {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        socket.connect(&SocketAddr::from(([127, 0, 0, 1], port)).into())?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_LIMIT))?;
        Ok(Client {
            stream,
            tls: None,
            received: Vec::new(),
        })
    }

    /// The socket, for another protocol.
    #[must_use]
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Speaks TLS from now on, asking for a server by its name; any certificate is taken.
    pub fn secure(&mut self, name: &str) -> std::io::Result<()> {
        self.secure_with(name, &crate::tls::Terms::default())
    }

    /// The same on other terms.
    pub fn secure_with(&mut self, name: &str, terms: &crate::tls::Terms) -> std::io::Result<()> {
        self.tls = Some(Box::new(crate::tls::connection(name, terms)?));
        Ok(())
    }

    /// The port this end has.
    pub fn local_port(&self) -> u16 {
        self.stream.local_addr().map_or(0, |address| address.port())
    }

    /// Sends bytes; a server that closes early is no error, since its answer is what counts.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = match &mut self.tls {
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.stream).write_all(bytes),
            None => self.stream.write_all(bytes),
        };
    }

    /// Sends the bytes in `count` pieces of about one size, each after the server has read the one before;
    /// all that is left at once when the server no longer reads.
    pub fn send_in_pieces(&mut self, bytes: &[u8], count: usize) {
        let size = bytes.len().div_ceil(count.max(1)).max(1);
        let mut sent = 0;
        for piece in bytes.chunks(size) {
            self.send(piece);
            sent += piece.len();
            if !self.wait_until_read() {
                break;
            }
        }
        self.send(&bytes[sent..]);
    }

    /// Makes the connection end with a reset when it is dropped, so that thousands of them leave the kernel's tables at
    /// once.
    #[must_use]
    pub fn forgotten(self) -> Client {
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        self
    }

    /// Says that nothing more will be sent.
    pub fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Everything until the server closes.
    pub fn read_to_end(&mut self) -> (Vec<u8>, End) {
        let end = loop {
            match self.read_some() {
                Ok(0) => break End::Closed,
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    break End::Silent;
                }
                Err(_) => break End::Reset,
            }
        };
        (std::mem::take(&mut self.received), end)
    }

    /// Whether the server has not closed yet, without waiting. What it has sent is kept.
    pub fn is_open(&mut self) -> bool {
        let _ = self.stream.set_nonblocking(true);
        let open = loop {
            match self.read_some() {
                Ok(0) => break false,
                Ok(_) => {}
                Err(error) => break error.kind() == ErrorKind::WouldBlock,
            }
        };
        let _ = self.stream.set_nonblocking(false);
        open
    }

    /// Reads until at least so many bytes came or the stream ends; gives how many are there, to be read again.
    pub fn read_at_least(&mut self, count: usize) -> usize {
        while self.received.len() < count && matches!(self.read_some(), Ok(1..)) {}
        self.received.len()
    }

    /// One reply to a request with this method, by its own framing; None when the connection ends before.
    pub fn read_reply(&mut self, method: &str) -> Option<Reply> {
        loop {
            if let Some((reply, used)) = reply::parse(&self.received, method, false) {
                self.received.drain(..used);
                return Some(reply);
            }
            if !matches!(self.read_some(), Ok(1..)) {
                let rest = std::mem::take(&mut self.received);
                return reply::parse(&rest, method, true).map(|(reply, _)| reply);
            }
        }
    }

    fn read_some(&mut self) -> std::io::Result<usize> {
        let mut buffer = [0; 16 * 1024];
        let count = match &mut self.tls {
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.stream).read(&mut buffer)?,
            None => self.stream.read(&mut buffer)?,
        };
        self.received.extend_from_slice(&buffer[..count]);
        Ok(count)
    }

    /// Waits until the server's receive queue for this connection is empty.
    /// False when the server has closed or does not read.
    fn wait_until_read(&self) -> bool {
        let (Ok(here), Ok(there)) = (self.stream.local_addr(), self.stream.peer_addr()) else {
            return false;
        };
        let deadline = Instant::now() + DRAIN_LIMIT;
        while Instant::now() < deadline {
            match queue::received_unread(there, here) {
                Some(0) => return true,
                Some(_) => std::thread::sleep(DRAIN_POLL),
                None => return false,
            }
        }
        false
    }
}
