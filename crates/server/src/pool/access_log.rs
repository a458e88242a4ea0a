//! A pool's own access log, in php-fpm's format language.

use super::facts::Facts;
use std::fmt::Write;
use std::time::Duration;

/// What a line says; times of day are seconds since 1970.
#[derive(Debug)]
pub struct Entry<'a> {
    pub pool: &'a str,
    pub facts: &'a Facts,
    pub status: u16,
    pub child: i32,
    pub parent: i32,
    pub duration: Duration,
    /// Processor time of the request, in user and system mode.
    pub cpu: [Duration; 2],
    /// Bytes.
    pub memory: u64,
    pub began: i64,
    pub ended: i64,
}

/// Whether a format can be written.
pub fn check(format: &str) -> Result<(), String> {
    let complaint = || format!("wrong format for access.format '{format}'");
    let mut rest = format;
    while let Some((_, after)) = rest.split_once('%') {
        let (modifier, letter, after) = directive(after).ok_or_else(complaint)?;
        let known = match (letter, modifier) {
            ('C', None | Some("user" | "system" | "total")) => true,
            (
                'd',
                None
                | Some(
                    "seconds" | "s" | "milliseconds" | "milli" | "ms" | "miliseconds" | "mili"
                    | "microseconds" | "micro" | "us",
                ),
            ) => true,
            ('M', None | Some("bytes" | "kilobytes" | "kilo" | "megabytes" | "mega")) => true,
            ('t' | 'T', _) => true,
            (letter, None) => "%flmnpPqQrRsu".contains(letter),
            _ => false,
        };
        if matches!(letter, 'e' | 'o') {
            return Err(format!(
                "access.format '%{{…}}{letter}' is not supported by gannet"
            ));
        }
        if !known {
            return Err(complaint());
        }
        rest = after;
    }
    Ok(())
}

/// Whether a format asks for the processor time or memory of each request.
pub fn measures(format: &str) -> bool {
    let mut rest = format;
    while let Some((_, after)) = rest.split_once('%') {
        let Some((_, letter, after)) = directive(after) else {
            return false;
        };
        if matches!(letter, 'C' | 'M') {
            return true;
        }
        rest = after;
    }
    false
}

/// What stands after a `%`: `{modifier}` perhaps, a letter, the rest.
fn directive(text: &str) -> Option<(Option<&str>, char, &str)> {
    let (modifier, text) = match text.strip_prefix('{') {
        Some(inner) => inner
            .split_once('}')
            .map(|(modifier, rest)| (Some(modifier), rest))?,
        None => (None, text),
    };
    let letter = text.chars().next()?;
    Some((modifier, letter, &text[letter.len_utf8()..]))
}

/// Appends one line with its end.
pub fn write(format: &str, entry: &Entry<'_>, out: &mut Vec<u8>) {
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        out.extend_from_slice(before.as_bytes());
        let Some((modifier, letter, after)) = directive(after) else {
            break;
        };
        value(letter, modifier, entry, out);
        rest = after;
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'\n');
}

fn value(letter: char, modifier: Option<&str>, entry: &Entry<'_>, out: &mut Vec<u8>) {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = match letter {
        'C' => write!(text, "{:.2}", share_of_processor(modifier, entry)),
        'd' => match modifier {
            Some("milliseconds" | "milli" | "ms" | "miliseconds" | "mili") => {
                write!(text, "{:.3}", entry.duration.as_secs_f64() * 1e3)
            }
            Some("microseconds" | "micro" | "us") => write!(text, "{}", entry.duration.as_micros()),
            _ => write!(text, "{:.3}", entry.duration.as_secs_f64()),
        },
        'M' => match modifier {
            Some("kilobytes" | "kilo") => write!(text, "{}", entry.memory / 1024),
            Some("megabytes" | "mega") => write!(text, "{}", entry.memory / 1024 / 1024),
            _ => write!(text, "{}", entry.memory),
        },
        'l' => write!(text, "{}", entry.facts.content_length),
        'p' => write!(text, "{}", entry.child),
        'P' => write!(text, "{}", entry.parent),
        's' => write!(text, "{}", entry.status),
        't' => write_time(entry.began, modifier, &mut text),
        'T' => write_time(entry.ended, modifier, &mut text),
        'n' => write!(text, "{}", entry.pool),
        '%' => write!(text, "%"),
        'Q' if !entry.facts.query.is_empty() => write!(text, "?"),
        'f' => return word(&entry.facts.script_filename, out),
        'm' => return word(&entry.facts.method, out),
        'r' => return word(&entry.facts.script_name, out),
        'R' => return word(&entry.facts.remote, out),
        'u' => return word(&entry.facts.user, out),
        'q' => return escaped(&entry.facts.query, out),
        _ => Ok(()),
    };
    out.extend_from_slice(text.as_bytes());
}

