//! One header line (RFC 9112, 5) as nginx reads it, and the table of names the server acts on.
//! A field is two spans into the caller's buffer: nothing is copied or allocated for it.

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

// Classes below `STOP` are or-ed together over a name; the others end it.
const USUAL: u8 = 0;
const UNDERSCORE: u8 = 1;
const UNUSUAL: u8 = 2;
const STOP: u8 = 4;
const COLON: u8 = STOP;
const BAD: u8 = STOP + 1;

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

/// What became of a header line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Kept,
    /// Left out, for its name.
    Dropped,
    /// The request is refused, for the byte at this offset of the line.
    Refused(usize),
}

/// Reads one header line (its end removed) that starts at offset `base` of the caller's buffer and adds it to `fields`,
/// unless the rules drop it. A line without a colon is a name with an empty value, as in nginx.
pub(crate) fn read_line(
    line: &[u8],
    base: usize,
    rules: NameRules,
    fields: &mut Vec<Field>,
) -> Line {
    let mut seen = USUAL;
    let mut name_end = 0;
    while let Some(&b) = line.get(name_end) {
        let class = NAME_CLASS[b as usize];
        if class >= STOP {
            break;
        }
        seen |= class;
        name_end += 1;
    }
    // Only a colon or the line's end may follow a name.
    if name_end == 0 || line.get(name_end).is_some_and(|b| *b != b':') {
        return Line::Refused(name_end);
    }
    let unusual = seen & UNUSUAL != 0 || (seen & UNDERSCORE != 0 && !rules.underscores_in_headers);
    let mut start = (name_end + 1).min(line.len());
    let mut end = line.len();
    if let Some(bad) = memchr2(b'\r', 0, &line[start..]) {
        return Line::Refused(start + bad);
    }
    if unusual && rules.ignore_invalid_headers {
        return Line::Dropped;
    }
    // Spaces only: nginx leaves tabs in the value.
    while start < end && line[start] == b' ' {
        start += 1;
    }
    while start < end && line[end - 1] == b' ' {
        end -= 1;
    }
    fields.push(Field {
        name: Span::new(base, base + name_end),
        value: Span::new(base + start, base + end),
        known: Known::from_name(&line[..name_end]),
    });
    Line::Kept
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

/// A slot of `SLOTS` for a name that is not empty: from its length and its first, middle and last bytes, in any case.
/// If a new name falls on another's slot the build stops: change a factor.
const fn slot(name: &[u8]) -> usize {
    let len = name.len();
    let first = (name[0] | 0x20) as usize;
    let middle = (name[len / 2] | 0x20) as usize;
    let last = (name[len - 1] | 0x20) as usize;
    (2 * len + 8 * first + 3 * middle + last) & 255
}

const EMPTY: u8 = u8::MAX;

/// The index in `NAMES` of the only name that a slot may mean.
static SLOTS: [u8; 256] = {
    let mut slots = [EMPTY; 256];
    let mut i = 0;
    while i < NAMES.len() {
        let at = slot(NAMES[i].0.as_bytes());
        assert!(slots[at] == EMPTY, "two known names share a slot");
        slots[at] = i as u8;
        i += 1;
    }
    slots
};

/// No known name is longer.
const LONGEST: usize = 24;

/// The known names as most clients write them: a capital at the start and after each `-`.
static USUAL_CASE: [[u8; LONGEST]; NAMES.len()] = {
    let mut table = [[0; LONGEST]; NAMES.len()];
    let mut i = 0;
    while i < NAMES.len() {
        let name = NAMES[i].0.as_bytes();
        let mut at = 0;
        while at < name.len() {
            let starts_word = at == 0 || name[at - 1] == b'-';
            table[i][at] = if starts_word {
                name[at].to_ascii_uppercase()
            } else {
                name[at]
            };
            at += 1;
        }
        i += 1;
    }
    table
};

impl Known {
    /// Looks a name up, whatever its case.
    #[inline]
    pub fn from_name(name: &[u8]) -> Known {
        if name.is_empty() {
            return Known::Other;
        }
        let index = usize::from(SLOTS[slot(name)]);
        let Some((known, value)) = NAMES.get(index) else {
            return Known::Other;
        };
        // The usual case first: comparing whole words is quicker than folding bytes.
        let is_same = known.len() == name.len()
            && (USUAL_CASE[index][..name.len()] == *name
                || known.as_bytes().eq_ignore_ascii_case(name));
        if is_same { *value } else { Known::Other }
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

    /// `Ok(None)` is a dropped line, an error the offset of the byte that the line is refused for.
    fn read(line: &[u8], rules: NameRules) -> Result<Option<NameAndValue<'_>>, usize> {
        let mut fields = Vec::new();
        match read_line(line, 0, rules, &mut fields) {
            Line::Refused(at) => return Err(at),
            Line::Dropped => assert_eq!(fields, []),
            Line::Kept => assert_eq!(fields.len(), 1),
        }
        Ok(fields.first().map(|f| (f.name.of(line), f.value.of(line))))
    }

    #[test]
    fn every_known_name_is_found_in_any_case() {
        for (name, known) in NAMES {
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
        for (line, at) in [
            (&b"X : v"[..], 1),
            (b" X: v", 0),
            (b"\tfold", 0),
            (b": v", 0),
            (b"", 0),
            (b"X\x01: v", 1),
            (b"X\x7f: v", 1),
            (b"X\0: v", 1),
            (b"X Y: v", 1),
            (b"X\tY: v", 1),
            (b"X\r: v", 1),
            (b"\rX: v", 0),
            (b"X: a\rb", 4),
            (b"X:\rb", 2),
            (b"X: a\0b", 4),
            (b"X: v\0", 4),
            (b"X.Y: v\0", 6),
        ] {
            assert_eq!(read(line, RULES), Err(at), "{line:?}");
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
