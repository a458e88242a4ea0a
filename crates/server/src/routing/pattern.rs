//! Regular expressions as nginx's configurations write them: `regex` where it takes the pattern.

use crate::http::request::Captures;
use regex::bytes::{Regex, RegexBuilder};

/// A compiled pattern with the names of its groups.
#[derive(Debug, Clone)]
pub struct Pattern {
    pub text: String,
    pub ignore_case: bool,
    regex: Regex,
    groups: usize,
}

impl Pattern {
    /// Compiles `text`; the error's text is the library's reason.
    pub fn compile(text: &[u8], ignore_case: bool) -> Result<Pattern, String> {
        let text = std::str::from_utf8(text)
            .map_err(|error| error.to_string())?
            .to_owned();
        let regex = RegexBuilder::new(&text)
            .case_insensitive(ignore_case)
            .unicode(false)
            .build()
            .map_err(|error| error.to_string())?;
        let groups = regex.captures_len();
        Ok(Pattern {
            text,
            ignore_case,
            regex,
            groups,
        })
    }

    #[must_use]
    pub fn is_match(&self, subject: &[u8]) -> bool {
        self.regex.is_match(subject)
    }

    /// Whether the pattern matches; if so, `captures` are those of this match.
    pub fn capture(&self, subject: &[u8], captures: &mut Captures) -> bool {
        let mut locations = self.regex.capture_locations();
        if self.regex.captures_read(&mut locations, subject).is_none() {
            return false;
        }
        captures.subject.clear();
        captures.subject.extend_from_slice(subject);
        captures.positions.clear();
        for group in 0..self.groups {
            let (start, end) = locations
                .get(group)
                .map_or((u32::MAX, u32::MAX), |(start, end)| {
                    (start as u32, end as u32)
                });
            captures.positions.extend([start, end]);
        }
        true
    }

    /// Group numbers with their names.
    pub fn named_groups(&self) -> impl Iterator<Item = (usize, &str)> {
        self.regex
            .capture_names()
            .enumerate()
            .filter_map(|(index, name)| Some((index, name?)))
    }
}
