//! `Cache-Status` (RFC 9211): what the cache did with a request, for whoever looks at the response.

use super::settings;
use crate::cache::settings::Choice;
use crate::http::cached::Cached;
use crate::http::{Request, Response};
use crate::upstream::settings::Family;

/// Adds the field where `cache_status_header` names this cache.
pub fn tell(request: &Request, family: Family, response: &mut Response) {
    let rules = settings(request, family);
    let Some(name) = &rules.status_header else {
        return;
    };
    if matches!(rules.cache, Choice::Off) {
        return;
    }
    let mut value = name.to_vec();
    value.extend_from_slice(
        match &request.cached {
            Some(cached) => parameters(cached),
            None => "; fwd=method".into(),
        }
        .as_bytes(),
    );
    response.headers.push("Cache-Status", value);
}

fn parameters(cached: &Cached) -> String {
    let mut text = match cached.forwarded {
        None => "; hit".to_owned(),
        Some(reason) => format!("; fwd={reason}"),
    };
    if let Some(status) = cached.forwarded_status {
        text += &format!("; fwd-status={status}");
    }
    if let Some(ttl) = cached.ttl {
        text += &format!("; ttl={ttl}");
    }
    if cached.is_kept {
        text += "; stored";
    }
    if cached.is_collapsed {
        text += "; collapsed";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::cached::CacheStatus;
    use bytes::Bytes;

    #[test]
    fn parameters_are_those_of_the_standard() {
        let cached = |change: fn(&mut Cached)| {
            let mut cached = Cached::new(CacheStatus::Hit, Bytes::new());
            change(&mut cached);
            parameters(&cached)
        };
        assert_eq!(cached(|_| {}), "; hit");
        assert_eq!(cached(|c| c.ttl = Some(-3)), "; hit; ttl=-3");
        let fetched = cached(|c| {
            c.forwarded = Some("stale");
            c.forwarded_status = Some(304);
            c.ttl = Some(60);
            c.is_kept = true;
        });
        assert_eq!(fetched, "; fwd=stale; fwd-status=304; ttl=60; stored");
    }
}
