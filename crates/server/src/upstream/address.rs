//! Where an upstream is, as `proxy_pass`, `fastcgi_pass` and `server` write it: a host with a port, a literal address or
//! a UNIX socket, and what follows them. The complaints are nginx's.

use bytes::Bytes;
use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use sys::address::SocketAddress;

/// The longest path that a UNIX socket's address has room for.
const UNIX_PATH_MAX: usize = 107;

/// A host and what stands around it, without the scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// All of it, for messages.
    pub written: Bytes,
    /// The name or literal address (an IPv6 one with its brackets), or `unix:/path`: what names a group.
    pub host: Bytes,
    /// The written port, or else the default one; 0 for none at all, and for UNIX sockets.
    pub port: u16,
    /// No port was written.
    pub no_port: bool,
    /// For what needs no name server.
    pub address: Option<SocketAddress>,
    /// What follows, from its `/` or `?` on; empty if nothing does.
    pub uri: Bytes,
}

/// What a place may have behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// Nothing.
    Nothing,
    /// A URI, as in `proxy_pass`.
    Uri,
}

impl Place {
    /// Reads `text`; a port that is not written is `default_port`.
    pub fn parse(text: &[u8], default_port: u16, behind: Behind) -> Result<Place, &'static str> {
        if let Some((scheme, path)) = text.split_at_checked(5)
            && scheme.eq_ignore_ascii_case(b"unix:")
        {
            return Place::unix(text, path, behind);
        }
        match text.strip_prefix(b"[") {
            Some(rest) => Place::inet6(text, rest, default_port, behind),
            None => Place::inet(text, default_port, behind),
        }
    }

    fn unix(text: &[u8], rest: &[u8], behind: Behind) -> Result<Place, &'static str> {
        // The path ends at a `:`, behind which the URI begins.
        let colon = (behind == Behind::Uri)
            .then(|| memchr::memchr(b':', rest))
            .flatten();
        let (path, uri) = match colon {
            Some(colon) => (&rest[..colon], &rest[colon + 1..]),
            None => (rest, &rest[rest.len()..]),
        };
        match path.len() {
            0 => Err("no path in the unix domain socket"),
            1..=UNIX_PATH_MAX => Ok(Place {
                written: Bytes::copy_from_slice(text),
                host: Bytes::copy_from_slice(&text[..text.len() - rest.len() + path.len()]),
                port: 0,
                no_port: true,
                address: Some(SocketAddress::Unix(PathBuf::from(OsStr::from_bytes(path)))),
                uri: Bytes::copy_from_slice(uri),
            }),
            _ => Err("too long path in the unix domain socket"),
        }
    }

    fn inet(text: &[u8], default_port: u16, behind: Behind) -> Result<Place, &'static str> {
        let (authority, uri) = split_uri(text, behind)?;
        let (host, port) = match memchr::memchr(b':', authority) {
            Some(colon) => (&authority[..colon], Some(port(&authority[colon + 1..])?)),
            None => (authority, None),
        };
        if host.is_empty() {
            return Err("no host");
        }
        let number = port.unwrap_or(default_port);
        let ip = ipv4(host).map(IpAddr::V4);
        Ok(Place::new(text, host, number, port.is_none(), ip, uri))
    }

    /// What stands in brackets, and what follows them; `rest` begins behind the first bracket.
    fn inet6(
        text: &[u8],
        rest: &[u8],
        default_port: u16,
        behind: Behind,
    ) -> Result<Place, &'static str> {
        let close = memchr::memchr(b']', rest).ok_or("invalid host")?;
        let (host, after) = (&rest[..close], &rest[close + 1..]);
        let (after, uri) = split_uri(after, behind)?;
        let port = match after {
            [] => None,
            [b':', digits @ ..] => Some(port(digits)?),
            _ => return Err("invalid host"),
        };
        if host.is_empty() {
            return Err("no host");
        }
        let ip: Ipv6Addr = std::str::from_utf8(host)
            .ok()
            .and_then(|host| host.parse().ok())
            .ok_or("invalid IPv6 address")?;
        let bracketed = &text[..close + 2];
        let number = port.unwrap_or(default_port);
        let ip = Some(ip.into());
        Ok(Place::new(text, bracketed, number, port.is_none(), ip, uri))
    }

    fn new(
        written: &[u8],
        host: &[u8],
        port: u16,
        no_port: bool,
        ip: Option<IpAddr>,
        uri: &[u8],
    ) -> Place {
        Place {
            written: Bytes::copy_from_slice(written),
            host: Bytes::copy_from_slice(host),
            port,
            no_port,
            address: ip.map(|ip| SocketAddress::Ip(SocketAddr::new(ip, port))),
            uri: Bytes::copy_from_slice(uri),
        }
    }
}

