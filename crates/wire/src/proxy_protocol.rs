//! The PROXY protocol: what a proxy says of its client before the client's first byte, as a line (version 1) or as a
//! binary header with type-length-values (version 2). https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// The longest line of version 1.
const LINE_MAX: usize = 107;
/// The longest header that is read.
pub const HEADER_MAX: usize = 4096;

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and transport, length of what follows.
const FIXED_LEN: usize = 16;
const VERSION: u8 = 2;
/// The command PROXY, and the transport STREAM; with others the connection speaks for itself.
const PROXY: u8 = 1;
const STREAM: u8 = 1;

const TLV_SSL: u8 = 0x20;
/// In the value of the SSL type: a byte of flags and the result of the verification.
const SSL_FIXED_LEN: usize = 5;

/// Names of types, as variables have them.
const TYPES: &[(&[u8], u8)] = &[
    (b"alpn", 0x01),
    (b"authority", 0x02),
    (b"unique_id", 0x05),
    (b"ssl", TLV_SSL),
    (b"netns", 0x30),
];
/// Names of the types within the SSL type.
const SSL_TYPES: &[(&[u8], u8)] = &[
    (b"version", 0x21),
    (b"cn", 0x22),
    (b"cipher", 0x23),
    (b"sig_alg", 0x24),
    (b"key_alg", 0x25),
];

/// What the proxy said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The client; of version 1 as it was written.
    pub address: Box<str>,
    pub port: u16,
    /// Where the client connected to.
    pub server_address: Box<str>,
    pub server_port: u16,
    tlvs: Box<[u8]>,
}

/// What some first bytes of a connection are.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    /// The beginning of a header.
    Partial,
    /// A header of so many bytes; without a value where the connection speaks for itself.
    Whole(usize, Option<Box<Header>>),
}

/// Why bytes are no header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// So many of the bytes stand in the complaint.
    Line(usize),
    Version(u8),
    TooLarge,
    /// The addresses do not fit their family.
    Addresses,
}

impl fmt::Display for Broken {
    /// nginx's words, but for what was received.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Line(_) => out.write_str("broken header"),
            Broken::Version(version) => write!(out, "unknown PROXY protocol version: {version}"),
            Broken::TooLarge => out.write_str("header is too large"),
            Broken::Addresses => out.write_str("broken addresses in header"),
        }
    }
}

/// Reads the header at the beginning of `bytes`.
pub fn read(bytes: &[u8]) -> Result<Read, Broken> {
    let known = bytes.len().min(SIGNATURE.len());
    if !bytes.is_empty() && bytes[..known] == SIGNATURE[..known] {
        return binary(bytes);
    }
    let line = &bytes[..bytes.len().min(LINE_MAX)];
    match line.windows(2).position(|pair| pair == b"\r\n") {
        Some(end) => text(&line[..end])
            .map(|header| Read::Whole(end + 2, header))
            .ok_or(Broken::Line(end)),
        None if line.len() < LINE_MAX && may_become_text(line) => Ok(Read::Partial),
        None => Err(Broken::Line(
            line.iter()
                .position(|byte| matches!(byte, b'\r' | b'\n'))
                .unwrap_or(line.len()),
        )),
    }
}

/// Whether a line without its end may still be a header.
fn may_become_text(line: &[u8]) -> bool {
    const BEGIN: &[u8] = b"PROXY ";
    let known = line.len().min(BEGIN.len());
    let broken_end = line.contains(&b'\n');
    line[..known] == BEGIN[..known] && !broken_end
}

/// A line of version 1 without its end. The outer `None`: it is none.
fn text(line: &[u8]) -> Option<Option<Box<Header>>> {
    let rest = line.strip_prefix(b"PROXY ")?;
    if rest.starts_with(b"UNKNOWN") {
        return Some(None);
    }
    let rest = rest
        .strip_prefix(b"TCP4 ")
        .or(rest.strip_prefix(b"TCP6 "))?;
    let mut words = rest.split(|&byte| byte == b' ');
    let mut next = || words.next();
    let (address, server_address) = (address(next()?)?, address(next()?)?);
    let (port, server_port) = (port(next()?)?, port(next()?)?);
    words.next().is_none().then(|| {
        Some(Box::new(Header {
            address,
            port,
            server_address,
            server_port,
            tlvs: Box::default(),
        }))
    })
}

/// As in nginx, whatever is made of the characters of addresses.
fn address(word: &[u8]) -> Option<Box<str>> {
    let of_address = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':');
    word.iter().all(of_address).then_some(())?;
    std::str::from_utf8(word).ok().map(Box::from)
}

