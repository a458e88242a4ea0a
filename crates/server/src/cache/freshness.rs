//! How long a response may be kept, as its fields and the settings say: X-Accel-Expires before Cache-Control and Expires,
//! and these before `proxy_cache_valid`. Bytes and the time in, a verdict out.

use wire::fields::date;
use wire::http1::Known;
use wire::http1::response::Head;

/// What a number of seconds means that is too large: as RFC 9111, 1.2.2 has it.
const SECONDS_MAX: i64 = 1 << 31;
/// Bytes of a Vary that the cache looks at; what is longer is not kept, as in nginx.
pub const VARY_MAX: usize = 128;

/// Fields that are not obeyed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ignored {
    pub x_accel_expires: bool,
    pub expires: bool,
    pub cache_control: bool,
    pub set_cookie: bool,
    pub vary: bool,
}

/// What the fields of a response say. Times are seconds since 1970, lengths of time seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Freshness {
    /// It must not be kept, whatever the settings say.
    pub refused: bool,
    /// Until when it may be used; `None`: the settings decide.
    pub valid_until: Option<i64>,
    /// Seconds that it may be used if the settings say nothing, either.
    pub guess: Option<i64>,
    /// How long after that it may be used while a new one is fetched.
    pub updating: i64,
    /// How long after that it may be used if there is no new one to be had.
    pub on_error: i64,
    pub vary: Vec<u8>,
}

/// What is collected while the fields are read in their order.
#[derive(Default)]
struct Reader {
    freshness: Freshness,
    told_by_accel: bool,
    no_cache: bool,
    expired: bool,
}

/// Reads the fields of a response.
#[must_use]
pub fn read(head: &Head, buffer: &[u8], ignored: Ignored, now: i64) -> Freshness {
    let mut reader = Reader::default();
    for field in &head.fields {
        let value = field.value.of(buffer);
        match field.known {
            Known::XAccelExpires if !ignored.x_accel_expires => reader.accel_expires(value, now),
            Known::Expires if !ignored.expires => reader.expires(value, now),
            Known::CacheControl if !ignored.cache_control => reader.cache_control(value, now),
            Known::SetCookie if !ignored.set_cookie => reader.freshness.refused = true,
            Known::Vary if !ignored.vary => reader.vary(value),
            _ => {}
        }
    }
    reader.freshness.refused |= reader.no_cache || reader.expired;
    reader.freshness
}

impl Reader {
    fn accel_expires(&mut self, value: &[u8], now: i64) {
        let (digits, is_time) = match value.strip_prefix(b"@") {
            Some(digits) => (digits, true),
            None => (value, false),
        };
        let Some(number) = number(digits) else { return };
        if number == 0 && !is_time {
            self.freshness.refused = true;
            return;
        }
        let until = if is_time {
            number
        } else {
            now.saturating_add(number)
        };
        self.freshness.valid_until = Some(until);
        self.told_by_accel = true;
        self.no_cache = false;
        self.expired = false;
    }

    fn expires(&mut self, value: &[u8], now: i64) {
        if self.freshness.valid_until.is_some() {
            return;
        }
        match date::parse(value) {
            Some(until) if until >= now => self.freshness.valid_until = Some(until),
            _ => self.expired = true,
        }
    }

    fn cache_control(&mut self, value: &[u8], now: i64) {
        if self.told_by_accel {
            return;
        }
        let lower = value.to_ascii_lowercase();
        let has = |word: &[u8]| memchr::memmem::find(&lower, word).is_some();
        if has(b"no-cache") || has(b"no-store") || has(b"private") {
            self.no_cache = true;
            return;
        }
        let age = [&b"s-maxage="[..], b"max-age="]
            .into_iter()
            .find_map(|name| directive(&lower, name));
        match age {
            None => {}
            Some(Err(())) => self.freshness.refused = true,
            Some(Ok(0)) => self.no_cache = true,
            Some(Ok(seconds)) => {
                self.freshness.valid_until = Some(now.saturating_add(seconds));
                self.expired = false;
            }
        }
        for (name, updating) in [
            (&b"stale-while-revalidate="[..], true),
            (b"stale-if-error=", false),
        ] {
            match (directive(&lower, name), updating) {
                (None, _) => {}
                (Some(Err(())), _) => self.freshness.refused = true,
                // As in nginx, what may be used meanwhile may stand in for errors so long, too.
                (Some(Ok(seconds)), true) => {
                    self.freshness.updating = seconds;
                    self.freshness.on_error = seconds;
                }
                (Some(Ok(seconds)), false) => self.freshness.on_error = seconds,
            }
        }
    }

    fn vary(&mut self, value: &[u8]) {
        let vary = &mut self.freshness.vary;
        if !vary.is_empty() {
            vary.extend_from_slice(b", ");
        }
        vary.extend_from_slice(value);
        if vary.len() > VARY_MAX || value == b"*" {
            self.freshness.refused = true;
        }
    }
}

/// The names of fields that a Vary lists.
pub fn names(vary: &[u8]) -> impl Iterator<Item = &[u8]> {
    vary.split(|&byte| byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|name| !name.is_empty())
}

