//! Whether an upstream's certificate is believed: its issuers (`proxy_ssl_trusted_certificate`), how many stand between
//! (`proxy_ssl_verify_depth`), and what they have taken back (`proxy_ssl_crl`).

use crate::config::build::Build;
use crate::config::directive::Outcome;
use crate::config::setting::Complaint;
use crate::tls::certificate;
use conf::Directive;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, OwnedCertRevocationList,
};

/// Lists that a file may hold.
const LISTS_MAX: usize = 100;

pub fn trusted(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().proxy_tls.trusted.vacant()?;
    let text = directive.args[0].as_str().ok_or("invalid value")?;
    let path = build.conf_path(text);
    let failed = |why: String| {
        let path = path.display();
        Complaint::from(format!(
            "SSL_CTX_load_verify_locations(\"{path}\") failed {why}"
        ))
    };
    let bytes = build
        .read_file(&path)
        .map_err(|error| failed(certificate::no_file(&path, &error)))?;
    let mut roots = RootCertStore::empty();
    for root in certificate::chain(&bytes).map_err(failed)? {
        roots
            .add(root)
            .map_err(|error| failed(format!("(SSL: {error})")))?;
    }
    build
        .location()
        .proxy_tls
        .trusted
        .set(Some(Arc::new(roots)))
}

/// Lists of certificates that were taken back.
#[derive(Debug)]
pub struct Lists(Vec<CertRevocationList<'static>>);

pub fn lists(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().proxy_tls.lists.vacant()?;
    if directive.args[0].is_empty() {
        return build.location().proxy_tls.lists.set(None);
    }
    let text = directive.args[0].as_str().ok_or("invalid value")?;
    let path = build.conf_path(text);
    let failed = |why: String| {
        let path = path.display();
        Complaint::bare(format!("X509_LOOKUP_load_file(\"{path}\") failed {why}"))
    };
    let bytes = build
        .read_file(&path)
        .map_err(|error| failed(certificate::no_file(&path, &error)))?;
    let lists = read(&bytes).map_err(|why| failed(format!("(SSL: {why})")))?;
    build.location().proxy_tls.lists.set(Some(Arc::new(lists)))
}

fn read(text: &[u8]) -> Result<Lists, String> {
    let mut lists = Vec::new();
    for list in CertificateRevocationListDer::pem_slice_iter(text) {
        let list = list.map_err(|error| error.to_string())?;
        if lists.len() == LISTS_MAX {
            return Err(format!("more than {LISTS_MAX} lists"));
        }
        let list = OwnedCertRevocationList::from_der(&list).map_err(|error| error.to_string())?;
        lists.push(list.into());
    }
    match lists.is_empty() {
        true => Err("no list of revoked certificates".to_owned()),
        false => Ok(Lists(lists)),
    }
}

/// `proxy_ssl_verify on`.
#[derive(Debug)]
pub struct Verified {
    pub crypto: Arc<CryptoProvider>,
    pub roots: Arc<RootCertStore>,
    pub lists: Option<Arc<Lists>>,
    /// Certificates between the upstream's own and a trusted one.
    pub depth: usize,
}

impl Verified {
    fn verify_chain(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), webpki::Error> {
        let lists: Vec<&CertRevocationList<'_>> = match &self.lists {
            Some(lists) => lists.0.iter().collect(),
            None => Vec::new(),
        };
        // Of every certificate it has to be known that it was not taken back.
        let revocation = webpki::RevocationOptionsBuilder::new(&lists).ok();
        let revocation = revocation.map(|options| {
            options
                .with_expiration_policy(ExpirationPolicy::Enforce)
                .build()
        });
        let is_near =
            |path: &webpki::VerifiedPath<'_>| match path.intermediate_certificates().count()
                <= self.depth
            {
                true => Ok(()),
                false => Err(webpki::Error::PathLenConstraintViolated),
            };
        let algorithms = self.crypto.signature_verification_algorithms.all;
        let usage = KeyUsage::server_auth();
        EndEntityCert::try_from(certificate)?
            .verify_for_usage(
                algorithms,
                &self.roots.roots,
                intermediates,
                now,
                usage,
                revocation,
                Some(&is_near),
            )
            .map(drop)
    }
}

impl ServerCertVerifier for Verified {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify_chain(certificate, intermediates, now)
            .map_err(refused)?;
        verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// What the log says, and the upstream is told.
fn refused(error: webpki::Error) -> Error {
    use webpki::Error as Flaw;
    Error::InvalidCertificate(match error {
        Flaw::CertRevoked => CertificateError::Revoked,
        Flaw::UnknownIssuer => CertificateError::UnknownIssuer,
        Flaw::CertExpired { .. } => CertificateError::Expired,
        Flaw::CertNotValidYet { .. } => CertificateError::NotValidYet,
        Flaw::UnknownRevocationStatus => CertificateError::UnknownRevocationStatus,
        Flaw::BadDer => CertificateError::BadEncoding,
        other => CertificateError::Other(rustls::OtherError(Arc::new(other))),
    })
}
