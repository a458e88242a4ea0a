//! TLS of the test client: it takes any certificate.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};
use std::path::PathBuf;
use std::sync::Arc;

/// How a connection is made.
#[derive(Default)]
pub struct Terms {
    /// Show the certificate of `NAME.pem`, of which `NAME.key` is the key.
    pub cert: Option<PathBuf>,
    pub tls12: bool,
    pub http2: bool,
}

/// A connection that asks for `name`.
pub fn connection(name: &str, terms: &Terms) -> std::io::Result<ClientConnection> {
    let name = ServerName::try_from(name.to_string()).map_err(std::io::Error::other)?;
    ClientConnection::new(config(terms)?, name).map_err(std::io::Error::other)
}

/// What connections on these terms are made with.
pub fn config(terms: &Terms) -> std::io::Result<Arc<ClientConfig>> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let versions: &[_] = match terms.tls12 {
        true => &[&rustls::version::TLS12],
        false => rustls::ALL_VERSIONS,
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(std::io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider)));
    let mut config = match &terms.cert {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let certificates: Result<Vec<_>, _> =
                CertificateDer::pem_file_iter(path.with_extension("pem"))
                    .map_err(std::io::Error::other)?
                    .collect();
            let certificates = certificates.map_err(std::io::Error::other)?;
            let key = PrivateKeyDer::from_pem_file(path.with_extension("key"));
            let key = key.map_err(std::io::Error::other)?;
            let signer = aws_lc_rs::sign::any_supported_type(&key);
            let signer = signer.map_err(std::io::Error::other)?;
            // It may be of version 1, which the library's own way refuses.
            let pair = CertifiedKey::new(certificates, signer);
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(pair)))
        }
    };
    if terms.http2 {
        config.alpn_protocols = vec![b"h2".to_vec()];
    }
    Ok(Arc::new(config))
}

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
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
