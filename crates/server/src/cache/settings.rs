//! What a location says of the cache, for one family of directives.

use super::directive::Family;
use super::path::Zones;
use super::purge::Purge;
use super::zone::Zone;
use crate::config::setting::Setting;
use crate::http::Request;
use crate::variables::{Template, template};
use bytes::Bytes;
use std::sync::{Arc, LazyLock, OnceLock};
use wire::http1::Method;

/// `proxy_cache`.
#[derive(Debug, Clone, Default)]
pub enum Choice {
    #[default]
    Off,
    Zone(Arc<Named>),
    /// A zone's name that is worked out for each request; nothing and `off` are none.
    Variable(Arc<Template>),
}

/// A zone that is named before it may be known.
#[derive(Debug)]
pub struct Named {
    pub name: Bytes,
    pub zone: OnceLock<Arc<Zone>>,
}

/// `proxy_cache_valid`: seconds by status.
#[derive(Debug, Clone, Default)]
pub struct Valid {
    /// Status 0: any.
    pub times: Vec<(u16, u64)>,
}

impl Valid {
    /// How long a response of this status is kept, in seconds; the first that is named counts.
    #[must_use]
    pub fn seconds(&self, status: u16) -> Option<u64> {
        let named = |&&(named, _): &&(u16, u64)| named == 0 || named == status;
        let found = self.times.iter().find(named)?;
        Some(found.1).filter(|&seconds| seconds > 0)
    }
}

/// `proxy_cache_use_stale`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UseStale(pub u16);

impl UseStale {
    pub const ERROR: u16 = 1;
    pub const TIMEOUT: u16 = 1 << 1;
    pub const INVALID_HEADER: u16 = 1 << 2;
    pub const UPDATING: u16 = 1 << 3;
    pub const OFF: u16 = 1 << 15;
    const STATUSES: [(u16, u16); 7] = [
        (500, 1 << 4),
        (502, 1 << 5),
        (503, 1 << 6),
        (504, 1 << 7),
        (403, 1 << 8),
        (404, 1 << 9),
        (429, 1 << 10),
    ];

    /// The words and their bits. FastCGI has no gateways.
    pub fn words() -> impl Iterator<Item = (String, u16)> {
        let words = [
            ("error", UseStale::ERROR),
            ("timeout", UseStale::TIMEOUT),
            ("invalid_header", UseStale::INVALID_HEADER),
            ("updating", UseStale::UPDATING),
            ("off", UseStale::OFF),
        ];
        let words = words.into_iter().map(|(word, bit)| (word.to_owned(), bit));
        let statuses = UseStale::STATUSES.into_iter();
        words.chain(statuses.map(|(status, bit)| (format!("http_{status}"), bit)))
    }

    /// `off` outweighs all that stands beside it.
    #[must_use]
    pub fn contains(self, condition: u16) -> bool {
        self.0 & UseStale::OFF == 0 && self.0 & condition != 0
    }

    #[must_use]
    pub fn contains_status(self, status: u16) -> bool {
        let mut statuses = UseStale::STATUSES.into_iter();
        statuses.any(|(named, bit)| named == status && self.contains(bit))
    }
}

/// `proxy_cache_methods`: GET, HEAD and POST are a bit each; the first two always belong to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Methods(pub u16);

impl Methods {
    const POST: u16 = 1 << 2;

    #[must_use]
    pub fn contains(self, method: Method) -> bool {
        matches!(method, Method::Get | Method::Head)
            || (self.0 & Methods::POST != 0 && method == Method::Post)
    }
}

/// Conditions of `proxy_cache_bypass` and its kin.
#[derive(Debug, Clone)]
pub struct Conditions {
    pub templates: Arc<Vec<Template>>,
    /// They are made of what a request brings with it.
    pub is_early: bool,
}

impl Default for Conditions {
    fn default() -> Conditions {
        Conditions {
            templates: Arc::default(),
            is_early: true,
        }
    }
}

impl Conditions {
    /// Whether one of them is neither empty nor 0.
    #[must_use]
    pub fn hold(&self, request: &Request) -> bool {
        (self.templates.iter())
            .any(|condition| !matches!(&condition.evaluate(request)[..], b"" | b"0"))
    }
}

impl Setting<Choice> {
    /// Whether a zone was written.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !matches!(self.0, None | Some(Choice::Off))
    }
}

/// `cache_semantics`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Semantics {
    #[default]
    Nginx,
    Rfc9111,
}

