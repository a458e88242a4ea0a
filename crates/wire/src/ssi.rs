//! Server side includes: commands in the comments of a page, found wherever its pieces end, and the small language of
//! their values. The limits and complaints are nginx's.

use std::borrow::Cow;

/// The longest name of a command or a parameter.
const NAME_MAX: usize = 32;
/// What a command begins with.
const BEGIN: &[u8] = b"<!--#";
/// The most parameters of one command.
pub const PARAMETERS_MAX: usize = 16;

/// A command with its parameters in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    pub name: Vec<u8>,
    pub parameters: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What stands in a page beside text.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    Command(Command),
    /// The end of a command that could not be read; what was wrong with it was told by `Complaint`.
    Broken,
    /// What is wrong with the command that begins here.
    Complaint(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Text, of which the last so many bytes are a beginning of `BEGIN` that was held back.
    Text(usize),
    BeforeName,
    Name,
    BeforeParameter,
    Parameter,
    BeforeEqual,
    BeforeValue,
    /// In quotes of this kind; the second is that a backslash stood before.
    Value(u8, bool),
    AfterValue,
    /// One or two dashes of the end were seen.
    End(u8),
    /// Broken, with so many dashes of the end seen.
    Skip(u8),
}

/// Finds commands in a page that comes in pieces.
#[derive(Debug)]
pub struct Parser {
    state: State,
    value_max: usize,
    command: Command,
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\r' | b'\n' | b'\t')
}

fn shown(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(text)
}

impl Parser {
    /// A parser that takes values of at most so many bytes.
    #[must_use]
    pub fn new(value_max: usize) -> Parser {
        Parser {
            state: State::Text(0),
            value_max,
            command: Command::default(),
        }
    }

