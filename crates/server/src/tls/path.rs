//! From a client's certificate to an issuer that is trusted (RFC 5280), with OpenSSL's findings in OpenSSL's order: as
//! nginx's, a check goes on after a finding, and the last one counts. Names are compared byte by byte, and an issuer with
//! name constraints is refused: what they mean is not looked at.

use super::crl::Crl;
use super::flaw::Flaw;
use super::signed::Signed;
use rustls::pki_types::CertificateDer;
use std::collections::HashMap;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;

/// Keys of RSA with fewer bits are refused.
const RSA_BITS_MIN: usize = 2048;

/// The issuers that are trusted, and what else is asked of certificates.
#[derive(Debug, Default)]
pub struct Trust {
    roots: Vec<CertificateDer<'static>>,
    by_subject: HashMap<Box<[u8]>, Vec<usize>>,
    /// The names that clients are told.
    pub hints: Vec<rustls::DistinguishedName>,
    /// Certificates between the client's and a trusted one, at most (`ssl_verify_depth`).
    pub depth: usize,
    /// With `ssl_crl` every certificate needs a list that does not name it.
    pub crls: Option<Vec<Crl>>,
}

/// A certificate of a path.
struct Link<'a> {
    der: &'a [u8],
    certificate: X509Certificate<'a>,
}

fn parse(der: &[u8]) -> Option<Link<'_>> {
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    rest.is_empty().then_some(Link { der, certificate })
}

impl Trust {
    /// Adds an issuer; false: it cannot be read.
    pub fn add(&mut self, der: CertificateDer<'static>) -> bool {
        let Some(link) = parse(&der) else {
            return false;
        };
        let subject = link.certificate.subject().as_raw().into();
        let known: &mut Vec<usize> = self.by_subject.entry(subject).or_default();
        if !known
            .iter()
            .any(|&place| self.roots.get(place) == Some(&der))
        {
            known.push(self.roots.len());
            self.roots.push(der);
        }
        true
    }

    /// The issuers that are trusted.
    pub fn count(&self) -> usize {
        self.roots.len()
    }

    /// The issuers that are trusted, as they were read.
    pub fn roots(&self) -> impl Iterator<Item = &[u8]> {
        self.roots.iter().map(|root| &root[..])
    }

    /// What says which issuers are trusted and how far.
    pub fn terms(&self) -> impl Iterator<Item = &[u8]> {
        let roots = self.roots.iter().map(|root| &root[..]);
        roots.chain(self.crls.iter().flatten().map(Crl::der))
    }

