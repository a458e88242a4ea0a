//! Accept-Encoding (RFC 9110, 12.5.3): how much a client wants a content coding.

use super::list::{elements, trim};

/// A quality in thousandths: 0 is "not acceptable", 1000 the default.
pub type Quality = u16;

/// The quality of a coding, 0 if the client does not name it: `*` stands for nothing here, as in nginx.
pub fn quality(value: &[u8], coding: &str) -> Quality {
    mention(value, coding).unwrap_or(0)
}

/// The quality that the client gives a coding by its name (`*` is one, too); `None` if it does not name it. As in nginx
/// the first mention counts, and one with anything but a valid `q` refuses the coding.
pub fn mention(value: &[u8], coding: &str) -> Option<Quality> {
    for element in elements(value) {
        let name_len = memchr::memchr(b';', element).unwrap_or(element.len());
        let (name, parameters) = element.split_at(name_len);
        if trim(name).eq_ignore_ascii_case(coding.as_bytes()) {
            return Some(match parameters.strip_prefix(b";") {
                None => 1000,
                Some(parameter) => parse_q(trim(parameter)).unwrap_or(0),
            });
        }
    }
    None
}

/// Whether a client takes a coding.
pub fn accepts(value: &[u8], coding: &str) -> bool {
    quality(value, coding) > 0
}

/// Reads `q=0.5`; at most three decimals.
fn parse_q(parameter: &[u8]) -> Option<Quality> {
    let number = parameter
        .strip_prefix(b"q=")
        .or_else(|| parameter.strip_prefix(b"Q="))?;
    let (whole, decimals) = match number {
        [whole] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] => (whole, decimals),
        _ => return None,
    };
    if decimals.len() > 3 || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut thousandths = 0;
    for place in 0..3 {
        let digit = decimals.get(place).map_or(0, |b| b - b'0');
        thousandths = thousandths * 10 + Quality::from(digit);
    }
    match whole {
        b'0' => Some(thousandths),
        b'1' if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row was sent to nginx 1.22 with `gzip on`.
    #[test]
    fn gzip_as_nginx_accepts_it() {
        for value in [
            "gzip",
            "GZIP",
            "gzip, deflate",
            "deflate, gzip",
            "gzip;q=0.001",
            "gzip;q=1",
            "gzip;q=1.0",
            "gzip;q=1.000",
            "gzip; q=0.5",
            "a,gzip",
            "gzip,gzip;q=0",
            "gzip;q=0.1,br",
            "br;q=1.0, gzip;q=0.8, *;q=0.1",
            "gzip;q=1.",
            "gzip, ",
            "gzip;q=0.01 , br",
        ] {
            assert!(accepts(value.as_bytes(), "gzip"), "{value}");
        }
        for value in [
            "",
            "deflate",
            "x-gzip",
            "gzip;q=0",
            "gzip;q=0.0",
            "gzip;q=0.000",
            "gzip;q=0.0000",
            "gzip;q=1.0000",
            "gzip;q=1.001",
            "gzip;q=2",
            "gzip; q=0",
            "gzip ;q=0",
            "gzip;q=",
            "gzip;q",
            "gzip;q=a",
            "gzip;x=1",
            "*",
            "*;q=0",
            "identity",
            "gzip;q=0, *",
            "gzipx",
            "xgzip",
            "a-gzip",
            "a;gzip",
            "gzip;q=0,gzip",
            "gzip;Q=0",
            "gzip;q=00",
            "gzip;q=.5",
            "gzip;q=0.",
            "gzip;q =0",
            "gzip;q= 0",
            "gzip;q=0.5x",
            "\"gzip\"",
            "gzip x",
            "gzip;q=0 ",
        ] {
            assert!(!accepts(value.as_bytes(), "gzip"), "{value}");
        }
    }

    #[test]
    fn qualities() {
        let value = b"br;q=0.8, zstd;q=0.05, gzip";
        assert_eq!(quality(value, "br"), 800);
        assert_eq!(quality(value, "zstd"), 50);
        assert_eq!(quality(value, "gzip"), 1000);
        assert_eq!(quality(value, "deflate"), 0);
        assert_eq!(mention(value, "deflate"), None);
        assert_eq!(mention(b"*;q=0, gzip;q=x", "*"), Some(0));
        assert_eq!(mention(b"*;q=0, gzip;q=x", "gzip"), Some(0));
    }
}