fn port(word: &[u8]) -> Option<u16> {
    let digits = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(word).ok().filter(|_| digits)?;
    text.parse().ok()
}

/// A header of version 2 whose signature was seen as far as it came.
fn binary(bytes: &[u8]) -> Result<Read, Broken> {
    let Some((fixed, rest)) = bytes.split_at_checked(FIXED_LEN) else {
        return Ok(Read::Partial);
    };
    let (version, command) = (fixed[12] >> 4, fixed[12] & 0x0f);
    let (family, transport) = (fixed[13] >> 4, fixed[13] & 0x0f);
    if version != VERSION {
        return Err(Broken::Version(version));
    }
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if FIXED_LEN + length > HEADER_MAX {
        return Err(Broken::TooLarge);
    }
    let Some(content) = rest.get(..length) else {
        return Ok(Read::Partial);
    };
    let header = match command == PROXY && transport == STREAM {
        true => addresses(family, content)?,
        false => None,
    };
    Ok(Read::Whole(FIXED_LEN + length, header))
}

fn addresses(family: u8, content: &[u8]) -> Result<Option<Box<Header>>, Broken> {
    let size = match family {
        1 => 4,
        2 => 16,
        _ => return Ok(None),
    };
    let ip = |at: usize| -> Option<IpAddr> {
        let octets = content.get(at..at + size)?;
        match size {
            4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).into()),
            _ => Some(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?).into()),
        }
    };
    let port = |at: usize| -> Option<u16> {
        let octets = content.get(at..at + 2)?;
        Some(u16::from_be_bytes(octets.try_into().ok()?))
    };
    let header = || {
        Some(Box::new(Header {
            address: ip(0)?.to_string().into(),
            server_address: ip(size)?.to_string().into(),
            port: port(2 * size)?,
            server_port: port(2 * size + 2)?,
            tlvs: content.get(2 * size + 4..)?.into(),
        }))
    };
    header().map(Some).ok_or(Broken::Addresses)
}

impl Header {
    /// The value of a type by its name in variables: `alpn`, `ssl_cn`, `0x30` … `ssl_verify` is a number in decimals.
    #[must_use]
    pub fn tlv(&self, name: &[u8]) -> Option<Vec<u8>> {
        if let Some(name) = name.strip_prefix(b"ssl_") {
            let ssl = find(&self.tlvs, TLV_SSL)?;
            let inner = ssl.get(SSL_FIXED_LEN..)?;
            if name == b"verify" {
                let verify = <[u8; 4]>::try_from(ssl.get(1..SSL_FIXED_LEN)?).ok()?;
                return Some(u32::from_be_bytes(verify).to_string().into_bytes());
            }
            return find(inner, number(name, SSL_TYPES)?).map(<[u8]>::to_vec);
        }
        find(&self.tlvs, number(name, TYPES)?).map(<[u8]>::to_vec)
    }
}

/// The type of a name: one of the table, or `0x` and two digits.
fn number(name: &[u8], names: &[(&[u8], u8)]) -> Option<u8> {
    if let Some(digits) = name.strip_prefix(b"0x") {
        let text = std::str::from_utf8(digits).ok()?;
        return match digits.len() {
            1..=2 if digits.iter().all(u8::is_ascii_hexdigit) => u8::from_str_radix(text, 16).ok(),
            _ => None,
        };
    }
    let row = names.iter().find(|(known, _)| *known == name);
    row.map(|(_, kind)| *kind)
}

