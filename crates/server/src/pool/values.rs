//! The values of php-fpm's entries: numbers, flags, times, sizes.

/// A count.
pub fn number(text: &str) -> Result<usize, &'static str> {
    const WRONG: &str = "is not a valid number (greater or equal than zero)";
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().map_err(|_| WRONG),
        false => Err(WRONG),
    }
}

/// The words that PHP's own parser of ini files takes for true and false.
pub fn flag(text: &str) -> Result<bool, &'static str> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Ok(true),
        "" | "0" | "off" | "no" | "none" | "false" => Ok(false),
        _ => Err("invalid boolean value"),
    }
}

/// A time in whole seconds: `10`, `10s`, `5m`, `2h`, `1d`.
pub fn seconds(text: &str) -> Result<u64, &'static str> {
    let (digits, factor) = match text.as_bytes() {
        [.., b's'] => (&text[..text.len() - 1], 1),
        [.., b'm'] => (&text[..text.len() - 1], 60),
        [.., b'h'] => (&text[..text.len() - 1], 3600),
        [.., b'd'] => (&text[..text.len() - 1], 86400),
        [.., b'0'..=b'9'] => (text, 1),
        _ => return Err("unknown suffix used in time value"),
    };
    let count = number(digits)? as u64;
    count.checked_mul(factor).ok_or("is out of range")
}

/// As `seconds`, and `250ms`.
pub fn milliseconds(text: &str) -> Result<u64, &'static str> {
    match text.strip_suffix("ms") {
        Some(digits) => number(digits).map(|count| count as u64),
        None => seconds(text)?.checked_mul(1000).ok_or("is out of range"),
    }
}

/// A size: `64M`, `1g`, `4096`.
pub fn bytes(text: &str) -> Result<u64, &'static str> {
    let (digits, shift) = match text.as_bytes() {
        [.., b'k' | b'K'] => (&text[..text.len() - 1], 10),
        [.., b'm' | b'M'] => (&text[..text.len() - 1], 20),
        [.., b'g' | b'G'] => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let count = number(digits)? as u64;
    count.checked_mul(1 << shift).ok_or("is out of range")
}

/// `rlimit_core`: a number or `unlimited`.
pub fn core(text: &str) -> Result<u64, &'static str> {
    match text {
        "unlimited" => Ok(u64::MAX),
        _ => number(text)
            .map(|count| count as u64)
            .map_err(|_| "is not a valid number or 'unlimited'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_php_fpm_reads_them() {
        assert_eq!(seconds("10"), Ok(10));
        assert_eq!(seconds("2m"), Ok(120));
        assert_eq!(seconds("1d"), Ok(86400));
        assert!(seconds("").is_err() && seconds("x").is_err() && seconds("-1s").is_err());
        assert!(seconds("99999999999999999999").is_err());
        assert_eq!(milliseconds("250ms"), Ok(250));
        assert_eq!(milliseconds("3s"), Ok(3000));
        assert_eq!(bytes("64M"), Ok(64 << 20));
        assert!(bytes("18446744073709551615g").is_err() && bytes("M5").is_err());
        assert_eq!(core("unlimited"), Ok(u64::MAX));
        assert_eq!((flag("Yes"), flag("none")), (Ok(true), Ok(false)));
        assert!(flag("2").is_err() && number("+1").is_err() && number("").is_err());
    }
}
