//! Which patterns `regex` reads as PCRE does. Only constructs known to mean the same in both pass; what is merely
//! refused by `regex` needs no rule here, since its compiler says so.

/// A pattern in `regex`'s syntax.
#[derive(Debug, PartialEq, Eq)]
pub struct Translation {
    pub text: String,
    /// `$` stands in it, which PCRE also matches before a line feed at the end.
    pub has_dollar: bool,
}

/// Escapes that both read alike; beside these only punctuation may follow a backslash.
const SAME_ESCAPES: &[u8] = b"dDwWsSbBAztnrfax";
/// Longest name of a group in PCRE2 before version 10.44, the one nginx's users know.
const MAX_GROUP_NAME: usize = 32;

/// Reads a PCRE pattern; `None` where `regex` would mean something else by it, or might.
pub fn translate(pattern: &[u8]) -> Option<Translation> {
    let mut reader = Reader {
        pattern,
        at: 0,
        out: String::with_capacity(pattern.len() + 8),
        has_dollar: false,
    };
    while let Some(byte) = reader.peek() {
        match byte {
            b'\\' => reader.escape(false)?,
            b'[' => reader.class()?,
            b'(' => reader.group()?,
            b'*' | b'+' | b'?' | b'{' => reader.quantifier()?,
            b'$' => {
                reader.has_dollar = true;
                reader.copy(1);
            }
            _ => reader.copy(1),
        }
    }
    Some(Translation {
        text: reader.out,
        has_dollar: reader.has_dollar,
    })
}

/// Writes bytes above ASCII as `\xHH`, so that the pattern is text.
pub fn escape_high_bytes(pattern: &[u8]) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    for &byte in pattern {
        push_byte(&mut out, byte);
    }
    out
}

fn push_byte(out: &mut String, byte: u8) {
    if byte.is_ascii() {
        out.push(char::from(byte));
    } else {
        out.push_str(&format!("\\x{byte:02x}"));
    }
}

struct Reader<'p> {
    pattern: &'p [u8],
    at: usize,
    out: String,
    has_dollar: bool,
}

impl<'p> Reader<'p> {
    fn peek(&self) -> Option<u8> {
        self.pattern.get(self.at).copied()
    }

    fn rest(&self) -> &'p [u8] {
        self.pattern.get(self.at..).unwrap_or_default()
    }

    fn copy(&mut self, count: usize) {
        for &byte in &self.pattern[self.at..(self.at + count).min(self.pattern.len())] {
            push_byte(&mut self.out, byte);
        }
        self.at += count;
    }

    /// A backslash and what follows.
    fn escape(&mut self, in_class: bool) -> Option<()> {
        let length = match self.rest() {
            [b'\\', b'b' | b'B', ..] if in_class => return None,
            [b'\\', b'b' | b'B', b'{', ..] => return None,
            [b'\\', b'x', b'{', after @ ..] => {
                let digits = after.iter().position(|&byte| byte == b'}')?;
                let number = std::str::from_utf8(&after[..digits]).ok()?;
                u8::from_str_radix(number, 16).ok()?;
                digits + 4
            }
            [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                4
            }
            [b'\\', b'x' | b'<' | b'>', ..] => return None,
            [b'\\', byte, ..] if byte.is_ascii_punctuation() || SAME_ESCAPES.contains(byte) => 2,
            _ => return None,
        };
        self.copy(length);
        Some(())
    }

    /// `[…]`: nested classes and set operations are `regex`'s own.
    fn class(&mut self) -> Option<()> {
        self.copy(1);
        if matches!(self.rest(), [b':' | b'.' | b'=', ..]) {
            return None;
        }
        if self.peek() == Some(b'^') {
            self.copy(1);
        }
        if self.peek() == Some(b']') {
            self.copy(1);
        }
        loop {
            match self.rest() {
                [] => return None,
                [b']', ..] => {
                    self.copy(1);
                    return Some(());
                }
                [b'\\', ..] => self.escape(true)?,
                [b'[', b':', after @ ..] => {
                    let end = after.iter().position(|&byte| byte == b':')?;
                    if after.get(end + 1) != Some(&b']') {
                        return None;
                    }
                    self.copy(end + 4);
                }
                [b'[', ..] | [b'&', b'&', ..] | [b'-', b'-', ..] | [b'~', b'~', ..] => return None,
                _ => self.copy(1),
            }
        }
    }

    /// `(` with what makes the group special.
    fn group(&mut self) -> Option<()> {
        let length = match self.rest() {
            [b'(', b'*', ..] => return None,
            [b'(', b'?', b':', ..] => 3,
            [b'(', b'?', b'P', b'<', name @ ..] => 4 + group_name(name)?,
            [b'(', b'?', b'<', name @ ..] => 3 + group_name(name)?,
            [b'(', b'?', flags @ ..] => {
                let end = flags
                    .iter()
                    .position(|&byte| byte == b':' || byte == b')')?;
                let known = |byte: &u8| matches!(byte, b'i' | b'm' | b's' | b'-');
                if end == 0 || !flags[..end].iter().all(known) {
                    return None;
                }
                end + 3
            }
            _ => 1,
        };
        self.copy(length);
        Some(())
    }

    /// A quantifier, perhaps a lazy one; PCRE takes a second `+` as possessive and refuses or reads literally the rest.
    fn quantifier(&mut self) -> Option<()> {
        let length = match self.rest() {
            [b'{', after @ ..] => {
                let end = after.iter().position(|&byte| byte == b'}')?;
                let (least, most) = match after[..end].iter().position(|&byte| byte == b',') {
                    Some(comma) => (&after[..comma], &after[comma + 1..end]),
                    None => (&after[..end], &after[..end]),
                };
                let digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
                if least.is_empty() || !digits(least) || !digits(most) {
                    return None;
                }
                end + 2
            }
            _ => 1,
        };
        self.copy(length);
        if self.peek() == Some(b'?') {
            self.copy(1);
        }
        match self.peek() {
            Some(b'*' | b'+' | b'?' | b'{') => None,
            _ => Some(()),
        }
    }
}

/// The length of a group's name with its `>`.
fn group_name(text: &[u8]) -> Option<usize> {
    let end = text.iter().position(|&byte| byte == b'>')?;
    let name = &text[..end];
    let first = *name.first()?;
    let good = name.len() <= MAX_GROUP_NAME
        && !first.is_ascii_digit()
        && name
            .iter()
            .all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_');
    good.then_some(end + 1)
}
