//! Questions to OCSP responders and their answers (RFC 6960), as bytes: nothing here reads a socket or a clock.

use crate::tls::signed::{Signed, public_key};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use x509_parser::asn1_rs::{Any, Class, FromDer as _, Tag};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::time::ASN1Time;

/// Certificates in an answer that are looked at.
const CERTIFICATES_MAX: usize = 10;
/// An answer's clock may be ahead by so many seconds, and it holds so much longer: OpenSSL's allowance in nginx.
const SKEW: i64 = 300;
/// AlgorithmIdentifier of SHA-1, in which certificates are named.
const SHA1: &[u8] = &[
    0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00,
];
/// id-pkix-ocsp-basic.
const BASIC: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x01];

/// id-ad-ocsp.
const OCSP: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01];

/// What a responder says of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Good,
    Revoked,
    Unknown,
}

impl Status {
    /// OpenSSL's words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Good => "good",
            Status::Revoked => "revoked",
            Status::Unknown => "unknown",
        }
    }
}

/// A certificate, as it is named to responders, and the issuer that answers for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    serial: Box<[u8]>,
    issuer_name: Box<[u8]>,
    /// SubjectPublicKeyInfo.
    issuer_key: Box<[u8]>,
    /// A CertID.
    id: Box<[u8]>,
}

/// An answer that was understood and believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub status: Status,
    /// Seconds since 1970 when it ceases to hold; it may not say.
    pub until: Option<i64>,
}

/// An element of DER.
struct Element<'a> {
    class: Class,
    tag: Tag,
    whole: &'a [u8],
    held: &'a [u8],
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<Element<'a>> {
    let (after, any) = Any::from_der(rest).ok()?;
    let whole = rest.get(..rest.len() - after.len())?;
    *rest = after;
    Some(Element {
        class: any.header.class(),
        tag: any.header.tag(),
        whole,
        held: any.data,
    })
}

fn universal<'a>(rest: &mut &'a [u8], tag: Tag) -> Option<&'a [u8]> {
    let element = next(rest)?;
    (element.class == Class::Universal && element.tag == tag).then_some(element.held)
}

/// What stands in `[number]`, if that is next.
fn tagged<'a>(rest: &mut &'a [u8], number: u32) -> Option<&'a [u8]> {
    let mut ahead = *rest;
    let element = next(&mut ahead)?;
    let is_it = element.class == Class::ContextSpecific && element.tag == Tag(number);
    is_it.then(|| {
        *rest = ahead;
        element.held
    })
}

fn time(rest: &mut &[u8]) -> Option<i64> {
    let (after, time) = ASN1Time::from_der(rest).ok()?;
    *rest = after;
    Some(time.timestamp())
}

/// Puts a head of DER before `held`.
fn wrap(tag: u8, held: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match u8::try_from(held.len()) {
        Ok(length) if length < 0x80 => out.push(length),
        _ => {
            let length = held.len().to_be_bytes();
            let zeroes = length.iter().take_while(|byte| **byte == 0).count();
            let length = length.get(zeroes..).unwrap_or_default();
            out.push(0x80 | length.len() as u8);
            out.extend_from_slice(length);
        }
    }
    out.extend_from_slice(held);
    out
}

const SEQUENCE: u8 = 0x30;
const OCTETS: u8 = 0x04;
const INTEGER: u8 = 0x02;

fn sha1(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec()
}

impl Subject {
    /// A certificate and its issuer's; `None` where either cannot be read or they do not belong together.
    #[must_use]
    pub fn new(certificate: &[u8], issuer: &[u8]) -> Option<Subject> {
        let (_, own) = X509Certificate::from_der(certificate).ok()?;
        let (_, issuer) = X509Certificate::from_der(issuer).ok()?;
        let name = issuer.subject().as_raw();
        let key = issuer.public_key().raw;
        if own.issuer().as_raw() != name || !Signed::parse(certificate)?.is_signed_by(key) {
            return None;
        }
        let (_, bits) = public_key(key)?;
        let serial = own.raw_serial();
        let parts = [
            SHA1.to_vec(),
            wrap(OCTETS, &sha1(name)),
            wrap(OCTETS, &sha1(bits)),
            wrap(INTEGER, serial),
        ];
        Some(Subject {
            serial: serial.into(),
            issuer_name: name.into(),
            issuer_key: key.into(),
            id: wrap(SEQUENCE, &parts.concat()).into(),
        })
    }

    /// The question.
    #[must_use]
    pub fn request(&self) -> Vec<u8> {
        let one = wrap(SEQUENCE, &self.id);
        let list = wrap(SEQUENCE, &one);
        wrap(SEQUENCE, &wrap(SEQUENCE, &list))
    }

    /// What names it for a cache.
    #[must_use]
    pub fn id(&self) -> &[u8] {
        &self.id
    }

    /// Reads an answer at the time `now`. It has to be signed by the issuer or by whom the issuer has appointed.
    pub fn read(&self, answer: &[u8], now: i64) -> Result<Answer, String> {
        let basic = basic(answer)?;
        let malformed = || "the answer is malformed".to_owned();
        let signed = Signed::parse(basic).ok_or_else(malformed)?;
        self.check_signer(basic, &signed, now)?;
        let mut rest = signed.content;
        let mut rest = universal(&mut rest, Tag::Sequence).ok_or_else(malformed)?;
        let _version = tagged(&mut rest, 0);
        let _responder = next(&mut rest).ok_or_else(malformed)?;
        let _produced = time(&mut rest).ok_or_else(malformed)?;
        let mut singles = universal(&mut rest, Tag::Sequence).ok_or_else(malformed)?;
        while !singles.is_empty() {
            let single = universal(&mut singles, Tag::Sequence).ok_or_else(malformed)?;
            if let Some(answer) = self.single(single, now)? {
                return Ok(answer);
            }
        }
        Err("certificate status not found in the OCSP response".to_owned())
    }

