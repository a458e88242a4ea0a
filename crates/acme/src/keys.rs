//! Kinds of keys as nginx's ACME module names them (`ecdsa:256`, `rsa:2048`), and new keys of these kinds.

use crate::Error;
use rcgen::{KeyPair, RsaKeySize, SignatureAlgorithm};

/// What a certificate's key is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    #[default]
    EcdsaP256,
    EcdsaP384,
    EcdsaP521,
    Rsa2048,
    Rsa3072,
    Rsa4096,
}

const NAMES: [(&str, Kind); 8] = [
    ("ecdsa", Kind::EcdsaP256),
    ("ecdsa:256", Kind::EcdsaP256),
    ("ecdsa:384", Kind::EcdsaP384),
    ("ecdsa:521", Kind::EcdsaP521),
    ("rsa", Kind::Rsa2048),
    ("rsa:2048", Kind::Rsa2048),
    ("rsa:3072", Kind::Rsa3072),
    ("rsa:4096", Kind::Rsa4096),
];

impl Kind {
    /// By its name in a configuration.
    #[must_use]
    pub fn named(name: &str) -> Option<Kind> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| *kind)
    }

    /// Its name in full.
    #[must_use]
    pub fn name(self) -> &'static str {
        let mut names = NAMES.iter().filter(|(name, _)| name.contains(':'));
        names
            .find(|(_, kind)| *kind == self)
            .map_or("", |(name, _)| name)
    }

    pub(crate) fn generate(self) -> Result<KeyPair, Error> {
        let ecdsa = |algorithm: &'static SignatureAlgorithm| KeyPair::generate_for(algorithm);
        let rsa = |size| KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, size);
        Ok(match self {
            Kind::EcdsaP256 => ecdsa(&rcgen::PKCS_ECDSA_P256_SHA256),
            Kind::EcdsaP384 => ecdsa(&rcgen::PKCS_ECDSA_P384_SHA384),
            Kind::EcdsaP521 => ecdsa(&rcgen::PKCS_ECDSA_P521_SHA512),
            Kind::Rsa2048 => rsa(RsaKeySize::_2048),
            Kind::Rsa3072 => rsa(RsaKeySize::_3072),
            Kind::Rsa4096 => rsa(RsaKeySize::_4096),
        }?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_found_by_its_name() {
        for (name, kind) in NAMES {
            assert_eq!(Kind::named(name), Some(kind), "{name}");
            assert_eq!(Kind::named(kind.name()), Some(kind), "{name}");
        }
        assert_eq!(Kind::named("ecdsa:512"), None);
        assert_eq!(Kind::named("dsa"), None);
    }

    #[test]
    fn keys_are_of_the_kind_that_was_asked_for() -> Result<(), Error> {
        for kind in [Kind::EcdsaP256, Kind::EcdsaP384, Kind::Rsa2048] {
            let pem = kind.generate()?.serialize_pem();
            assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----"), "{kind:?}");
        }
        Ok(())
    }
}