    /// Verifies a client's certificate at the time `now`, in seconds since 1970. The last finding counts.
    #[must_use]
    pub fn verify(&self, chain: &[CertificateDer<'_>], now: i64) -> Option<Flaw> {
        let offered: Vec<Link<'_>> = chain.iter().filter_map(|der| parse(der)).collect();
        if offered.len() != chain.len() {
            return Some(Flaw::SignatureFailure);
        }
        let mut path = Path::build(self, offered)?;
        path.check_extensions();
        path.check_keys();
        if let Some(crls) = &self.crls {
            path.check_revocation(crls, now);
        }
        path.check_signatures(now);
        path.check_names();
        path.flaw
    }

    /// The certificates from a client's up to the issuer that is trusted.
    #[must_use]
    pub fn path(&self, chain: &[CertificateDer<'_>]) -> Vec<Vec<u8>> {
        let offered = chain.iter().filter_map(|der| parse(der)).collect();
        let path = Path::build(self, offered);
        let links = path.map(|path| path.links).unwrap_or_default();
        links.iter().map(|link| link.der.to_vec()).collect()
    }

    /// The trusted issuer of a certificate.
    fn issuer_of(&self, link: &Link<'_>) -> Option<Link<'_>> {
        let places = self.by_subject.get(link.certificate.issuer().as_raw())?;
        let roots = places.iter().filter_map(|&place| self.roots.get(place));
        roots
            .filter_map(|der| parse(der))
            .find(|root| root.may_have_issued(link))
    }

    fn has(&self, link: &Link<'_>) -> bool {
        let places = self.by_subject.get(link.certificate.subject().as_raw());
        places.is_some_and(|places| {
            let mut roots = places.iter().filter_map(|&place| self.roots.get(place));
            roots.any(|root| root[..] == *link.der)
        })
    }
}

impl Link<'_> {
    fn extension<T>(&self, choose: impl Fn(&ParsedExtension<'_>) -> Option<T>) -> Option<T> {
        let mut all = self.certificate.iter_extensions();
        all.find_map(|extension| choose(extension.parsed_extension()))
    }

    /// Whether the key may be used for one of these purposes: bits of KeyUsage.
    fn allows(&self, wanted: u16) -> bool {
        let usage = self.extension(|extension| match extension {
            ParsedExtension::KeyUsage(usage) => Some(usage.flags),
            _ => None,
        });
        usage.is_none_or(|flags| flags & wanted != 0)
    }

    fn is_self_issued(&self) -> bool {
        self.certificate.subject().as_raw() == self.certificate.issuer().as_raw()
    }

    fn is_self_signed(&self) -> bool {
        self.is_self_issued() && self.may_have_issued(self)
    }

    /// Whether names, identifiers and permitted use say that this one has issued `other`.
    fn may_have_issued(&self, other: &Link<'_>) -> bool {
        if self.certificate.subject().as_raw() != other.certificate.issuer().as_raw() {
            return false;
        }
        let own = self.certificate.iter_extensions().find_map(|extension| {
            match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(key) => Some(key.0),
                _ => None,
            }
        });
        let named = other.certificate.iter_extensions().find_map(|extension| {
            match extension.parsed_extension() {
                ParsedExtension::AuthorityKeyIdentifier(key) => Some(key),
                _ => None,
            }
        });
        if let Some(named) = named {
            if let (Some(own), Some(key)) = (own, &named.key_identifier)
                && own != key.0
            {
                return false;
            }
            if let Some(serial) = named.authority_cert_serial
                && serial != self.certificate.raw_serial()
            {
                return false;
            }
        }
        self.allows(KEY_CERT_SIGN)
    }

    /// Whether it may issue certificates: as OpenSSL, one of version 1 that signed itself may, and so may one that says
    /// nothing but for what its key is used.
    fn is_issuer(&self) -> bool {
        if !self.allows(KEY_CERT_SIGN) {
            return false;
        }
        let constraint = self.extension(|extension| match extension {
            ParsedExtension::BasicConstraints(constraints) => Some(constraints.ca),
            _ => None,
        });
        match constraint {
            Some(issuer) => issuer,
            None if self.certificate.version().0 == 0 => self.is_self_signed(),
            None => {
                let usage = |extension: &ParsedExtension<'_>| {
                    matches!(extension, ParsedExtension::KeyUsage(_)).then_some(())
                };
                self.extension(usage).is_some()
            }
        }
    }

    /// Whether its purposes, if it has a list of them, hold those of a client.
    fn is_for_clients(&self) -> bool {
        let client = self.extension(|extension| match extension {
            ParsedExtension::ExtendedKeyUsage(usage) => Some(usage.client_auth),
            _ => None,
        });
        client.unwrap_or(true)
    }

    fn path_length(&self) -> Option<u32> {
        self.extension(|extension| match extension {
            ParsedExtension::BasicConstraints(constraints) => constraints.path_len_constraint,
            _ => None,
        })
    }

    fn has_unknown_critical(&self) -> bool {
        let mut all = self.certificate.iter_extensions();
        all.any(|extension| {
            let parsed = extension.parsed_extension();
            extension.critical && (parsed.unsupported() || parsed.error().is_some())
        })
    }
}

/// Bits of KeyUsage.
const DIGITAL_SIGNATURE: u16 = 1;
const KEY_AGREEMENT: u16 = 1 << 4;
const KEY_CERT_SIGN: u16 = 1 << 5;

/// A path upwards, as far as it leads.
struct Path<'a> {
    /// The client's own first.
    links: Vec<Link<'a>>,
    /// The last one signed itself.
    is_rooted: bool,
    flaw: Option<Flaw>,
}