    /// One answer, if it is about this certificate.
    fn single(&self, mut rest: &[u8], now: i64) -> Result<Option<Answer>, String> {
        let malformed = || "the answer is malformed".to_owned();
        let id = next(&mut rest).ok_or_else(malformed)?;
        if !self.is_named(id.held) {
            return Ok(None);
        }
        let status = next(&mut rest).ok_or_else(malformed)?;
        let status = match (status.class, status.tag.0) {
            (Class::ContextSpecific, 0) => Status::Good,
            (Class::ContextSpecific, 1) => Status::Revoked,
            (Class::ContextSpecific, 2) => Status::Unknown,
            _ => return Err(malformed()),
        };
        let from = time(&mut rest).ok_or_else(malformed)?;
        let until = match tagged(&mut rest, 0) {
            Some(mut held) => Some(time(&mut held).ok_or_else(malformed)?),
            None => None,
        };
        if from > now + SKEW {
            return Err("the answer is not yet valid".to_owned());
        }
        if until.is_some_and(|until| until + SKEW < now || until < from) {
            return Err("the answer has expired".to_owned());
        }
        Ok(Some(Answer { status, until }))
    }

    /// Whether a CertID names this certificate. Its digest is the one that was asked with.
    fn is_named(&self, held: &[u8]) -> bool {
        let mut own = &self.id[..];
        universal(&mut own, Tag::Sequence).is_some_and(|own| {
            // Parameters of the digest may be left out.
            let named = |mut rest: &[u8]| {
                let mut algorithm = universal(&mut rest, Tag::Sequence)?;
                let kind = universal(&mut algorithm, Tag::Oid)?.to_vec();
                Some((kind, rest.to_vec()))
            };
            named(own).is_some() && named(own) == named(held)
        })
    }

    fn check_signer(&self, basic: &[u8], signed: &Signed<'_>, now: i64) -> Result<(), String> {
        if signed.is_signed_by(&self.issuer_key) {
            return Ok(());
        }
        let mut appointed = certificates(basic).take(CERTIFICATES_MAX);
        let found = appointed.any(|der| {
            let Ok((_, parsed)) = X509Certificate::from_der(der) else {
                return false;
            };
            let validity = parsed.validity();
            let in_time = validity.not_before.timestamp() <= now + SKEW
                && validity.not_after.timestamp() + SKEW >= now;
            in_time
                && parsed.issuer().as_raw() == &self.issuer_name[..]
                && may_answer(&parsed)
                && Signed::parse(der).is_some_and(|one| one.is_signed_by(&self.issuer_key))
                && signed.is_signed_by(parsed.public_key().raw)
        });
        match found {
            true => Ok(()),
            false => Err(
                "neither the issuer nor a responder of the issuer has signed the answer".to_owned(),
            ),
        }
    }
}

/// Whether an issuer has appointed the certificate's owner to answer.
fn may_answer(certificate: &X509Certificate<'_>) -> bool {
    certificate.iter_extensions().any(|extension| {
        matches!(extension.parsed_extension(), ParsedExtension::ExtendedKeyUsage(usage) if usage.ocsp_signing)
    })
}

/// The basic answer inside of an answer.
fn basic(answer: &[u8]) -> Result<&[u8], String> {
    let malformed = || "the answer is malformed".to_owned();
    let mut outer = answer;
    let mut rest = universal(&mut outer, Tag::Sequence).ok_or_else(malformed)?;
    let status = universal(&mut rest, Tag::Enumerated).ok_or_else(malformed)?;
    if status != [0] {
        let status = status.first().copied().unwrap_or_default();
        let name = match status {
            1 => "malformedrequest",
            2 => "internalerror",
            3 => "trylater",
            5 => "sigrequired",
            6 => "unauthorized",
            _ => "unknown",
        };
        return Err(format!("OCSP response not successful ({status}: {name})"));
    }
    let mut rest = tagged(&mut rest, 0).ok_or_else(malformed)?;
    let mut rest = universal(&mut rest, Tag::Sequence).ok_or_else(malformed)?;
    match universal(&mut rest, Tag::Oid) {
        Some(kind) if kind == BASIC => {}
        _ => return Err("the answer is of an unknown kind".to_owned()),
    }
    universal(&mut rest, Tag::OctetString).ok_or_else(malformed)
}

/// The certificates that came with an answer.
fn certificates(basic: &[u8]) -> impl Iterator<Item = &[u8]> {
    let list = || {
        let mut outer = basic;
        let mut rest = universal(&mut outer, Tag::Sequence)?;
        for _ in 0..3 {
            next(&mut rest)?;
        }
        let mut rest = tagged(&mut rest, 0)?;
        universal(&mut rest, Tag::Sequence)
    };
    let mut list = list().unwrap_or_default();
    std::iter::from_fn(move || next(&mut list).map(|element| element.whole))
}

/// The responder that a certificate names.
#[must_use]
pub fn responder_of(certificate: &[u8]) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let mut all = parsed.iter_extensions();
    all.find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityInfoAccess(access) => {
            let mut places = access.accessdescs.iter();
            places.find_map(|place| match place.access_location {
                GeneralName::URI(uri) if place.access_method.as_bytes() == OCSP => {
                    Some(uri.to_owned())
                }
                _ => None,
            })
        }
        _ => None,
    })
}
