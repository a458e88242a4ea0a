//! HTTP dates (RFC 9110, 5.6.7): written as IMF-fixdate, read in all three forms. Times are Unix seconds, UTC.

const DAYS: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
const DAY_SECONDS: i64 = 86_400;
/// 9999-12-31 23:59:59, the last second a four-digit year can hold.
const LAST_SECOND: i64 = 253_402_300_799;

/// Writes `Sun, 06 Nov 1994 08:49:37 GMT`. Times outside the years 0 to 9999 are clamped.
pub fn format(unix_seconds: i64) -> [u8; 29] {
    let seconds = unix_seconds.clamp(-62_167_219_200, LAST_SECOND);
    let days = seconds.div_euclid(DAY_SECONDS);
    let rest = seconds.rem_euclid(DAY_SECONDS);
    let (year, month, day) = civil_from_days(days);
    let mut out = *b"Sun, 06 Nov 1994 08:49:37 GMT";
    out[..3].copy_from_slice(DAYS[(days + 4).rem_euclid(7) as usize]);
    put_two(&mut out, 5, day);
    out[8..11].copy_from_slice(MONTHS[month as usize - 1]);
    put_two(&mut out, 12, year / 100);
    put_two(&mut out, 14, year % 100);
    put_two(&mut out, 17, rest / 3600);
    put_two(&mut out, 20, rest / 60 % 60);
    put_two(&mut out, 23, rest % 60);
    out
}

fn put_two(out: &mut [u8], at: usize, value: i64) {
    out[at] = b'0' + (value / 10) as u8;
    out[at + 1] = b'0' + (value % 10) as u8;
}

/// Days since 1970-01-01 to year, month (1-12) and day, by 400-year eras that begin in March.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// The inverse of `civil_from_days`.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let march_year = if month <= 2 { year - 1 } else { year };
    let era = march_year.div_euclid(400);
    let year_of_era = march_year.rem_euclid(400);
    let march_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Reads an IMF-fixdate, an RFC 850 date or an asctime date. As in nginx the day's name may be any word, and what
/// follows the last number (the zone, which is always GMT) is not looked at.
pub fn parse(value: &[u8]) -> Option<i64> {
    let value = value.trim_ascii_start();
    let end = memchr::memchr2(b',', b' ', value)?;
    let mut text = Cursor {
        rest: &value[end + 1..],
    };
    text.blanks();
    if value[end] == b' ' {
        parse_asctime(&mut text)
    } else {
        parse_after_comma(&mut text)
    }
}

fn parse_after_comma(text: &mut Cursor<'_>) -> Option<i64> {
    let day = text.number(2)?;
    let separator = text.next()?;
    let month = text.month()?;
    text.exactly(separator)?;
    let year = match separator {
        b' ' => text.number(4)?,
        // RFC 850 has two digits: nginx takes 70 to 99 as the last century.
        b'-' => match text.number(2)? {
            short @ 0..70 => short + 2000,
            short => short + 1900,
        },
        _ => return None,
    };
    let clock = text.clock()?;
    seconds(year, month, day, clock)
}

fn parse_asctime(text: &mut Cursor<'_>) -> Option<i64> {
    let month = text.month()?;
    text.exactly(b' ')?;
    let day = match text.rest.first()? {
        b' ' => {
            text.blanks();
            text.number(1)?
        }
        _ => text.number(2)?,
    };
    let clock = text.clock()?;
    text.exactly(b' ')?;
    let year = text.number(4)?;
    seconds(year, month, day, clock)
}

fn seconds(year: i64, month: i64, day: i64, clock: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=days_in_month).contains(&day) {
        return None;
    }
    Some(days_from_civil(year, month, day) * DAY_SECONDS + clock)
}