    /// Takes bytes off `input` until there is an event; text goes to `out`. `None`: all was taken. As in nginx, what is
    /// held back at the end of a page or stands in a command without an end is lost.
    pub fn next(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Option<Event> {
        loop {
            if let State::Text(held) = self.state {
                self.text(held, input, out);
            }
            let (&byte, rest) = input.split_first()?;
            *input = rest;
            if let Some(event) = self.step(byte) {
                return Some(event);
            }
        }
    }

    /// Text up to a command, or to the end of the piece.
    fn text(&mut self, mut held: usize, input: &mut &[u8], out: &mut Vec<u8>) {
        while let Some(&byte) = input.first() {
            if byte == BEGIN[held] {
                *input = &input[1..];
                held += 1;
                if held == BEGIN.len() {
                    self.command = Command::default();
                    self.state = State::BeforeName;
                    return;
                }
                continue;
            }
            // What was held back is text; only its first byte can begin a command.
            out.extend_from_slice(&BEGIN[..held]);
            held = 0;
            if byte != BEGIN[0] {
                let end = memchr::memchr(BEGIN[0], input).unwrap_or(input.len());
                out.extend_from_slice(&input[..end]);
                *input = &input[end..];
            }
        }
        self.state = State::Text(held);
    }

    fn step(&mut self, byte: u8) -> Option<Event> {
        match self.state {
            State::Text(_) => {}
            State::BeforeName if is_space(byte) => {}
            State::BeforeName => {
                self.command.name.push(byte);
                self.state = State::Name;
            }
            State::Name => return self.name(byte),
            State::BeforeParameter if is_space(byte) => {}
            State::BeforeParameter if byte == b'-' => self.state = State::End(1),
            State::BeforeParameter => {
                // One too many is enough to tell that there are too many.
                if self.command.parameters.len() > PARAMETERS_MAX {
                    self.command.parameters.pop();
                }
                self.command.parameters.push((vec![byte], Vec::new()));
                self.state = State::Parameter;
            }
            State::Parameter => return self.parameter(byte),
            State::BeforeEqual | State::BeforeValue if is_space(byte) => {}
            State::BeforeEqual if byte == b'=' => self.state = State::BeforeValue,
            State::BeforeEqual => return self.unexpected_for(byte, "after", ""),
            State::BeforeValue if matches!(byte, b'"' | b'\'') => {
                self.state = State::Value(byte, false);
            }
            State::BeforeValue => return self.unexpected_for(byte, "before", "value of "),
            State::Value(quote, escaped) => return self.value(byte, quote, escaped),
            State::AfterValue if is_space(byte) => self.state = State::BeforeParameter,
            State::AfterValue if byte == b'-' => self.state = State::End(1),
            State::AfterValue => {
                let (_, value) = self.last();
                let after = format!("\"{}\" value of ", shown(value));
                return self.unexpected_for(byte, "after", &after);
            }
            State::End(1) if byte == b'-' => self.state = State::End(2),
            State::End(2) if byte == b'>' => {
                self.state = State::Text(0);
                return Some(Event::Command(std::mem::take(&mut self.command)));
            }
            State::End(_) => {
                let name = shown(&self.command.name);
                let byte = char::from(byte);
                return self.broken(format!(
                    "unexpected \"{byte}\" symbol in \"{name}\" SSI command"
                ));
            }
            State::Skip(dashes) => return self.skip(byte, dashes),
        }
        None
    }

    fn name(&mut self, byte: u8) -> Option<Event> {
        match byte {
            b'-' => self.state = State::End(1),
            byte if is_space(byte) => self.state = State::BeforeParameter,
            byte if self.command.name.len() == NAME_MAX => {
                let (name, byte) = (shown(&self.command.name), char::from(byte));
                return self.broken(format!("the \"{name}{byte}...\" SSI command is too long"));
            }
            byte => self.command.name.push(byte),
        }
        None
    }

    fn parameter(&mut self, byte: u8) -> Option<Event> {
        match byte {
            b'=' => self.state = State::BeforeValue,
            b'-' => return self.unexpected_for(byte, "after", ""),
            byte if is_space(byte) => self.state = State::BeforeEqual,
            byte => {
                let (name, _) = self.last_mut()?;
                if name.len() < NAME_MAX {
                    name.push(byte);
                    return None;
                }
                let (name, _) = self.last();
                let (name, command) = (shown(name), shown(&self.command.name));
                let byte = char::from(byte);
                return self.broken(format!(
                    "too long \"{name}{byte}...\" parameter in \"{command}\" SSI command"
                ));
            }
        }
        None
    }

    fn value(&mut self, byte: u8, quote: u8, escaped: bool) -> Option<Event> {
        if byte == quote && !escaped {
            self.state = State::AfterValue;
            return None;
        }
        self.state = State::Value(quote, byte == b'\\' && !escaped);
        let max = self.value_max;
        let (_, value) = self.last_mut()?;
        if value.len() < max {
            value.push(byte);
            return None;
        }
        let (name, value) = self.last();
        let (name, value, command) = (shown(name), shown(value), shown(&self.command.name));
        let byte = char::from(byte);
        self.broken(format!(
            "too long \"{value}{byte}...\" value of \"{name}\" parameter in \"{command}\" SSI command"
        ))
    }

    /// A broken command goes on to its end.
    fn skip(&mut self, byte: u8, dashes: u8) -> Option<Event> {
        self.state = match (byte, dashes) {
            (b'>', 2) => {
                self.state = State::Text(0);
                return Some(Event::Broken);
            }
            (b'-', 0) => State::Skip(1),
            (b'-', _) => State::Skip(2),
            _ => State::Skip(0),
        };
        None
    }

    fn last(&self) -> (&[u8], &[u8]) {
        let last = self.command.parameters.last();
        last.map_or((b"", b""), |(name, value)| (name, value))
    }

    fn last_mut(&mut self) -> Option<(&mut Vec<u8>, &mut Vec<u8>)> {
        let last = self.command.parameters.last_mut()?;
        Some((&mut last.0, &mut last.1))
    }

    fn unexpected_for(&mut self, byte: u8, place: &str, what: &str) -> Option<Event> {
        let (name, _) = self.last();
        let (name, command) = (shown(name), shown(&self.command.name));
        let symbol = char::from(byte);
        let complaint = format!(
            "unexpected \"{symbol}\" symbol {place} {what}\"{name}\" parameter in \"{command}\" SSI command"
        );
        let event = self.broken(complaint);
        if byte == b'-' {
            self.state = State::Skip(1);
        }
        event
    }

    fn broken(&mut self, complaint: String) -> Option<Event> {
        // More parameters than anybody may give are not kept.
        self.command = Command::default();
        self.state = State::Skip(0);
        Some(Event::Complaint(complaint))
    }
}

/// A piece of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece<'v> {
    Text(Vec<u8>),
    Variable(&'v [u8]),
}

/// Why a value cannot be worked out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadValue<'v> {
    Name,
    /// Of this variable.
    Bracket(&'v [u8]),
}

/// The pieces of a value: text, in which a backslash protects quotes, dollars and backslashes, and variables.
pub fn pieces(value: &[u8]) -> Result<Vec<Piece<'_>>, BadValue<'_>> {
    let mut pieces = Vec::new();
    let mut text = Vec::new();
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after.first()) {
            (b'\\', Some(b'\\' | b'\'' | b'"' | b'$')) => {
                text.push(after[0]);
                rest = &after[1..];
            }
            (b'$', _) => {
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                let (name, after) = variable(after)?;
                pieces.push(Piece::Variable(name));
                rest = after;
            }
            _ => text.push(byte),
        }
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

/// The name after a dollar, and what follows it.
fn variable(text: &[u8]) -> Result<(&[u8], &[u8]), BadValue<'_>> {
    let bracketed = text.strip_prefix(b"{");
    let text = bracketed.unwrap_or(text);
    let of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let length = text.iter().take_while(|&byte| of_name(byte)).count();
    let (name, mut rest) = text.split_at(length);
    if bracketed.is_some() {
        rest = match rest.strip_prefix(b"}") {
            Some(rest) => rest,
            None if name.is_empty() && rest.is_empty() => return Err(BadValue::Name),
            None => return Err(BadValue::Bracket(name)),
        };
    }
    match name.is_empty() {
        true => Err(BadValue::Name),
        false => Ok((name, rest)),
    }
}

