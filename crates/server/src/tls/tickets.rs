//! Sessions that clients keep, sealed by the server (`ssl_session_tickets`). RFC 5077, RFC 8446 section 4.6.1. A ticket is
//! the key's name, a nonce, and sealed: when it was made, under which terms, the session.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::{digest, rand};
use rustls::server::ProducesTickets;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of a key's name.
const NAME: usize = 16;
/// Bytes before the session: seconds and terms.
const HEAD: usize = 8 + 16;
/// A random key makes tickets for so long; it opens them `KEPT` times as long.
const ROTATION: Duration = Duration::from_secs(6 * 3600);
const KEPT: usize = 6;

/// A key, and how tickets of it are told.
struct Key {
    name: [u8; NAME],
    seal: RandomizedNonceKey,
}

impl Key {
    fn new(name: [u8; NAME], secret: &[u8]) -> Option<Key> {
        let secret = digest::digest(&digest::SHA256, secret);
        let seal = RandomizedNonceKey::new(&AES_256_GCM, secret.as_ref()).ok()?;
        Some(Key { name, seal })
    }

    fn random() -> Option<Key> {
        let (mut name, mut secret) = ([0; NAME], [0; 32]);
        rand::fill(&mut name).ok()?;
        rand::fill(&mut secret).ok()?;
        Key::new(name, &secret)
    }
}

/// A key of a file (`ssl_session_ticket_key`).
#[derive(Clone)]
pub struct FileKey(Arc<Key>);

impl std::fmt::Debug for FileKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("FileKey")
    }
}

impl FileKey {
    /// The key of a file of 48 or 80 bytes: a name, and a secret.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<FileKey> {
        if !matches!(bytes.len(), 48 | 80) {
            return None;
        }
        let (name, secret) = bytes.split_at_checked(NAME)?;
        Some(FileKey(Arc::new(Key::new(name.try_into().ok()?, secret)?)))
    }
}

/// Random keys, the newest first, for all servers without a key of their own; they outlive reloads.
#[derive(Default)]
struct Rotating {
    keys: Vec<Arc<Key>>,
    /// When the first one began, in seconds.
    since: u64,
}

static ROTATING: LazyLock<Mutex<Rotating>> = LazyLock::new(Mutex::default);

fn random_keys() -> Vec<Arc<Key>> {
    let mut rotating = ROTATING.lock().unwrap_or_else(PoisonError::into_inner);
    let now = seconds();
    let is_old = now.saturating_sub(rotating.since) >= ROTATION.as_secs();
    if (rotating.keys.is_empty() || is_old)
        && let Some(key) = Key::random()
    {
        rotating.keys.insert(0, Arc::new(key));
        rotating.keys.truncate(KEPT);
        rotating.since = now;
    }
    rotating.keys.clone()
}

fn seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// The tickets of one server.
pub struct Tickets {
    /// Empty: random ones.
    pub keys: Arc<[FileKey]>,
    /// Stands for certificates and demands on clients: a session begun under others is not taken up.
    pub terms: [u8; 16],
    pub timeout: Duration,
}

impl std::fmt::Debug for Tickets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Tickets")
    }
}

impl Tickets {
    /// Acts with the first key that is wanted.
    fn with_key<T>(
        &self,
        wanted: impl Fn(&Key) -> bool,
        act: impl FnOnce(&Key) -> Option<T>,
    ) -> Option<T> {
        match self.keys.is_empty() {
            false => act(self
                .keys
                .iter()
                .map(|key| &*key.0)
                .find(|key| wanted(key))?),
            true => act(random_keys().iter().find(|key| wanted(key))?),
        }
    }

    fn seal(&self, session: &[u8], now: u64) -> Option<Vec<u8>> {
        let mut sealed = Vec::with_capacity(HEAD + session.len() + 16);
        sealed.extend_from_slice(&now.to_be_bytes());
        sealed.extend_from_slice(&self.terms);
        sealed.extend_from_slice(session);
        self.with_key(
            |_| true,
            |key| {
                let name = Aad::from(key.name);
                let nonce = key.seal.seal_in_place_append_tag(name, &mut sealed).ok()?;
                Some([&key.name[..], nonce.as_ref(), &sealed].concat())
            },
        )
    }

    fn open(&self, ticket: &[u8], now: u64) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let plain = self.with_key(
            |key| key.name[..] == *name,
            |key| {
                let opened = key
                    .seal
                    .open_in_place(nonce, Aad::from(key.name), &mut sealed);
                Some(opened.ok()?.to_vec())
            },
        )?;
        let (made, rest) = plain.split_at_checked(8)?;
        let (terms, session) = rest.split_at_checked(HEAD - 8)?;
        let made = u64::from_be_bytes(made.try_into().ok()?);
        let is_young = now.saturating_sub(made) <= self.timeout.as_secs();
        (is_young && *terms == self.terms).then(|| session.to_vec())
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(self.timeout.as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(plain, seconds())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.open(cipher, seconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tickets(keys: &[u8], terms: u8) -> Tickets {
        Tickets {
            keys: keys
                .iter()
                .map(|&key| FileKey::new(&[key; 48]).expect("48 bytes"))
                .collect(),
            terms: [terms; 16],
            timeout: Duration::from_secs(300),
        }
    }

    #[test]
    fn tickets_are_opened_with_any_key_under_their_terms_in_their_time() {
        let old = tickets(&[1], 7);
        let ticket = old.seal(b"session", 1000).expect("a ticket");
        for (keys, terms, now, opens) in [
            (&[1][..], 7, 1000, true),
            (&[2, 1], 7, 1300, true),
            (&[2, 1], 7, 1301, false),
            (&[2], 7, 1000, false),
            (&[1], 8, 1000, false),
        ] {
            let opened = tickets(keys, terms).open(&ticket, now);
            assert_eq!(opened.is_some(), opens, "{keys:?} {terms} {now}");
        }
        for length in 0..ticket.len() {
            assert_eq!(old.open(&ticket[..length], 1000), None);
        }
        let mut broken = ticket;
        broken[NAME + NONCE_LEN] ^= 1;
        assert_eq!(old.open(&broken, 1000), None);
    }

    #[test]
    fn random_keys_serve_all() {
        let (one, other) = (tickets(&[], 1), tickets(&[], 1));
        let ticket = one.encrypt(b"x").expect("a ticket");
        assert_eq!(other.decrypt(&ticket).as_deref(), Some(&b"x"[..]));
    }
}