/// What is still to be read of a date.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn exactly(&mut self, expected: u8) -> Option<()> {
        (self.next()? == expected).then_some(())
    }

    fn blanks(&mut self) {
        while let [b' ', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// Exactly so many digits.
    fn number(&mut self, digits: usize) -> Option<i64> {
        let mut value = 0;
        for _ in 0..digits {
            let digit = self.next()?;
            digit.is_ascii_digit().then_some(())?;
            value = value * 10 + i64::from(digit - b'0');
        }
        Some(value)
    }

    /// 1 to 12.
    fn month(&mut self) -> Option<i64> {
        let name = self.rest.get(..3)?;
        let index = MONTHS
            .iter()
            .position(|month| name.eq_ignore_ascii_case(&month[..]))?;
        self.rest = &self.rest[3..];
        Some(index as i64 + 1)
    }

    /// ` hh:mm:ss` as seconds of the day.
    fn clock(&mut self) -> Option<i64> {
        self.exactly(b' ')?;
        let hour = self.number(2)?;
        self.exactly(b':')?;
        let minute = self.number(2)?;
        self.exactly(b':')?;
        let second = self.number(2)?;
        (hour < 24 && minute < 60 && second < 60).then_some(hour * 3600 + minute * 60 + second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        assert_eq!(&format(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&format(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&format(-1), b"Wed, 31 Dec 1969 23:59:59 GMT");
        assert_eq!(&format(951_782_400), b"Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(&format(i64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
    }

    /// Each row was sent to nginx 1.22 as If-Modified-Since.
    #[test]
    fn as_tolerant_as_nginx() {
        for text in [
            "Sat, 21 Nov 2026 21:15:32 GMT",
            "Saturday, 21-Nov-26 21:15:32 GMT",
            "Sat Nov 21 21:15:32 2026",
            "Sat, 21 Nov 2026 21:15:32",
            "Sat, 21 Nov 2026 21:15:32 UTC",
            "Sat, 21 Nov 2026 21:15:32 GMT; length=5",
            "Sat,21 Nov 2026 21:15:32 GMT",
            "Sat,  21 Nov 2026 21:15:32 GMT",
            ", 21 Nov 2026 21:15:32 GMT",
            "SAT, 21 NOV 2026 21:15:32 GMT",
            "\"Sat, 21 Nov 2026 21:15:32 GMT\"",
            "Sat Nov 21 21:15:32 2026 GMT",
            "Xyz Nov 21 21:15:32 2026",
            "  Sat, 21 Nov 2026 21:15:32 GMT",
        ] {
            assert_eq!(parse(text.as_bytes()), Some(1_795_295_732), "{text}");
        }
        for text in [
            "",
            "x",
            "0",
            "Sun,",
            "Sat, 21 Nov  2026 21:15:32 GMT",
            "21 Nov 2026 21:15:32 GMT",
            "Sat, 21 Nov 2026 21.15.32 GMT",
            "Sat, 21-Nov-2026 21:15:32 GMT",
            "Sat, 21 Nov 26 21:15:32 GMT",
            "Sat, 32 Nov 2026 21:15:32 GMT",
            "Sat, 21 Nov 2026 24:15:32 GMT",
            "Sat, 21 Nov 2026 21:60:32 GMT",
            "Sat, 29 Feb 2026 21:15:32 GMT",
            "Sat, 21 Abc 2026 21:15:32 GMT",
            "Sat, 21 Nov 2026 21:15",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut random = crate::testing::Random::new(4);
        for _ in 0..50_000 {
            let mut text = b"Sat, 21 Nov 2026 21:15:32 GMT".to_vec();
            let at = random.below(text.len() as u64) as usize;
            text[at] = random.next() as u8;
            let date = parse(&text);
            assert!(date.is_none_or(|seconds| (-62_167_219_200..=LAST_SECOND).contains(&seconds)));
            let _ = parse(&random.bytes(30));
        }
    }

    #[test]
    fn format_then_parse_is_the_same() {
        let mut time = -2_000_000_000;
        while time < LAST_SECOND {
            assert_eq!(parse(&format(time)), Some(time));
            time += 86_399 * 37 + 11;
        }
    }
}
