//! One header line (RFC 9112, 5) as nginx reads it, and the table of names the server acts on.
//! A field is two spans into the caller's buffer: nothing is copied or allocated for it.

use super::Error;
use memchr::memchr2;

/// A range of bytes in the buffer a head was parsed from, as 32-bit offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Span {
        Span {
            start: start as u32,
            end: end as u32,
        }
    }

    /// The bytes in `buf`, which must be the buffer the span was made from; empty if it is too short.
    #[inline]
    pub fn of<'a>(&self, buf: &'a [u8]) -> &'a [u8] {
        buf.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// A header field: name as sent, value without the spaces around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: Span,
    pub value: Span,
    pub known: Known,
}

/// How field names are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameRules {
    /// Drop fields whose name has unusual characters; otherwise they are kept as they are.
    pub ignore_invalid_headers: bool,
    /// Whether `_` is usual.
    pub underscores_in_headers: bool,
}

const BAD: u8 = 0;
const USUAL: u8 = 1;
const UNDERSCORE: u8 = 2;
const UNUSUAL: u8 = 3;
const COLON: u8 = 4;

/// The class of every byte in a field name: controls, space and DEL refuse the request.
static NAME_CLASS: [u8; 256] = {
    let mut table = [UNUSUAL; 256];
    let mut b = 0;
    while b <= 0x20 {
        table[b] = BAD;
        b += 1;
    }
    table[0x7f] = BAD;
    let mut b = 0u8;
    while b < 128 {
        if b.is_ascii_alphanumeric() || b == b'-' {
            table[b as usize] = USUAL;
        }
        b += 1;
    }
    table[b'_' as usize] = UNDERSCORE;
    table[b':' as usize] = COLON;
    table
};

/// Parses one header line (its end removed) that starts at offset `base` of the caller's buffer.
/// `Ok(None)` is a field that the rules drop. A line without a colon is a name with an empty value, as in nginx.
pub(super) fn parse_line(
    line: &[u8],
    base: usize,
    rules: NameRules,
) -> Result<Option<Field>, Error> {
    let mut unusual = false;
    let mut name_end = 0;
    for &b in line {
        match NAME_CLASS[b as usize] {
            USUAL => {}
            COLON => break,
            UNDERSCORE => unusual |= !rules.underscores_in_headers,
            UNUSUAL => unusual = true,
            _ => return Err(Error::InvalidHeaderLine),
        }
        name_end += 1;
    }
    if name_end == 0 {
        return Err(Error::InvalidHeaderLine);
    }
    let mut start = (name_end + 1).min(line.len());
    let mut end = line.len();
    if memchr2(b'\r', 0, &line[start..]).is_some() {
        return Err(Error::InvalidHeaderLine);
    }
    if unusual && rules.ignore_invalid_headers {
        return Ok(None);
    }
    // Spaces only: nginx leaves tabs in the value.
    while start < end && line[start] == b' ' {
        start += 1;
    }
    while start < end && line[end - 1] == b' ' {
        end -= 1;
    }
    Ok(Some(Field {
        name: Span::new(base, base + name_end),
        value: Span::new(base + start, base + end),
        known: Known::from_name(&line[..name_end]),
    }))
}

macro_rules! known_fields {
    ($($variant:ident $name:literal,)*) => {
        /// The field names the server acts on; everything else is `Other`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Known { #[default] Other, $($variant,)* }

        const NAMES: &[(&str, Known)] = &[$(($name, Known::$variant),)*];

        impl Known {
            /// The lower-case name; empty for `Other`.
            pub fn as_str(self) -> &'static str {
                match self { Known::Other => "", $(Known::$variant => $name,)* }
            }
        }
    };
}

known_fields! {
    Te "te",
    Age "age",
    Via "via",
    Date "date",
    Etag "etag",
    Host "host",
    Link "link",
    Vary "vary",
    Allow "allow",
    Depth "depth",
    Range "range",
    Accept "accept",
    Cookie "cookie",
    Expect "expect",
    Origin "origin",
    Pragma "pragma",
    Server "server",
    Status "status",
    Expires "expires",
    IfMatch "if-match",
    IfRange "if-range",
    Purpose "purpose",
    Referer "referer",
    Refresh "refresh",
    Trailer "trailer",
    Upgrade "upgrade",
    Location "location",
    Priority "priority",
    EarlyData "early-data",
    Forwarded "forwarded",
    Overwrite "overwrite",
    XRealIp "x-real-ip",
    SetCookie "set-cookie",
    Connection "connection",
    KeepAlive "keep-alive",
    UserAgent "user-agent",
    Destination "destination",
    ContentType "content-type",
    AcceptRanges "accept-ranges",
    IfNoneMatch "if-none-match",
    LastModified "last-modified",
    Authorization "authorization",
    CacheControl "cache-control",
    ContentRange "content-range",
    XAccelCharset "x-accel-charset",
    XAccelExpires "x-accel-expires",
    XForwardedFor "x-forwarded-for",
    AcceptEncoding "accept-encoding",
    AcceptLanguage "accept-language",
    ContentLength "content-length",
    XAccelRedirect "x-accel-redirect",
    XForwardedHost "x-forwarded-host",
    XForwardedProto "x-forwarded-proto",
    ContentEncoding "content-encoding",
    WwwAuthenticate "www-authenticate",
    XAccelBuffering "x-accel-buffering",
    IfModifiedSince "if-modified-since",
    TransferEncoding "transfer-encoding",
    XAccelLimitRate "x-accel-limit-rate",
    ProxyConnection "proxy-connection",
    ProxyAuthenticate "proxy-authenticate",
    ContentDisposition "content-disposition",
    IfUnmodifiedSince "if-unmodified-since",
    ProxyAuthorization "proxy-authorization",
}

