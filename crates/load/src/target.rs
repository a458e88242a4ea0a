//! URLs: what is connected to, and what is asked for there.

use std::net::{SocketAddr, ToSocketAddrs};

/// A URL longer than this is refused.
const URL_MAX: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// A server: scheme, name and port, and once resolved its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub scheme: Scheme,
    /// Without brackets.
    pub host: String,
    pub port: u16,
    /// As the Host field names it: with brackets where needed, without the scheme's own port.
    pub authority: String,
    pub addresses: Vec<SocketAddr>,
}

/// A URL, cut in two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub endpoint: Endpoint,
    /// Path and query, never empty.
    pub path: String,
}

impl Target {
    /// Reads `http://host[:port][/path][?query]`; without a scheme it is HTTP. A fragment is dropped, as browsers do.
    pub fn parse(url: &str) -> Result<Target, String> {
        let wrong = |what: &str| format!("invalid URL \"{}\": {what}", shorten(url));
        if url.len() > URL_MAX {
            return Err(wrong("too long"));
        }
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (Scheme::Http, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (Scheme::Https, rest),
            Some((scheme, _)) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
                return Err(wrong("the scheme is neither http nor https"));
            }
            _ => (Scheme::Http, url),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(wrong(
                "a user in it is not supported; use -H 'Authorization: …'",
            ));
        }
        let (host, port) = split_port(authority).ok_or_else(|| wrong("invalid port"))?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let usual = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
        if bare.is_empty() || !bare.chars().all(usual) {
            return Err(wrong("no host name"));
        }
        if path.chars().any(|c| c.is_control() || c == ' ') {
            return Err(wrong("blanks and control characters must be escaped"));
        }
        let port_number = port.unwrap_or(scheme.port());
        let authority = match port {
            Some(port) if port != scheme.port() => format!("{host}:{port}"),
            _ => host.to_owned(),
        };
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Target {
            endpoint: Endpoint {
                scheme,
                host: bare.to_owned(),
                port: port_number,
                authority,
                addresses: Vec::new(),
            },
            path: format!("{slash}{path}"),
        })
    }
}

/// Host and port of an authority; `None` for a port that is none.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.rfind(']') {
        Some(end) => {
            let (host, rest) = authority.split_at(end + 1);
            (host, rest.strip_prefix(':'))
        }
        None => match authority.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    match port {
        None => Some((host, None)),
        Some(port) => match port.parse() {
            Ok(port) if port != 0 => Some((host, Some(port))),
            _ => None,
        },
    }
}

fn shorten(url: &str) -> String {
    if url.chars().count() <= 100 {
        url.to_owned()
    } else {
        format!("{}…", url.chars().take(100).collect::<String>())
    }
}

impl Endpoint {
    /// Looks the name up; the complaint is one line.
    pub fn resolve(&mut self) -> Result<(), String> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        self.addresses = found
            .map_err(|error| format!("cannot find {}: {}", self.host, plain(&error)))?
            .collect();
        if self.addresses.is_empty() {
            return Err(format!("cannot find {}: it has no address", self.host));
        }
        Ok(())
    }

    /// Whether a URL leads to the same server.
    pub fn is_same(&self, other: &Endpoint) -> bool {
        (self.scheme, self.port) == (other.scheme, other.port)
            && self.host.eq_ignore_ascii_case(&other.host)
    }
}

/// An error of the system without its number.
pub fn plain(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => sys::errno::text(number),
        // One line, whatever a library has to say.
        None => error.to_string().replace('\n', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_cut() {
        for (url, scheme, host, port, authority, path) in [
            ("http://a", Scheme::Http, "a", 80, "a", "/"),
            ("a:8080/x?y#z", Scheme::Http, "a", 8080, "a:8080", "/x?y"),
            ("HTTPS://a.b/", Scheme::Https, "a.b", 443, "a.b", "/"),
            ("https://a:443?q", Scheme::Https, "a", 443, "a", "/?q"),
            ("http://[::1]:81/", Scheme::Http, "::1", 81, "[::1]:81", "/"),
            ("http://[::1]", Scheme::Http, "::1", 80, "[::1]", "/"),
            ("a/http://b", Scheme::Http, "a", 80, "a", "/http://b"),
        ] {
            let target = Target::parse(url).expect(url);
            let endpoint = &target.endpoint;
            assert_eq!(endpoint.scheme, scheme, "{url}");
            assert_eq!(endpoint.host, host, "{url}");
            assert_eq!(endpoint.port, port, "{url}");
            assert_eq!(endpoint.authority, authority, "{url}");
            assert_eq!(target.path, path, "{url}");
        }
    }

    #[test]
    fn other_urls_are_refused() {
        for url in [
            "",
            "http://",
            "ftp://a/",
            "http://a:0/",
            "http://a:x/",
            "http://a:70000/",
            "http://u:p@a/",
            "http://a b/",
            "http://a/b c",
            "http://a/\r\nX: y",
            "http:///x",
            "/x",
        ] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
        assert!(Target::parse(&"a".repeat(URL_MAX + 1)).is_err());
    }
}
