//! The forms of hashed passwords: Apache's `$apr1$`, `{SHA}` and `{SSHA}`, `{PLAIN}`, and whatever libcrypt knows (DES,
//! MD5, bcrypt, SHA-256, SHA-512, yescrypt).

use md5::Md5;
use sha1::{Digest, Sha1};
use wire::fields::base64::{self, Alphabet};

/// Bytes of a SHA-1 digest.
const SHA1_LENGTH: usize = 20;

/// Whether `password` has this hash. It takes the same time for every password that does not.
pub fn matches(password: &[u8], hash: &[u8]) -> bool {
    if let Some(plain) = hash.strip_prefix(b"{PLAIN}") {
        return same(password, plain);
    }
    if let Some(digest) = hash.strip_prefix(b"{SHA}") {
        return same(&base64::encode(&Sha1::digest(password)), digest);
    }
    if let Some(encoded) = hash.strip_prefix(b"{SSHA}") {
        return salted_sha1(password, encoded);
    }
    if hash.starts_with(APR1) {
        return same(&apr1(password, hash), hash);
    }
    sys::crypt::crypt(password, hash).is_some_and(|computed| same(&computed, hash))
}

/// Compares without telling by time where two texts differ.
pub fn same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differences) == 0 && one.len() == other.len()
}

/// A SHA-1 digest of password and salt, with the salt after it.
fn salted_sha1(password: &[u8], encoded: &[u8]) -> bool {
    let decoded = base64::decode(encoded, Alphabet::Standard);
    let Some((digest, salt)) = decoded
        .as_deref()
        .and_then(|bytes| bytes.split_at_checked(SHA1_LENGTH))
    else {
        return false;
    };
    same(
        &Sha1::new()
            .chain_update(password)
            .chain_update(salt)
            .finalize(),
        digest,
    )
}

const APR1: &[u8] = b"$apr1$";
/// Longer salts are cut.
const APR1_SALT_MAX: usize = 8;
const APR1_ROUNDS: usize = 1000;

/// Apache's variant of the MD5 method of libcrypt; it differs by the text that begins it.
fn apr1(password: &[u8], setting: &[u8]) -> Vec<u8> {
    let salt = setting.strip_prefix(APR1).unwrap_or(setting);
    let end = salt.iter().position(|&byte| byte == b'$');
    let salt = &salt[..end.unwrap_or(salt.len()).min(APR1_SALT_MAX)];
    let first = Md5::new()
        .chain_update(password)
        .chain_update(salt)
        .chain_update(password)
        .finalize();
    let mut md5 = Md5::new()
        .chain_update(password)
        .chain_update(APR1)
        .chain_update(salt);
    for chunk in password.chunks(first.len()) {
        md5.update(&first[..chunk.len()]);
    }
    let mut bits = password.len();
    while bits > 0 {
        match bits & 1 {
            1 => md5.update([0]),
            _ => md5.update(&password[..1]),
        }
        bits >>= 1;
    }
    let mut digest = md5.finalize();
    for round in 0..APR1_ROUNDS {
        let mut md5 = Md5::new();
        let odd = round % 2 == 1;
        md5.update(if odd { password } else { &digest[..] });
        if round % 3 != 0 {
            md5.update(salt);
        }
        if round % 7 != 0 {
            md5.update(password);
        }
        md5.update(if odd { &digest[..] } else { password });
        digest = md5.finalize();
    }
    let mut out = [APR1, salt, b"$"].concat();
    apr1_text(&digest.into(), &mut out);
    out
}

/// The digest's bytes in the order that the method has for them, six bits a letter, the lowest first.
fn apr1_text(digest: &[u8; 16], out: &mut Vec<u8>) {
    const LETTERS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut letters = |mut bits: u32, count: usize| {
        for _ in 0..count {
            out.push(LETTERS[bits as usize & 63]);
            bits >>= 6;
        }
    };
    for [high, middle, low] in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        let byte = |at: usize| u32::from(digest[at]);
        letters(byte(high) << 16 | byte(middle) << 8 | byte(low), 4);
    }
    letters(u32::from(digest[11]), 2);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form() {
        for hash in [
            "{PLAIN}secret",
            "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
            "{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0",
            "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0",
            "$6$ab$2lDVylRMp48hlYZZFOCx/xnhJEsGPynJ17rt2um9Gb8wX6ygI4uDxg3Bg43pp/Hv397hwWfT8mciHws9eE4sR/",
            "abNANd1rDfiNc",
        ] {
            assert!(matches(b"secret", hash.as_bytes()), "{hash}");
            for wrong in ["", "Secret", "secre", "secrets"] {
                // DES hashes look at eight bytes, so that a longer password would be the same.
                assert!(
                    !matches(wrong.as_bytes(), hash.as_bytes()),
                    "{hash} {wrong}"
                );
            }
        }
        for hash in ["", "secret", "{SSHA}", "{SSHA}!", "$apr1$", "{plain}secret"] {
            assert!(!matches(b"secret", hash.as_bytes()), "{hash}");
        }
        assert!(matches(b"", b"{PLAIN}"));
    }

    #[test]
    fn comparing() {
        assert!(same(b"", b"") && same(b"a", b"a"));
        assert!(!same(b"a", b"b") && !same(b"a", b"ab") && !same(b"a", b""));
    }
}
