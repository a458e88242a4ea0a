//! What a URL asks of a picture in small_light's words: `small_light(dw=250,dh=250)` in the target as it was sent, or
//! arguments of the same names. A list ends at the first item without a value; of duplicates the first counts, and what
//! stands in the URL comes before what its pattern says.

use memchr::memmem;

/// A longer list is refused, as small_light does.
pub const LIST_MAX: usize = 8191;

macro_rules! names {
    ($($name:ident $text:literal),* $(,)?) => {
        /// A parameter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Name { $($name),* }

        const NAMES: &[(&str, Name)] = &[$(($text, Name::$name)),*];
    };
}

names! {
    SourceX "sx", SourceY "sy", SourceWidth "sw", SourceHeight "sh",
    X "dx", Y "dy", Width "dw", Height "dh", Align "da", Scale "ds",
    CanvasWidth "cw", CanvasHeight "ch", CanvasColour "cc",
    BorderWidth "bw", BorderHeight "bh", BorderColour "bc",
    Pass "pt", Quality "q", Format "of", JpegHint "jpeghint", RemoveProfiles "rmprof",
    Sharpen "sharpen", Unsharp "unsharp", Blur "blur",
    Icon "embedicon", IconX "ix", IconY "iy", Angle "angle", Progressive "progressive",
    CmykToRgb "cmyk2rgb", AutoOrient "autoorient", Engine "e",
}

impl Name {
    fn of(text: &[u8]) -> Option<Name> {
        let same = |name: &&str| name.as_bytes().eq_ignore_ascii_case(text);
        let (_, name) = NAMES.iter().find(|(name, _)| same(name))?;
        Some(*name)
    }
}

/// The values of the parameters as they were written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    values: Vec<(Name, Box<[u8]>)>,
}

impl Parameters {
    /// The value; empty where there is none.
    #[must_use]
    pub fn text(&self, name: Name) -> &[u8] {
        let value = self.values.iter().find(|(other, _)| *other == name);
        value.map_or(b"", |(_, value)| value)
    }

    /// Of several values for a name the first one stays.
    pub fn add(&mut self, name: Name, value: &[u8]) {
        if !self.values.iter().any(|(other, _)| *other == name) {
            self.values.push((name, value.into()));
        }
    }

    /// Adds the items of a list; the name of the pattern that it asks for.
    pub fn add_list<'l>(&mut self, list: &'l [u8]) -> Option<&'l [u8]> {
        let mut pattern = None;
        for item in list.split(|&byte| byte == b',') {
            let mut words = item
                .split(|&byte| byte == b'=')
                .filter(|word| !word.is_empty());
            let (name, value) = match (words.next(), words.next()) {
                (Some(name), Some(value)) => (name, value),
                (None, None) if item.is_empty() => continue,
                _ => return pattern,
            };
            // Of several patterns the last one counts.
            if name == b"p" {
                pattern = Some(value);
            } else if let Some(name) = Name::of(name) {
                self.add(name, value);
            }
        }
        pattern
    }

    /// Adds what a query has, by the same names; the name of the pattern that it asks for.
    pub fn add_arguments<'q>(&mut self, arguments: &'q [u8]) -> Option<&'q [u8]> {
        let mut pattern = None;
        for item in arguments.split(|&byte| byte == b'&') {
            let Some(equals) = memchr::memchr(b'=', item) else {
                continue;
            };
            let (name, value) = (&item[..equals], &item[equals + 1..]);
            if name.eq_ignore_ascii_case(b"p") {
                pattern = pattern.or(Some(value).filter(|value| !value.is_empty()));
            } else if let Some(name) = Name::of(name) {
                self.add(name, value);
            }
        }
        pattern
    }
}

