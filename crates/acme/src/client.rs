//! HTTP to the ACME server: hyper on rustls, trusting what the issuer's settings say.

use crate::issuer::Trust;
use bytes::Bytes;
use http::Request;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A request that takes longer has failed.
const REQUEST_MAX: Duration = Duration::from_secs(30);

/// A client for one issuer.
pub struct Client(Hyper<HttpsConnector<HttpConnector>, BodyWrapper<Bytes>>);

impl Client {
    pub fn new(trust: &Trust) -> Result<Client, crate::Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| crate::Error(error.to_string()))?;
        let config = match trust {
            Trust::Anyone => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anyone(algorithms)))
                .with_no_client_auth(),
            Trust::System => builder
                .with_root_certificates(system_roots()?)
                .with_no_client_auth(),
            Trust::Roots(certificates) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates {
                    roots
                        .add(certificate.clone())
                        .map_err(|error| crate::Error(error.to_string()))?;
                }
                builder.with_root_certificates(roots).with_no_client_auth()
            }
        };
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_only()
            .enable_http1()
            .build();
        let hyper = Hyper::builder(TokioExecutor::new()).build(connector);
        Ok(Client(hyper))
    }
}

fn system_roots() -> Result<RootCertStore, crate::Error> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (taken, _) = roots.add_parsable_certificates(found.certs);
    match taken {
        0 => Err(crate::Error(
            "the system trusts no certificates: install ca-certificates, or say ssl_trusted_certificate"
                .to_owned(),
        )),
        _ => Ok(roots),
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let answer = self.0.request(request);
        Box::pin(async move {
            match tokio::time::timeout(REQUEST_MAX, answer).await {
                Ok(Ok(response)) => Ok(BytesResponse::from(response)),
                Ok(Err(error)) => Err(Error::Other(Box::new(error))),
                Err(_) => Err(Error::Str("the server did not answer within 30 seconds")),
            }
        })
    }
}

/// `ssl_verify off`.
#[derive(Debug)]
struct Anyone(WebPkiSupportedAlgorithms);

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
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