/// The first value of a type; what does not fit ends the list.
fn find(mut tlvs: &[u8], wanted: u8) -> Option<&[u8]> {
    loop {
        let &[kind, high, low, ref rest @ ..] = tlvs else {
            return None;
        };
        let length: Range<usize> = 0..usize::from(u16::from_be_bytes([high, low]));
        let value = rest.get(length.clone())?;
        if kind == wanted {
            return Some(value);
        }
        tlvs = rest.get(length.end..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> String {
        match read(bytes) {
            Ok(Read::Partial) => "partial".into(),
            Ok(Read::Whole(length, None)) => format!("{length}"),
            Ok(Read::Whole(length, Some(header))) => format!(
                "{length} {} {} {} {}",
                header.address, header.port, header.server_address, header.server_port
            ),
            Err(Broken::Line(length)) => format!("broken {length}"),
            Err(broken) => broken.to_string(),
        }
    }

    fn version_2(command: u8, family: u8, length: u16, content: &[u8]) -> Vec<u8> {
        let [high, low] = length.to_be_bytes();
        [SIGNATURE, &[command, family, high, low], content].concat()
    }

    #[test]
    fn lines_are_read_as_nginx_reads_them() {
        for (text, expected) in [
            (
                "PROXY TCP4 1.2.3.4 5.6.7.8 90 80\r\nGET",
                "34 1.2.3.4 90 5.6.7.8 80",
            ),
            (
                "PROXY TCP6 ::1 fe80::0001 1 65535\r\n",
                "35 ::1 1 fe80::0001 65535",
            ),
            ("PROXY TCP4 1 1 090 0\r\n", "22 1 90 1 0"),
            ("PROXY TCP4  5.6.7.8 90 80\r\n", "27  90 5.6.7.8 80"),
            ("PROXY UNKNOWN\r\n", "15"),
            ("PROXY UNKNOWNx y\r\n", "18"),
            ("PROXY TCP4 1.2.3.4 5.6.7.8 90 65536\r\n", "broken 35"),
            ("PROXY TCP4 x 5.6.7.8 90 80\r\n", "broken 26"),
            ("PROXY TCP5 1.2.3.4 1.1.1.1 1 1\r\n", "broken 30"),
            ("PROXY TCP4 ::1 1.1.1.1 1 \r\n", "broken 25"),
            ("PROXY TCP4 ::1 1.1.1.1 1 1 \r\n", "broken 27"),
            ("PROXY TCP4 1.2.3.4 5.6.7.8 90 80\n", "broken 32"),
            ("GET / HTTP/1.0\r\n", "broken 14"),
            ("G", "broken 1"),
            ("", "partial"),
            ("PRO", "partial"),
            ("PROXY TCP4 1.2.3.4\r", "partial"),
            ("\r\n\r\n", "partial"),
        ] {
            assert_eq!(shown(text.as_bytes()), expected, "{text:?}");
        }
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(100));
        assert_eq!(shown(long.as_bytes()), "broken 107");
    }

    #[test]
    fn binary_headers() {
        let content = [&[1, 2, 3, 4, 5, 6, 7, 8, 0, 90, 0, 80][..]].concat();
        for (bytes, expected) in [
            (
                version_2(0x21, 0x11, 12, &content),
                "28 1.2.3.4 90 5.6.7.8 80",
            ),
            (version_2(0x20, 0x11, 12, &content), "28"),
            (version_2(0x21, 0x12, 12, &content), "28"),
            (version_2(0x2f, 0x11, 12, &content), "28"),
            (version_2(0x21, 0x31, 12, &content), "28"),
            (version_2(0x21, 0x01, 0, &content), "16"),
            (
                version_2(0x31, 0x11, 12, &content),
                "unknown PROXY protocol version: 3",
            ),
            (
                version_2(0x21, 0x21, 12, &content),
                "broken addresses in header",
            ),
            (
                version_2(0x21, 0x11, 6, &content),
                "broken addresses in header",
            ),
            (version_2(0x21, 0x11, 13, &content), "partial"),
            (version_2(0x21, 0x11, 4096, &content), "header is too large"),
        ] {
            assert_eq!(shown(&bytes), expected, "{bytes:?}");
            for end in 0..bytes.len().min(FIXED_LEN) {
                assert_eq!(shown(&bytes[..end]), "partial");
            }
        }
    }

    #[test]
    fn types_are_found_by_name() {
        let ssl = [
            &[1, 0, 0, 0, 7, 0x21, 0, 3][..],
            b"1.3",
            &[0x22, 0, 1, b'c'],
        ]
        .concat();
        let tlvs = [
            &[0x01, 0, 2][..],
            b"h2",
            &[TLV_SSL, 0, ssl.len() as u8],
            &ssl,
            &[0x30, 0, 9, 1],
        ]
        .concat();
        let content = [&[1, 2, 3, 4, 5, 6, 7, 8, 0, 90, 0, 80][..], &tlvs].concat();
        let bytes = version_2(0x21, 0x11, content.len() as u16, &content);
        let Ok(Read::Whole(_, Some(header))) = read(&bytes) else {
            panic!("a header");
        };
        for (name, expected) in [
            ("alpn", Some("h2")),
            ("0x01", Some("h2")),
            ("0x1", Some("h2")),
            ("ssl_version", Some("1.3")),
            ("ssl_0x22", Some("c")),
            ("ssl_cn", Some("c")),
            ("ssl_verify", Some("7")),
            ("ssl_cipher", None),
            ("netns", None),
            ("authority", None),
            ("other", None),
        ] {
            let expected = expected.map(|text| text.as_bytes().to_vec());
            assert_eq!(header.tlv(name.as_bytes()), expected, "{name}");
        }
    }
}
