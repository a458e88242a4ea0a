//! What is signed in the form of X.509: certificates, lists of revoked ones, answers about them. The primitives are
//! aws-lc's, by the table that rustls offers its peers.

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{DigitallySignedStruct, Error, PeerIncompatible, PeerMisbehaved, SignatureScheme};
use std::sync::LazyLock;
use x509_parser::asn1_rs::{Any, BitString, FromDer, Sequence, Tag};

static ALGORITHMS: LazyLock<WebPkiSupportedAlgorithms> =
    LazyLock::new(|| default_provider().signature_verification_algorithms);

/// The schemes that peers are told.
#[must_use]
pub fn schemes() -> Vec<SignatureScheme> {
    ALGORITHMS.supported_schemes()
}

/// Something signed: what, how, and the signature.
#[derive(Debug, Clone, Copy)]
pub struct Signed<'a> {
    pub content: &'a [u8],
    /// What an AlgorithmIdentifier holds.
    algorithm: &'a [u8],
    signature: &'a [u8],
}

/// The next element of DER: all of it, and what it holds.
pub fn element<'a>(rest: &mut &'a [u8], tag: Tag) -> Option<(&'a [u8], &'a [u8])> {
    let (after, any) = Any::from_der(rest).ok()?;
    let whole = rest.get(..rest.len() - after.len())?;
    *rest = after;
    (any.header.tag() == tag).then_some((whole, any.data))
}

/// The bytes of a bit string without unused bits.
fn bits<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (_, held) = element(rest, BitString::TAG)?;
    match held.split_first()? {
        (0, bytes) => Some(bytes),
        _ => None,
    }
}

use x509_parser::asn1_rs::Tagged as _;

impl<'a> Signed<'a> {
    /// A sequence of content, algorithm and signature.
    #[must_use]
    pub fn parse(der: &'a [u8]) -> Option<Signed<'a>> {
        let mut outer = der;
        let (_, mut rest) = element(&mut outer, Sequence::TAG)?;
        let (content, _) = element(&mut rest, Sequence::TAG)?;
        let (_, algorithm) = element(&mut rest, Sequence::TAG)?;
        let signature = bits(&mut rest)?;
        Some(Signed {
            content,
            algorithm,
            signature,
        })
    }

    /// Whether the holder of a key (a SubjectPublicKeyInfo) has signed it.
    #[must_use]
    pub fn is_signed_by(&self, key: &[u8]) -> bool {
        let Some((kind, key)) = public_key(key) else {
            return false;
        };
        ALGORITHMS.all.iter().any(|known| {
            known.signature_alg_id().as_ref() == self.algorithm
                && known.public_key_alg_id().as_ref() == kind
                && known
                    .verify_signature(key, self.content, self.signature)
                    .is_ok()
        })
    }
}

/// The kind and the bits of a SubjectPublicKeyInfo.
pub fn public_key(info: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut outer = info;
    let (_, mut rest) = element(&mut outer, Sequence::TAG)?;
    let (_, kind) = element(&mut rest, Sequence::TAG)?;
    Some((kind, bits(&mut rest)?))
}

/// Whether the holder of a key has signed a message of a handshake. Unlike the library's own functions it takes
/// certificates of version 1, which are what many issuers' tools make for clients.
pub fn check_handshake(
    message: &[u8],
    key: &[u8],
    signed: &DigitallySignedStruct,
    is_tls13: bool,
) -> Result<(), Error> {
    let scheme = signed.scheme;
    let old = matches!(
        scheme,
        SignatureScheme::RSA_PKCS1_SHA256
            | SignatureScheme::RSA_PKCS1_SHA384
            | SignatureScheme::RSA_PKCS1_SHA512
    );
    if is_tls13 && old {
        return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
    }
    let (_, known) = (ALGORITHMS.mapping.iter())
        .find(|(named, _)| *named == scheme)
        .ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
    let (kind, key) = public_key(key).ok_or(rustls::CertificateError::BadEncoding)?;
    // TLS 1.3 ties a scheme to one curve, the first of the table.
    let count = if is_tls13 { 1 } else { known.len() };
    let mut usable = (known.iter().take(count))
        .filter(|algorithm| algorithm.public_key_alg_id().as_ref() == kind)
        .peekable();
    if usable.peek().is_none() {
        return Err(PeerIncompatible::NoSignatureSchemesInCommon.into());
    }
    match usable.any(|algorithm| {
        algorithm
            .verify_signature(key, message, signed.signature())
            .is_ok()
    }) {
        true => Ok(()),
        false => Err(rustls::CertificateError::BadSignature.into()),
    }
}
