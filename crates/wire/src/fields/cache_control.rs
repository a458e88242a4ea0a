//! Cache-Control (RFC 9111, 5.2; RFC 5861): the directives a cache acts on, in requests and responses.

use super::list::{elements, trim};

/// The directives found; times are in seconds. Of a directive that repeats, the first counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheControl {
    pub no_store: bool,
    /// Also set by `no-cache="field"`: as in nginx the field names make no difference.
    pub no_cache: bool,
    /// Also set by `private="field"`.
    pub private: bool,
    pub public: bool,
    pub no_transform: bool,
    pub must_revalidate: bool,
    pub only_if_cached: bool,
    pub immutable: bool,
    pub max_age: Option<u64>,
    pub s_maxage: Option<u64>,
    pub stale_while_revalidate: Option<u64>,
    pub stale_if_error: Option<u64>,
}

/// A time longer than this is this long (RFC 9111, 1.2.2).
const SECONDS_MAX: u64 = i32::MAX as u64;

impl CacheControl {
    /// Reads all Cache-Control fields of a message. Unknown directives and unreadable numbers are passed over.
    pub fn parse<'a>(values: impl Iterator<Item = &'a [u8]>) -> CacheControl {
        let mut found = CacheControl::default();
        for element in values.flat_map(elements) {
            let equals = memchr::memchr(b'=', element);
            let (name, argument) = match equals {
                Some(at) => (trim(&element[..at]), Some(trim(&element[at + 1..]))),
                None => (element, None),
            };
            found.add(&name.to_ascii_lowercase(), argument);
        }
        found
    }

    fn add(&mut self, name: &[u8], argument: Option<&[u8]>) {
        let seconds = || argument.and_then(parse_seconds);
        match name {
            b"no-store" => self.no_store = true,
            b"no-cache" => self.no_cache = true,
            b"private" => self.private = true,
            b"public" => self.public = true,
            b"no-transform" => self.no_transform = true,
            b"must-revalidate" | b"proxy-revalidate" => self.must_revalidate = true,
            b"only-if-cached" => self.only_if_cached = true,
            b"immutable" => self.immutable = true,
            b"max-age" => self.max_age = self.max_age.or_else(seconds),
            b"s-maxage" => self.s_maxage = self.s_maxage.or_else(seconds),
            b"stale-while-revalidate" => {
                self.stale_while_revalidate = self.stale_while_revalidate.or_else(seconds);
            }
            b"stale-if-error" => self.stale_if_error = self.stale_if_error.or_else(seconds),
            _ => {}
        }
    }
}

/// Digits, in quotes or not.
fn parse_seconds(argument: &[u8]) -> Option<u64> {
    let digits = match argument {
        [b'"', digits @ .., b'"'] => digits,
        digits => digits,
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0u64, |value, digit| {
        value
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    });
    Some(value.min(SECONDS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> CacheControl {
        CacheControl::parse([value.as_bytes()].into_iter())
    }

    #[test]
    fn directives() {
        let none = CacheControl::default();
        for (value, expected) in [
            ("", none),
            (
                "max-age=60",
                CacheControl {
                    max_age: Some(60),
                    ..none
                },
            ),
            (
                "Max-Age = \"60\" , PUBLIC",
                CacheControl {
                    max_age: Some(60),
                    public: true,
                    ..none
                },
            ),
            ("max-age=x", none),
            ("max-age", none),
            ("max-age=-1", none),
            (
                "max-age=99999999999999999999",
                CacheControl {
                    max_age: Some(SECONDS_MAX),
                    ..none
                },
            ),
            (
                "max-age=1, max-age=2",
                CacheControl {
                    max_age: Some(1),
                    ..none
                },
            ),
            (
                "private=\"a, no-store\"",
                CacheControl {
                    private: true,
                    ..none
                },
            ),
            (
                "no-cache, no-store",
                CacheControl {
                    no_cache: true,
                    no_store: true,
                    ..none
                },
            ),
            (
                "s-maxage=5, unknown=1",
                CacheControl {
                    s_maxage: Some(5),
                    ..none
                },
            ),
            (
                "stale-while-revalidate=3, stale-if-error=4",
                CacheControl {
                    stale_while_revalidate: Some(3),
                    stale_if_error: Some(4),
                    ..none
                },
            ),
        ] {
            assert_eq!(read(value), expected, "{value}");
        }
    }
}
