//! The Range field (RFC 9110, 14) with nginx's exact reading: which parts of a representation are wanted.

use std::ops::Range;

/// What a Range field asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The field does not apply (another unit, too many ranges, more bytes than there are): answer 200 with everything.
    Whole,
    /// At least one range, in the order asked for, each inside the representation and not empty: answer 206.
    Parts(Vec<Range<u64>>),
    /// Malformed, or nothing of it inside the representation: answer 416 with `bytes */size`.
    Unsatisfiable,
}

/// What the value starts with, in any case.
const UNIT: &[u8] = b"bytes=";

/// nginx counts in signed 64 bits.
const OFFSET_MAX: u64 = i64::MAX as u64;

/// Reads `value` for a representation of `size` bytes. `max_ranges` is the directive's number: `None` is unlimited, and
/// 0 switches ranges off. Ranges that together are longer than the representation give all of it, and so does one from
/// the first byte of a representation without bytes.
pub fn parse(value: &[u8], size: u64, max_ranges: Option<usize>) -> Wanted {
    let Some((unit, set)) = value.split_at_checked(UNIT.len()) else {
        return Wanted::Whole;
    };
    if !unit.eq_ignore_ascii_case(UNIT) || set.is_empty() || max_ranges == Some(0) {
        return Wanted::Whole;
    }
    let mut text = Text { rest: set };
    let mut parts = Vec::new();
    let mut total: u64 = 0;
    loop {
        let (Some(range), after @ (None | Some(b','))) = (text.range(size), text.next()) else {
            return Wanted::Unsatisfiable;
        };
        if range.start < range.end {
            if max_ranges.is_some_and(|max| parts.len() >= max) {
                return Wanted::Whole;
            }
            total = total.saturating_add(range.end - range.start);
            parts.push(range);
        } else if range.start == 0 {
            // Only where there are no bytes at all does a range from the first one hold none.
            return Wanted::Whole;
        }
        if after.is_none() {
            break;
        }
    }
    if parts.is_empty() {
        Wanted::Unsatisfiable
    } else if total > size {
        Wanted::Whole
    } else {
        Wanted::Parts(parts)
    }
}

/// What is still to be read.
struct Text<'a> {
    rest: &'a [u8],
}

