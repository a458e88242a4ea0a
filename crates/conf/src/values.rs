//! The values of directives: flags, numbers, sizes, times. Each accepts exactly what nginx accepts; `None` is what
//! nginx calls an invalid value. No result exceeds `i64::MAX`, nginx's own bound.

const MAX: u64 = i64::MAX as u64;

const SECOND: u64 = 1;
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// `on` or `off`, in any case.
pub fn parse_flag(text: &[u8]) -> Option<bool> {
    if text.eq_ignore_ascii_case(b"on") {
        Some(true)
    } else if text.eq_ignore_ascii_case(b"off") {
        Some(false)
    } else {
        None
    }
}

/// Decimal digits, nothing else.
pub fn parse_number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter()
        .try_fold(0, |number, &byte| append_digit(number, byte))
}

/// Bytes, with `k` or `m` in either case for 1024 or 1024² of them.
pub fn parse_size(text: &[u8]) -> Option<u64> {
    let (&last, digits) = text.split_last()?;
    match last {
        b'k' | b'K' => scaled(digits, 1 << 10),
        b'm' | b'M' => scaled(digits, 1 << 20),
        _ => parse_number(text),
    }
}

/// As [`parse_size`], and `g` for 1024³: what nginx takes for sizes and places of files.
pub fn parse_offset(text: &[u8]) -> Option<u64> {
    match text.split_last()? {
        (b'g' | b'G', digits) => scaled(digits, 1 << 30),
        _ => parse_size(text),
    }
}

fn scaled(digits: &[u8], scale: u64) -> Option<u64> {
    bounded(parse_number(digits)?.checked_mul(scale)?)
}

/// A time in milliseconds: `1d 2h`, `1h30m`, `500ms`; a bare number is seconds. Weeks are the largest unit here.
pub fn parse_msec(text: &[u8]) -> Option<u64> {
    parse_time(text, 1000)
}

/// A time in seconds, written as for [`parse_msec`], with years and months (`M`) and without `ms`.
pub fn parse_sec(text: &[u8]) -> Option<u64> {
    parse_time(text, 1)
}

/// How many buffers of how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bufs {
    pub number: u64,
    pub size: u64,
}

/// The two words of `proxy_buffers 8 4k` and its like; neither may be 0.
pub fn parse_bufs(number: &[u8], size: &[u8]) -> Option<Bufs> {
    let bufs = Bufs {
        number: parse_number(number)?,
        size: parse_size(size)?,
    };
    (bufs.number > 0 && bufs.size > 0).then_some(bufs)
}

/// Units have to come from large to small, each once.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Unit {
    Year,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    /// After a number that a blank ended. nginx lets it stand for seconds, after which no unit can follow.
    Bare,
}

impl Unit {
    /// The unit at the front of `text`, and its width.
    fn at_front(text: &[u8]) -> Option<(Unit, usize)> {
        Some(match text {
            [b'y', ..] => (Unit::Year, 1),
            [b'M', ..] => (Unit::Month, 1),
            [b'w', ..] => (Unit::Week, 1),
            [b'd', ..] => (Unit::Day, 1),
            [b'h', ..] => (Unit::Hour, 1),
            [b'm', b's', ..] => (Unit::Millisecond, 2),
            [b'm', ..] => (Unit::Minute, 1),
            [b's', ..] => (Unit::Second, 1),
            [b' ', ..] => (Unit::Bare, 1),
            _ => return None,
        })
    }

    /// In units of which `per_second` make a second.
    fn scale(self, per_second: u64) -> u64 {
        match self {
            Unit::Year => 365 * DAY * per_second,
            Unit::Month => 30 * DAY * per_second,
            Unit::Week => 7 * DAY * per_second,
            Unit::Day => DAY * per_second,
            Unit::Hour => HOUR * per_second,
            Unit::Minute => MINUTE * per_second,
            Unit::Second | Unit::Bare => SECOND * per_second,
            Unit::Millisecond => 1,
        }
    }

    /// Whether this unit may come after `previous`.
    fn follows(self, previous: Option<Unit>) -> bool {
        match (self, previous) {
            (_, None) => true,
            // A blank after a unit was passed over; one that ends a number must be the first end of seconds.
            (Unit::Bare, Some(previous)) => previous < Unit::Second,
            (unit, Some(previous)) => previous < unit,
        }
    }
}

fn parse_time(text: &[u8], per_second: u64) -> Option<u64> {
    let mut rest = text;
    let (mut total, mut number) = (0, 0);
    let mut digits = false;
    // In milliseconds nginx knows no unit above the week.
    let mut previous = (per_second > 1).then_some(Unit::Month);
    while let Some((&byte, after)) = rest.split_first() {
        if byte.is_ascii_digit() {
            number = append_digit(number, byte)?;
            digits = true;
            rest = after;
            continue;
        }
        let (unit, width) = Unit::at_front(rest)?;
        if !unit.follows(previous) || (unit == Unit::Millisecond && per_second == 1) {
            return None;
        }
        total = added(total, number, unit.scale(per_second))?;
        number = 0;
        previous = Some(unit);
        rest = skip_spaces(&rest[width..]);
    }
    // What is left without a unit is seconds, whatever came before it.
    if digits {
        added(total, number, per_second)
    } else {
        None
    }
}

