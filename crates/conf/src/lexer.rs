//! Bytes to words: the quoting, escaping and length rules of nginx.conf, with nginx's own words for what breaks them.

use std::sync::Arc;

use crate::position::{Error, Position};
use crate::tree::Word;

/// nginx reads through a buffer of this size, and no word, nor a comment, can outgrow it.
pub const MAX_WORD_BYTES: usize = 4096;

/// How much of a word that is too long the error shows.
const SHOWN_BYTES: usize = 10;

/// What the lexer finds between two statement ends.
#[derive(Debug, PartialEq)]
pub(crate) enum Token {
    /// Words ended by `;`, at least one.
    Statement(Vec<Word>),
    /// Words ended by `{`, at least one.
    BlockStart(Vec<Word>),
    BlockEnd,
    End,
}

pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    /// `None` for the text of `-g`: it has no lines and no limit on words.
    file: Option<Arc<str>>,
    at: usize,
    line: u32,
    /// Where the latest word or comment or blank began: what has to fit into nginx's buffer.
    start: usize,
    start_line: u32,
}

impl<'a> Lexer<'a> {
    pub(crate) fn of_file(file: Arc<str>, text: &'a [u8]) -> Lexer<'a> {
        Lexer {
            text,
            file: Some(file),
            at: 0,
            line: 1,
            start: 0,
            start_line: 1,
        }
    }

    pub(crate) fn of_command_line(text: &'a [u8]) -> Lexer<'a> {
        Lexer {
            text,
            file: None,
            at: 0,
            line: 1,
            start: 0,
            start_line: 1,
        }
    }

    pub(crate) fn position(&self) -> Position {
        self.position_of(self.line)
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        Error::new(message, Some(self.position()))
    }

    pub(crate) fn next(&mut self) -> Result<Token, Error> {
        let mut words = Vec::new();
        self.mark(self.at);
        loop {
            let Some(byte) = self.skip_blank()? else {
                return if words.is_empty() {
                    Ok(Token::End)
                } else {
                    Err(self.unexpected_end())
                };
            };
            let end = match byte {
                b';' | b'{' if words.is_empty() => return Err(self.unexpected(byte)),
                b';' | b'{' => byte,
                b'}' if words.is_empty() => return Ok(Token::BlockEnd),
                b'}' => return Err(self.unexpected(byte)),
                b'"' | b'\'' => self.quoted_word(byte, &mut words)?,
                _ => self.bare_word(byte, &mut words)?,
            };
            match end {
                b';' => return Ok(Token::Statement(words)),
                b'{' => return Ok(Token::BlockStart(words)),
                _ => {}
            }
        }
    }

    /// Passes blanks and comments; the first byte after them, which is taken.
    fn skip_blank(&mut self) -> Result<Option<u8>, Error> {
        let mut comment = false;
        while let Some(byte) = self.take(None)? {
            if comment && byte != b'\n' {
                continue;
            }
            comment = false;
            self.mark(self.at - 1);
            match byte {
                b'#' => comment = true,
                _ if is_blank(byte) => {}
                _ => return Ok(Some(byte)),
            }
        }
        Ok(None)
    }

    /// The rest of a word that began with `first`, to the blank, `;` or `{` that ends it, which is returned.
    fn bare_word(&mut self, first: u8, words: &mut Vec<Word>) -> Result<u8, Error> {
        let mut escaped = first == b'\\';
        let mut variable = first == b'$';
        loop {
            let byte = self.take_inside(None)?;
            if escaped {
                escaped = false;
                continue;
            }
            // `${` begins a variable's name; nginx lets any number of braces follow the dollar.
            if byte == b'{' && variable {
                continue;
            }
            variable = byte == b'$';
            escaped = byte == b'\\';
            if is_blank(byte) || byte == b';' || byte == b'{' {
                words.push(self.word(false));
                return Ok(byte);
            }
        }
    }

    /// The rest of a word opened by `quote`, and the byte after it, which must be a blank, `;`, `{` or `)`.
    fn quoted_word(&mut self, quote: u8, words: &mut Vec<Word>) -> Result<u8, Error> {
        self.start += 1;
        let mut escaped = false;
        loop {
            let byte = self.take_inside(Some(quote))?;
            if escaped {
                escaped = false;
            } else if byte == b'\\' {
                escaped = true;
            } else if byte == quote {
                break;
            }
        }
        words.push(self.word(true));
        match self.take_inside(None)? {
            // The bracket after `if ("$a" = "b")` begins a word of its own: leave it for the next round.
            b')' => {
                self.at -= 1;
                Ok(b' ')
            }
            byte if is_blank(byte) || byte == b';' || byte == b'{' => Ok(byte),
            byte => Err(self.unexpected(byte)),
        }
    }

    /// The word from its start to the byte before the one just taken.
    fn word(&self, quoted: bool) -> Word {
        Word {
            bytes: unescape(&self.text[self.start..self.at - 1]),
            quoted,
        }
    }

    fn mark(&mut self, start: usize) {
        self.start = start;
        self.start_line = self.line;
    }

    /// The next byte. `quote` is the one that a word under way still waits for.
    fn take(&mut self, quote: Option<u8>) -> Result<Option<u8>, Error> {
        let Some(&byte) = self.text.get(self.at) else {
            return Ok(None);
        };
        if self.at - self.start == MAX_WORD_BYTES && self.file.is_some() {
            return Err(self.too_long(quote));
        }
        self.at += 1;
        if byte == b'\n' {
            self.line = self.line.saturating_add(1);
        }
        Ok(Some(byte))
    }

    fn take_inside(&mut self, quote: Option<u8>) -> Result<u8, Error> {
        self.take(quote)?.ok_or_else(|| self.unexpected_end())
    }

    fn position_of(&self, line: u32) -> Position {
        match &self.file {
            Some(file) => Position {
                file: file.clone(),
                line,
            },
            None => Position::command_line(),
        }
    }

    fn unexpected(&self, byte: u8) -> Error {
        self.error(format!(
            "unexpected \"{}\"",
            String::from_utf8_lossy(&[byte])
        ))
    }

    fn unexpected_end(&self) -> Error {
        self.error(match self.file {
            Some(_) => "unexpected end of file, expecting \";\" or \"}\"",
            None => "unexpected end of parameter, expecting \";\"",
        })
    }

    fn too_long(&self, quote: Option<u8>) -> Error {
        let message = match quote {
            Some(quote) => {
                format!(
                    "too long parameter, probably missing terminating \"{}\" character",
                    char::from(quote)
                )
            }
            None => {
                let shown = &self.text[self.start..self.start + SHOWN_BYTES];
                format!(
                    "too long parameter \"{}...\" started",
                    String::from_utf8_lossy(shown)
                )
            }
        };
        Error::new(message, Some(self.position_of(self.start_line)))
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Resolves `\"`, `\'`, `\\`, `\t`, `\r` and `\n`; any other backslash stays, with what follows it.
fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        let resolved = match (byte, rest.peek()) {
            (b'\\', Some(&quoted @ (b'"' | b'\'' | b'\\'))) => quoted,
            (b'\\', Some(b't')) => b'\t',
            (b'\\', Some(b'r')) => b'\r',
            (b'\\', Some(b'n')) => b'\n',
            _ => {
                bytes.push(byte);
                continue;
            }
        };
        rest.next();
        bytes.push(resolved);
    }
    bytes
}
