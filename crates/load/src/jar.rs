//! A user's cookies (RFC 6265, 5.3 and 5.4): what responses set, and what goes with the next request. Time is given, in
//! seconds since 1970.

use cookie::Cookie;
use std::net::IpAddr;

/// Cookies of a user; the oldest goes.
pub const COOKIES_MAX: usize = 200;
/// Bytes of a line that sets one; a longer one is left out.
const LINE_MAX: usize = 4096;

/// Where a response came from, or a request goes.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Without brackets.
    pub host: &'a str,
    /// Path and query.
    pub path: &'a [u8],
    pub is_secure: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    name: String,
    value: String,
    domain: String,
    /// Only for the very host that set it.
    host_only: bool,
    path: String,
    secure: bool,
    ends_s: Option<i64>,
}

/// The cookies of one user.
#[derive(Clone, Debug, Default)]
pub struct Jar {
    /// In the order in which they were first set.
    held: Vec<Held>,
}

impl Jar {
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Takes what the fields `Set-Cookie` of a head set.
    pub fn take_head(&mut self, head: &[u8], place: Place<'_>, now_s: i64) {
        for line in head.split(|byte| *byte == b'\n') {
            let Some((name, value)) = line.split_at_checked("set-cookie:".len()) else {
                continue;
            };
            if name.eq_ignore_ascii_case(b"set-cookie:") && value.len() <= LINE_MAX {
                self.take(&String::from_utf8_lossy(value), place, now_s);
            }
        }
    }

    fn take(&mut self, line: &str, place: Place<'_>, now_s: i64) {
        let Ok(cookie) = Cookie::parse(line.trim()) else {
            return;
        };
        let host = place.host.to_ascii_lowercase();
        let domain = cookie.domain().unwrap_or_default();
        let domain = domain.trim_start_matches('.').to_ascii_lowercase();
        let host_only = domain.is_empty() || domain == host;
        // A name without a dot would reach every server below it.
        let is_allowed = host_only || (domain.contains('.') && matches_domain(&host, &domain));
        if !is_allowed {
            return;
        }
        let path = cookie.path().filter(|path| path.starts_with('/'));
        let held = Held {
            name: cookie.name().to_owned(),
            value: cookie.value().to_owned(),
            host_only: host_only && cookie.domain().is_none_or(|domain| domain.is_empty()),
            domain: if host_only { host } else { domain },
            path: path.map_or_else(|| default_path(place.path), str::to_owned),
            secure: cookie.secure().unwrap_or(false),
            ends_s: match (cookie.max_age(), cookie.expires_datetime()) {
                (Some(age), _) => Some(now_s.saturating_add(age.whole_seconds())),
                (None, Some(date)) => Some(date.unix_timestamp()),
                (None, None) => None,
            },
        };
        let is_over = held.ends_s.is_some_and(|end| end <= now_s);
        let is_same = |other: &Held| {
            (&other.name, &other.domain, &other.path) == (&held.name, &held.domain, &held.path)
        };
        match self.held.iter().position(is_same) {
            Some(index) if is_over => drop(self.held.remove(index)),
            Some(index) => self.held[index] = held,
            None if is_over => {}
            None => {
                if self.held.len() >= COOKIES_MAX {
                    self.held.remove(0);
                }
                self.held.push(held);
            }
        }
    }

    /// Appends the value of the field `Cookie`; nothing where there is none to send. Longer paths come first.
    pub fn write(&self, place: Place<'_>, now_s: i64, out: &mut Vec<u8>) {
        let path = bare(place.path);
        let goes = |held: &&Held| {
            let host = place.host;
            let is_for_host = match held.host_only || host.parse::<IpAddr>().is_ok() {
                true => host.eq_ignore_ascii_case(&held.domain),
                false => matches_domain(&host.to_ascii_lowercase(), &held.domain),
            };
            is_for_host
                && (place.is_secure || !held.secure)
                && held.ends_s.is_none_or(|end| end > now_s)
                && matches_path(path, held.path.as_bytes())
        };
        let mut going: Vec<&Held> = self.held.iter().filter(goes).collect();
        going.sort_by_key(|held| std::cmp::Reverse(held.path.len()));
        for held in going {
            if !out.is_empty() {
                out.extend_from_slice(b"; ");
            }
            out.extend_from_slice(held.name.as_bytes());
            out.push(b'=');
            out.extend_from_slice(held.value.as_bytes());
        }
    }
}