fn added(total: u64, number: u64, scale: u64) -> Option<u64> {
    bounded(total.checked_add(number.checked_mul(scale)?)?)
}

fn append_digit(number: u64, byte: u8) -> Option<u64> {
    let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
    bounded(number.checked_mul(10)?.checked_add(digit)?)
}

fn bounded(value: u64) -> Option<u64> {
    (value <= MAX).then_some(value)
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|&&byte| byte == b' ').count();
    &text[spaces..]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What nginx 1.22.1 takes, in seconds and in milliseconds.
    const TIMES: &[(&str, Option<u64>, Option<u64>)] = &[
        ("1", Some(1), Some(1000)),
        ("1d", Some(86400), Some(86_400_000)),
        ("1d 2h", Some(93600), Some(93_600_000)),
        ("1h30m", Some(5400), Some(5_400_000)),
        ("1m  30s", Some(90), Some(90_000)),
        ("1y", Some(31_536_000), None),
        ("1M1w", Some(3_196_800), None),
        ("1w", Some(604_800), Some(604_800_000)),
        ("500ms", None, Some(500)),
        ("1s500ms", None, Some(1500)),
        ("1 2", Some(3), Some(3000)),
        ("1s 2", Some(3), Some(3000)),
        ("1s1", Some(2), Some(2000)),
        ("1d2", Some(86402), Some(86_402_000)),
        ("10m 5", Some(605), Some(605_000)),
        ("1d 5 ", Some(86405), Some(86_405_000)),
        ("1dh", Some(86400), Some(86_400_000)),
        ("1d h", Some(86400), Some(86_400_000)),
        ("m5", Some(5), Some(5000)),
        ("1m s", Some(60), Some(60_000)),
        (" 1", Some(1), Some(1000)),
        ("1s ", Some(1), Some(1000)),
        ("1 2 3", None, None),
        ("1 2s", None, None),
        ("1 s", None, None),
        ("500 ms", None, None),
        ("2 1d", None, None),
        ("1d 2 3h", None, None),
        ("1h 1h", None, None),
        ("1m1h", None, None),
        ("", None, None),
        (" ", None, None),
        ("d", None, None),
        ("1H", None, None),
        ("1.5s", None, None),
        ("-1", None, None),
        ("9223372036854775807", Some(i64::MAX as u64), None),
        ("9223372036854775808", None, None),
        ("106751991167300d", Some(9_223_372_036_854_720_000), None),
        ("106751991167301d", None, None),
    ];

    #[test]
    fn times() {
        for &(text, seconds, milliseconds) in TIMES {
            assert_eq!(parse_sec(text.as_bytes()), seconds, "{text:?} in seconds");
            assert_eq!(
                parse_msec(text.as_bytes()),
                milliseconds,
                "{text:?} in milliseconds"
            );
        }
    }

    /// What nginx 1.22.1 takes as a size and as an offset.
    const SIZES: &[(&str, Option<u64>, Option<u64>)] = &[
        ("0", Some(0), Some(0)),
        ("1k", Some(1024), Some(1024)),
        ("1K", Some(1024), Some(1024)),
        ("3m", Some(3 << 20), Some(3 << 20)),
        ("1g", None, Some(1 << 30)),
        ("2G", None, Some(2 << 30)),
        (
            "9223372036854775807",
            Some(i64::MAX as u64),
            Some(i64::MAX as u64),
        ),
        ("9223372036854775808", None, None),
        (
            "9007199254740991k",
            Some(9_007_199_254_740_991 << 10),
            Some(9_007_199_254_740_991 << 10),
        ),
        ("9007199254740992k", None, None),
        (
            "8796093022207m",
            Some(8_796_093_022_207 << 20),
            Some(8_796_093_022_207 << 20),
        ),
        ("8796093022208m", None, None),
        ("8589934591g", None, Some(8_589_934_591 << 30)),
        ("8589934592g", None, None),
        ("k", None, None),
        ("", None, None),
        (" 1", None, None),
        ("+1", None, None),
        ("1kb", None, None),
    ];

    #[test]
    fn sizes_and_offsets() {
        for &(text, size, offset) in SIZES {
            assert_eq!(parse_size(text.as_bytes()), size, "{text:?} as a size");
            assert_eq!(
                parse_offset(text.as_bytes()),
                offset,
                "{text:?} as an offset"
            );
        }
    }

    #[test]
    fn flags_numbers_and_buffers() {
        assert_eq!(parse_flag(b"ON"), Some(true));
        assert_eq!(parse_flag(b"off"), Some(false));
        assert_eq!(parse_flag(b"yes"), None);
        assert_eq!(parse_number(b"007"), Some(7));
        assert_eq!(parse_number(b"7k"), None);
        assert_eq!(
            parse_bufs(b"4", b"8k"),
            Some(Bufs {
                number: 4,
                size: 8192
            })
        );
        assert_eq!(parse_bufs(b"0", b"8k"), None);
        assert_eq!(parse_bufs(b"4", b"0"), None);
        assert_eq!(parse_bufs(b"4", b"1g"), None);
    }
}
