//! What can be wrong with a client's certificate, with OpenSSL's numbers and words: logs and `$ssl_client_verify` have them.

/// A finding of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    NoIssuer,
    NoCrl,
    SignatureFailure,
    CrlSignatureFailure,
    NotYetValid,
    Expired,
    CrlNotYetValid,
    CrlExpired,
    SelfSigned,
    SelfSignedInChain,
    NoLocalIssuer,
    FirstUnverified,
    ChainTooLong,
    Revoked,
    PathTooLong,
    Purpose,
    CriticalExtension,
    CriticalCrlExtension,
    NameConstraints,
    WeakKey,
    WeakIssuerKey,
    InvalidIssuer,
}

impl Flaw {
    fn row(self) -> (u8, &'static str) {
        match self {
            Flaw::NoIssuer => (2, "unable to get issuer certificate"),
            Flaw::NoCrl => (3, "unable to get certificate CRL"),
            Flaw::SignatureFailure => (7, "certificate signature failure"),
            Flaw::CrlSignatureFailure => (8, "CRL signature failure"),
            Flaw::NotYetValid => (9, "certificate is not yet valid"),
            Flaw::Expired => (10, "certificate has expired"),
            Flaw::CrlNotYetValid => (11, "CRL is not yet valid"),
            Flaw::CrlExpired => (12, "CRL has expired"),
            Flaw::SelfSigned => (18, "self-signed certificate"),
            Flaw::SelfSignedInChain => (19, "self-signed certificate in certificate chain"),
            Flaw::NoLocalIssuer => (20, "unable to get local issuer certificate"),
            Flaw::FirstUnverified => (21, "unable to verify the first certificate"),
            Flaw::ChainTooLong => (22, "certificate chain too long"),
            Flaw::Revoked => (23, "certificate revoked"),
            Flaw::PathTooLong => (25, "path length constraint exceeded"),
            Flaw::Purpose => (26, "unsuitable certificate purpose"),
            Flaw::CriticalExtension => (34, "unhandled critical extension"),
            Flaw::CriticalCrlExtension => (36, "unhandled critical CRL extension"),
            Flaw::NameConstraints => (51, "unsupported name constraint type"),
            Flaw::WeakKey => (66, "EE certificate key too weak"),
            Flaw::WeakIssuerKey => (67, "CA certificate key too weak"),
            Flaw::InvalidIssuer => (79, "invalid CA certificate"),
        }
    }

    #[must_use]
    pub fn code(self) -> u8 {
        self.row().0
    }

    #[must_use]
    pub fn text(self) -> &'static str {
        self.row().1
    }

    /// Whether all that is wrong is that nobody here knows the issuer (`ssl_verify_client optional_no_ca`).
    #[must_use]
    pub fn is_of_unknown_issuer(self) -> bool {
        matches!(
            self,
            Flaw::SelfSigned
                | Flaw::SelfSignedInChain
                | Flaw::NoLocalIssuer
                | Flaw::FirstUnverified
        )
    }
}