/// What `if` and `elif` ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression<'e> {
    /// Whether a value is not empty.
    Exists(Vec<u8>),
    /// Whether two values are the same, or not.
    Equal(Vec<u8>, &'e [u8], bool),
    /// Whether a value matches a pattern, or not.
    Match(Vec<u8>, &'e [u8], bool),
}

/// Reads an expression; `None`: it is none. As in nginx its left side is in lower case.
#[must_use]
pub fn expression(text: &[u8]) -> Option<Expression<'_>> {
    let of_left = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'{' | b'}' | b'"' | b'\'')
    };
    let length = text.iter().take_while(|&byte| of_left(byte)).count();
    let (left, rest) = text.split_at(length);
    let left = left.to_ascii_lowercase();
    let rest = after_spaces(rest);
    if rest.is_empty() {
        return Some(Expression::Exists(left));
    }
    let (rest, negated) = match rest.strip_prefix(b"!") {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let right = after_spaces(rest.strip_prefix(b"=")?);
    match right {
        [b'/', pattern @ .., b'/'] => Some(Expression::Match(left, pattern, negated)),
        [b'/', _, ..] => None,
        right => Some(Expression::Equal(left, right, negated)),
    }
}

fn after_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|&&byte| byte == b' ').count();
    &text[spaces..]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text as it is, commands as `[name parameter=value…]`, complaints after a `!`.
    fn read(text: &str, size: usize) -> String {
        let mut parser = Parser::new(8);
        let mut shown_page = String::new();
        for piece in text.as_bytes().chunks(size) {
            let mut input = piece;
            loop {
                let mut out = Vec::new();
                let event = parser.next(&mut input, &mut out);
                shown_page.push_str(&shown(&out));
                match event {
                    None => break,
                    Some(Event::Broken) => shown_page.push_str("[broken]"),
                    Some(Event::Complaint(complaint)) => {
                        shown_page.push_str(&format!("!{complaint}!"));
                    }
                    Some(Event::Command(command)) => {
                        let mut all = shown(&command.name).into_owned();
                        for (name, value) in &command.parameters {
                            all.push_str(&format!(" {}={}", shown(name), shown(value)));
                        }
                        shown_page.push_str(&format!("[{all}]"));
                    }
                }
            }
        }
        shown_page
    }

    #[test]
    fn commands_are_found_wherever_pieces_end() {
        for (text, expected) in [
            ("A<!--#echo var=\"uri\" -->B", "A[echo var=uri]B"),
            ("A<!--#  echo   var = 'uri'   -->B", "A[echo var=uri]B"),
            ("A<!--#echo var=\"a\" b='c'-->B", "A[echo var=a b=c]B"),
            ("A<!--#endif-->B", "A[endif]B"),
            ("A<<!--#x -->", "A<[x]"),
            ("A<!<!--#x -->", "A<![x]"),
            ("A<!-<!--#x -->", "A<!-[x]"),
            ("A<!--<!--#x -->", "A<!--[x]"),
            ("A<!---#x -->", "A<!---#x -->"),
            ("A<!--x -->B", "A<!--x -->B"),
            ("A<!--#x a=\"b\\\"c\" -->B", "A[x a=b\\\"c]B"),
            ("A<!--", "A"),
            ("A<", "A"),
            ("A<!--#echo var=\"", "A"),
            (
                "A<!--#echo var=uri -->B",
                "A!unexpected \"u\" symbol before value of \"var\" parameter in \"echo\" SSI command![broken]B",
            ),
            (
                "A<!--#echo var=\"uri\" x-->B",
                "A!unexpected \"-\" symbol after \"x\" parameter in \"echo\" SSI command![broken]B",
            ),
            (
                "A<!--#echo a b=\"c\" -->B",
                "A!unexpected \"b\" symbol after \"a\" parameter in \"echo\" SSI command![broken]B",
            ),
            (
                "A<!--#echo var='uri' --->B-->C",
                "A!unexpected \"-\" symbol in \"echo\" SSI command![broken]C",
            ),
            (
                "A<!--#x a=\"123456789\" -->B",
                "A!too long \"123456789...\" value of \"a\" parameter in \"x\" SSI command![broken]B",
            ),
            (
                "A<!--# -->B",
                "A!unexpected \">\" symbol in \"-\" SSI command!",
            ),
        ] {
            let whole = read(text, text.len());
            for size in 1..text.len() {
                assert_eq!(read(text, size), whole, "{text} in pieces of {size}");
            }
            assert_eq!(whole, expected, "{text}");
        }
    }

    #[test]
    fn values_have_text_and_variables() {
        let text = |text: &str| Piece::Text(text.as_bytes().to_vec());
        for (value, expected) in [
            ("a", Ok(vec![text("a")])),
            ("", Ok(vec![])),
            (
                "a$b.c",
                Ok(vec![text("a"), Piece::Variable(b"b"), text(".c")]),
            ),
            ("${b}c", Ok(vec![Piece::Variable(b"b"), text("c")])),
            ("\\$a\\\"\\'\\\\\\x", Ok(vec![text("$a\"'\\\\x")])),
            ("a$", Err(BadValue::Name)),
            ("$-", Err(BadValue::Name)),
            ("${", Err(BadValue::Name)),
            ("${a", Err(BadValue::Bracket(b"a"))),
            ("${a-}", Err(BadValue::Bracket(b"a"))),
        ] {
            assert_eq!(pieces(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn expressions() {
        let left = |text: &str| text.as_bytes().to_vec();
        for (text, expected) in [
            ("$A", Some(Expression::Exists(left("$a")))),
            ("", Some(Expression::Exists(left("")))),
            (
                "$a = b c",
                Some(Expression::Equal(left("$a"), b"b c", false)),
            ),
            ("$a!=b", Some(Expression::Equal(left("$a"), b"b", true))),
            ("$a =", Some(Expression::Equal(left("$a"), b"", false))),
            ("$a = /", Some(Expression::Equal(left("$a"), b"/", false))),
            ("$a = /x/", Some(Expression::Match(left("$a"), b"x", false))),
            ("$a != //", Some(Expression::Match(left("$a"), b"", true))),
            ("$a = /x", None),
            ("$a > b", None),
            ("$a ! b", None),
            (" $a = b", None),
            ("$a $b", None),
        ] {
            assert_eq!(expression(text.as_bytes()), expected, "{text}");
        }
    }
}
