//! Keys behind a password (`ssl_password_file`): PKCS #8 with PBES2 (RFC 8018), and the older PEM form that names its cipher
//! in a header, with AES. The primitives are aws-lc's.

use super::signed::element;
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, Algorithm, DecryptionContext, PaddedBlockDecryptingKey,
    UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::pbkdf2;
use md5::{Digest, Md5};
use rustls::pki_types::PrivateKeyDer;
use std::num::NonZeroU32;
use wire::fields::base64::{self, Alphabet};
use x509_parser::asn1_rs::Tag;

/// Rounds of a derivation: a file with more would hold up the start.
const ROUNDS_MAX: u32 = 10_000_000;

/// Why there is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// None of the passwords fits; there may be none.
    WrongPassword,
    /// A cipher or derivation that is not here, or not what its label says.
    Unknown,
}

/// A key that a password protects.
#[derive(Debug)]
enum Protected {
    Pkcs8(Vec<u8>),
    Old {
        label: String,
        cipher: String,
        salt: Vec<u8>,
        body: Vec<u8>,
    },
}

/// The first key of a PEM text if a password protects it, opened with the first of the passwords that fits.
pub fn key(text: &[u8], passwords: &[Vec<u8>]) -> Option<Result<PrivateKeyDer<'static>, Failure>> {
    let protected = match read(text)? {
        Ok(protected) => protected,
        Err(failure) => return Some(Err(failure)),
    };
    let mut failure = Failure::WrongPassword;
    for password in passwords {
        match protected.open(password) {
            Ok(key) => return Some(Ok(key)),
            Err(error) => failure = error,
        }
    }
    Some(Err(failure))
}

fn read(text: &[u8]) -> Option<Result<Protected, Failure>> {
    let text = std::str::from_utf8(text).ok()?;
    let mut lines = text.lines().map(str::trim);
    let label = lines.find_map(|line| {
        let label = line.strip_prefix("-----BEGIN ")?.strip_suffix("-----")?;
        label.ends_with("PRIVATE KEY").then_some(label)
    })?;
    let (mut cipher, mut body) = (None, String::new());
    for line in lines.take_while(|line| !line.starts_with("-----")) {
        match line.split_once(": ") {
            Some(("DEK-Info", value)) => cipher = value.split_once(','),
            Some(_) => {}
            None => body.push_str(line),
        }
    }
    let body = base64::decode(body.as_bytes(), Alphabet::Standard);
    if label == "ENCRYPTED PRIVATE KEY" {
        return Some(body.map(Protected::Pkcs8).ok_or(Failure::Unknown));
    }
    let (cipher, salt) = cipher?;
    let made = || {
        Some(Protected::Old {
            label: label.to_owned(),
            cipher: cipher.to_owned(),
            salt: hexadecimal(salt.trim())?,
            body: body?,
        })
    };
    Some(made().ok_or(Failure::Unknown))
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

impl Protected {
    fn open(&self, password: &[u8]) -> Result<PrivateKeyDer<'static>, Failure> {
        match self {
            Protected::Pkcs8(der) => open_pkcs8(der, password),
            Protected::Old {
                label,
                cipher,
                salt,
                body,
            } => {
                let (algorithm, length) = match cipher.as_str() {
                    "AES-128-CBC" => (&AES_128, 16),
                    "AES-192-CBC" => (&AES_192, 24),
                    "AES-256-CBC" => (&AES_256, 32),
                    _ => return Err(Failure::Unknown),
                };
                let key = old_key(password, salt.get(..8).ok_or(Failure::Unknown)?, length);
                let plain = decrypt(algorithm, &key, salt, body)?;
                // With a wrong password the padding may fit by chance.
                plain_sequence(&plain).ok_or(Failure::WrongPassword)?;
                Ok(match label.as_str() {
                    "RSA PRIVATE KEY" => PrivateKeyDer::Pkcs1(plain.into()),
                    "EC PRIVATE KEY" => PrivateKeyDer::Sec1(plain.into()),
                    _ => return Err(Failure::Unknown),
                })
            }
        }
    }
}

fn plain_sequence(plain: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = plain;
    let found = element(&mut rest, Tag::Sequence)?;
    rest.is_empty().then_some(found)
}

/// The derivation of the old form: MD5 over what came before, password and salt.
fn old_key(password: &[u8], salt: &[u8], length: usize) -> Vec<u8> {
    let (mut key, mut last) = (Vec::new(), Vec::new());
    while key.len() < length {
        let mut digest = Md5::new();
        digest.update(&last);
        digest.update(password);
        digest.update(salt);
        last = digest.finalize().to_vec();
        key.extend_from_slice(&last);
    }
    key.truncate(length);
    key
}

fn decrypt(
    algorithm: &'static Algorithm,
    key: &[u8],
    vector: &[u8],
    body: &[u8],
) -> Result<Vec<u8>, Failure> {
    let vector = FixedLength::<16>::try_from(vector).map_err(|_| Failure::Unknown)?;
    let context = DecryptionContext::Iv128(vector);
    let key = UnboundCipherKey::new(algorithm, key).map_err(|_| Failure::Unknown)?;
    let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).map_err(|_| Failure::Unknown)?;
    let mut body = body.to_vec();
    let plain = key.decrypt(&mut body, context);
    plain
        .map(|plain| plain.to_vec())
        .map_err(|_| Failure::WrongPassword)
}

/// What PBES2 says of itself.
struct Scheme<'a> {
    prf: pbkdf2::Algorithm,
    salt: &'a [u8],
    rounds: NonZeroU32,
    cipher: &'static Algorithm,
    length: usize,
    vector: &'a [u8],
    body: &'a [u8],
}

