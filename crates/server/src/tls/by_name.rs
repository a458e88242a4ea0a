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
    kept: Mutex<HashMap<Key, Kept>>,
}

type Key = Vec<(Bytes, Bytes)>;

#[derive(Debug)]
struct Kept {
    http1: Arc<ServerConfig>,
    http2: Arc<ServerConfig>,
    made_ms: u64,
    used_ms: u64,
    is_data: bool,
}

impl ByName {
    #[must_use]
    pub fn new(pairs: Pairs, keep: Keep, base: Base) -> ByName {
        ByName {
            pairs,
            keep,
            base,
            kept: Mutex::default(),
        }
    }

    /// For a connection that may speak HTTP/2, or may not. `request` is what is known before the first one.
    pub fn config(&self, http2: bool, request: &Request) -> Result<Arc<ServerConfig>, String> {
        let value = |(certificate, key): &(Template, Template)| {
            (certificate.evaluate(request), key.evaluate(request))
        };
        let key: Key = self.pairs.iter().map(value).collect();
        let now_ms = thread::monotonic_ms();
        if let Some(found) = self.find(&key, http2, now_ms) {
            return Ok(found);
        }
        let config = Context::of_values(&self.base, &key)?;
        let is_data = key
            .iter()
            .all(|(certificate, key)| certificate.starts_with(DATA) && key.starts_with(DATA));
        let kept = Kept {
            http1: Context::speaking(&config, false),
            http2: Context::speaking(&config, true),
            made_ms: now_ms,
            used_ms: now_ms,
            is_data,
        };
        let chosen = Arc::clone(if http2 { &kept.http2 } else { &kept.http1 });
        self.put(key, kept);
        Ok(chosen)
    }

    fn find(&self, key: &Key, http2: bool, now_ms: u64) -> Option<Arc<ServerConfig>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.get_mut(key)?;
        if !found.is_data {
            let age = now_ms.saturating_sub(found.made_ms);
            let idle = now_ms.saturating_sub(found.used_ms);
            if age >= self.keep.valid_ms || idle >= self.keep.inactive_ms {
                kept.remove(key);
                return None;
            }
        }
        found.used_ms = now_ms;
        Some(Arc::clone(if http2 { &found.http2 } else { &found.http1 }))
    }

    /// Keeps it, in place of what was used longest ago if there are enough.
    fn put(&self, key: Key, new: Kept) {
        let max = match new.is_data {
            true => self.keep.max.max(DATA_MAX),
            false => self.keep.max,
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
