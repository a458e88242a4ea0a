//! Certificates and keys as their files hold them, and which of a server's certificates a client gets.

use super::encrypted::{self, Failure};
use super::ocsp::Staple;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, InconsistentKeys, SignatureAlgorithm, SignatureScheme};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Certificates that one file may hold.
const CHAIN_MAX: usize = 100;

/// A file that cannot be read, in the words of nginx and the library below it.
#[must_use]
pub fn no_file(path: &Path, error: &io::Error) -> String {
    let code = error.raw_os_error().unwrap_or_default();
    let reason = sys::errno::Errno(error).to_string();
    let words = reason
        .split_once(": ")
        .map_or(&reason[..], |(_, words)| words);
    let path = path.display();
    let last = match error.kind() {
        io::ErrorKind::NotFound => "error:10000080:BIO routines::no such file",
        _ => "error:10080002:BIO routines::system lib",
    };
    // The library packs a system error as such.
    let packed = 0x8000_0000_u32 | code.unsigned_abs();
    format!("(SSL: error:{packed:08X}:system library::{words}:calling fopen({path}, r) {last})")
}

/// The same of a file of issuers or of lists.
#[must_use]
pub fn no_verify_file(path: &Path, error: &io::Error) -> String {
    let text = no_file(path, error);
    let text = text.trim_end_matches(')');
    format!("{text} error:05880002:x509 certificate routines::system lib)")
}

/// The certificates of a PEM file, the server's own first.
pub fn chain(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut chain = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(text) {
        let certificate = certificate.map_err(|error| format!("(SSL: {error})"))?;
        if chain.len() == CHAIN_MAX {
            return Err(format!("(SSL: more than {CHAIN_MAX} certificates)"));
        }
        chain.push(certificate);
    }
    match chain.is_empty() {
        true => Err(
            "(SSL: error:0480006C:PEM routines::no start line:Expecting: TRUSTED CERTIFICATE)"
                .to_owned(),
        ),
        false => Ok(chain),
    }
}

/// The key of a PEM file, which may be behind one of the passwords.
pub fn key(text: &[u8], passwords: &[Vec<u8>]) -> Result<PrivateKeyDer<'static>, String> {
    if let Some(opened) = encrypted::key(text, passwords) {
        return opened.map_err(|failure| match failure {
            Failure::WrongPassword if passwords.is_empty() => {
                "(SSL: error:04800068:PEM routines::bad password read)".to_owned()
            }
            Failure::WrongPassword => {
                "(SSL: error:1C800064:Provider routines::bad decrypt)".to_owned()
            }
            Failure::Unknown => "(SSL: the key is encrypted by something else than AES)".to_owned(),
        });
    }
    match PrivateKeyDer::from_pem_slice(text) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) => Err(
            "(SSL: error:1E08010C:DECODER routines::unsupported:No supported data to decode. Input type: PEM)"
                .to_owned(),
        ),
        Err(error) => Err(format!("(SSL: {error})")),
    }
}

/// Joins a certificate with its key.
pub fn join(
    chain: Vec<CertificateDer<'static>>,
    key: &PrivateKeyDer<'_>,
) -> Result<CertifiedKey, String> {
    let signer = any_supported_type(key).map_err(|error| format!("(SSL: {error})"))?;
    let joined = CertifiedKey::new(chain, signer);
    match joined.keys_match() {
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err("(SSL: error:05800074:x509 certificate routines::key values mismatch)".to_owned())
        }
        // What the library cannot compare, such as a certificate of version 1, is taken at its word.
        _ => Ok(joined),
    }
}

/// A server's certificates, of which a client gets the one that suits it.
#[derive(Debug)]
pub struct Choice {
    keys: Vec<Held>,
}

/// A certificate, and whose word on it clients get.
pub type Held = (Arc<CertifiedKey>, Option<Arc<Staple>>);

impl Choice {
    #[must_use]
    pub fn new(keys: Vec<Held>) -> Choice {
        let mut keys = keys;
        // The cheaper ones first: a client that can use several does not care.
        keys.sort_by_key(|(key, _)| match key.key.algorithm() {
            SignatureAlgorithm::ECDSA => 0,
            SignatureAlgorithm::RSA => 1,
            _ => 2,
        });
        Choice { keys }
    }
}

/// Whether a client of this hello could check signatures of this key.
fn suits(key: &CertifiedKey, suites: &[CipherSuite], schemes: &[SignatureScheme]) -> bool {
    if key.key.choose_scheme(schemes).is_none() {
        return false;
    }
    let is_new = |suite: &CipherSuite| {
        matches!(
            suite,
            CipherSuite::TLS13_AES_128_GCM_SHA256
                | CipherSuite::TLS13_AES_256_GCM_SHA384
                | CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
        )
    };
    // Before TLS 1.3 the suites say, too, what keys a client takes.
    let wanted = match key.key.algorithm() {
        SignatureAlgorithm::RSA => "_RSA_",
        _ => "_ECDSA_",
    };
    let named = |suite: &CipherSuite| suite.as_str().is_some_and(|name| name.contains(wanted));
    suites.iter().any(|suite| is_new(suite) || named(suite))
}

impl ResolvesServerCert for Choice {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let (suites, schemes) = (hello.cipher_suites(), hello.signature_schemes());
        let suiting = (self.keys.iter()).find(|(key, _)| suits(key, suites, schemes));
        let (key, staple) = suiting.or(self.keys.first())?;
        let stapled = staple.as_ref().and_then(|staple| staple.stapled(key));
        Some(stapled.unwrap_or_else(|| Arc::clone(key)))
    }
}
