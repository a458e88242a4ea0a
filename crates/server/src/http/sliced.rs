//! Where a request stands that is answered in pieces (`slice`): known to `$slice_range`, which asks an upstream for the
//! next one, and to the filter that puts them together.

use super::Request;
use wire::http1::Known;

/// What is known of the pieces of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sliced {
    /// Nobody has asked for `$slice_range`.
    #[default]
    Unasked,
    /// The piece that begins here is asked for.
    From(u64),
    /// The response is not one of pieces.
    Over,
}

/// Appends the range of the piece that is asked for; false: there are no pieces.
pub fn append_range(request: &Request, out: &mut Vec<u8>) -> bool {
    let settings = &request.location().settings;
    let size = settings.slice.size;
    let start = match request.sliced.get() {
        Sliced::From(_) if is_over(request) => return false,
        Sliced::From(start) if size > 0 => start,
        Sliced::Unasked if size > 0 && request.depth == 0 && request.sent.status.get() == 0 => {
            let wanted = match settings.range.max_ranges {
                0 => 0,
                _ => wanted_from(request),
            };
            let start = wanted - wanted % size;
            request.sliced.set(Sliced::From(start));
            start
        }
        _ => return false,
    };
    let last = start.saturating_add(size - 1);
    out.extend_from_slice(format!("bytes={start}-{last}").as_bytes());
    true
}

/// As in nginx the last range is forgotten with the last piece, and there are no more of them where no body is sent.
fn is_over(request: &Request) -> bool {
    let is_sent = request.sent.header_bytes.get() > 0;
    is_sent && !request.is_head() && request.sent.status.get() != 304
}

/// Where what the client wants begins, as far as a single range says so. With If-Range the whole may be wanted.
fn wanted_from(request: &Request) -> u64 {
    if request.field(Known::IfRange).is_some() {
        return 0;
    }
    request.field(Known::Range).map_or(0, start_of)
}

/// Where a Range field's only range begins; 0 where there are several, or it says nothing of that.
fn start_of(value: &[u8]) -> u64 {
    const UNIT: &[u8] = b"bytes=";
    let Some((unit, ranges)) = value.split_at_checked(UNIT.len()) else {
        return 0;
    };
    if !unit.eq_ignore_ascii_case(UNIT) || ranges.contains(&b',') {
        return 0;
    }
    let blanks = ranges.iter().take_while(|&&byte| byte == b' ').count();
    let digits = ranges.get(blanks..).unwrap_or_default();
    let length = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let number = conf::values::parse_number(digits.get(..length).unwrap_or_default());
    number.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_range_says_where_it_begins() {
        for (value, expected) in [
            ("bytes=5-9", 5),
            ("Bytes=  12-", 12),
            ("bytes=-5", 0),
            ("bytes=5-6,8-9", 0),
            ("bytes=99999999999999999999-", 0),
            ("items=5-", 0),
            ("bytes=x", 0),
            ("", 0),
        ] {
            assert_eq!(start_of(value.as_bytes()), expected, "{value}");
        }
    }
}
