//! The shape of a directive table and the checks nginx makes before a directive acts: is it known, may it stand here,
//! has it a block or not, how many arguments. The rows live with the features.

use std::ops::BitOr;

use crate::position::Error;
use crate::tree::Directive;

/// A set of the places a directive may stand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Contexts(u32);

impl Contexts {
    pub const MAIN: Contexts = Contexts(1);
    pub const EVENTS: Contexts = Contexts(1 << 1);
    pub const HTTP: Contexts = Contexts(1 << 2);
    pub const SERVER: Contexts = Contexts(1 << 3);
    pub const LOCATION: Contexts = Contexts(1 << 4);
    /// `if` in a server.
    pub const SERVER_IF: Contexts = Contexts(1 << 5);
    /// `if` in a location.
    pub const LOCATION_IF: Contexts = Contexts(1 << 6);
    pub const LIMIT_EXCEPT: Contexts = Contexts(1 << 7);
    pub const UPSTREAM: Contexts = Contexts(1 << 8);
    pub const ANY: Contexts = Contexts(u32::MAX);
    pub const NONE: Contexts = Contexts(0);

    pub const fn or(self, other: Contexts) -> Contexts {
        Contexts(self.0 | other.0)
    }

    /// Whether all of `other` is in this set.
    pub const fn contains(self, other: Contexts) -> bool {
        self.0 & other.0 == other.0
    }

    /// The places that are in both.
    pub const fn and(self, other: Contexts) -> Contexts {
        Contexts(self.0 & other.0)
    }

