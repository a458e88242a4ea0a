//! Regular expressions as nginx's configurations write them. A pattern that `regex` reads as PCRE does runs there, in
//! time linear to the subject; every other one goes to PCRE2 (DESIGN decision 6). `syntax` tells them apart.

mod syntax;

use crate::http::Request;
use crate::http::request::Captures;
use crate::variables::VariableId;
use bytes::Bytes;
use regex_automata::Input;
use regex_automata::meta;
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::util::syntax as flags;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that a compiled pattern may take; a larger one goes to PCRE2.
const MAX_COMPILED_BYTES: usize = 10 << 20;
/// Groups whose places fit on the stack, group 0 included; nginx names ten.
const STACK_GROUPS: usize = 10;
/// Bytes of stack for PCRE2's compiled code before a match is given up.
const MAX_JIT_STACK_BYTES: usize = 1 << 20;

/// A compiled pattern; clones share it.
#[derive(Clone)]
pub struct Pattern {
    pub text: Bytes,
    pub ignore_case: bool,
    engine: Arc<Engine>,
    /// Groups, group 0 included.
    groups: usize,
}

enum Engine {
    Linear {
        regex: meta::Regex,
        /// The same pattern for subjects that end in a line feed, where `$` means something else to PCRE.
        before_line_feed: Option<Box<Backtracking>>,
    },
    Backtracking(Backtracking),
}

/// PCRE2, and room for a match's groups that is handed from one match to the next.
struct Backtracking {
    regex: pcre2::bytes::Regex,
    spare: Mutex<Option<pcre2::bytes::CaptureLocations>>,
}

/// PCRE2 gave a match up: the pattern backtracks too much on this subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// PCRE2's number.
    pub code: i32,
    pub pattern: Bytes,
}

impl Pattern {
    /// Compiles `text`; the error is nginx's, PCRE2's reason with the place of it.
    pub fn compile(text: &[u8], ignore_case: bool) -> Result<Pattern, String> {
        let linear = syntax::translate(text)
            .and_then(|read| Some((linear(&read.text, ignore_case)?, read.has_dollar)));
        let (engine, groups) = match linear {
            Some((regex, has_dollar)) => {
                let before_line_feed = match has_dollar {
                    true => Some(Box::new(Backtracking::compile(text, ignore_case, false)?)),
                    false => None,
                };
                let groups = regex.captures_len();
                let engine = Engine::Linear {
                    regex,
                    before_line_feed,
                };
                (engine, groups)
            }
            None => {
                let pcre = Backtracking::compile(text, ignore_case, true)?;
                let groups = pcre.regex.capture_names().len();
                (Engine::Backtracking(pcre), groups)
            }
        };
        Ok(Pattern {
            text: Bytes::copy_from_slice(text),
            ignore_case,
            engine: Arc::new(engine),
            groups,
        })
    }

    /// Whether the pattern matches; a match that was given up counts as none.
    #[must_use]
    pub fn is_match(&self, subject: &[u8]) -> bool {
        self.try_match(subject).unwrap_or(false)
    }

    /// Whether the pattern matches; if so, `captures` are those of this match. A match given up counts as none.
    pub fn capture(&self, subject: &[u8], captures: &mut Captures) -> bool {
        self.try_capture(subject, captures).unwrap_or(false)
    }

    /// Whether the pattern matches.
    pub fn try_match(&self, subject: &[u8]) -> Result<bool, GivenUp> {
        let matched = match &*self.engine {
            Engine::Linear {
                before_line_feed: Some(pcre),
                ..
            } if subject.last() == Some(&b'\n') => pcre.regex.is_match(subject),
            Engine::Linear { regex, .. } => Ok(regex.is_match(subject)),
            Engine::Backtracking(pcre) => pcre.regex.is_match(subject),
        };
        matched.map_err(|error| self.given_up(&error))
    }

    /// Whether the pattern matches; if so, `captures` are those of this match. A pattern without groups leaves none.
    pub fn try_capture(&self, subject: &[u8], captures: &mut Captures) -> Result<bool, GivenUp> {
        if !self.has_groups() {
            let matched = self.try_match(subject)?;
            if matched {
                captures.positions.clear();
            }
            return Ok(matched);
        }
        let positions = &mut captures.positions;
        let matched = match &*self.engine {
            Engine::Linear {
                before_line_feed: Some(pcre),
                ..
            } if subject.last() == Some(&b'\n') => pcre.capture(subject, self.groups, positions),
            Engine::Linear { regex, .. } => {
                Ok(linear_capture(regex, subject, self.groups, positions))
            }
            Engine::Backtracking(pcre) => pcre.capture(subject, self.groups, positions),
        };
        let matched = matched.map_err(|error| self.given_up(&error))?;
        if matched {
            captures.subject.clear();
            captures.subject.extend_from_slice(subject);
        }
        Ok(matched)
    }

    fn given_up(&self, error: &pcre2::Error) -> GivenUp {
        GivenUp {
            code: error.code(),
            pattern: self.text.clone(),
        }
    }

    /// Whether a match has anything to capture beside the whole.
    #[must_use]
    pub fn has_groups(&self) -> bool {
        self.groups > 1
    }

