//! A blocking client that speaks TLS and trusts one certificate: whole answers compared, handshakes counted.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use rustls::{SupportedProtocolVersion, version};

use crate::cases;

const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// A response head larger than this is not one of ours.
const HEAD_MAX: usize = 16 * 1024;
/// The name in the certificates.
const NAME: &str = "localhost";

/// The kinds of keys servers have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    Rsa2048,
    EcdsaP256,
}

impl Key {
    pub fn file_stem(self) -> &'static str {
        match self {
            Key::Rsa2048 => "rsa",
            Key::EcdsaP256 => "ecdsa",
        }
    }

    /// Writes `STEM.key` and `STEM.pem`, a certificate of itself.
    pub fn write(self, dir: &Path) -> Result<()> {
        let stem = self.file_stem();
        let algorithm: &[&str] = match self {
            Key::Rsa2048 => &["-newkey", "rsa:2048"],
            Key::EcdsaP256 => &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
        };
        let output = Command::new("openssl")
            .current_dir(dir)
            .args([
                "req",
                "-x509",
                "-nodes",
                "-days",
                "30",
                "-subj",
                "/CN=localhost",
            ])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args(["-addext", "subjectAltName=DNS:localhost"])
            .args(algorithm)
            .args([
                "-keyout",
                &format!("{stem}.key"),
                "-out",
                &format!("{stem}.pem"),
            ])
            .output()
            .context("openssl is needed: apt-get install openssl")?;
        ensure!(
            output.status.success(),
            "openssl: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

/// What a client offers.
#[derive(Clone, Copy)]
pub struct Offer {
    pub version: &'static SupportedProtocolVersion,
    pub resumption: bool,
}

impl Offer {
    pub const TLS12: Offer = Offer {
        version: &version::TLS12,
        resumption: false,
    };
    pub const TLS13: Offer = Offer {
        version: &version::TLS13,
        resumption: false,
    };

    pub fn resuming(self) -> Offer {
        Offer {
            resumption: true,
            ..self
        }
    }

    /// Settings with a memory of sessions of their own.
    fn config(self, certificate: &Path) -> Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificate)?)?;
        let mut config = ClientConfig::builder_with_protocol_versions(&[self.version])
            .with_root_certificates(roots)
            .with_no_client_auth();
        if !self.resumption {
            config.resumption = Resumption::disabled();
        }
        Ok(Arc::new(config))
    }
}

/// Makes connections to one server.
#[derive(Clone)]
pub struct Dialer {
    config: Arc<ClientConfig>,
    address: SocketAddr,
}

impl Dialer {
    pub fn new(offer: Offer, certificate: &Path, address: SocketAddr) -> Result<Dialer> {
        Ok(Dialer {
            config: offer.config(certificate)?,
            address,
        })
    }

    pub fn connect(&self) -> Result<Client> {
        let socket = TcpStream::connect(self.address)?;
        socket.set_read_timeout(Some(READ_TIMEOUT))?;
        socket.set_nodelay(true)?;
        let name = ServerName::try_from(NAME)?;
        let connection = ClientConnection::new(self.config.clone(), name)?;
        Ok(Client {
            stream: StreamOwned::new(connection, socket),
        })
    }
}

/// A connection on which requests are made one after the other.
pub struct Client {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

impl Client {
    /// Fetches the body of its size; fails unless it is a 200 with exactly `body`. The bytes of the whole response.
    pub fn fetch(&mut self, body: &[u8], close: bool) -> Result<usize> {
        let path = cases::url_path(body.len());
        let connection = if close { "Connection: close\r\n" } else { "" };
        write!(
            self.stream,
            "GET {path} HTTP/1.1\r\nHost: {NAME}\r\n{connection}\r\n"
        )?;
        let mut response = Vec::new();
        let mut chunk = [0; 16 * 1024];
        let whole = loop {
            if let Some(end) = response.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4 + body.len();
            }
            ensure!(response.len() < HEAD_MAX, "the response has no end of head");
            self.read(&mut chunk, &mut response)?;
        };
        while response.len() < whole {
            self.read(&mut chunk, &mut response)?;
        }
        ensure!(response.starts_with(b"HTTP/1.1 200 "), "not a 200");
        ensure!(response.len() == whole, "more than the body came");
        ensure!(response.ends_with(body), "the body of {path} differs");
        Ok(whole)
    }

    fn read(&mut self, chunk: &mut [u8], response: &mut Vec<u8>) -> Result<()> {
        match self.stream.read(chunk)? {
            0 => bail!("the connection was closed before the end of the response"),
            count => response.extend_from_slice(&chunk[..count]),
        }
        Ok(())
    }

    /// Reads until the server has ended the connection; tickets come here too.
    fn end(&mut self) -> Result<()> {
        match self.stream.read(&mut [0; 64]) {
            Ok(0) => Ok(()),
            Ok(_) => bail!("something came after the response"),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn resumed(&self) -> bool {
        self.stream.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }
}

/// `threads` clients make new connections for `duration`, each with one request of no body; the number of connections.
pub fn handshakes(
    offer: Offer,
    certificate: &Path,
    address: SocketAddr,
    threads: usize,
    duration: Duration,
) -> Result<u64> {
    let end = Instant::now() + duration;
    let client = || -> Result<u64> {
        let dialer = Dialer::new(offer, certificate, address)?;
        let mut count = 0;
        while Instant::now() < end {
            let mut client = dialer.connect()?;
            client.fetch(b"", true)?;
            client.end()?;
            // Nothing to resume at first.
            ensure!(
                count == 0 || client.resumed() == offer.resumption,
                "a session was {}resumed",
                if offer.resumption { "not " } else { "" }
            );
            count += 1;
        }
        Ok(count)
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..threads).map(|_| scope.spawn(client)).collect();
        let mut sum = 0;
        for handle in clients {
            sum += handle
                .join()
                .map_err(|_| anyhow::anyhow!("a client panicked"))??;
        }
        Ok(sum)
    })
}
