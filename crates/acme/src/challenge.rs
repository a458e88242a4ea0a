//! What proves to an ACME server that a name is ours: a file at a well-known address (RFC 8555, 8.3), or a certificate that
//! is shown to a hello with the protocol `acme-tls/1` (RFC 8737).

use crate::{Error, Kind};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName};

/// Where the answers to HTTP-01 are looked for.
pub const PREFIX: &str = "/.well-known/acme-challenge/";
/// The protocol that TLS-ALPN-01 is asked with.
pub const ALPN: &[u8] = b"acme-tls/1";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Challenge {
    #[default]
    Http01,
    TlsAlpn01,
}

impl Challenge {
    /// By its name in a configuration.
    #[must_use]
    pub fn named(name: &str) -> Option<Challenge> {
        match name {
            "http-01" | "http" => Some(Challenge::Http01),
            "tls-alpn-01" | "tls-alpn" => Some(Challenge::TlsAlpn01),
            _ => None,
        }
    }
}

/// A certificate that answers TLS-ALPN-01.
#[derive(Debug, Clone)]
pub struct Proof {
    pub certificate_der: Vec<u8>,
    /// PKCS #8.
    pub key_der: Vec<u8>,
}

impl Proof {
    /// For a name (or an address) and the digest of its key authorization.
    pub fn new(name: &str, digest: &[u8]) -> Result<Proof, Error> {
        let mut parameters = CertificateParams::new(vec![name.to_owned()])?;
        parameters.distinguished_name = DistinguishedName::new();
        parameters.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let key = Kind::EcdsaP256.generate()?;
        let certificate = parameters.self_signed(&key)?;
        Ok(Proof {
            certificate_der: certificate.der().to_vec(),
            key_der: key.serialize_der(),
        })
    }
}

/// Whoever serves the answers while an order is under way.
pub trait Answers: Send + Sync {
    /// `token` is asked for below `PREFIX`; the answer is the key authorization.
    fn http(&self, token: &str, key_authorization: &str);
    /// A hello with `ALPN` that names `name` is to be shown this.
    fn tls(&self, name: &str, proof: Proof);
    /// The answer to a token, or for a name, is no longer asked for.
    fn withdraw(&self, token_or_name: &str);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_names_its_name_and_holds_the_digest() -> Result<(), Error> {
        let proof = Proof::new("gannet.example", &[7; 32])?;
        let holds = |part: &[u8]| {
            let mut windows = proof.certificate_der.windows(part.len());
            windows.any(|window| window == part)
        };
        assert!(holds(b"gannet.example") && holds(&[7; 32]));
        // 1.3.6.1.5.5.7.1.31
        assert!(holds(&[0x2b, 6, 1, 5, 5, 7, 1, 31]));
        Ok(())
    }
}
