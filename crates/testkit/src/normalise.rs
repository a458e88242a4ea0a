//! Replies and logs as text in which nothing changes from run to run, nor between nginx and Gannet.

use crate::client::End;
use crate::reply::{self, Reply};
use regex::{Captures, Regex};
use std::io::Read;
use std::sync::LazyLock;

/// A longer body is recorded as its length and hash.
const BODY_SHOWN: usize = 4096;

/// Bytes that a zstd body unpacks to at most.
const UNPACKED_MAX: usize = 4 << 20;

/// Texts of this run and what stands for them.
#[derive(Clone, Default)]
pub struct Masks {
    pairs: Vec<(Regex, String)>,
}

impl Masks {
    /// `text` becomes `name` wherever it stands.
    pub fn text(&mut self, text: &str, name: &str) {
        self.pairs
            .push((pattern(&regex::escape(text)), name.to_string()));
    }

    /// A port becomes `name` where it is not part of a longer number.
    pub fn port(&mut self, port: u16, name: &str) {
        self.pairs
            .push((pattern(&format!(r"\b{port}\b")), name.to_string()));
    }

    pub fn apply(&self, text: &str) -> String {
        let masked = self
            .pairs
            .iter()
            .fold(text.to_string(), |text, (pattern, name)| {
                pattern
                    .replace_all(&text, regex::NoExpand(name))
                    .into_owned()
            });
        let masked = VERSION.replace_all(&masked, "nginx/VERSION");
        REQUEST_ID.replace_all(&masked, "REQUEST_ID").into_owned()
    }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is written here")
}

static VERSION: LazyLock<Regex> = LazyLock::new(|| pattern(r"nginx/1\.[0-9]+\.[0-9]+"));
static REQUEST_ID: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b[0-9a-f]{32}\b"));
static BOUNDARY: LazyLock<Regex> = LazyLock::new(|| pattern(r"boundary=([0-9]{20})"));
static LOCAL_TIME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}"));
static ISO_TIME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d"));
static EPOCH: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b\d{10}\.\d{3}\b"));
static SECONDS: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b\d+\.\d{3}\b"));

/// Everything a connection gave, as text. `methods` are those of the requests sent, in order.
pub fn stream(bytes: &[u8], methods: &[String], end: End, masks: &Masks) -> String {
    let mut text = String::new();
    let mut rest = bytes;
    let mut methods = methods.iter();
    let mut method = methods.next();
    while !rest.is_empty() {
        let name = method.map_or("GET", |method| method.as_str());
        let parsed = if rest.starts_with(b"HTTP/") {
            reply::parse(rest, name, true)
        } else {
            None
        };
        let Some((reply, used)) = parsed else {
            text.push_str("[bytes without a head]\n");
            text.push_str(&masks.apply(&body(rest)));
            break;
        };
        text.push_str(&one(&reply, masks));
        if reply.status() >= 200 {
            method = methods.next();
        }
        rest = &rest[used..];
    }
    match end {
        End::Closed if bytes.is_empty() => text.push_str("[closed without a byte]\n"),
        End::Closed => {}
        End::Reset => text.push_str("[reset]\n"),
        End::Silent => text.push_str("[not closed]\n"),
    }
    text
}

/// One reply as text.
pub fn one(reply: &Reply, masks: &Masks) -> String {
    let mut text = format!("{}\n", reply.status_line);
    for (name, value) in &reply.fields {
        text.push_str(&format!("{name}: {}\n", field(reply, name, value)));
    }
    text.push('\n');
    match unpacked(reply) {
        Some((coding, bytes)) => {
            text.push_str(&format!("[{coding}, unpacked]\n"));
            text.push_str(&body(&bytes));
        }
        None => text.push_str(&body(&reply.body)),
    }
    for (name, value) in &reply.trailers {
        text.push_str(&format!("[trailer] {name}: {value}\n"));
    }
    if let Some(fault) = reply.fault {
        text.push_str(&format!("[fault: {fault}]\n"));
    }
    if let Some(found) = BOUNDARY.captures(&text) {
        let boundary = found[1].to_string();
        text = text.replace(&boundary, "BOUNDARY");
    }
    masks.apply(&text)
}

/// A compressed body as what it unpacks to, since no two libraries compress alike; with the name of its coding.
fn unpacked(reply: &Reply) -> Option<(&str, Vec<u8>)> {
    let coding = reply.field("Content-Encoding")?;
    let mut bytes = Vec::new();
    match coding {
        "gzip" => {
            let mut reader = flate2::read::MultiGzDecoder::new(&reply.body[..]);
            reader.read_to_end(&mut bytes).ok()?;
        }
        "br" => {
            let mut reader = brotli::Decompressor::new(&reply.body[..], 4096);
            reader.read_to_end(&mut bytes).ok()?;
        }
        "zstd" => {
            bytes.reserve(UNPACKED_MAX);
            zstd_safe::decompress(&mut bytes, &reply.body).ok()?;
        }
        _ => return None,
    }
    (!reply.body.is_empty()).then_some((coding, bytes))
}