    /// The places of this set that are not in `other`.
    pub const fn without(self, other: Contexts) -> Contexts {
        Contexts(self.0 & !other.0)
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Contexts {
    type Output = Contexts;

    fn bitor(self, other: Contexts) -> Contexts {
        self.or(other)
    }
}

/// How many arguments a directive takes, its name not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    Exactly(usize),
    /// From the first to the second, both included.
    Between(usize, usize),
    OneOf(&'static [usize]),
    AtLeast(usize),
    /// One argument, `on` or `off`; the setter checks it, since "is duplicate" comes before it.
    Flag,
    Any,
}

impl Arity {
    pub fn accepts(self, count: usize) -> bool {
        match self {
            Arity::Exactly(exactly) => count == exactly,
            Arity::Between(least, most) => (least..=most).contains(&count),
            Arity::OneOf(counts) => counts.contains(&count),
            Arity::AtLeast(least) => count >= least,
            Arity::Flag => count == 1,
            Arity::Any => true,
        }
    }
}

/// One directive in one meaning. A name may have several rows: `server` is a block of http and a line of upstream.
#[derive(Clone, Copy, Debug)]
pub struct Row<S> {
    pub name: &'static str,
    pub contexts: Contexts,
    pub arity: Arity,
    /// Whether it is followed by `{ … }`.
    pub block: bool,
    /// What acts on it.
    pub set: S,
    /// One line for the documentation.
    pub doc: &'static str,
}

/// Finds the row for `directive` in `context`, or says what is wrong in nginx's words and nginx's order. Rows of other
/// names are passed over, so `rows` may be those of one name or of all.
pub fn check<'r, S: 'r>(
    rows: impl IntoIterator<Item = &'r Row<S>>,
    directive: &Directive,
    context: Contexts,
) -> Result<&'r Row<S>, Error> {
    let name = &directive.name;
    let mut known = false;
    for row in rows
        .into_iter()
        .filter(|row| row.name.as_bytes() == name.bytes)
    {
        known = true;
        if row.contexts.contains(context) {
            return check_row(row, directive).map(|()| row);
        }
    }
    Err(directive.error(if known {
        format!("\"{name}\" directive is not allowed here")
    } else {
        format!("unknown directive \"{name}\"")
    }))
}

fn check_row<S>(row: &Row<S>, directive: &Directive) -> Result<(), Error> {
    let name = row.name;
    let message = match (&directive.block, row.block) {
        (Some(_), false) => format!("directive \"{name}\" is not terminated by \";\""),
        (None, true) => format!("directive \"{name}\" has no opening \"{{\""),
        _ if !row.arity.accepts(directive.args.len()) => {
            format!("invalid number of arguments in \"{name}\" directive")
        }
        _ => return Ok(()),
    };
    Err(directive.error(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn row(name: &'static str, contexts: Contexts, arity: Arity, block: bool) -> Row<()> {
        Row {
            name,
            contexts,
            arity,
            block,
            set: (),
            doc: "",
        }
    }

    const ROWS: &[Row<()>] = &[
        row("user", Contexts::MAIN, Arity::Between(1, 2), false),
        row("daemon", Contexts::MAIN, Arity::Flag, false),
        row("events", Contexts::MAIN, Arity::Exactly(0), true),
        row("server", Contexts::HTTP, Arity::Exactly(0), true),
        row("server", Contexts::UPSTREAM, Arity::AtLeast(1), false),
        row(
            "server_names_hash",
            Contexts::HTTP.or(Contexts::SERVER),
            Arity::OneOf(&[1, 3]),
            false,
        ),
    ];

    /// The complaint, or the place of the row that was found.
    fn check_one(text: &str, context: Contexts) -> String {
        let tree = crate::parse(&Text(text), "/c".as_ref(), "/".as_ref());
        let directive = tree
            .root
            .directives()
            .next()
            .expect("the text has a directive");
        match check(ROWS, directive, context) {
            Ok(found) => ROWS
                .iter()
                .position(|row| std::ptr::eq(row, found))
                .map_or_else(String::new, |at| at.to_string()),
            Err(error) => error.to_string(),
        }
    }

    struct Text<'a>(&'a str);

    impl crate::Source for Text<'_> {
        fn read(&self, _: &std::path::Path) -> std::io::Result<Vec<u8>> {
            Ok(self.0.as_bytes().to_vec())
        }

        fn glob(&self, _: &std::path::Path) -> std::io::Result<Vec<std::path::PathBuf>> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn complaints_are_nginx_s() {
        let table = [
            ("user a b;", Contexts::MAIN, "0"),
            ("daemon Off;", Contexts::MAIN, "1"),
            ("server {}", Contexts::HTTP, "3"),
            ("server a b c;", Contexts::UPSTREAM, "4"),
            ("server_names_hash 1 2 3;", Contexts::SERVER, "5"),
            (
                "server_names_hash 1 2;",
                Contexts::SERVER,
                "invalid number of arguments in \"server_names_hash\" directive in /c:1",
            ),
            (
                "foo x;",
                Contexts::MAIN,
                "unknown directive \"foo\" in /c:1",
            ),
            ("\"\" x;", Contexts::MAIN, "unknown directive \"\" in /c:1"),
            (
                "\n server {}",
                Contexts::MAIN,
                "\"server\" directive is not allowed here in /c:2",
            ),
            (
                "user a b c {}",
                Contexts::HTTP,
                "\"user\" directive is not allowed here in /c:1",
            ),
            (
                "user a b c {}",
                Contexts::MAIN,
                "directive \"user\" is not terminated by \";\" in /c:1",
            ),
            (
                "events a;",
                Contexts::MAIN,
                "directive \"events\" has no opening \"{\" in /c:1",
            ),
            (
                "user;",
                Contexts::MAIN,
                "invalid number of arguments in \"user\" directive in /c:1",
            ),
            (
                "user a b c;",
                Contexts::MAIN,
                "invalid number of arguments in \"user\" directive in /c:1",
            ),
            (
                "daemon;",
                Contexts::MAIN,
                "invalid number of arguments in \"daemon\" directive in /c:1",
            ),
            ("daemon maybe;", Contexts::MAIN, "1"),
        ];
        for (text, context, expected) in table {
            assert_eq!(check_one(text, context), expected, "{text}");
        }
    }

    #[test]
    fn contexts_are_sets() {
        const BOTH: Contexts = Contexts::HTTP.or(Contexts::SERVER);
        assert!(BOTH.contains(Contexts::HTTP) && !BOTH.contains(Contexts::LOCATION));
        assert_eq!(BOTH.without(Contexts::HTTP), Contexts::SERVER);
        assert!(BOTH.without(BOTH).is_empty());
        assert!(
            Contexts::ANY.contains(BOTH | Contexts::UPSTREAM) && !Contexts::HTTP.contains(BOTH)
        );
    }
}
