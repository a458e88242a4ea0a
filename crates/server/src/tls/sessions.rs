//! Sessions that the server keeps (`ssl_session_cache`): zones by name that all threads and servers share, and that
//! outlive a reload.

use bytes::Bytes;
use rustls::server::StoresServerSessions;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Sessions of `builtin` without a number.
pub const BUILTIN_SESSIONS: u64 = 20_480;
/// nginx wants eight pages at least.
pub const ZONE_MIN: u64 = 8 * 4096;
/// A session takes about so many bytes of a zone: nginx puts 4000 into a megabyte.
const SESSION_BYTES: u64 = 256;
/// A session with a large client certificate is not kept.
const VALUE_MAX: usize = 16 * 1024;
/// Locks of a zone: threads share one.
const SHARDS: usize = 16;

type Hasher = foldhash::fast::RandomState;

/// Sessions by their keys, the oldest first to go.
#[derive(Debug)]
pub struct Sessions {
    shards: Vec<Mutex<Shard>>,
    hasher: Hasher,
    /// Bytes of keys and values in a shard.
    shard_bytes: usize,
}

#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<Bytes, Entry, Hasher>,
    /// Keys and numbers in the order of coming; an entry that was taken leaves its own here.
    order: VecDeque<(Bytes, u64)>,
    bytes: usize,
    number: u64,
}

#[derive(Debug)]
struct Entry {
    value: Bytes,
    until: Instant,
    number: u64,
}

impl Shard {
    fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        let (key, entry) = self.entries.remove_entry(key)?;
        self.bytes -= key.len() + entry.value.len();
        Some(entry)
    }

    fn insert(&mut self, key: Bytes, value: Bytes, until: Instant, bytes_max: usize) {
        self.remove(&key);
        self.bytes += key.len() + value.len();
        self.number += 1;
        let number = self.number;
        let entry = Entry {
            value,
            until,
            number,
        };
        self.entries.insert(key.clone(), entry);
        self.order.push_back((key, number));
        let crowded = |shard: &Shard| {
            shard.bytes > bytes_max || shard.order.len() > 2 * shard.entries.len() + SHARDS
        };
        while crowded(self)
            && let Some((oldest, number)) = self.order.pop_front()
        {
            let entry = self.entries.get(&oldest);
            // One that was put again has a later place.
            if entry.is_some_and(|entry| entry.number == number) {
                self.remove(&oldest);
            }
        }
    }
}

impl Sessions {
    fn new(bytes: u64) -> Sessions {
        Sessions {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: Hasher::default(),
            shard_bytes: usize::try_from(bytes / SHARDS as u64).unwrap_or(usize::MAX),
        }
    }

    fn shard(&self, key: &[u8]) -> std::sync::MutexGuard<'_, Shard> {
        use std::hash::BuildHasher;
        let shard = (self.hasher.hash_one(key) as usize) % self.shards.len();
        // A panic elsewhere leaves a table that is whole.
        self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The zones in use, by name and size.
type Zones = HashMap<(Bytes, u64), Weak<Sessions>>;
static ZONES: LazyLock<Mutex<Zones>> = LazyLock::new(Mutex::default);

/// The sessions of a zone, which stay over reloads while some configuration has it.
#[must_use]
pub fn zone(name: &Bytes, size: u64) -> Arc<Sessions> {
    let mut zones = ZONES.lock().unwrap_or_else(PoisonError::into_inner);
    zones.retain(|_, sessions| sessions.strong_count() > 0);
    let key = (name.clone(), size);
    if let Some(sessions) = zones.get(&key).and_then(Weak::upgrade) {
        return sessions;
    }
    let sessions = Arc::new(Sessions::new(size));
    zones.insert(key, Arc::downgrade(&sessions));
    sessions
}

/// Sessions of one server.
#[must_use]
pub fn builtin(count: u64) -> Arc<Sessions> {
    Arc::new(Sessions::new(count.saturating_mul(SESSION_BYTES)))
}

/// What one server sees of a zone: the sessions that were begun under the same terms.
#[derive(Debug)]
pub struct View {
    pub sessions: Arc<Sessions>,
    /// Stands for certificates and demands on clients.
    pub terms: [u8; 16],
    pub timeout: Duration,
}

impl View {
    fn key(&self, id: &[u8]) -> Vec<u8> {
        [&self.terms[..], id].concat()
    }
}

impl StoresServerSessions for View {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        if value.len() > VALUE_MAX {
            return false;
        }
        let key = Bytes::from(self.key(&key));
        let until = Instant::now() + self.timeout;
        let mut shard = self.sessions.shard(&key);
        shard.insert(key, Bytes::from(value), until, self.sessions.shard_bytes);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let key = self.key(key);
        let shard = self.sessions.shard(&key);
        let entry = shard.entries.get(&key[..])?;
        (entry.until > Instant::now()).then(|| entry.value.to_vec())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let key = self.key(key);
        let entry = self.sessions.shard(&key).remove(&key)?;
        (entry.until > Instant::now()).then(|| entry.value.to_vec())
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(sessions: &Arc<Sessions>, terms: u8) -> View {
        View {
            sessions: Arc::clone(sessions),
            terms: [terms; 16],
            timeout: Duration::from_secs(60),
        }
    }

    #[test]
    fn sessions_are_found_under_their_terms_only() {
        let sessions = Arc::new(Sessions::new(1 << 20));
        let (one, other) = (view(&sessions, 1), view(&sessions, 2));
        assert!(one.put(b"id".to_vec(), b"value".to_vec()));
        assert_eq!(one.get(b"id").as_deref(), Some(&b"value"[..]));
        assert_eq!(other.get(b"id"), None);
        assert_eq!(one.take(b"id").as_deref(), Some(&b"value"[..]));
        assert_eq!(one.take(b"id"), None);
    }

    #[test]
    fn a_full_zone_forgets_the_oldest() {
        let sessions = Arc::new(Sessions::new(ZONE_MIN));
        let view = view(&sessions, 1);
        for number in 0..10_000_u32 {
            assert!(view.put(number.to_be_bytes().to_vec(), vec![0; 100]));
            if number % 3 == 0 {
                assert!(view.take(&number.to_be_bytes()).is_some());
            }
        }
        assert!(view.get(&9_998_u32.to_be_bytes()).is_some());
        assert_eq!(view.get(&1_u32.to_be_bytes()), None);
        for shard in &sessions.shards {
            let shard = shard.lock().expect("no panic");
            assert!(shard.bytes <= ZONE_MIN as usize / SHARDS);
            assert!(shard.order.len() <= 2 * shard.entries.len() + SHARDS);
        }
    }
}