    /// How many groups there are beside the whole.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups.saturating_sub(1)
    }

    /// Group numbers with their names.
    pub fn named_groups(&self) -> Box<dyn Iterator<Item = (usize, &str)> + '_> {
        match &*self.engine {
            Engine::Linear { regex, .. } => Box::new(
                regex
                    .group_info()
                    .pattern_names(regex_automata::PatternID::ZERO)
                    .enumerate()
                    .filter_map(|(group, name)| Some((group, name?))),
            ),
            Engine::Backtracking(pcre) => Box::new(
                pcre.regex
                    .capture_names()
                    .iter()
                    .enumerate()
                    .filter_map(|(group, name)| Some((group, name.as_deref()?))),
            ),
        }
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Pattern({:?})", self.text)
    }
}

/// Compiles for `regex`; `None` if it refuses the pattern.
fn linear(text: &str, ignore_case: bool) -> Option<meta::Regex> {
    meta::Builder::new()
        .syntax(
            flags::Config::new()
                .unicode(false)
                .utf8(false)
                .case_insensitive(ignore_case),
        )
        .configure(
            meta::Config::new()
                .utf8_empty(false)
                .nfa_size_limit(Some(MAX_COMPILED_BYTES)),
        )
        .build(text)
        .ok()
}

/// Start and end of each group go to `positions`; `u32::MAX` for a group that took no part.
fn linear_capture(
    regex: &meta::Regex,
    subject: &[u8],
    groups: usize,
    positions: &mut Vec<u32>,
) -> bool {
    let input = Input::new(subject);
    let mut on_stack = [None::<NonMaxUsize>; 2 * STACK_GROUPS];
    let mut on_heap = Vec::new();
    let slots = match on_stack.get_mut(..2 * groups) {
        Some(slots) => slots,
        None => {
            on_heap.resize(2 * groups, None);
            &mut on_heap[..]
        }
    };
    if regex.search_slots(&input, slots).is_none() {
        return false;
    }
    positions.clear();
    positions.extend(
        slots
            .iter()
            .map(|slot| slot.map_or(u32::MAX, |place| place.get() as u32)),
    );
    true
}

impl Backtracking {
    fn compile(text: &[u8], ignore_case: bool, jit: bool) -> Result<Backtracking, String> {
        let escaped;
        let pattern = match std::str::from_utf8(text) {
            Ok(text) => text,
            Err(_) => {
                escaped = syntax::escape_high_bytes(text);
                &escaped
            }
        };
        let regex = pcre2::bytes::RegexBuilder::new()
            .caseless(ignore_case)
            .jit_if_available(jit)
            .max_jit_stack_size(Some(MAX_JIT_STACK_BYTES))
            .build(pattern)
            .map_err(|error| describe(&error, text))?;
        Ok(Backtracking {
            regex,
            spare: Mutex::new(None),
        })
    }

    fn capture(
        &self,
        subject: &[u8],
        groups: usize,
        positions: &mut Vec<u32>,
    ) -> Result<bool, pcre2::Error> {
        let spare = self
            .spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let mut locations = spare.unwrap_or_else(|| self.regex.capture_locations());
        let matched = self.regex.captures_read(&mut locations, subject)?.is_some();
        if matched {
            positions.clear();
            for group in 0..groups {
                let (start, end) = locations
                    .get(group)
                    .map_or((u32::MAX, u32::MAX), |(start, end)| {
                        (start as u32, end as u32)
                    });
                positions.extend([start, end]);
            }
        }
        *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = Some(locations);
        Ok(matched)
    }
}

/// PCRE2's reason in nginx's form.
fn describe(error: &pcre2::Error, text: &[u8]) -> String {
    let whole = error.to_string();
    let reason = whole.splitn(3, ": ").last().unwrap_or_default();
    let shown = String::from_utf8_lossy(text);
    match error.offset().and_then(|offset| text.get(offset..)) {
        Some(rest) if !rest.is_empty() => format!(
            "pcre2_compile() failed: {reason} in \"{shown}\" at \"{}\"",
            String::from_utf8_lossy(rest)
        ),
        _ => format!("pcre2_compile() failed: {reason} in \"{shown}\""),
    }
}

/// A pattern with the variables that its named groups assign.
#[derive(Debug, Clone)]
pub struct Matcher {
    pub pattern: Pattern,
    pub groups: Vec<(usize, VariableId)>,
}

impl Matcher {
    /// Matches `subject` for a request: `$1` … and the named groups' variables are those of this match afterwards.
    pub fn matches(&self, request: &Request, subject: &[u8]) -> Result<bool, GivenUp> {
        let matched = match request.generation.config.http.variables.captures_used
            || !self.groups.is_empty()
        {
            true => self
                .pattern
                .try_capture(subject, &mut request.captures.borrow_mut())?,
            false => self.pattern.try_match(subject)?,
        };
        if matched && !self.groups.is_empty() {
            request.assign_groups(&self.groups);
        }
        Ok(matched)
    }
}

#[cfg(test)]
#[path = "pattern/tests.rs"]
mod tests;
