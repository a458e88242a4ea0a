//! `modern_browser` and `ancient_browser`: two variables told by the User-Agent field, as nginx has told browsers apart
//! since before the ones that are about today.

use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, row};
use crate::http::{Request, user_agent};
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use memchr::memmem;
use std::sync::Arc;
use wire::http1::Known;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "modern_browser",
        HSL,
        Arity::Between(1, 2),
        modern_browser,
        "A browser and the version from which on it is modern, or unlisted.",
    ),
    row(
        "modern_browser_value",
        HSL,
        Arity::Exactly(1),
        |b, d| {
            let value = Bytes::copy_from_slice(&d.args[0]);
            b.location().browser.modern_value.0 = Some(value);
            Ok(())
        },
        "The value of $modern_browser.",
    ),
    row(
        "ancient_browser",
        HSL,
        Arity::AtLeast(1),
        ancient_browser,
        "What User-Agent fields of ancient browsers contain.",
    ),
    row(
        "ancient_browser_value",
        HSL,
        Arity::Exactly(1),
        |b, d| {
            let value = Bytes::copy_from_slice(&d.args[0]);
            b.location().browser.ancient_value.0 = Some(value);
            Ok(())
        },
        "The value of $ancient_browser.",
    ),
];

crate::config::setting::settings! {
    modern: Arc<Vec<Modern>> = Arc::default(),
    unlisted_modern: bool = false,
    ancient: Arc<Vec<Bytes>> = Arc::default(),
    netscape4: bool = false,
    modern_value: Bytes = Bytes::from_static(b"1"),
    ancient_value: Bytes = Bytes::from_static(b"1"),
}

/// How a browser calls itself.
#[derive(Debug)]
struct Mask {
    name: &'static str,
    /// So many bytes of the field cannot be its name.
    skip: usize,
    text: &'static str,
    /// Between the text and the version: Opera writes a space or a slash.
    gap: usize,
}

static MASKS: [Mask; 5] = [
    Mask {
        name: "opera",
        skip: 0,
        text: "Opera",
        gap: 1,
    },
    Mask {
        name: "msie",
        skip: "Mozilla/4.0 (compatible; ".len(),
        text: "MSIE ",
        gap: 0,
    },
    Mask {
        name: "gecko",
        skip: "Mozilla/5.0 (".len(),
        text: "rv:",
        gap: 0,
    },
    Mask {
        name: "safari",
        skip: "Mozilla/5.0 (".len(),
        text: "Safari/",
        gap: 0,
    },
    Mask {
        name: "konqueror",
        skip: "Mozilla/5.0 (compatible; ".len(),
        text: "Konqueror/",
        gap: 0,
    },
];

/// One `modern_browser`.
#[derive(Debug, Clone, Copy)]
pub struct Modern {
    mask: &'static Mask,
    version: u64,
}

fn modern_browser(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let name = &directive.args[0];
    let Some(version) = directive.args.get(1) else {
        if name[..] == *b"unlisted" {
            build.location().browser.unlisted_modern.0 = Some(true);
            return Ok(());
        }
        return modern(build, name, b"");
    };
    modern(build, name, version)
}

fn modern(build: &mut Build<'_>, name: &[u8], text: &[u8]) -> Outcome {
    let shown = String::from_utf8_lossy(name);
    let mask = MASKS
        .iter()
        .find(|mask| mask.name.as_bytes() == name)
        .ok_or_else(|| format!("unknown browser name \"{shown}\""))?;
    if !text
        .iter()
        .all(|byte| byte.is_ascii_digit() || *byte == b'.')
    {
        let shown = String::from_utf8_lossy(text);
        return Err(format!("invalid browser version \"{shown}\"").into());
    }
    let modern = &mut build.location().browser.modern.0;
    let modern = Arc::make_mut(modern.get_or_insert_default());
    modern.push(Modern {
        mask,
        version: version(text),
    });
    // As nginx, which looks for Opera first: it calls itself by other names, too.
    modern.sort_by_key(|modern| {
        MASKS
            .iter()
            .position(|mask| std::ptr::eq(mask, modern.mask))
    });
    Ok(())
}

fn ancient_browser(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let browser = &mut build.location().browser;
    for word in &directive.args {
        if word[..] == *b"netscape4" {
            browser.netscape4.0 = Some(true);
            continue;
        }
        let ancient = Arc::make_mut(browser.ancient.0.get_or_insert_default());
        ancient.push(Bytes::copy_from_slice(word));
    }
    Ok(())
}

/// The version at the front of a text, two decimal places for each of its numbers: the first four count.
fn version(text: &[u8]) -> u64 {
    let end = text
        .iter()
        .position(|byte| !byte.is_ascii_digit() && *byte != b'.');
    let text = &text[..end.unwrap_or(text.len())];
    let numbers = text.split(|&byte| byte == b'.');
    numbers
        .zip([1_000_000_u64, 10_000, 100, 1])
        .fold(0, |all: u64, (digits, scale)| {
            let number = conf::values::parse_number(digits).unwrap_or(0);
            all.saturating_add(number.saturating_mul(scale))
        })
}

impl Settings {
    fn is_modern(&self, agent: Option<&[u8]>) -> bool {
        let Some(agent) = agent else {
            return self.unlisted_modern;
        };
        for modern in self.modern.iter() {
            let name = agent.get(modern.mask.skip..).unwrap_or_default();
            let text = modern.mask.text.as_bytes();
            if let Some(at) = memmem::find(name, text) {
                let rest = name.get(at + text.len() + modern.mask.gap..);
                return version(rest.unwrap_or_default()) >= modern.version;
            }
        }
        let netscape4 = || match agent.strip_prefix(b"Mozilla/") {
            Some([major @ b'1'..=b'4', rest @ ..]) => *major > b'0' && rest.len() >= "4.72 ".len(),
            _ => false,
        };
        if self.netscape4 && netscape4() {
            return false;
        }
        let contains = |word: &Bytes| memmem::find(agent, word).is_some();
        !self.ancient.iter().any(contains) && self.unlisted_modern
    }
}

/// `$modern_browser`.
pub fn append_modern(request: &Request, out: &mut Vec<u8>) -> bool {
    append(request, true, out)
}

/// `$ancient_browser`.
pub fn append_ancient(request: &Request, out: &mut Vec<u8>) -> bool {
    append(request, false, out)
}

fn append(request: &Request, modern: bool, out: &mut Vec<u8>) -> bool {
    let settings = &request.location().settings.browser;
    if settings.is_modern(request.field(Known::UserAgent)) != modern {
        return false;
    }
    out.extend_from_slice(match modern {
        true => &settings.modern_value,
        false => &settings.ancient_value,
    });
    true
}

/// `$msie`.
pub fn append_msie(request: &Request, out: &mut Vec<u8>) -> bool {
    let msie = user_agent::browser(request).msie;
    if msie {
        out.push(b'1');
    }
    msie
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (text, expected) in [
            ("5.5", 5_050_000),
            ("1.7.12", 1_071_200),
            ("8", 8_000_000),
            ("6.0; Windows", 6_000_000),
            ("", 0),
            ("1.2.3.4.5", 1_020_304),
        ] {
            assert_eq!(version(text.as_bytes()), expected, "{text}");
        }
    }
}
