//! Certificates whose names have variables in them: worked out when a client's hello is there, read then, and kept for a
//! while (`ssl_certificate_cache`). What stands in the value itself (`data:`) is always kept.

use super::Settings;
use super::context::{Base, Context, DATA};
use crate::config::setting::Complaint;
use crate::http::{Request, thread};
use crate::variables::Template;
use crate::variables::registry::Registry;
use bytes::Bytes;
use rustls::ServerConfig;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Certificates of values that are kept, where nothing else is said.
const DATA_MAX: usize = 64;

/// `ssl_certificate_cache`; all of 0: off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keep {
    pub max: usize,
    pub inactive_ms: u64,
    pub valid_ms: u64,
}

/// What `ssl_certificate` and `ssl_certificate_key` say, in their order.
pub type Pairs = Arc<[(Template, Template)]>;

impl Settings {
    /// Compiles the names of certificates and keys, if there are variables in some.
    pub fn compile_names(&mut self, registry: &mut Registry) -> Result<(), Complaint> {
        let all = || self.certificates.iter().chain(self.keys.iter());
        let is_whole = self.certificates.len() <= self.keys.len();
        if !is_whole || !all().any(|name| name.contains(&b'$')) {
            return Ok(());
        }
        let mut pairs = Vec::with_capacity(self.certificates.len());
        for (certificate, key) in self.certificates.iter().zip(self.keys.iter()) {
            let certificate = Template::compile(certificate, registry)?;
            pairs.push((certificate, Template::compile(key, registry)?));
        }
        self.by_name = Some(pairs.into());
        Ok(())
    }
}

/// The configurations that the certificates of one server have led to.
#[derive(Debug)]
pub struct ByName {
    pub pairs: Pairs,
    pub keep: Keep,
    pub base: Base,
    kept: Store<Both>,
}

/// A configuration that offers HTTP/1 alone, and one that offers HTTP/2, too.
#[derive(Debug, Clone)]
struct Both {
    http1: Arc<ServerConfig>,
    http2: Arc<ServerConfig>,
}

impl Both {
    fn choose(self, http2: bool) -> Arc<ServerConfig> {
        if http2 { self.http2 } else { self.http1 }
    }
}

/// Certificates and keys, by the values that name them.
pub type Key = Vec<(Bytes, Bytes)>;

/// What has been made of certificates that were named so, for a while.
#[derive(Debug)]
pub struct Store<V> {
    kept: Mutex<HashMap<Key, Kept<V>>>,
}

#[derive(Debug)]
struct Kept<V> {
    value: V,
    made_ms: u64,
    used_ms: u64,
    is_data: bool,
}

impl<V> Default for Store<V> {
    fn default() -> Self {
        Store {
            kept: Mutex::default(),
        }
    }
}

impl ByName {
    #[must_use]
    pub fn new(pairs: Pairs, keep: Keep, base: Base) -> ByName {
        ByName {
            pairs,
            keep,
            base,
            kept: Store::default(),
        }
    }

    /// For a connection that may speak HTTP/2, or may not. `request` is what is known before the first one.
    pub fn config(&self, http2: bool, request: &Request) -> Result<Arc<ServerConfig>, String> {
        let value = |(certificate, key): &(Template, Template)| {
            (certificate.evaluate(request), key.evaluate(request))
        };
        let key: Key = self.pairs.iter().map(value).collect();
        let make = |key: &Key| {
            let config = Context::of_values(&self.base, key)?;
            Ok(Both {
                http1: Context::speaking(&config, false),
                http2: Context::speaking(&config, true),
            })
        };
        let both = self.kept.find_or_make(key, self.keep, make)?;
        Ok(both.choose(http2))
    }
}

impl<V: Clone> Store<V> {
    /// What is kept of these certificates, or else is made of them now.
    pub fn find_or_make(
        &self,
        key: Key,
        keep: Keep,
        make: impl FnOnce(&Key) -> Result<V, String>,
    ) -> Result<V, String> {
        let now_ms = thread::monotonic_ms();
        if let Some(found) = self.find(&key, keep, now_ms) {
            return Ok(found);
        }
        let value = make(&key)?;
        let is_data = key
            .iter()
            .all(|(certificate, key)| certificate.starts_with(DATA) && key.starts_with(DATA));
        let kept = Kept {
            value: value.clone(),
            made_ms: now_ms,
            used_ms: now_ms,
            is_data,
        };
        self.put(key, keep, kept);
        Ok(value)
    }

    fn find(&self, key: &Key, keep: Keep, now_ms: u64) -> Option<V> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.get_mut(key)?;
        if !found.is_data {
            let age = now_ms.saturating_sub(found.made_ms);
            let idle = now_ms.saturating_sub(found.used_ms);
            if age >= keep.valid_ms || idle >= keep.inactive_ms {
                kept.remove(key);
                return None;
            }
        }
        found.used_ms = now_ms;
        Some(found.value.clone())
    }

    /// Keeps it, in place of what was used longest ago if there are enough.
    fn put(&self, key: Key, keep: Keep, new: Kept<V>) {
        let max = match new.is_data {
            true => keep.max.max(DATA_MAX),
            false => keep.max,
        };
        if max == 0 {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.len() >= max {
            let oldest = kept.iter().min_by_key(|(_, kept)| kept.used_ms);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                break;
            };
            kept.remove(&oldest);
        }
        kept.insert(key, new);
    }
}
