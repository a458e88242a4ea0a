//! Which engine reads a pattern, and that both give the same.

use super::syntax::translate;
use super::*;

#[test]
fn patterns_of_one_meaning_stay_linear() {
    for (pattern, translated) in [
        (r"^/a/(.*)$", r"^/a/(.*)$"),
        (r"\.(?:php|html?)$", r"\.(?:php|html?)$"),
        (
            r"^/(?<name>[a-z_]+)/(?P<id>\d{1,3})",
            r"^/(?<name>[a-z_]+)/(?P<id>\d{1,3})",
        ),
        (r"(?i)a+?b*?c??[^\]x-]", r"(?i)a+?b*?c??[^\]x-]"),
        (r"[[:alpha:]-]{2,}\x2f\x{2F}", r"[[:alpha:]-]{2,}\x2f\x{2F}"),
        ("é", r"\xc3\xa9"),
        ("[é]", r"[\xc3\xa9]"),
        ("[]a]", "[]a]"),
    ] {
        let read = translate(pattern.as_bytes());
        assert_eq!(
            read.map(|read| read.text).as_deref(),
            Some(translated),
            "{pattern}"
        );
        let compiled = Pattern::compile(pattern.as_bytes(), false).expect(pattern);
        assert!(
            matches!(*compiled.engine, Engine::Linear { .. }),
            "{pattern}"
        );
    }
}

#[test]
fn patterns_of_another_meaning_go_to_pcre() {
    for pattern in [
        r"a(?=b)",
        r"(?!a)b",
        r"(?<=a)b",
        r"(?<!a)b",
        r"(a)\1",
        r"a++b",
        r"a*+b",
        r"a{2}+b",
        r"(?>a)",
        r"(?'n'a)",
        r"\ha",
        r"a\R",
        r"a\Kb",
        r"a\Z",
        r"\Qa.b\E",
        r"[[a]",
        r"[a&&b]",
        r"[+--b]",
        r"[a~~b]",
        r"\<a",
        r"a\>",
        r"\v",
        r"{a}",
        r"a{x}",
        r"(?R)?a",
        r"(?x)a b",
        r"(*UTF8)é",
        r"\b{start}",
        r"(?#comment)a",
        r"\pL",
        "\\é",
        r"[\b]",
    ] {
        let compiled = Pattern::compile(pattern.as_bytes(), false).expect(pattern);
        assert!(
            matches!(*compiled.engine, Engine::Backtracking(_)),
            "{pattern}"
        );
    }
}

#[test]
fn errors_are_nginx_s() {
    for (pattern, expected) in [
        ("(", "missing closing parenthesis in \"(\""),
        (
            "a**b",
            "quantifier does not follow a repeatable item in \"a**b\" at \"*b\"",
        ),
        ("[a", "missing terminating ] for character class in \"[a\""),
    ] {
        let error = Pattern::compile(pattern.as_bytes(), false).expect_err(pattern);
        assert_eq!(error, format!("pcre2_compile() failed: {expected}"));
    }
}

/// The captures as text, after a match.
fn captures(pattern: &str, subject: &str) -> Option<Vec<Option<String>>> {
    let pattern = Pattern::compile(pattern.as_bytes(), false).expect(pattern);
    let mut captures = Captures::default();
    let matched = pattern.capture(subject.as_bytes(), &mut captures);
    assert_eq!(matched, pattern.is_match(subject.as_bytes()));
    matched.then(|| {
        let text = |pair: &[u32]| match pair[0] {
            u32::MAX => None,
            start => Some(subject[start as usize..pair[1] as usize].to_owned()),
        };
        captures.positions.chunks(2).map(text).collect()
    })
}

#[test]
fn captures_are_the_same_in_both_engines() {
    let some = |texts: &[&str]| {
        Some(
            texts
                .iter()
                .map(|text| Some((*text).to_owned()))
                .collect::<Vec<_>>(),
        )
    };
    for (pattern, subject, expected) in [
        ("^/(a|ab)(c|bcd)$", "/abcd", some(&["/abcd", "a", "bcd"])),
        ("^/(.+?)(b*)$", "/abb", some(&["/abb", "a", "bb"])),
        ("^/(.*)$", "/a\n", some(&["/a", "a"])),
        ("^/(.*)$", "/a\n\n", None),
        ("a$", "a\n", Some(Vec::new())),
        ("a$", "b", None),
    ] {
        assert_eq!(captures(pattern, subject), expected, "{pattern}");
        // An atomic group around nothing makes it PCRE's.
        let other = format!("(?>){pattern}");
        assert_eq!(captures(&other, subject), expected, "{other}");
    }
    let unset = captures("^(a)?(b)?$", "b").expect("a match");
    assert_eq!(unset, [Some("b".into()), None, Some("b".into())]);
    let many = captures("^(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)$", "abcdefghijk").expect("a match");
    assert_eq!(many.len(), 12);
}

#[test]
fn names_have_their_numbers() {
    for pattern in ["(a)(?<b>b)(?P<c>c)", "(a)(?'b'b)(?P<c>c)(?=)"] {
        let pattern = Pattern::compile(pattern.as_bytes(), false).expect("a pattern");
        let names: Vec<_> = pattern.named_groups().collect();
        assert_eq!(names, [(2, "b"), (3, "c")]);
    }
}

#[test]
fn bytes_are_no_characters() {
    let pattern = Pattern::compile("^/é+$".as_bytes(), true).expect("a pattern");
    assert!(pattern.is_match(b"/\xc3\xa9\xa9") && !pattern.is_match("/éé".as_bytes()));
    let pattern = Pattern::compile(b"^\xff(?=a)", false).expect("a pattern");
    assert!(pattern.is_match(b"\xffa") && !pattern.is_match(b"\xff"));
    let pattern = Pattern::compile(b"^\xff.$", false).expect("a pattern");
    assert!(pattern.is_match(b"\xff\xfe"));
}

#[test]
fn runaway_matches_are_given_up() {
    let pattern = Pattern::compile(br"^(a+)+(?!b)$", false).expect("a pattern");
    let subject = [&[b'a'; 40][..], b"b"].concat();
    let error = pattern.try_match(&subject).expect_err("too much to try");
    assert!(error.code < 0);
    assert!(!pattern.is_match(&subject));
}
