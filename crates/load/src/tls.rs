//! TLS of the tester: whom it trusts, what it says its name is, whether it resumes sessions.

use crate::target::{Endpoint, Scheme, plain};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};
use sessions::Sessions;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Sessions that are taken up again.
mod sessions;

/// How long a server may take to shake hands with the connection that looks whether it is there.
const PROBE_MAX: Duration = Duration::from_secs(10);

/// Its name in TLS.
const HTTP2: &[u8] = b"h2";

/// What is asked of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// Any certificate will do.
    pub insecure: bool,
    /// A later connection takes up the session of an earlier one.
    pub resumption: bool,
    /// The name that is asked for and that the certificate must have, instead of the URL's.
    pub name: Option<String>,
    /// Speaks HTTP/2 and nothing else.
    pub http2: bool,
    /// Speaks this version and no other.
    pub version: Option<Version>,
    /// PEM: shown to servers that ask for a certificate, with those that lead to its issuer; and where its key is.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Version {
    #[value(name = "1.2")]
    Tls12,
    #[value(name = "1.3")]
    Tls13,
}

impl Version {
    fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            Version::Tls12 => &rustls::version::TLS12,
            Version::Tls13 => &rustls::version::TLS13,
        }
    }
}

impl Default for TlsOptions {
    fn default() -> TlsOptions {
        TlsOptions {
            insecure: false,
            resumption: true,
            name: None,
            http2: false,
            version: None,
            certificate: None,
        }
    }
}

/// Ready to connect; all users share it, and with it the sessions.
#[derive(Clone, Debug)]
pub struct Tls {
    pub config: Arc<ClientConfig>,
    name: Option<String>,
}

impl Tls {
    /// Reads the authorities that the system trusts.
    pub fn new(options: &TlsOptions) -> Result<Tls, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chosen: Vec<_> = options
            .version
            .map(Version::supported)
            .into_iter()
            .collect();
        let versions = match chosen.as_slice() {
            [] => rustls::DEFAULT_VERSIONS,
            chosen => chosen,
        };
        let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| format!("TLS: {error}"))?;
        let believing = if options.insecure {
            versions
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
        } else {
            let roots = Arc::new(roots());
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|_| {
                    "the system trusts no certificate authority (-k trusts any server)".to_owned()
                })?;
            versions.with_webpki_verifier(verifier)
        };
        let mut config = match &options.certificate {
            None => believing.with_no_client_auth(),
            Some((certificate, key)) => believing
                .with_client_auth_cert(chain(certificate)?, private_key(key)?)
                .map_err(|error| format!("\"{}\": {error}", certificate.display()))?,
        };
        config.resumption = match options.resumption {
            true => Resumption::store(Arc::new(Sessions::new())),
            false => Resumption::disabled(),
        };
        config.alpn_protocols = match options.http2 {
            true => vec![HTTP2.to_vec()],
            false => vec![b"http/1.1".to_vec()],
        };
        Ok(Tls {
            config: Arc::new(config),
            name: options.name.clone(),
        })
    }

    /// The name of a server, or its address, which is not sent.
    pub fn name(&self, endpoint: &Endpoint) -> Result<ServerName<'static>, String> {
        let name = self.name.as_ref().unwrap_or(&endpoint.host);
        ServerName::try_from(name.clone()).map_err(|_| format!("\"{name}\" is no name for TLS"))
    }

    /// Shakes hands once, so that what is wrong with a certificate is told before the run.
    pub fn probe(&self, endpoint: &Endpoint, mut stream: TcpStream) -> Result<(), String> {
        if endpoint.scheme == Scheme::Http {
            return Ok(());
        }
        let failed =
            |why: String| format!("cannot connect to https://{}: {why}", endpoint.authority);
        let ready = stream
            .set_read_timeout(Some(PROBE_MAX))
            .and_then(|()| stream.set_write_timeout(Some(PROBE_MAX)));
        ready.map_err(|error| failed(plain(&error)))?;
        let mut connection = ClientConnection::new(Arc::clone(&self.config), self.name(endpoint)?)
            .map_err(|error| failed(error.to_string()))?;
        while connection.is_handshaking() {
            match connection.complete_io(&mut stream) {
                Ok((0, 0)) => return Err(failed("the connection ended".to_owned())),
                Ok(_) => {}
                Err(error) => {
                    let hint = match error.get_ref().and_then(|inner| inner.downcast_ref()) {
                        Some(rustls::Error::InvalidCertificate(_)) => " (-k trusts any server)",
                        _ => "",
                    };
                    let hint = match &error.get_ref().and_then(|inner| inner.downcast_ref()) {
                        Some(rustls::Error::AlertReceived(
                            rustls::AlertDescription::NoApplicationProtocol,
                        )) => " (it does not speak HTTP/2)",
                        _ => hint,
                    };
                    return Err(failed(format!("{}{hint}", plain(&error))));
                }
            }
        }
        let wants_http2 = self.config.alpn_protocols.iter().any(|name| name == HTTP2);
        if wants_http2 && connection.alpn_protocol() != Some(HTTP2) {
            return Err(failed("it does not speak HTTP/2".to_owned()));
        }
        Ok(())
    }
}

/// The certificates of a file.
fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(format!("\"{}\": it holds no certificate", path.display())),
        Err(error) => Err(format!("\"{}\": {error}", path.display())),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(&read(path)?)
        .map_err(|_| format!("\"{}\": it holds no key without a password", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path)
        .map_err(|error| format!("cannot read \"{}\": {}", path.display(), plain(&error)))
}

fn roots() -> RootCertStore {
    let mut store = RootCertStore::empty();
    // Certificates of the system that cannot be read are not trusted; a server that needs one of them is refused by name.
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    store
}

/// `-k`: any certificate is taken; that the server has its key is still checked.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