/// The text before the first `/` or `?`, and the text from there on.
fn split_uri(text: &[u8], behind: Behind) -> Result<(&[u8], &[u8]), &'static str> {
    match memchr::memchr2(b'/', b'?', text) {
        None => Ok((text, &[])),
        Some(_) if behind == Behind::Nothing => Err("invalid host"),
        Some(at) => Ok(text.split_at(at)),
    }
}

fn port(digits: &[u8]) -> Result<u16, &'static str> {
    let number = conf::values::parse_number(digits).and_then(|number| number.try_into().ok());
    number.filter(|&port| port > 0).ok_or("invalid port")
}

/// Four numbers with dots, as nginx reads them: a missing number is 0.
fn ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut parts = text.split(|&byte| byte == b'.');
    for octet in &mut octets {
        *octet = parts.next()?.iter().try_fold(0u8, |value, digit| {
            let digit = digit.is_ascii_digit().then(|| digit - b'0')?;
            value.checked_mul(10)?.checked_add(digit)
        })?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_nginx_does() {
        let shown = |text: &str, behind| match Place::parse(text.as_bytes(), 80, behind) {
            Ok(place) => {
                let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
                let address = place.address.map(|address| address.to_string());
                let (host, uri) = (text(&place.host), text(&place.uri));
                let port = (
                    place.port,
                    if place.no_port { "default" } else { "written" },
                );
                format!(
                    "{host} {} {} {} {uri}",
                    port.0,
                    port.1,
                    address.unwrap_or_default()
                )
            }
            Err(message) => message.to_owned(),
        };
        for (text, expected) in [
            ("backend", "backend 80 default  "),
            ("backend:81/a?b", "backend 81 written  /a?b"),
            ("backend?x/y", "backend 80 default  ?x/y"),
            ("127.0.0.1", "127.0.0.1 80 default 127.0.0.1:80 "),
            ("127.0.0.1:8080/", "127.0.0.1 8080 written 127.0.0.1:8080 /"),
            ("127.0.0.256", "127.0.0.256 80 default  "),
            ("127.0.1", "127.0.1 80 default  "),
            ("[::1]", "[::1] 80 default [::1]:80 "),
            ("[::1]:9/x:1", "[::1] 9 written [::1]:9 /x:1"),
            ("a/b:c", "a 80 default  /b:c"),
            ("unix:/tmp/s", "unix:/tmp/s 0 default unix:/tmp/s "),
            ("unix:/tmp/s:/uri", "unix:/tmp/s 0 default unix:/tmp/s /uri"),
            ("UNIX:s:", "UNIX:s 0 default unix:s "),
            ("", "no host"),
            (":80", "no host"),
            ("/x", "no host"),
            ("a:", "invalid port"),
            ("a:0", "invalid port"),
            ("a:65536", "invalid port"),
            ("a:b", "invalid port"),
            ("[]", "no host"),
            ("[::1", "invalid host"),
            ("[::1]x", "invalid host"),
            ("[::1]:", "invalid port"),
            ("[x]", "invalid IPv6 address"),
            ("unix:", "no path in the unix domain socket"),
            ("unix::/a", "no path in the unix domain socket"),
        ] {
            assert_eq!(shown(text, Behind::Uri), expected, "{text}");
        }
        for (text, expected) in [
            ("a/", "invalid host"),
            ("[::1]/", "invalid host"),
            ("unix:/a:/b", "unix:/a:/b 0 default unix:/a:/b "),
        ] {
            assert_eq!(shown(text, Behind::Nothing), expected, "{text}");
        }
        let long = format!("unix:{}", "x".repeat(108));
        assert_eq!(
            shown(&long, Behind::Uri),
            "too long path in the unix domain socket"
        );
    }
}
