//! Lists of certificates that their issuers have taken back (`ssl_crl`). RFC 5280 section 5.

use super::flaw::Flaw;
use super::signed::Signed;
use rustls::pki_types::CertificateRevocationListDer;
use std::collections::HashSet;
use std::sync::OnceLock;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

/// A list, read once.
#[derive(Debug)]
pub struct Crl {
    der: CertificateRevocationListDer<'static>,
    issuer: Box<[u8]>,
    begin: i64,
    end: Option<i64>,
    serials: HashSet<Box<[u8]>>,
    /// It says something that has to be understood and is not.
    is_strange: bool,
    /// The key that the signature was checked with, and whether it held: lists are long.
    checked: OnceLock<(Box<[u8]>, bool)>,
}

impl Crl {
    #[must_use]
    pub fn new(der: CertificateRevocationListDer<'static>) -> Option<Crl> {
        let (_, list) = CertificateRevocationList::from_der(&der).ok()?;
        let issuer = list.issuer().as_raw().into();
        let revoked = list.iter_revoked_certificates();
        let serials = revoked.map(|one| one.raw_serial().into()).collect();
        let is_strange = list.extensions().iter().any(|extension| {
            let known = matches!(
                extension.parsed_extension(),
                ParsedExtension::AuthorityKeyIdentifier(_) | ParsedExtension::CRLNumber(_)
            );
            extension.critical && !known
        });
        let (begin, end) = (list.last_update(), list.next_update());
        let (begin, end) = (begin.timestamp(), end.map(|end| end.timestamp()));
        Some(Crl {
            issuer,
            begin,
            end,
            serials,
            is_strange,
            checked: OnceLock::new(),
            der,
        })
    }

    /// The list as it was written.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    fn is_signed_by(&self, key: &[u8]) -> bool {
        let check = || Signed::parse(&self.der).is_some_and(|signed| signed.is_signed_by(key));
        let (checked, holds) = self.checked.get_or_init(|| (key.into(), check()));
        match **checked == *key {
            true => *holds,
            false => check(),
        }
    }

    fn is_in_time(&self, now: i64) -> Result<(), Flaw> {
        if self.begin > now {
            return Err(Flaw::CrlNotYetValid);
        }
        match self.end.is_some_and(|end| end < now) {
            true => Err(Flaw::CrlExpired),
            false => Ok(()),
        }
    }

    /// Looks a certificate up in the list of its issuer.
    pub fn check(
        crls: &[Crl],
        issuer: &[u8],
        key: &[u8],
        serial: &[u8],
        now: i64,
    ) -> Result<(), Flaw> {
        let of_issuer = || crls.iter().filter(|crl| *crl.issuer == *issuer);
        // The newest of those in time.
        let in_time = of_issuer().filter(|crl| crl.is_in_time(now).is_ok());
        let newest = in_time.max_by_key(|crl| crl.begin);
        let crl = newest.or_else(|| of_issuer().next()).ok_or(Flaw::NoCrl)?;
        let mut found = crl.is_in_time(now);
        if !crl.is_signed_by(key) {
            found = Err(Flaw::CrlSignatureFailure);
        }
        if crl.is_strange {
            found = Err(Flaw::CriticalCrlExtension);
        }
        if crl.serials.contains(serial) {
            found = Err(Flaw::Revoked);
        }
        found
    }
}