/// 5.1.3; both in lower case.
fn matches_domain(host: &str, domain: &str) -> bool {
    let is_below = |rest: &str| rest.ends_with('.') && host.parse::<IpAddr>().is_err();
    host == domain || host.strip_suffix(domain).is_some_and(is_below)
}

/// 5.1.4
fn matches_path(path: &[u8], of_cookie: &[u8]) -> bool {
    path.strip_prefix(of_cookie)
        .is_some_and(|rest| rest.is_empty() || of_cookie.ends_with(b"/") || rest.starts_with(b"/"))
}

/// The path without its query.
fn bare(path: &[u8]) -> &[u8] {
    path.split(|byte| *byte == b'?').next().unwrap_or_default()
}

/// 5.1.4: up to the last slash, which only stays where it is the first.
fn default_path(path: &[u8]) -> String {
    let path = bare(path);
    let last = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    match path.get(..last) {
        Some(folder) if !folder.is_empty() => String::from_utf8_lossy(folder).into_owned(),
        _ => "/".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place<'a>(host: &'a str, path: &'a str, is_secure: bool) -> Place<'a> {
        Place {
            host,
            path: path.as_bytes(),
            is_secure,
        }
    }

    fn sent(jar: &Jar, place: Place<'_>, now_s: i64) -> String {
        let mut out = Vec::new();
        jar.write(place, now_s, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn cookies_go_where_they_belong() {
        let from = place("shop.example.org", "/a/b?q=/c/", false);
        for (line, host, path, secure, expected) in [
            ("k=v", "shop.example.org", "/a/x", false, "k=v"),
            ("k=v", "shop.example.org", "/a", false, "k=v"),
            ("k=v", "shop.example.org", "/ab", false, ""),
            ("k=v", "SHOP.example.org", "/a/", false, "k=v"),
            ("k=v", "example.org", "/a/", false, ""),
            ("k=v; Path=/", "shop.example.org", "/", false, "k=v"),
            ("k=v; Path=/z", "shop.example.org", "/z?y", false, "k=v"),
            ("k=v; path=nonsense", "shop.example.org", "/", false, ""),
            (
                "k=v; Domain=example.org; Path=/",
                "www.example.org",
                "/",
                false,
                "k=v",
            ),
            (
                "k=v; Domain=.Example.org; Path=/",
                "example.org",
                "/",
                false,
                "k=v",
            ),
            (
                "k=v; Domain=shop.example.org; Path=/",
                "x.shop.example.org",
                "/",
                false,
                "k=v",
            ),
            (
                "k=v; Domain=org; Path=/",
                "shop.example.org",
                "/",
                false,
                "",
            ),
            ("k=v; Domain=other.org; Path=/", "other.org", "/", false, ""),
            ("k=v; Secure; Path=/", "shop.example.org", "/", false, ""),
            (
                "k=v; Secure; HttpOnly; Path=/",
                "shop.example.org",
                "/",
                true,
                "k=v",
            ),
            ("k=v; Max-Age=0; Path=/", "shop.example.org", "/", true, ""),
            (
                "k=v; Max-Age=10; Path=/",
                "shop.example.org",
                "/",
                true,
                "k=v",
            ),
            ("k=v; Max-Age=5; Path=/", "shop.example.org", "/", true, ""),
            (
                "k=v; Expires=Thu, 01 Jan 1970 00:00:01 GMT; Path=/",
                "shop.example.org",
                "/",
                true,
                "",
            ),
            ("=; nothing", "shop.example.org", "/a/", false, ""),
        ] {
            let mut jar = Jar::default();
            let head = format!("HTTP/1.1 200 OK\r\nA: b\r\nset-cookie: {line}\r\n\r\n");
            jar.take_head(head.as_bytes(), from, 1000);
            assert_eq!(
                sent(&jar, place(host, path, secure), 1005),
                expected,
                "{line} to {host}{path}"
            );
        }
    }

    #[test]
    fn the_last_value_counts_and_their_number_is_bounded() {
        let from = place("127.0.0.1", "/", false);
        let mut jar = Jar::default();
        for line in [
            "a=1",
            "b=2; Path=/deep",
            "a=3",
            "c=4; Domain=0.0.1",
            "d=5",
            "d=; Max-Age=-1",
        ] {
            jar.take(line, from, 0);
        }
        assert_eq!(
            sent(&jar, place("127.0.0.1", "/deep/er", false), 0),
            "b=2; a=3"
        );
        for n in 0..1000 {
            jar.take(&format!("n{n}=x"), from, 0);
        }
        assert_eq!(jar.held.len(), COOKIES_MAX);
    }
}