impl Text<'_> {
    /// One range, clamped to `size`; empty when it lies outside. `None` if malformed. Blanks after it are skipped.
    fn range(&mut self, size: u64) -> Option<Range<u64>> {
        self.spaces();
        if self.rest.first() == Some(&b'-') {
            self.rest = &self.rest[1..];
            let suffix = self.number()?;
            self.spaces();
            return Some(size.saturating_sub(suffix)..size);
        }
        let start = self.number()?;
        self.spaces();
        if self.next()? != b'-' {
            return None;
        }
        self.spaces();
        if matches!(self.rest.first(), None | Some(b',')) {
            return Some(start..size);
        }
        let last = self.number()?;
        self.spaces();
        Some(start..last.saturating_add(1).min(size))
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn spaces(&mut self) {
        while let [b' ', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// At least one digit, at most 2^63-1.
    fn number(&mut self) -> Option<u64> {
        let digits = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let mut value: u64 = 0;
        for digit in number {
            value = value
                .checked_mul(10)?
                .checked_add(u64::from(digit - b'0'))?;
        }
        (digits > 0 && value <= OFFSET_MAX).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// In the notation of Content-Range, or 200 or 416.
    fn shown(value: &str, max_ranges: Option<usize>) -> String {
        match parse(value.as_bytes(), 90, max_ranges) {
            Wanted::Whole => "200".to_string(),
            Wanted::Unsatisfiable => "416".to_string(),
            Wanted::Parts(parts) => {
                let parts: Vec<_> = parts
                    .iter()
                    .map(|p| format!("{}-{}", p.start, p.end - 1))
                    .collect();
                parts.join(" ")
            }
        }
    }

    /// Each row was sent to nginx 1.22 for a file of 90 bytes.
    #[test]
    fn one_range_as_nginx_reads_it() {
        for (value, expected) in [
            ("bytes=0-0", "0-0"),
            ("bytes=5-", "5-89"),
            ("bytes=0-", "0-89"),
            ("bytes=-5", "85-89"),
            ("bytes=-0", "416"),
            ("bytes=-90", "0-89"),
            ("bytes=-91", "0-89"),
            ("bytes=0-89", "0-89"),
            ("bytes=0-90", "0-89"),
            ("bytes=0-1000", "0-89"),
            ("bytes=89-", "89-89"),
            ("bytes=90-", "416"),
            ("bytes=90-95", "416"),
            ("bytes=5-4", "416"),
            ("bytes=-", "416"),
            ("bytes=", "200"),
            ("bytes", "200"),
            ("bytes=a", "416"),
            ("bytes=0-a", "416"),
            ("bytes=0-1a", "416"),
            ("bytes=0", "416"),
            ("bytes= 0-1", "0-1"),
            ("bytes=0 -1", "0-1"),
            ("bytes=0- 1", "0-1"),
            ("bytes=5 - 6", "5-6"),
            ("bytes=  -5", "85-89"),
            ("bytes=-  5", "416"),
            ("BYTES=0-1", "0-1"),
            ("bytes =0-1", "200"),
            ("bytes:0-1", "200"),
            ("items=0-1", "200"),
            ("bytes=9223372036854775807-", "416"),
            ("bytes=9223372036854775808-", "416"),
            ("bytes=0-9223372036854775807", "0-89"),
            ("bytes=0-9223372036854775808", "416"),
            ("bytes=0-99999999999999999999", "416"),
            ("bytes=-9223372036854775807", "0-89"),
            ("bytes=-9223372036854775808", "416"),
            ("bytes=--1", "416"),
            ("bytes=0--1", "416"),
            ("bytes=0-1;2-3", "416"),
            ("bytes=0x1-2", "416"),
            ("bytes=+0-1", "416"),
            ("bytes=00000-00001", "0-1"),
            ("bytes=\t0-1", "416"),
            ("bytes=0-\t1", "416"),
        ] {
            assert_eq!(shown(value, None), expected, "{value}");
        }
    }

    /// The value, the answer without a limit, and with `max_ranges 2`.
    #[test]
    fn several_ranges_as_nginx_reads_them() {
        for (value, unlimited, two) in [
            ("bytes=0-1,", "416", "416"),
            ("bytes=,0-1", "416", "416"),
            ("bytes=0-1, 2-3", "0-1 2-3", "0-1 2-3"),
            ("bytes=0-1 , 2-3", "0-1 2-3", "0-1 2-3"),
            ("bytes=0-1\t,2-3", "416", "416"),
            ("bytes=0-1,,2-3", "416", "416"),
            ("bytes=0-5,3-8", "0-5 3-8", "0-5 3-8"),
            ("bytes=0-89,0-89", "200", "200"),
            ("bytes=0-44,45-89", "0-44 45-89", "0-44 45-89"),
            ("bytes=0-45,45-89", "200", "200"),
            ("bytes=0-,0-", "200", "200"),
            ("bytes=0-1,100-", "0-1", "0-1"),
            ("bytes=100-,0-1", "0-1", "0-1"),
            ("bytes=100-,200-", "416", "416"),
            ("bytes=5-4,0-1", "0-1", "0-1"),
            ("bytes=0-1,a", "416", "416"),
            ("bytes=0-89,0-5,a", "416", "416"),
            ("bytes=-0,0-1", "0-1", "0-1"),
            ("bytes=-5,0-0", "85-89 0-0", "85-89 0-0"),
            ("bytes=1-1,0-0", "1-1 0-0", "1-1 0-0"),
            ("bytes=0-1,2-3,4-5", "0-1 2-3 4-5", "200"),
            ("bytes=100-,200-,0-1,2-3", "0-1 2-3", "0-1 2-3"),
            ("bytes=0-1,2-3,100-", "0-1 2-3", "0-1 2-3"),
            ("bytes=0-1,2-3,4-5,a", "416", "200"),
            ("bytes=0-1,2-3,a", "416", "416"),
        ] {
            assert_eq!(shown(value, None), unlimited, "{value}");
            assert_eq!(shown(value, Some(2)), two, "{value}, at most 2");
        }
        assert_eq!(shown("bytes=0-1", Some(0)), "200");
        for value in [
            "bytes=0-",
            "bytes=0-5",
            "bytes=-5",
            "bytes=-0",
            "bytes=0-,5-",
        ] {
            assert_eq!(parse(value.as_bytes(), 0, None), Wanted::Whole, "{value}");
        }
        for value in [
            "bytes=5-",
            "bytes=5-9",
            "bytes=5-3",
            "bytes=1-",
            "bytes=0-1;x",
        ] {
            assert_eq!(
                parse(value.as_bytes(), 0, None),
                Wanted::Unsatisfiable,
                "{value}"
            );
        }
    }

    #[test]
    fn parts_always_lie_inside() {
        let mut random = Random::new(9);
        for _ in 0..100_000 {
            let mut value = b"bytes=".to_vec();
            for _ in 0..random.below(12) {
                value.push(b"0123456789--, "[random.below(14) as usize]);
            }
            let size = random.below(40);
            if let Wanted::Parts(parts) = parse(&value, size, None) {
                assert!(!parts.is_empty());
                assert!(
                    parts.iter().all(|p| p.start < p.end && p.end <= size),
                    "{parts:?} of {size}"
                );
            }
        }
    }
}
