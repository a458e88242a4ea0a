//! Access logs as a source of requests: the request line of each entry and, for their pace, its time.

use std::time::Duration;

/// Entries of a log that are replayed.
pub const ENTRIES_MAX: usize = 1_000_000;

/// One request of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub method: &'a str,
    pub target: &'a str,
    /// Seconds since 1970.
    pub time_s: i64,
}

/// Reads a line in the common or combined format; `None` for anything that is not a request without a body. What stands
/// before the time and after the request does not matter.
pub fn entry(line: &str) -> Option<Entry<'_>> {
    let open = line.find('[')?;
    let (time, rest) = line.get(open + 1..)?.split_once(']')?;
    let (_, rest) = rest.split_once('"')?;
    let (request, _) = rest.split_once('"')?;
    let mut words = request.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let is_plain = words.next().is_none() && version.starts_with("HTTP/");
    let is_path = target.starts_with('/') && !target.contains(|c: char| c.is_control());
    (is_plain && is_path && matches!(method, "GET" | "HEAD")).then_some(Entry {
        method,
        target,
        time_s: time_of(time)?,
    })
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Reads `10/Oct/2000:13:55:36 -0700`.
fn time_of(text: &str) -> Option<i64> {
    let (clock, zone) = text.split_once(' ')?;
    let mut parts = clock.split(['/', ':']);
    let day: i64 = parts.next()?.parse().ok()?;
    let name = parts.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? as i64 + 1;
    let mut number = || parts.next()?.parse::<i64>().ok();
    let (year, hour, minute, second) = (number()?, number()?, number()?, number()?);
    let in_range = (1970..=9999).contains(&year)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    if !in_range {
        return None;
    }
    let (sign, zone) = match zone.split_at_checked(1)? {
        ("+", zone) => (1, zone),
        ("-", zone) => (-1, zone),
        _ => return None,
    };
    let zone: i64 = zone.parse().ok().filter(|zone| (0..=1500).contains(zone))?;
    let offset = sign * (zone / 100 * 3600 + zone % 100 * 60);
    Some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset)
}

/// Days from 1970-01-01, by counting years from March on, so that the leap day is the last of a year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days_before_month = (153 * month + 2) / 5;
    // 719_468 days lie between the first of March of the year 0 and 1970.
    365 * year + leap_days + days_before_month + day - 1 - 719_468
}

/// When each entry is due, at so many times its own speed. A log tells whole seconds: the entries of one second are spread
/// over it. One that is older than the one before is due at once.
pub fn schedule(seconds: &[i64], speed: f64) -> Vec<Duration> {
    let first = seconds.first().copied().unwrap_or(0);
    let mut due = Vec::with_capacity(seconds.len());
    let mut now = first;
    let mut index = 0;
    while let Some(second) = seconds.get(index) {
        now = now.max(*second);
        let rest = seconds.get(index..).unwrap_or_default();
        let together = rest
            .iter()
            .take_while(|other| **other <= now)
            .count()
            .max(1);
        for n in 0..together {
            let at = (now - first) as f64 + n as f64 / together as f64;
            due.push(Duration::from_secs_f64(at / speed));
        }
        index += together;
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_logs_are_read() {
        let combined = r#"127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a?b HTTP/1.1" 200 5 "-" "x [y] \"z\"""#;
        let expected = Entry {
            method: "GET",
            target: "/a?b",
            time_s: 971_211_336,
        };
        assert_eq!(entry(combined), Some(expected));
        for (time, seconds) in [
            ("01/Jan/1970:00:00:00 +0000", 0),
            ("29/Feb/2024:12:00:00 +0200", 1_709_200_800),
            ("31/Dec/1999:23:59:59 +0000", 946_684_799),
        ] {
            assert_eq!(time_of(time), Some(seconds), "{time}");
        }
        for line in [
            "",
            "x",
            r#"- [10/Oct/2000:13:55:36 -0700] "POST /a HTTP/1.1" 200"#,
            r#"- [10/Oct/2000:13:55:36 -0700] "GET http://a/ HTTP/1.1" 200"#,
            r#"- [10/Oct/2000:13:55:36 -0700] "\x16\x03" 400"#,
            r#"- [10/Oct/2000:13:55:36 -0700] "GET /a b HTTP/1.1" 400"#,
            r#"- [10/Oct/2000:13:55 -0700] "GET /a HTTP/1.1" 400"#,
            r#"- [99/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 400"#,
        ] {
            assert_eq!(entry(line), None, "{line}");
        }
    }

    #[test]
    fn seconds_are_filled_evenly() {
        let ms = |speed| -> Vec<u128> {
            let due = schedule(&[10, 10, 12, 11, 13], speed);
            due.iter().map(|due| due.as_millis()).collect()
        };
        assert_eq!(ms(1.0), [0, 500, 2000, 2500, 3000]);
        assert_eq!(ms(2.0), [0, 250, 1000, 1250, 1500]);
        assert!(schedule(&[], 1.0).is_empty());
    }
}
