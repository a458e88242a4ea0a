//! What the cache did with a request: for `$upstream_cache_status` and its kin, the log, and what an upstream is asked.

use super::Request;
use bytes::Bytes;

/// How a response and the cache have to do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheStatus {
    Miss,
    Bypass,
    Expired,
    Stale,
    Updating,
    Revalidated,
    Hit,
}

impl CacheStatus {
    /// nginx's words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            CacheStatus::Miss => "MISS",
            CacheStatus::Bypass => "BYPASS",
            CacheStatus::Expired => "EXPIRED",
            CacheStatus::Stale => "STALE",
            CacheStatus::Updating => "UPDATING",
            CacheStatus::Revalidated => "REVALIDATED",
            CacheStatus::Hit => "HIT",
        }
    }
}

/// A kept response that may be sent again as it was: who keeps it says for what, and how long.
pub trait Keepsake: std::fmt::Debug {
    /// The target of the requests that it answers, as clients send it.
    fn target(&self) -> &[u8];
    /// Whether a request of this target means it.
    fn is_for(&self, request: &Request) -> bool;
    /// The body, as long as it is kept and holds.
    fn bytes(&self) -> Option<Bytes>;
    /// Tells a request what it is answered from.
    fn note(&self, request: &mut Request);
}

/// What is known of a request that the cache was asked for.
#[derive(Debug, Clone)]
pub struct Cached {
    pub status: CacheStatus,
    pub key: Bytes,
    /// When the response that is kept came, in seconds since 1970.
    pub stored: Option<i64>,
    /// The response may be kept: the upstream is asked for all of it, whatever part the client wants.
    pub is_fetch: bool,
    /// It is the whole response, so that conditions and ranges are the server's matter.
    pub is_whole: bool,
    /// With these the upstream is asked whether what is kept still holds.
    pub last_modified: Option<i64>,
    pub etag: Bytes,
    /// Why the upstream was asked, in RFC 9211's words.
    pub forwarded: Option<&'static str>,
    /// What it answered.
    pub forwarded_status: Option<u16>,
    /// Seconds that the response still holds; negative where it is out of date.
    pub ttl: Option<i64>,
    /// What came is kept.
    pub is_kept: bool,
    /// Another request fetched what this one was answered with.
    pub is_collapsed: bool,
    /// The cache follows RFC 9111.
    pub is_strict: bool,
}

impl Cached {
    #[must_use]
    pub fn new(status: CacheStatus, key: Bytes) -> Cached {
        Cached {
            status,
            key,
            stored: None,
            is_fetch: false,
            is_whole: false,
            last_modified: None,
            etag: Bytes::new(),
            forwarded: None,
            forwarded_status: None,
            ttl: None,
            is_kept: false,
            is_collapsed: false,
            is_strict: false,
        }
    }
}