crate::config::setting::settings! {
    cache: Choice = Choice::Off,
    key: Option<Arc<Template>> = None,
    /// The key is made of what a request's target and host tell.
    key_is_of_target: bool = true,
    valid: Arc<Valid> = Arc::default(),
    methods: Methods = Methods::default(),
    min_uses: u64 = 1,
    bypass: Conditions = Conditions::default(),
    no_cache: Conditions = Conditions::default(),
    use_stale: UseStale = UseStale::default(),
    background_update: bool = false,
    revalidate: bool = false,
    lock: bool = false,
    lock_timeout_ms: u64 = 5000,
    lock_age_ms: u64 = 5000,
    convert_head: bool = true,
    purge: Option<Arc<Purge>> = None,
    /// Tags that a purge means instead of the key.
    purge_tags: Option<Arc<Template>> = None,
    /// When what is purged stays, out of date.
    purge_soft: Conditions = Conditions::default(),
    semantics: Semantics = Semantics::Nginx,
    /// Fields that stand above Cache-Control (RFC 9213); none written: CDN-Cache-Control where the standard is followed.
    targeted: Option<Arc<Vec<Box<[u8]>>>> = None,
    /// The name of this cache in Cache-Status.
    status_header: Option<Bytes> = None,
    /// Bytes; a range that begins further on is asked of the upstream as it is.
    max_range_offset: Option<u64> = None,
}

/// Whether the variables of a text all tell what a request's target and host do; with `fields`, also its fields.
#[must_use]
pub fn is_of_request(text: &[u8], fields: bool) -> bool {
    const OF_TARGET: [&[u8]; 13] = [
        b"scheme",
        b"https",
        b"request_method",
        b"host",
        b"http_host",
        b"proxy_host",
        b"proxy_port",
        b"request_uri",
        b"uri",
        b"document_uri",
        b"args",
        b"query_string",
        b"is_args",
    ];
    template::names(text).all(|name| {
        let name = name.to_ascii_lowercase();
        OF_TARGET.contains(&&name[..])
            || name.starts_with(b"arg_")
            || (fields && (name.starts_with(b"cookie_") || name.starts_with(b"http_")))
    })
}

impl Settings {
    /// Whether a hit depends on a request's target, host and fields alone.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        matches!(self.cache, Choice::Zone(_))
            && self.key_is_of_target
            && self.bypass.is_early
            && self.purge.is_none()
            && !self.is_strict()
            && self.status_header.is_none()
    }

    /// Whether the standard is followed.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.semantics == Semantics::Rfc9111
    }

    /// The fields that stand above Cache-Control.
    #[must_use]
    pub fn targeted(&self) -> &[Box<[u8]>] {
        static USUAL: LazyLock<Vec<Box<[u8]>>> =
            LazyLock::new(|| vec![b"CDN-Cache-Control"[..].into()]);
        match &self.targeted {
            Some(named) => named,
            None if self.is_strict() => &USUAL,
            None => &[],
        }
    }

    /// Finds the zone that was named, when all are known; an error or a warning in nginx's words.
    pub fn settle(&self, zones: &Zones, family: &Family) -> Result<Option<String>, String> {
        let prefix = family.prefix;
        if let Choice::Zone(named) = &self.cache {
            let Some(zone) = zones.find(&named.name, family.zones) else {
                let name = String::from_utf8_lossy(&named.name);
                return Err(format!("\"{prefix}_cache\" zone \"{name}\" is unknown"));
            };
            let _same_as_before = named.zone.set(Arc::clone(zone));
        }
        if let Some(Purge::Place { zone: named, .. }) = self.purge.as_deref() {
            let Some(zone) = zones.find(&named.name, family.zones) else {
                let name = String::from_utf8_lossy(&named.name);
                return Err(format!(
                    "\"{prefix}_cache_purge\" zone \"{name}\" is unknown"
                ));
            };
            let _same_as_before = named.zone.set(Arc::clone(zone));
        }
        let keyless = !matches!(self.cache, Choice::Off) && self.key.is_none() && !family.has_key;
        Ok(keyless.then(|| format!("no \"{prefix}_cache_key\" for \"{prefix}_cache\"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_of_a_status_counts() {
        let valid = Valid {
            times: vec![(200, 10), (404, 0), (0, 5), (302, 7)],
        };
        for (status, expected) in [(200, Some(10)), (404, None), (302, Some(5)), (500, Some(5))] {
            assert_eq!(valid.seconds(status), expected, "{status}");
        }
        assert_eq!(Valid::default().seconds(200), None);
    }

    #[test]
    fn what_a_key_is_made_of_is_known() {
        for (text, of_target, of_fields) in [
            ("", true, true),
            ("plain", true, true),
            ("$scheme$request_method$host$request_uri", true, true),
            ("${scheme}://$proxy_host$uri$is_args$args", true, true),
            ("$host$ARG_page", true, true),
            ("$host$cookie_user", false, true),
            ("$http_accept", false, true),
            ("$host$remote_addr", false, false),
            ("$host$document_root", false, false),
            ("$1", false, false),
            ("$skip", false, false),
        ] {
            assert_eq!(is_of_request(text.as_bytes(), false), of_target, "{text}");
            assert_eq!(is_of_request(text.as_bytes(), true), of_fields, "{text}");
        }
    }

    #[test]
    fn off_outweighs_other_conditions() {
        let some = UseStale(UseStale::ERROR | 1 << 4);
        assert!(some.contains(UseStale::ERROR) && some.contains_status(500));
        assert!(!some.contains(UseStale::TIMEOUT) && !some.contains_status(502));
        assert!(!UseStale(some.0 | UseStale::OFF).contains_status(500));
    }
}