/// The list in a target as it was sent: between the first `small_light(` that is closed, and its end.
#[must_use]
pub fn list(target: &[u8]) -> Option<&[u8]> {
    const OPENING: &[u8] = b"small_light(";
    let at = memmem::find(target, OPENING)?;
    let rest = &target[at + OPENING.len()..];
    // Where this one is not closed, no later one is.
    Some(&rest[..memchr::memchr(b')', rest)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_the_first_in_the_target() {
        for (target, expected) in [
            ("/small_light(dw=1)/a.jpg", Some("dw=1")),
            ("/small_light()/a.jpg", Some("")),
            (
                "/x/small_light(dw=1,dh=2)small_light(dw=3)/a",
                Some("dw=1,dh=2"),
            ),
            ("/small_light(dw=1/a.jpg", None),
            ("/small_light/a.jpg", None),
            ("/Small_light(dw=1)/a.jpg", None),
            ("/small_light%28dw=1%29/a.jpg", None),
            ("/a.jpg?x=small_light(dw=9)", Some("dw=9")),
            ("", None),
        ] {
            let found = list(target.as_bytes());
            assert_eq!(found, expected.map(str::as_bytes), "{target}");
        }
    }

    fn parsed(list: &str) -> (String, Option<String>) {
        let mut parameters = Parameters::default();
        let pattern = parameters.add_list(list.as_bytes());
        let shown = parameters.values.iter().map(|(name, value)| {
            let (text, _) = NAMES
                .iter()
                .find(|(_, other)| other == name)
                .expect("named");
            format!("{text}={}", String::from_utf8_lossy(value))
        });
        let shown: Vec<_> = shown.collect();
        let pattern = pattern.map(|name| String::from_utf8_lossy(name).into_owned());
        (shown.join(" "), pattern)
    }

    #[test]
    fn lists_are_read_as_small_light_reads_them() {
        for (list, expected, pattern) in [
            ("dw=250,dh=100", "dw=250 dh=100", None),
            ("DW=100,Da=s", "dw=100 da=s", None),
            ("dw=100,dw=50", "dw=100", None),
            ("p=thumb,dw=60", "dw=60", Some("thumb")),
            ("p=a,p=b", "", Some("b")),
            ("P=thumb", "", None),
            ("x=1,dw=2", "dw=2", None),
            ("dw=1,,dh=2", "dw=1 dh=2", None),
            (",dw=1", "dw=1", None),
            // An item without a value ends the list.
            ("dw=1,dh,q=9", "dw=1", None),
            ("dw=1,dh=,q=9", "dw=1", None),
            ("dw", "", None),
            ("=,dw=1", "", None),
            ("dw==100", "dw=100", None),
            ("=dw=100", "dw=100", None),
            ("dw=1=2", "dw=1", None),
            ("dw%3D100", "", None),
            ("dw=1%30", "dw=1%30", None),
            ("e=gd,of=png,q=7", "e=gd of=png q=7", None),
            ("", "", None),
        ] {
            let found = parsed(list);
            assert_eq!(
                found,
                (expected.to_owned(), pattern.map(str::to_owned)),
                "{list}"
            );
        }
    }

    #[test]
    fn the_url_comes_before_its_pattern() {
        let mut parameters = Parameters::default();
        parameters.add_list(b"p=thumb,dw=60");
        parameters.add_list(b"dw=120,dh=120,p=other");
        assert_eq!(parameters.text(Name::Width), b"60");
        assert_eq!(parameters.text(Name::Height), b"120");
        assert_eq!(parameters.text(Name::Align), b"");
    }

    #[test]
    fn arguments_have_the_same_names() {
        for (query, width, pattern) in [
            ("dw=100&dh=50", "100", None),
            ("dw=&dh=50", "", None),
            ("dw&dw=7", "7", None),
            ("dw=1&dw=2", "1", None),
            ("p=thumb&dw=3", "3", Some("thumb")),
            ("p=&p=b", "", Some("b")),
            ("DW=4", "4", None),
            ("", "", None),
        ] {
            let mut parameters = Parameters::default();
            let found = parameters.add_arguments(query.as_bytes());
            assert_eq!(parameters.text(Name::Width), width.as_bytes(), "{query}");
            assert_eq!(found, pattern.map(str::as_bytes), "{query}");
        }
    }
}