impl<'a> Path<'a> {
    /// The path that the offered certificates and the trusted ones make; none without a certificate.
    fn build(trust: &'a Trust, offered: Vec<Link<'a>>) -> Option<Path<'a>> {
        let mut offered = offered.into_iter();
        let mut links = vec![offered.next()?];
        let mut offered: Vec<Link<'a>> = offered.collect();
        let (mut trusted, mut flaw) = (0, None);
        let mut is_rooted;
        loop {
            let last = links.last()?;
            is_rooted = last.is_self_signed();
            if is_rooted {
                break;
            }
            if links.len() > trust.depth.saturating_add(1) {
                flaw = Some(Flaw::ChainTooLong);
                break;
            }
            if let Some(root) = trust.issuer_of(last) {
                trusted += 1;
                links.push(root);
                continue;
            }
            let place = match trusted {
                0 => offered.iter().position(|link| link.may_have_issued(last)),
                _ => None,
            };
            match place {
                Some(place) => links.push(offered.swap_remove(place)),
                None => break,
            }
        }
        let last = links.last()?;
        if !(is_rooted && trust.has(last)) {
            flaw = Some(match (is_rooted, links.len()) {
                (true, 1) => Flaw::SelfSigned,
                (true, _) => Flaw::SelfSignedInChain,
                (false, _) if trusted > 0 => Flaw::NoIssuer,
                (false, _) => Flaw::NoLocalIssuer,
            });
        }
        Some(Path {
            links,
            is_rooted,
            flaw,
        })
    }

    fn find(&mut self, flaw: Flaw) {
        self.flaw = Some(flaw);
    }

    /// What the certificates say of their own use.
    fn check_extensions(&mut self) {
        let (mut found, mut length) = (None, 0);
        for (place, link) in self.links.iter().enumerate() {
            if link.has_unknown_critical() {
                found = Some(Flaw::CriticalExtension);
            }
            let is_fit = match place {
                0 => link.is_for_clients() && link.allows(DIGITAL_SIGNATURE | KEY_AGREEMENT),
                _ => link.is_for_clients() && link.is_issuer(),
            };
            if !is_fit {
                found = Some(Flaw::Purpose);
            }
            if place > 0 {
                if link.path_length().is_some_and(|most| length > most) {
                    found = Some(Flaw::PathTooLong);
                }
                length += u32::from(!link.is_self_issued());
            }
        }
        self.flaw = found.or(self.flaw);
    }

    fn check_keys(&mut self) {
        for place in 0..self.links.len() {
            let key = self.links[place].certificate.public_key().parsed();
            let weak = match key {
                Ok(PublicKey::RSA(key)) => key.key_size() < RSA_BITS_MIN,
                _ => false,
            };
            match place {
                _ if !weak => {}
                0 => self.find(Flaw::WeakKey),
                _ => self.find(Flaw::WeakIssuerKey),
            }
        }
    }

    /// Whether no list names a certificate, and each has one.
    fn check_revocation(&mut self, crls: &[Crl], now: i64) {
        for place in 0..self.links.len() {
            let link = &self.links[place].certificate;
            let issuer = match self.links.get(place + 1) {
                Some(issuer) => &issuer.certificate,
                None => link,
            };
            let name = link.issuer().as_raw();
            let key = issuer.public_key().raw;
            if let Err(flaw) = Crl::check(crls, name, key, link.raw_serial(), now) {
                self.find(flaw);
            }
        }
    }

    /// Signatures and times, from the top down.
    fn check_signatures(&mut self, now: i64) {
        // Without a root the last one's own signature cannot be checked: a lone one is a finding, another is left out.
        let top = match (self.is_rooted, self.links.len()) {
            (true, count) => count,
            (false, 1) => {
                self.find(Flaw::FirstUnverified);
                1
            }
            (false, count) => count - 1,
        };
        for place in (0..top).rev() {
            if let Some(issuer) = self.links.get(place + 1) {
                let key = issuer.certificate.public_key().raw;
                let signed = Signed::parse(self.links[place].der);
                if !signed.is_some_and(|signed| signed.is_signed_by(key)) {
                    self.find(Flaw::SignatureFailure);
                }
            }
            let validity = self.links[place].certificate.validity();
            let (begin, end) = (
                validity.not_before.timestamp(),
                validity.not_after.timestamp(),
            );
            if begin > now {
                self.find(Flaw::NotYetValid);
            }
            if end < now {
                self.find(Flaw::Expired);
            }
        }
    }

    fn check_names(&mut self) {
        let constrains = |link: &Link<'_>| {
            let found = |extension: &ParsedExtension<'_>| {
                matches!(extension, ParsedExtension::NameConstraints(_)).then_some(())
            };
            link.extension(found).is_some()
        };
        if self.links.iter().skip(1).any(constrains) {
            self.find(Flaw::NameConstraints);
        }
    }
}
