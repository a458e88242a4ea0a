//! Texts with places for values, `/user/{id}`: what a step of a scenario sends.

use std::collections::HashMap;

/// A value longer than this is cut: what a response gives must not grow the next request without bound.
pub const VALUE_MAX: usize = 16 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Value(usize),
}

/// A text whose places are numbers of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

/// The names of values, numbered as they are met.
#[derive(Debug, Default)]
pub struct Names {
    numbers: HashMap<String, usize>,
}

impl Names {
    /// The number of a value that something sets.
    pub fn define(&mut self, name: &str) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry(name.to_owned()).or_insert(next)
    }

    pub fn find(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

impl Template {
    /// A text that has no places, whatever stands in it.
    pub fn fixed(text: impl Into<Vec<u8>>) -> Template {
        Template {
            pieces: vec![Piece::Text(text.into())],
        }
    }

    /// Reads `{name}` as the place of a value that is known; other braces stay as they are, so that JSON needs no quoting.
    /// A `{word}` that nobody defined is left, too: the caller may refuse it by `unknown`.
    pub fn parse(text: &str, names: &Names) -> Template {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let (before, after) = rest.split_at(open);
            plain.push_str(before);
            let place = word(after).and_then(|name| Some((name.len() + 2, names.find(name)?)));
            match place {
                Some((length, number)) => {
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain).into_bytes()));
                    }
                    pieces.push(Piece::Value(number));
                    rest = &after[length..];
                }
                None => {
                    plain.push('{');
                    rest = &after[1..];
                }
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain.into_bytes()));
        }
        Template { pieces }
    }

    pub fn is_fixed(&self) -> bool {
        !self
            .pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Value(_)))
    }

    /// Appends the text with the values in their places; a value that is not there yet is empty.
    pub fn write(&self, values: &[Vec<u8>], out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Value(number) => {
                    out.extend_from_slice(values.get(*number).map_or(&[], Vec::as_slice));
                }
            }
        }
    }

    pub fn text(&self, values: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(values, &mut out);
        out
    }
}

/// The first `{word}` that no value is called.
pub fn unknown<'a>(text: &'a str, names: &Names) -> Option<&'a str> {
    text.match_indices('{')
        .filter_map(|(at, _)| word(&text[at..]))
        .find(|name| names.find(name).is_none())
}

/// Whether a value has a place in the text.
pub fn has_place(text: &str, names: &Names) -> bool {
    !Template::parse(text, names).is_fixed()
}

/// The word of `{word}` at the start of the text.
fn word(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('{')?.split_once('}')?;
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(part)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_their_places() {
        let mut names = Names::default();
        names.define("id");
        names.define("token");
        let values = [b"7".to_vec(), b"x y".to_vec()];
        for (text, expected) in [
            ("/user/{id}", "/user/7"),
            ("{id}{token}", "7x y"),
            ("{\"a\": {id}}", "{\"a\": 7}"),
            ("{other} {} { {id", "{other} {} { {id"),
            ("", ""),
        ] {
            let template = Template::parse(text, &names);
            assert_eq!(template.text(&values), expected.as_bytes(), "{text}");
            assert_eq!(template.is_fixed(), text == expected, "{text}");
        }
        assert_eq!(Template::parse("{id}", &names).text(&[]), b"");
        assert_eq!(Template::fixed("{id}").text(&values), b"{id}");
        assert_eq!(unknown("{id} {1} {\"a\"} {name}", &names), Some("name"));
    }
}