/// The seconds behind `name=`; an error if something else stands there.
fn directive(value: &[u8], name: &[u8]) -> Option<Result<i64, ()>> {
    let start = memchr::memmem::find(value, name)? + name.len();
    let rest = value.get(start..).unwrap_or_default();
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b',' | b';' | b' '))
        .unwrap_or(rest.len());
    Some(match rest.get(..end).unwrap_or_default() {
        // As in nginx, nothing is a zero.
        b"" => Ok(0),
        digits => match number(digits) {
            // Beyond all numbers.
            None if digits.iter().all(u8::is_ascii_digit) => Ok(SECONDS_MAX),
            seconds => seconds.ok_or(()),
        },
    })
}

fn number(digits: &[u8]) -> Option<i64> {
    let number = conf::values::parse_number(digits)?;
    i64::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::http1::response::Parser;

    const NOW: i64 = 1_700_000_000;
    const PAST: &str = "Expires: Thu, 01 Jan 1970 00:00:01 GMT";
    const FUTURE: &str = "Expires: Tue, 14 Nov 2023 22:15:00 GMT";

    fn told(fields: &[&str], ignored: Ignored) -> Freshness {
        let text = format!("HTTP/1.1 200 OK\r\n{}\r\n\r\n", fields.join("\r\n"));
        let mut parser = Parser::new();
        let parsed = parser.parse(text.as_bytes(), 4096);
        assert_eq!(parsed, Ok(Some(text.len())), "{text}");
        read(parser.head(), text.as_bytes(), ignored, NOW)
    }

    /// Seconds that it may be kept; -1: not at all; 0: as the settings say.
    fn seconds(fields: &[&str]) -> i64 {
        let told = told(fields, Ignored::default());
        match told.refused {
            true => -1,
            false => told.valid_until.map_or(0, |until| until - NOW),
        }
    }

    #[test]
    fn fields_have_their_order_of_precedence() {
        for (fields, expected) in [
            (&["X-A: b"][..], 0),
            (&["X-Accel-Expires: 10"], 10),
            (&["X-Accel-Expires: 0"], -1),
            (&["X-Accel-Expires: 0", "Cache-Control: max-age=10"], -1),
            (&["Cache-Control: max-age=10", "X-Accel-Expires: 0"], -1),
            (&["X-Accel-Expires: 10", "Cache-Control: no-cache"], 10),
            (&["Cache-Control: no-cache", "X-Accel-Expires: 10"], 10),
            (&["X-Accel-Expires: @1700000007"], 7),
            (&["X-Accel-Expires: x"], 0),
            (&["X-Accel-Expires: -1"], 0),
            (&["X-Accel-Expires: "], 0),
            (&["Cache-Control: max-age=10"], 10),
            (
                &["Cache-Control: max-age=99999999999999999999"],
                SECONDS_MAX,
            ),
            (&["Cache-Control: MAX-AGE=10"], 10),
            (&["Cache-Control: max-age=0"], -1),
            (&["Cache-Control: max-age=10, no-store"], -1),
            (&["Cache-Control: private"], -1),
            (&["Cache-Control: max-age=0, s-maxage=10"], 10),
            (&["Cache-Control: s-maxage=0, max-age=10"], -1),
            (&["Cache-Control: max-age=abc"], -1),
            (&["Cache-Control: max-age=10abc"], -1),
            (&["Cache-Control: max-age=\"10\""], -1),
            (&["Cache-Control: max-age="], -1),
            (&["Cache-Control: public"], 0),
            (&["Cache-Control: foo", "Cache-Control: max-age=10"], 10),
            (
                &["Cache-Control: max-age=10", "Cache-Control: no-store"],
                -1,
            ),
            (
                &["Cache-Control: no-store", "Cache-Control: max-age=10"],
                -1,
            ),
            (&["Cache-Control: max-age=10", PAST], 10),
            (&[PAST, "Cache-Control: max-age=10"], 10),
            (&[PAST], -1),
            (&[FUTURE], 100),
            (&[FUTURE, "Cache-Control: max-age=0"], -1),
            (&["Cache-Control: max-age=0", FUTURE], -1),
            (&["Expires: 0"], -1),
            (&[PAST, "X-Accel-Expires: 10"], 10),
            (&["Cache-Control: max-age=10", "Set-Cookie: a=b"], -1),
            (&["Cache-Control: max-age=10", "Vary: *"], -1),
            (&["Cache-Control: max-age=10", "Vary: a"], 10),
            (&["Pragma: no-cache"], 0),
        ] {
            assert_eq!(seconds(fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn stale_times_and_vary_are_collected() {
        let told = told(
            &[
                "Cache-Control: max-age=1, stale-while-revalidate=20, stale-if-error=300",
                "Vary: Accept,  X-A ",
                "Vary: Cookie",
            ],
            Ignored::default(),
        );
        assert_eq!((told.updating, told.on_error), (20, 300));
        let listed: Vec<_> = names(&told.vary).collect();
        assert_eq!(listed, [&b"Accept"[..], b"X-A", b"Cookie"]);
    }

    #[test]
    fn ignored_fields_say_nothing() {
        let all = Ignored {
            x_accel_expires: true,
            expires: true,
            cache_control: true,
            set_cookie: true,
            vary: true,
        };
        let fields = [
            "X-Accel-Expires: 0",
            PAST,
            "Cache-Control: no-store",
            "Set-Cookie: a=b",
            "Vary: *",
        ];
        assert_eq!(told(&fields, all), Freshness::default());
    }
}
