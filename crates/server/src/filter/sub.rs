//! `sub_filter`: texts in a response's body replaced by others.

use super::compress::forget_length;
use super::rewritten::{self, Change, GROWN_MAX};
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, flag, row};
use crate::http::media_types::{self, MediaTypes};
use crate::http::{Request, Response};
use crate::variables::Template;
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use std::sync::Arc;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "sub_filter",
        HSL,
        Arity::Exactly(2),
        sub_filter,
        "A text in responses, in any case, and what takes its place.",
    ),
    row(
        "sub_filter_once",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().sub.once, d),
        "Whether each text is replaced only where it stands first.",
    ),
    row(
        "sub_filter_types",
        HSL,
        Arity::AtLeast(1),
        |b, d| media_types::add(b, d, |b| &mut b.location().sub.types.0),
        "The types of responses that are changed, beside text/html.",
    ),
    row(
        "sub_filter_last_modified",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().sub.last_modified, d),
        "Whether changed responses keep their Last-Modified.",
    ),
];

// The pairs of a block take the place of all the outer block's.
crate::config::setting::settings! {
    pairs: Arc<Vec<(Template, Template)>> = Arc::default(),
    once: bool = true,
    types: MediaTypes = MediaTypes::default(),
    last_modified: bool = false,
}

fn sub_filter(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let [text, replacement] = &directive.args[..] else {
        return Err("invalid value".into());
    };
    if text.is_empty() {
        return Err("empty search pattern".into());
    }
    let text = Template::compile(text, &mut build.variables)?;
    let replacement = Template::compile(replacement, &mut build.variables)?;
    let pairs = &mut build.location().sub.pairs.0;
    Arc::make_mut(pairs.get_or_insert_default()).push((text, replacement));
    Ok(())
}

impl Settings {
    /// Whether no response is ever changed.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.pairs.is_empty()
    }
}

/// Whether texts in a response may be replaced.
#[must_use]
pub fn applies(request: &Request, response: &Response) -> bool {
    let settings = &request.location().settings.sub;
    !settings.is_off()
        && response.content_length != Some(0)
        && settings.types.contains(response.content_type.as_deref())
}

/// Replaces the texts in a response of one of the types.
pub fn apply(request: &Request, response: &mut Response) {
    if !applies(request, response) {
        return;
    }
    let settings = &request.location().settings.sub;
    // Also where no text is left this time: texts may be made of variables.
    response.note_rewritten();
    let pairs = settings.pairs.iter().filter_map(|(text, replacement)| {
        let text = text.evaluate(request).to_ascii_lowercase();
        let replacement = || replacement.evaluate(request);
        (!text.is_empty()).then(|| Pair {
            text,
            replacement: replacement(),
        })
    });
    let pairs: Vec<Pair> = pairs.collect();
    if pairs.is_empty() {
        return;
    }
    // As in nginx an upstream's Accept-Ranges stays.
    forget_length(response);
    if !settings.last_modified {
        response.forget_last_modified();
        response.etag = None;
    }
    if !request.is_head() {
        let body = std::mem::take(&mut response.body);
        response.body = rewritten::body(body, Substitution::new(pairs, settings.once));
    }
}

/// A text in lower case, and what takes its place.
struct Pair {
    text: Vec<u8>,
    replacement: Bytes,
}

struct Substitution {
    pairs: Vec<Pair>,
    once: bool,
    /// Which bytes a text may begin with, in either case.
    begins: [bool; 256],
    /// Bytes that may be the beginning of a text, or that are still to be looked at.
    kept: Vec<u8>,
    has_stopped: bool,
    /// Nothing more comes.
    is_whole: bool,
}

/// What stands at a place.
enum Found {
    /// The pair of this index.
    Pair(usize),
    Nothing,
    /// It cannot be told before more has come.
    Open,
}

impl Substitution {
    fn new(pairs: Vec<Pair>, once: bool) -> Substitution {
        let mut substitution = Substitution {
            pairs,
            once,
            begins: [false; 256],
            kept: Vec::new(),
            has_stopped: false,
            is_whole: false,
        };
        substitution.index();
        substitution
    }

    fn index(&mut self) {
        self.begins = [false; 256];
        for first in self.pairs.iter().filter_map(|pair| pair.text.first()) {
            self.begins[usize::from(*first)] = true;
            self.begins[usize::from(first.to_ascii_uppercase())] = true;
        }
    }