/// No known name is longer.
const LONGEST: usize = 32;

/// For each length, the indexes of the known names of that length, chained: `FIRST[len]`, then `NEXT[i]`.
const NONE: u8 = u8::MAX;
static CHAINS: ([u8; LONGEST], [u8; NAMES.len()]) = {
    let mut first = [NONE; LONGEST];
    let mut next = [NONE; NAMES.len()];
    let mut i = NAMES.len();
    while i > 0 {
        i -= 1;
        let len = NAMES[i].0.len();
        next[i] = first[len];
        first[len] = i as u8;
    }
    (first, next)
};

impl Known {
    /// Looks a name up, whatever its case.
    pub fn from_name(name: &[u8]) -> Known {
        let mut at = match CHAINS.0.get(name.len()) {
            Some(&at) => at,
            None => return Known::Other,
        };
        while at != NONE {
            let (candidate, known) = NAMES[at as usize];
            let candidate = candidate.as_bytes();
            if candidate[0] == name[0] | 0x20 && candidate.eq_ignore_ascii_case(name) {
                return known;
            }
            at = CHAINS.1[at as usize];
        }
        Known::Other
    }
}

/// The first field of the kind.
pub fn find(fields: &[Field], known: Known) -> Option<&Field> {
    fields.iter().find(|field| field.known == known)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: NameRules = NameRules {
        ignore_invalid_headers: true,
        underscores_in_headers: false,
    };

    type NameAndValue<'a> = (&'a [u8], &'a [u8]);

    /// `Ok(None)` is a dropped line.
    fn read(line: &[u8], rules: NameRules) -> Result<Option<NameAndValue<'_>>, Error> {
        let field = parse_line(line, 0, rules)?;
        Ok(field.map(|f| (f.name.of(line), f.value.of(line))))
    }

    #[test]
    fn every_known_name_is_found_in_any_case() {
        for (name, known) in NAMES {
            assert!(name.len() < LONGEST);
            assert_eq!(Known::from_name(name.as_bytes()), *known, "{name}");
            assert_eq!(Known::from_name(name.to_uppercase().as_bytes()), *known);
            assert_eq!(known.as_str(), *name);
        }
        assert_eq!(Known::from_name(b"x-other"), Known::Other);
        assert_eq!(Known::from_name(b""), Known::Other);
        assert_eq!(Known::from_name(&[b'a'; 100]), Known::Other);
    }

    /// Each row was sent to nginx 1.22.
    #[test]
    fn lines_as_nginx_reads_them() {
        for (line, value) in [
            (&b"X: v"[..], &b"v"[..]),
            (b"X:v", b"v"),
            (b"X:  v  ", b"v"),
            (b"X:\tv\t", b"\tv\t"),
            (b"X: a b  c", b"a b  c"),
            (b"X: a\x01b", b"a\x01b"),
            (b"X: a\x7fb", b"a\x7fb"),
            (b"X: a\x80b", b"a\x80b"),
            (b"X:", b""),
            (b"X:   ", b""),
            (b"X", b""),
            (b"X::", b":"),
        ] {
            assert_eq!(read(line, RULES), Ok(Some((&b"X"[..], value))), "{line:?}");
        }
        for line in [
            "X_Y: v",
            "X.Y: v",
            "X!Y: v",
            "X(Y: v",
            "X\u{80}: v",
            "\"X: v",
        ] {
            assert_eq!(read(line.as_bytes(), RULES), Ok(None), "{line}");
        }
        for line in [
            &b"X : v"[..],
            b" X: v",
            b"\tfold",
            b": v",
            b"",
            b"X\x01: v",
            b"X\x7f: v",
            b"X\0: v",
            b"X Y: v",
            b"X\tY: v",
            b"X\r: v",
            b"\rX: v",
            b"X: a\rb",
            b"X:\rb",
            b"X: a\0b",
            b"X: v\0",
            b"X.Y: v\0",
        ] {
            assert_eq!(read(line, RULES), Err(Error::InvalidHeaderLine), "{line:?}");
        }
    }

    #[test]
    fn rules_keep_or_drop_unusual_names() {
        let lenient = NameRules {
            ignore_invalid_headers: false,
            underscores_in_headers: false,
        };
        assert_eq!(read(b"X_Y: v", lenient), Ok(Some((&b"X_Y"[..], &b"v"[..]))));
        let underscores = NameRules {
            ignore_invalid_headers: true,
            underscores_in_headers: true,
        };
        assert_eq!(
            read(b"X_Y: v", underscores),
            Ok(Some((&b"X_Y"[..], &b"v"[..])))
        );
        assert_eq!(read(b"X.Y: v", underscores), Ok(None));
    }
}