/// In percent of one processor.
fn share_of_processor(modifier: Option<&str>, entry: &Entry<'_>) -> f64 {
    let [user, system] = entry.cpu.map(|time| time.as_secs_f64());
    let used = match modifier {
        Some("user") => user,
        Some("system") => system,
        _ => user + system,
    };
    let duration = entry.duration.as_secs_f64();
    if duration > 0.0 {
        used / duration * 100.0
    } else {
        0.0
    }
}

fn word(text: &[u8], out: &mut Vec<u8>) {
    if text.is_empty() {
        out.push(b'-');
    }
    escaped(text, out);
}

/// Clients choose these texts: no control byte and no quote goes into the log as it is.
fn escaped(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            0..0x20 | 0x7f | b'"' | b'\\' => {
                out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
            }
            plain => out.push(plain),
        }
    }
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A time in the form of `strftime`; the default is that of the access logs of web servers.
pub fn write_time(seconds: i64, format: Option<&str>, out: &mut String) -> std::fmt::Result {
    let Ok(time) = sys::machine::local_time(seconds) else {
        return write!(out, "-");
    };
    let month = usize::try_from(time.month - 1).unwrap_or(0);
    let month = MONTHS.get(month).copied().unwrap_or("-");
    let zone = time.offset.abs() / 60;
    let sign = if time.offset < 0 { '-' } else { '+' };
    let mut letters = format.unwrap_or("%d/%b/%Y:%H:%M:%S %z").chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('d') => write!(out, "{:02}", time.day),
            Some('e') => write!(out, "{:2}", time.day),
            Some('b' | 'h') => write!(out, "{month}"),
            Some('m') => write!(out, "{:02}", time.month),
            Some('Y') => write!(out, "{}", time.year),
            Some('y') => write!(out, "{:02}", time.year.rem_euclid(100)),
            Some('H') => write!(out, "{:02}", time.hour),
            Some('M') => write!(out, "{:02}", time.minute),
            Some('S') => write!(out, "{:02}", time.second),
            Some('F') => write!(out, "{}-{:02}-{:02}", time.year, time.month, time.day),
            Some('T') => write!(
                out,
                "{:02}:{:02}:{:02}",
                time.hour, time.minute, time.second
            ),
            Some('j') => write!(out, "{:03}", time.day_of_year + 1),
            Some('s') => write!(out, "{seconds}"),
            Some('z') => write!(out, "{sign}{:02}{:02}", zone / 60, zone % 60),
            Some(other) => write!(out, "{other}"),
            None => Ok(()),
        }?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(format: &str) -> String {
        let facts = Facts {
            method: b"GET".to_vec(),
            script_name: b"/a\"\n.php".to_vec(),
            script_filename: b"/www/a.php".to_vec(),
            query: b"x=1".to_vec(),
            content_length: 7,
            user: Vec::new(),
            remote: b"127.0.0.1".to_vec(),
        };
        let entry = Entry {
            pool: "www",
            facts: &facts,
            status: 200,
            child: 12,
            parent: 11,
            duration: Duration::from_micros(12_500),
            cpu: [Duration::from_millis(4), Duration::from_millis(1)],
            memory: 2 << 20,
            began: 0,
            ended: 0,
        };
        let mut out = Vec::new();
        write(format, &entry, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn letters_are_those_of_php_fpm() {
        for (format, expected) in [
            (
                "%R - %u \"%m %r%Q%q\" %s",
                "127.0.0.1 - - \"GET /a\\x22\\x0a.php?x=1\" 200\n",
            ),
            (
                "%d %{ms}d %{micro}d %C %{user}C",
                "0.013 12.500 12500 40.00 32.00\n",
            ),
            (
                "%M %{kilo}M %{mega}M %l %p %P %n %f%%",
                "2097152 2048 2 7 12 11 www /www/a.php%\n",
            ),
            ("%{%Y}t", "1970\n"),
        ] {
            assert_eq!(check(format), Ok(()), "{format}");
            assert_eq!(line(format), expected);
        }
        for format in ["%z", "%", "%{x}d", "%{s", "%{mega}C"] {
            assert!(check(format).is_err(), "{format}");
        }
        assert!(measures("%s %{mega}M") && !measures("%%M %s"));
    }
}