    /// Of several texts at one place the first in the configuration counts.
    fn at(&self, rest: &[u8], whole: bool) -> Found {
        for (index, pair) in self.pairs.iter().enumerate() {
            let length = pair.text.len().min(rest.len());
            if rest[..length].eq_ignore_ascii_case(&pair.text[..length]) {
                match length == pair.text.len() {
                    true => return Found::Pair(index),
                    false if !whole => return Found::Open,
                    false => {}
                }
            }
        }
        Found::Nothing
    }

    /// Changes `input` into `out`; what cannot be told yet is kept.
    fn change(&mut self, input: &[u8], out: &mut Vec<u8>) {
        let mut rest = input;
        while !self.pairs.is_empty() {
            if out.len() >= GROWN_MAX && !rest.is_empty() {
                self.kept = rest.to_vec();
                self.has_stopped = true;
                return;
            }
            let begins = |byte: &u8| self.begins[usize::from(*byte)];
            let Some(place) = rest.iter().position(begins) else {
                break;
            };
            out.extend_from_slice(&rest[..place]);
            rest = &rest[place..];
            match self.at(rest, self.is_whole) {
                Found::Pair(index) => {
                    let pair = &self.pairs[index];
                    out.extend_from_slice(&pair.replacement);
                    rest = &rest[pair.text.len()..];
                    if self.once {
                        self.pairs.remove(index);
                        self.index();
                    }
                }
                Found::Nothing => {
                    out.extend_from_slice(&rest[..1]);
                    rest = &rest[1..];
                }
                Found::Open => {
                    self.kept = rest.to_vec();
                    return;
                }
            }
        }
        out.extend_from_slice(rest);
    }
}

impl Change for Substitution {
    fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) {
        if self.kept.is_empty() {
            return self.change(input, out);
        }
        self.kept.extend_from_slice(input);
        self.go_on(out);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.is_whole = true;
        self.go_on(out);
    }

    fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    fn go_on(&mut self, out: &mut Vec<u8>) {
        self.has_stopped = false;
        let kept = std::mem::take(&mut self.kept);
        self.change(&kept, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn substitution(pairs: &[(&str, &'static str)], once: bool) -> Substitution {
        let pairs = pairs.iter().map(|(text, replacement)| Pair {
            text: text.to_ascii_lowercase().into_bytes(),
            replacement: Bytes::from_static(replacement.as_bytes()),
        });
        Substitution::new(pairs.collect(), once)
    }

    #[test]
    fn texts_are_replaced_wherever_pieces_end() {
        for (pairs, once, text, expected) in [
            (
                &[("ab", "1"), ("abc", "2")][..],
                false,
                "abc xabcx ab",
                "1c x1cx 1",
            ),
            (
                &[("abc", "2"), ("ab", "1")],
                false,
                "abc xabcx ab",
                "2 x2x 1",
            ),
            (
                &[("bcd", "2"), ("abc", "1")],
                false,
                "abc bcd abcd bcd",
                "1 2 1d 2",
            ),
            (&[("aa", "b")], false, "aaaa aaa", "bb ba"),
            (&[("aB", "x")], true, "abAB ab", "xAB ab"),
            (
                &[("ab", "1"), ("cd", "2")],
                true,
                "ab cd ab cd",
                "1 2 ab cd",
            ),
            (&[("ab", "")], false, "abab", ""),
            (&[("ab", "1"), ("1", "2")], false, "ab", "1"),
            (&[("aab", "x")], false, "aaab", "ax"),
        ] {
            for size in 1..=text.len() {
                let mut substitution = substitution(pairs, once);
                let mut out = Vec::new();
                for piece in text.as_bytes().chunks(size) {
                    substitution.feed(piece, &mut out);
                    assert!(substitution.kept.len() < 4);
                }
                substitution.finish(&mut out);
                let out = String::from_utf8(out).expect("text");
                assert_eq!(out, expected, "{text} in pieces of {size}");
            }
        }
    }
    /// A body that grows a thousandfold is made piece by piece.
    #[test]
    fn what_grows_is_made_in_pieces() {
        let long: &'static str = "0123456789".repeat(1000).leak();
        let mut substitution = substitution(&[("x", long)], false);
        let (mut length, mut pieces) = (0, 0);
        let mut out = Vec::new();
        substitution.feed(&[b'x'; 1000], &mut out);
        loop {
            assert!(out.len() < GROWN_MAX + long.len());
            length += out.len();
            pieces += 1;
            out.clear();
            if !substitution.has_stopped() {
                break;
            }
            substitution.go_on(&mut out);
        }
        substitution.finish(&mut out);
        assert!(out.is_empty() && length == 1000 * long.len() && pieces > 30);
    }
}
