//! Durations, rates, sizes and shares as people write them, and back.

use std::time::Duration;

/// The longest time that may be written: ten years keeps all arithmetic far from its limits.
const LONGEST_S: f64 = 10.0 * 365.0 * 86_400.0;

/// Reads `300ms`, `1.5s`, `2m`, `1h`, `250us`; a bare number means seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("\"{text}\" is no duration such as 300ms, 10s or 2m");
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "us" | "µs" => number / 1e6,
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    if seconds > LONGEST_S {
        return Err(format!("\"{text}\" is too long"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Reads a range of durations, `300ms..1s`, or one duration.
pub fn duration_range(text: &str) -> Result<(Duration, Duration), String> {
    let Some((from, to)) = text.split_once("..") else {
        return duration(text).map(|one| (one, one));
    };
    let (from, to) = (duration(from)?, duration(to)?);
    if from > to {
        return Err(format!("\"{text}\" ends before it begins"));
    }
    Ok((from, to))
}

/// Reads requests per second: `500`, `2k`, `0.5`, `500/s`, `30/m`.
pub fn rate(text: &str) -> Result<f64, String> {
    let wrong = || format!("\"{text}\" is no rate such as 500, 2k or 30/m");
    let (number, per) = match text.split_once('/') {
        Some((number, "s")) => (number, 1.0),
        Some((number, "m" | "min")) => (number, 60.0),
        Some((number, "h")) => (number, 3600.0),
        Some(_) => return Err(wrong()),
        None => (text, 1.0),
    };
    let (number, factor) = match number.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1000.0),
        None => (number, 1.0),
    };
    let value = number.parse::<f64>().map_err(|_| wrong())? * factor / per;
    if value.is_finite() && (1e-6..=1e9).contains(&value) {
        Ok(value)
    } else {
        Err(wrong())
    }
}

/// Reads a factor: `1`, `0.5`, `10x`.
pub fn factor(text: &str) -> Result<f64, String> {
    match text.strip_suffix('x').unwrap_or(text).parse::<f64>() {
        Ok(factor) if (1e-3..=1e6).contains(&factor) => Ok(factor),
        _ => Err(format!("\"{text}\" is no factor such as 1, 0.5 or 10x")),
    }
}

/// A time for people: three significant digits and the unit that suits.
pub fn show(time: Duration) -> String {
    let ns = time.as_nanos() as f64;
    let (value, unit) = match ns {
        _ if ns < 1e3 => return format!("{}ns", time.as_nanos()),
        _ if ns < 999_500.0 => (ns / 1e3, "us"),
        _ if ns < 999_500_000.0 => (ns / 1e6, "ms"),
        _ if ns < 600e9 => (ns / 1e9, "s"),
        _ => (ns / 60e9, "min"),
    };
    format!("{}{unit}", three_digits(value))
}

/// A number of bytes for people, in powers of 1000.
pub fn show_bytes(bytes: f64) -> String {
    let (value, unit) = match bytes {
        _ if bytes < 1e3 => return format!("{bytes:.0} B"),
        _ if bytes < 999_500.0 => (bytes / 1e3, "KB"),
        _ if bytes < 999_500_000.0 => (bytes / 1e6, "MB"),
        _ => (bytes / 1e9, "GB"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A rate for people.
pub fn show_rate(value: f64) -> String {
    if value >= 99.95 {
        format!("{value:.0}")
    } else {
        three_digits(value)
    }
}

fn three_digits(value: f64) -> String {
    match value {
        _ if value >= 99.95 => format!("{value:.0}"),
        _ if value >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_shown() {
        for (text, ms) in [
            ("300ms", 300.0),
            ("1.5s", 1500.0),
            ("2", 2000.0),
            ("2m", 120_000.0),
            ("1h", 3_600_000.0),
            ("250us", 0.25),
            ("0s", 0.0),
        ] {
            let read = duration(text).expect(text);
            assert!((read.as_secs_f64() * 1e3 - ms).abs() < 1e-9, "{text}");
        }
        for text in [
            "", "s", "-1s", "1x", "1.2.3s", "1 s", "9999999h", "inf", "nan",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
        let second = Duration::from_secs(1);
        assert_eq!(
            duration_range("300ms..1s"),
            Ok((Duration::from_millis(300), second))
        );
        assert_eq!(duration_range("1s"), Ok((second, second)));
        assert!(duration_range("2s..1s").is_err());
        for (ns, text) in [
            (999, "999ns"),
            (1_234, "1.23us"),
            (999_499, "999us"),
            (999_500, "1.00ms"),
            (12_345_678, "12.3ms"),
            (1_000_000_000, "1.00s"),
            (600_000_000_000, "10.0min"),
        ] {
            assert_eq!(show(Duration::from_nanos(ns)), text);
        }
    }

    #[test]
    fn rates_are_read() {
        for (text, value) in [
            ("500", 500.0),
            ("2k", 2000.0),
            ("30/m", 0.5),
            ("1.5/s", 1.5),
        ] {
            assert_eq!(rate(text), Ok(value), "{text}");
        }
        for text in ["", "0", "-1", "x", "1/d", "inf", "NaN", "1e99"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