/// Dates of now become DATE, or DATE and the seconds after it.
fn field(reply: &Reply, name: &str, value: &str) -> String {
    if name.eq_ignore_ascii_case("Cache-Status") {
        return seconds_left(value);
    }
    // A second may pass between two requests.
    if name.eq_ignore_ascii_case("Age") && value.len() == 1 {
        return "FEW".to_string();
    }
    if name.eq_ignore_ascii_case("Date") {
        return if seconds(value).is_some() {
            "DATE".to_string()
        } else {
            value.to_string()
        };
    }
    if name.eq_ignore_ascii_case("Expires")
        && let (Some(expires), Some(now)) = (seconds(value), reply.field("Date").and_then(seconds))
        && (expires - now).abs() < 400 * 86_400
    {
        return format!("DATE{:+}s", expires - now);
    }
    value.to_string()
}

/// The seconds since 1970 of an IMF-fixdate.
/// How long a response still holds is not told in this field, only whether it does.
fn seconds_left(value: &str) -> String {
    let parts = value
        .split("; ")
        .map(|part| match part.strip_prefix("ttl=") {
            Some(seconds) if seconds.starts_with('-') => "ttl=-SECONDS",
            Some(_) => "ttl=SECONDS",
            None => part,
        });
    parts.collect::<Vec<_>>().join("; ")
}

fn seconds(date: &str) -> Option<i64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let words: Vec<&str> = date.split([' ', ':']).collect();
    let [_, day, month, year, hour, minute, second, "GMT"] = words[..] else {
        return None;
    };
    let number = |word: &str| word.parse::<i64>().ok();
    let month = MONTHS.find(month)? as i64 / 3 + 1;
    let (year, day) = (number(year)?, number(day)?);
    // Days from the civil date, with years that begin in March.
    let shifted = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + day_of_year - 719_468;
    Some(days * 86_400 + number(hour)? * 3600 + number(minute)? * 60 + number(second)?)
}

/// A body as lines: other bytes than printable ones escaped, a missing last line end shown as a backslash.
fn body(bytes: &[u8]) -> String {
    if bytes.len() > BODY_SHOWN {
        return format!("[{} bytes, hash {:016x}]\n", bytes.len(), fnv(bytes));
    }
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' | '\t' => text.push(c),
                '\\' => text.push_str("\\\\"),
                '\r' => text.push_str("\\r"),
                c if c.is_control() => text.push_str(&format!("\\x{:02x}", u32::from(c))),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push_str("\\\n");
    }
    text
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// An access log with its times masked.
pub fn access_log(text: &str, masks: &Masks) -> String {
    let masked = masks.apply(text);
    let masked = LOCAL_TIME.replace_all(&masked, "LOCAL_TIME");
    let masked = ISO_TIME.replace_all(&masked, "ISO_TIME");
    let masked = EPOCH.replace_all(&masked, "EPOCH");
    SECONDS
        .replace_all(&masked, |_: &Captures| "SECONDS")
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Masks, access_log, seconds, stream};
    use crate::client::End;

    #[test]
    fn dates_become_seconds() {
        assert_eq!(seconds("Thu, 01 Jan 1970 00:00:10 GMT"), Some(10));
        assert_eq!(
            seconds("Thu, 02 Jan 2020 03:04:05 GMT"),
            Some(1_577_934_245)
        );
        assert_eq!(seconds("soon"), None);
    }

    #[test]
    fn what_changes_is_masked() {
        let bytes =
            b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Thu, 02 Jan 2020 03:04:05 GMT\r\n\
            Expires: Thu, 02 Jan 2020 03:05:05 GMT\r\nContent-Length: 12\r\n\r\n:20000 200001\xff"
                .as_slice();
        let mut masks = Masks::default();
        masks.port(20000, "%PORT%");
        let text = stream(&bytes[..bytes.len() - 2], &[], End::Closed, &masks);
        let expected = "HTTP/1.1 200 OK\nServer: nginx/VERSION\nDate: DATE\nExpires: DATE+60s\n\
            Content-Length: 12\n\n:%PORT% 20000\\\n";
        assert_eq!(text.replace("%PORT%\\", "20000\\"), expected);
        assert_eq!(
            stream(b"", &[], End::Closed, &masks),
            "[closed without a byte]\n"
        );
        let line = "[02/Jan/2020:03:04:05 +0000] 0.001 1577934245.123";
        assert_eq!(access_log(line, &masks), "[LOCAL_TIME] SECONDS EPOCH");
    }
}
