//! Certificates of clients (`ssl_verify_client`): asked for in the handshake, which takes any; what is wrong with one is
//! found after it, and answered by a page.

use super::certificate;
use super::crl::Crl;
use super::directive::{Settings, VerifyClient};
use super::flaw::Flaw;
use super::path::Trust;
use super::signed::{check_handshake, schemes};
use bytes::Bytes;
use conf::Source;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// Lists and issuers that one file may hold.
const ITEMS_MAX: usize = 10_000;

/// What a server trusts, if it asks clients for certificates.
pub fn trust(
    settings: &Settings,
    source: &dyn Source,
    path: &dyn Fn(&Bytes) -> PathBuf,
) -> Result<Option<Arc<Trust>>, String> {
    if settings.verify_client == VerifyClient::Off {
        return Ok(None);
    }
    let (told, trusted) = (&settings.client_certificate, &settings.trusted_certificate);
    if told.is_empty()
        && trusted.is_empty()
        && settings.verify_client != VerifyClient::OptionalNoIssuer
    {
        return Err("no ssl_client_certificate for ssl_verify_client".to_owned());
    }
    let mut trust = Trust::default();
    trust.depth = usize::try_from(settings.verify_depth).unwrap_or(usize::MAX);
    if !told.is_empty() {
        trust.hints = issuers(&mut trust, source, path(told))?;
    }
    if !trusted.is_empty() {
        issuers(&mut trust, source, path(trusted))?;
    }
    if !settings.crl.is_empty() {
        trust.crls = Some(lists(source, path(&settings.crl))?);
    }
    Ok(Some(Arc::new(trust)))
}

const NOTHING: &str =
    "(SSL: error:05800088:x509 certificate routines::no certificate or crl found)";

/// The certificates of a file of issuers.
pub fn certificates(source: &dyn Source, path: PathBuf) -> Result<Vec<Vec<u8>>, String> {
    let mut trust = Trust::default();
    issuers(&mut trust, source, path)?;
    Ok(trust.roots().map(<[u8]>::to_vec).collect())
}

/// Adds the issuers of a file; their names.
fn issuers(
    trust: &mut Trust,
    source: &dyn Source,
    path: PathBuf,
) -> Result<Vec<DistinguishedName>, String> {
    let failed = |why: String| {
        let path = path.display();
        format!("SSL_CTX_load_verify_locations(\"{path}\") failed {why}")
    };
    let text = source
        .read(&path)
        .map_err(|error| failed(certificate::no_verify_file(&path, &error)))?;
    let mut names: Vec<DistinguishedName> = Vec::new();
    for issuer in CertificateDer::pem_slice_iter(&text) {
        let issuer = issuer.map_err(|error| failed(format!("(SSL: {error})")))?;
        let parsed = X509Certificate::from_der(&issuer);
        let (_, parsed) = parsed.map_err(|error| failed(format!("(SSL: {error})")))?;
        let name = DistinguishedName::from(parsed.subject().as_raw().to_vec());
        if trust.count() == ITEMS_MAX || !trust.add(issuer.clone()) {
            return Err(failed(format!("(SSL: more than {ITEMS_MAX} certificates)")));
        }
        let is_known = |known: &DistinguishedName| known.as_ref() == name.as_ref();
        if !names.iter().any(is_known) {
            names.push(name);
        }
    }
    match names.is_empty() {
        true => Err(failed(NOTHING.to_owned())),
        false => Ok(names),
    }
}

/// The lists of a file. As in nginx it may hold certificates, too; with those alone every client's is refused.
fn lists(source: &dyn Source, path: PathBuf) -> Result<Vec<Crl>, String> {
    let failed = |why: String| {
        let path = path.display();
        format!("X509_LOOKUP_load_file(\"{path}\") failed {why}")
    };
    let text = source
        .read(&path)
        .map_err(|error| failed(certificate::no_verify_file(&path, &error)))?;
    let mut crls = Vec::new();
    let items = <(SectionKind, Vec<u8>)>::pem_slice_iter(&text);
    let mut any = false;
    for item in items {
        let (kind, der) = item.map_err(|error| failed(format!("(SSL: {error})")))?;
        any |= matches!(kind, SectionKind::Crl | SectionKind::Certificate);
        if kind == SectionKind::Crl {
            let crl = Crl::new(CertificateRevocationListDer::from(der));
            if crls.len() == ITEMS_MAX {
                return Err(failed(format!("(SSL: more than {ITEMS_MAX} lists)")));
            }
            crls.push(crl.ok_or_else(|| failed("(SSL: no list can be read of it)".to_owned()))?);
        }
    }
    match any {
        true => Ok(crls),
        false => Err(failed(NOTHING.to_owned())),
    }
}

/// Asks clients for certificates and takes any.
#[derive(Debug)]
pub struct Asker(pub Arc<Trust>);

impl ClientCertVerifier for Asker {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.0.hints
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match X509Certificate::from_der(certificate) {
            Ok(_) => Ok(ClientCertVerified::assertion()),
            Err(_) => Err(CertificateError::BadEncoding.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        check(message, certificate, signed, false)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        check(message, certificate, signed, true)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        schemes()
    }
}

fn check(
    message: &[u8],
    der: &[u8],
    signed: &DigitallySignedStruct,
    is_tls13: bool,
) -> Result<HandshakeSignatureValid, Error> {
    let (_, certificate) =
        X509Certificate::from_der(der).map_err(|_| CertificateError::BadEncoding)?;
    let key = certificate.public_key().raw;
    check_handshake(message, key, signed, is_tls13)?;
    LAST.with(|last| last.replace(Some((der.to_vec(), signed.scheme))));
    Ok(HandshakeSignatureValid::assertion())
}

thread_local! {
    /// The client's certificate of which a handshake of this thread was signed last, and how: the library does not keep it.
    static LAST: RefCell<Option<(Vec<u8>, SignatureScheme)>> = const { RefCell::new(None) };
}

/// How the owner of a certificate has signed the handshake that is just done.
#[must_use]
pub fn scheme_of(certificate: &[u8]) -> Option<u16> {
    LAST.with(|last| {
        let last = last.take();
        let own = last.filter(|(der, _)| der == certificate);
        own.map(|(_, scheme)| u16::from(scheme))
    })
}

/// What is wrong with the certificate of a client, where one was asked for.
#[must_use]
pub fn verify(trust: &Trust, chain: &[CertificateDer<'_>]) -> Option<Flaw> {
    let now = UnixTime::now().as_secs();
    trust.verify(chain, i64::try_from(now).unwrap_or(i64::MAX))
}