const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0c];
/// 1.2.840.113549.2, before the number of a hash.
const HMAC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02];
/// 2.16.840.1.101.3.4.1, before the number of a mode of AES.
const AES: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01];

fn scheme(der: &[u8]) -> Option<Scheme<'_>> {
    let next = |rest: &mut _, tag| element(rest, tag).map(|(_, held)| held);
    let mut outer = der;
    let mut all = next(&mut outer, Tag::Sequence)?;
    let mut algorithm = next(&mut all, Tag::Sequence)?;
    let body = next(&mut all, Tag::OctetString)?;
    if next(&mut algorithm, Tag::Oid)? != PBES2 {
        return None;
    }
    let mut parameters = next(&mut algorithm, Tag::Sequence)?;
    let mut derivation = next(&mut parameters, Tag::Sequence)?;
    if next(&mut derivation, Tag::Oid)? != PBKDF2 {
        return None;
    }
    let mut derivation = next(&mut derivation, Tag::Sequence)?;
    let salt = next(&mut derivation, Tag::OctetString)?;
    let rounds = next(&mut derivation, Tag::Integer)?;
    if rounds.len() > 4 {
        return None;
    }
    let rounds = rounds
        .iter()
        .fold(0, |sum: u32, &byte| sum << 8 | u32::from(byte));
    let rounds = NonZeroU32::new(rounds).filter(|rounds| rounds.get() <= ROUNDS_MAX)?;
    let mut prf = pbkdf2::PBKDF2_HMAC_SHA1;
    while !derivation.is_empty() {
        let mut peeked = derivation;
        if next(&mut peeked, Tag::Integer).is_some() {
            derivation = peeked;
            continue;
        }
        let mut named = next(&mut derivation, Tag::Sequence)?;
        prf = match next(&mut named, Tag::Oid)?.strip_prefix(HMAC)? {
            [7] => pbkdf2::PBKDF2_HMAC_SHA1,
            [9] => pbkdf2::PBKDF2_HMAC_SHA256,
            [10] => pbkdf2::PBKDF2_HMAC_SHA384,
            [11] => pbkdf2::PBKDF2_HMAC_SHA512,
            _ => return None,
        };
    }
    let mut encryption = next(&mut parameters, Tag::Sequence)?;
    let named = next(&mut encryption, Tag::Oid)?;
    let (cipher, length) = match named.strip_prefix(AES)? {
        [2] => (&AES_128, 16),
        [22] => (&AES_192, 24),
        [42] => (&AES_256, 32),
        _ => return None,
    };
    let vector = next(&mut encryption, Tag::OctetString)?;
    Some(Scheme {
        prf,
        salt,
        rounds,
        cipher,
        length,
        vector,
        body,
    })
}

fn open_pkcs8(der: &[u8], password: &[u8]) -> Result<PrivateKeyDer<'static>, Failure> {
    let scheme = scheme(der).ok_or(Failure::Unknown)?;
    let mut key = vec![0; scheme.length];
    pbkdf2::derive(scheme.prf, scheme.rounds, scheme.salt, password, &mut key);
    let plain = decrypt(scheme.cipher, &key, scheme.vector, scheme.body)?;
    plain_sequence(&plain).ok_or(Failure::WrongPassword)?;
    Ok(PrivateKeyDer::Pkcs8(plain.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of OpenSSL's making, without their lines' ends: label, header, body.
    const NEW: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n\
        MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAhcWt9efTBsYAICCAAw\n\
        DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEC90UShjfYxGvgoEDvQ04MYEgZAa\n\
        V0DQOT99+8dviWRT2/pVQkCndPycjg35btDpOhUuWiucufyz1LO6aa5lFqEIMR9J\n\
        DW13EyjQ7o0aOw8mmLobyuE+4x/DqK2ILM+CDiDh4j675xlcnvmLzW2n+e80WAyb\n\
        yswkIp0aL2zTCq0ghvTej6JcgU6w+HXBg7oSmY3u0Bunzh6BbGbE1Wl2RSK94BI=\n\
        -----END ENCRYPTED PRIVATE KEY-----";
    const OLD: &str = "-----BEGIN EC PRIVATE KEY-----\n\
        Proc-Type: 4,ENCRYPTED\n\
        DEK-Info: AES-256-CBC,EDAB5195A24B9140EF22F2A68DE2E999\n\
        wns//CU07dFhsk5Pyu+7lM4JBq7Gl6k8PBssd9i6/NETqdphMSY94A/+jH6gins6\n\
        NaqdN/EAAA3ip3yakeySavq/HIf1djT7krT1hOPDqkL/pi+FHAHwLMQo5/BEwmCC\n\
        IrcM6rnPue1aRsXGkbSPMwk/APoy7olmKH2J7hQTNLY=\n\
        -----END EC PRIVATE KEY-----";

    #[test]
    fn passwords_open_keys_of_both_forms() {
        for text in [NEW, OLD] {
            let open = |passwords: &[&str]| {
                let passwords: Vec<Vec<u8>> = passwords.iter().map(|one| (*one).into()).collect();
                key(text.as_bytes(), &passwords).map(|opened| opened.map(|_| ()))
            };
            assert_eq!(open(&["wrong", "right"]), Some(Ok(())), "{text}");
            assert_eq!(open(&["wrong"]), Some(Err(Failure::WrongPassword)));
            assert_eq!(open(&[]), Some(Err(Failure::WrongPassword)));
        }
        assert!(key(b"-----BEGIN PRIVATE KEY-----\nAAAA\n", &[]).is_none());
        let broken = b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAAw\n";
        let opened = key(broken, &[b"x".to_vec()]);
        assert_eq!(
            opened.map(|opened| opened.map(|_| ())),
            Some(Err(Failure::Unknown))
        );
    }
}
