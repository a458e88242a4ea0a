//! The patterns of `include`, as glob(3) reads them in the C locale: `*`, `?`, `[…]` and backslash. One difference: a
//! pattern like `.*` does not match the directories `.` and `..`, which no configuration can mean to include.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Whether nginx asks glob(3) about a name rather than opening it.
pub(crate) fn is_pattern(name: &Path) -> bool {
    name.as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// The existing paths that match, in the order of their bytes. Directories that cannot be read match nothing.
pub(crate) fn expand(pattern: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    expand_from(Vec::new(), pattern.as_os_str().as_bytes(), &mut found);
    found.sort();
    found
        .into_iter()
        .map(|bytes| path_of(&bytes).to_owned())
        .collect()
}

/// Matches the first part of `rest` below `base`, then the others.
fn expand_from(base: Vec<u8>, rest: &[u8], found: &mut Vec<Vec<u8>>) {
    if rest.is_empty() {
        if path_of(&base).symlink_metadata().is_ok() {
            found.push(base);
        }
        return;
    }
    let end = rest
        .iter()
        .position(|&byte| byte == b'/')
        .unwrap_or(rest.len());
    let (part, rest) = rest.split_at(end);
    let slashes = rest.iter().take_while(|&&byte| byte == b'/').count();
    let (slashes, rest) = rest.split_at(slashes);
    let with = |name: &[u8]| [base.as_slice(), name, slashes].concat();
    if !part.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[')) {
        return expand_from(with(&literal(part)), rest, found);
    }
    for name in names_in(&base) {
        // A dot at the front is only matched by a dot.
        let hidden = name.starts_with(b".") && !part.starts_with(b".") && !part.starts_with(b"\\.");
        if !hidden && matches(part, &name) {
            expand_from(with(&name), rest, found);
        }
    }
}

fn names_in(directory: &[u8]) -> Vec<Vec<u8>> {
    let directory = if directory.is_empty() {
        b".".as_slice()
    } else {
        directory
    };
    let Ok(entries) = fs::read_dir(path_of(directory)) else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|entry| entry.file_name().as_bytes().to_vec())
        .collect()
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// A part without wildcards as the name it means: backslashes taken away.
fn literal(part: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(part.len());
    let mut bytes = part.iter();
    while let Some(&byte) = bytes.next() {
        name.push(if byte == b'\\' {
            *bytes.next().unwrap_or(&byte)
        } else {
            byte
        });
    }
    name
}

/// Whether one name matches one part. A star that proves too short is widened, the latest first: no recursion.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, n));
            p += 1;
            continue;
        }
        if n == name.len() && p == pattern.len() {
            return true;
        }
        let step = name.get(n).and_then(|&byte| match_one(&pattern[p..], byte));
        match (step, star) {
            (Some(width), _) => {
                p += width;
                n += 1;
            }
            (None, Some((after, from))) if from < name.len() => {
                star = Some((after, from + 1));
                p = after;
                n = from + 1;
            }
            _ => return false,
        }
    }
}

/// How many bytes of the pattern `byte` satisfies; `None` if it does not.
fn match_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'[' => match bracket(pattern, byte) {
            Some((true, width)) => Some(width),
            Some((false, _)) => None,
            // Without its end a bracket is a byte like any other.
            None => (byte == b'[').then_some(1),
        },
        b'\\' => match pattern.get(1) {
            Some(&escaped) => (byte == escaped).then_some(2),
            None => (byte == b'\\').then_some(1),
        },
        same => (byte == same).then_some(1),
    }
}

/// Whether `byte` is in the set at the front of `pattern`, and the set's width; `None` if the set never ends.
fn bracket(pattern: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let first = if negated { 2 } else { 1 };
    let mut at = first;
    let mut inside = false;
    loop {
        if pattern.get(at) == Some(&b']') && at > first {
            return Some((inside != negated, at + 1));
        }
        if let Some((class, width)) = class(&pattern[at..]) {
            inside |= in_class(class, byte);
            at += width;
            continue;
        }
        let low = member(pattern, &mut at)?;
        let mut high = low;
        if pattern.get(at) == Some(&b'-') && pattern.get(at + 1).is_some_and(|&next| next != b']') {
            at += 1;
            high = member(pattern, &mut at)?;
        }
        inside |= (low..=high).contains(&byte);
    }
}

/// One byte of a set, a backslash before it taken away.
fn member(pattern: &[u8], at: &mut usize) -> Option<u8> {
    if pattern.get(*at) == Some(&b'\\') {
        *at += 1;
    }
    let byte = *pattern.get(*at)?;
    *at += 1;
    Some(byte)
}

/// `[:name:]` at the front, and its width.
fn class(pattern: &[u8]) -> Option<(&[u8], usize)> {
    let inner = pattern.strip_prefix(b"[:")?;
    let end = inner.windows(2).position(|two| two == b":]")?;
    Some((&inner[..end], end + 4))
}

fn in_class(class: &[u8], byte: u8) -> bool {
    match class {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"digit" => byte.is_ascii_digit(),
        b"lower" => byte.is_ascii_lowercase(),
        b"upper" => byte.is_ascii_uppercase(),
        b"punct" => byte.is_ascii_punctuation(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        b"blank" => matches!(byte, b' ' | b'\t'),
        b"space" => matches!(byte, b' ' | b'\t'..=b'\r'),
        b"cntrl" => byte.is_ascii_control(),
        b"graph" => byte.is_ascii_graphic(),
        b"print" => byte == b' ' || byte.is_ascii_graphic(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part_matches_as_in_glibc() {
        let table: &[(&str, &str, bool)] = &[
            ("*", "", true),
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf~", false),
            ("*.conf", ".conf", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*?", "", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]", "b", true),
            ("[!a-c]", "b", false),
            ("[^a-c]", "d", true),
            ("[]a]", "]", true),
            ("[!]a]", "]", false),
            ("[a-]", "-", true),
            ("[a", "[a", true),
            ("[", "[", true),
            ("[a", "a", false),
            ("[[:digit:]x]", "7", true),
            ("[[:digit:]x]", "x", true),
            ("[[:digit:]x]", "d", false),
            ("[\\]]", "]", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("q\\\\w", "q\\w", true),
            ("?", "\u{e9}", false),
        ];
        for &(pattern, name, expected) in table {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn many_stars_are_no_trap() {
        let name = b"a".repeat(200);
        assert!(!matches(
            &[b"*a".repeat(100), b"b".to_vec()].concat(),
            &name
        ));
    }
}
