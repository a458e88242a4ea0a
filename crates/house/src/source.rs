//! Rust sources as the rules see them: found in the repository, with comments and strings blanked out, tests cut off.

use std::path::{Path, PathBuf};

/// One source file. `code` has the same length in bytes and lines as `text`, but comments and the inside of string
/// and character literals are spaces, so that a rule can look for words and count braces.
pub struct File {
    /// Relative to the repository, with `/`.
    pub path: String,
    pub text: String,
    pub code: String,
    /// Like `code`, with `#[cfg(test)]` items blanked too.
    pub shipped: String,
}

impl File {
    pub fn new(path: &str, text: &str) -> File {
        let code = blank_literals(text);
        let shipped = if is_test_file(path) {
            blank(&code, 0, code.len())
        } else {
            blank_tests(&code)
        };
        File {
            path: path.to_string(),
            text: text.to_string(),
            code,
            shipped,
        }
    }

    /// The name of the module folder or file directly under `crates/server/src`, if the file stands there.
    pub fn server_module(&self) -> Option<&str> {
        let rest = self.path.strip_prefix("crates/server/src/")?;
        let first = rest.split('/').next()?;
        let name = first.strip_suffix(".rs").unwrap_or(first);
        (name != "lib").then_some(name)
    }
}

fn is_test_file(path: &str) -> bool {
    path.split('/')
        .any(|part| part == "tests" || part == "tests.rs" || part == "benches")
}

/// The root of the repository: two folders above this crate.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository exists")
}

/// Every `.rs` file of the repository that is ours, in order.
pub fn rust_files() -> Vec<File> {
    let root = repository();
    let mut paths = Vec::new();
    for folder in ["src", "crates", "tests", "bench", "fuzz"] {
        collect(&root.join(folder), &mut paths);
    }
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let relative = path
                .strip_prefix(&root)
                .unwrap_or(path)
                .to_string_lossy()
                .into_owned();
            File::new(&relative, &text)
        })
        .collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if entry.file_name() != "target" {
                collect(&path, paths);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
}

/// Replaces comments and the contents of literals by spaces.
fn blank_literals(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end > at {
            for byte in &mut out[at..end] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
            at = end;
        } else {
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Where the comment or literal that starts at `at` ends, or `at` itself when none starts there.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let word_before = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    if rest.starts_with(b"//") {
        return at + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        return block_comment_end(bytes, at);
    }
    if rest[0] == b'"' {
        return quoted_end(bytes, at);
    }
    if !word_before
        && (rest.starts_with(b"r\"") || rest.starts_with(b"r#") || rest.starts_with(b"br"))
    {
        return raw_string_end(bytes, at).unwrap_or(at);
    }
    if rest[0] == b'\'' {
        return char_end(bytes, at);
    }
    at
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn quoted_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

fn raw_string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let after_r = start + bytes[start..].iter().position(|&b| b == b'r')? + 1;
    let hashes = bytes[after_r..].iter().take_while(|&&b| b == b'#').count();
    if bytes.get(after_r + hashes) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let body = after_r + hashes + 1;
    let length = bytes[body..]
        .windows(close.len())
        .position(|window| window == close)?;
    Some(body + length + close.len())
}

/// A character literal ends at its quote; a lifetime is no literal.
fn char_end(bytes: &[u8], start: usize) -> usize {
    match bytes.get(start + 1) {
        Some(b'\\') => {
            let body = start + 3;
            body + bytes[body.min(bytes.len())..]
                .iter()
                .position(|&b| b == b'\'')
                .map_or(0, |n| n + 1)
        }
        Some(_) => {
            let close = bytes[start + 1..].iter().take(6).position(|&b| b == b'\'');
            let lifetime = bytes[start + 1].is_ascii_alphanumeric() || bytes[start + 1] == b'_';
            match close {
                Some(1) => start + 3,
                Some(n) if !lifetime => start + 1 + n + 1,
                _ => start,
            }
        }
        None => start,
    }
}

/// Blanks each item under `#[cfg(test)]`, up to its closing brace or semicolon.
fn blank_tests(code: &str) -> String {
    let mut out = code.to_string();
    while let Some(start) = out.find("#[cfg(test)]") {
        let end = item_end(&out, start + "#[cfg(test)]".len());
        out = blank(&out, start, end);
    }
    out
}

/// The end of the item that starts at `at`: after its outermost braces, or after a semicolon that comes first.
pub fn item_end(code: &str, at: usize) -> usize {
    let mut depth = 0;
    for (index, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return index + 1,
            b'}' => depth -= 1,
            b';' if depth == 0 => return index + 1,
            _ => {}
        }
    }
    code.len()
}

fn blank(code: &str, start: usize, end: usize) -> String {
    let space = |c: char| if c == '\n' { '\n' } else { ' ' };
    // Only ASCII stays in `code` outside identifiers, but a wide character must not change the line count.
    let middle: String = code[start..end].chars().map(space).collect();
    format!("{}{}{}", &code[..start], middle, &code[end..])
}

/// The places where `word` stands as a whole word.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |&at| {
            !part(code[..at].chars().next_back()) && !part(code[at + word.len()..].chars().next())
        })
}

/// The number, from 1, of the line that holds byte `at`.
pub fn line_number(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}
