//! Tables of what nginx 1.22 made of each path (`return 200 "$uri"`), with `merge_slashes` on and off.

use super::*;
use crate::testing::Random;

fn shown(path: &str, merge_slashes: bool) -> String {
    match normalise(path.as_bytes(), merge_slashes) {
        Ok(uri) => uri.iter().map(|b| char::from(*b)).collect(),
        Err(_) => "400".to_string(),
    }
}

#[test]
fn paths_as_nginx_normalises_them() {
    for (path, uri) in [
        ("/a/b", "/a/b"),
        ("/./a", "/a"),
        ("/a/.", "/a/"),
        ("/a/./", "/a/"),
        ("/a/..", "/"),
        ("/a/../", "/"),
        ("/a/b/../c", "/a/c"),
        ("/..", "400"),
        ("/../", "400"),
        ("/../a", "400"),
        ("/a/../..", "400"),
        ("/a/../../b", "400"),
        ("/...", "/..."),
        ("/a/.../b", "/a/.../b"),
        ("/.a", "/.a"),
        ("/..a", "/..a"),
        ("/a/..b", "/a/..b"),
        ("/a/b/.", "/a/b/"),
        ("/a/b/..", "/a/"),
        ("/%41", "/A"),
        ("/%2e%2e/a", "400"),
        ("/a/%2e%2e/b", "/b"),
        ("/a/%2e/b", "/a/b"),
        ("/a%2fb", "/a/b"),
        ("/a%2f../b", "/b"),
        ("/a%2F..%2Fb", "/b"),
        ("/%", "400"),
        ("/%4", "400"),
        ("/%4g", "400"),
        ("/%zz", "400"),
        ("/a%00b", "400"),
        ("/a%3fb", "/a?b"),
        ("/a#f", "/a"),
        ("/a%23b", "/a#b"),
        ("/a%2541", "/a%41"),
        ("/a+b", "/a+b"),
        ("/a%20b", "/a b"),
        ("/a%0ab", "/a\nb"),
        ("/a/..#f", "/"),
        ("/%2e", "/"),
        ("/%2e%2e", "400"),
        ("/a/%2e%2e", "/"),
        ("/a/%2E%2e%2f..", "400"),
        ("/a\\..\\b", "/a\\..\\b"),
        ("/.%2e/a", "400"),
        ("/a/.%2e/b", "/b"),
        ("/a%#x", "400"),
        ("/a%80%ff", "/a\u{80}\u{ff}"),
        ("/a/b;c=d/e", "/a/b;c=d/e"),
        ("/a%2e", "/a."),
        ("/a/b/..%2f", "/a/"),
        ("/a/..%2fb", "/b"),
        ("/a/b/....", "/a/b/...."),
        ("/~a/../x", "/x"),
        ("/a/../%zz", "400"),
        ("/a/%23/../b", "/a/b"),
        ("/a%252e%252e/", "/a%2e%2e/"),
        ("/a/b/%2e.%2f%2e/c", "/a/c"),
        ("/a/./.", "/a/"),
        ("/a/././", "/a/"),
        ("/a/b/./..", "/a/"),
        ("/a/.b/../..c", "/a/..c"),
        ("/a/%2e%2e%2e/b", "/a/.../b"),
        ("/a%3f/../b", "/b"),
        ("/.", "/"),
        ("/./", "/"),
    ] {
        assert_eq!(shown(path, true), uri, "{path}");
        assert_eq!(shown(path, false), uri, "{path}, slashes kept");
    }
}

#[test]
fn slashes_merged_and_kept() {
    for (path, merged, kept) in [
        ("/a//b", "/a/b", "/a//b"),
        ("//a", "/a", "//a"),
        ("/a///b//", "/a/b/", "/a///b//"),
        ("/a%2f%2fb", "/a/b", "/a//b"),
        ("/a//../b", "/b", "/a/b"),
        ("/a//./b", "/a/b", "/a//b"),
        ("/a/.//b", "/a/b", "/a//b"),
        ("/a/..//b", "/b", "//b"),
        ("//..", "400", "/"),
        ("//../a", "400", "/a"),
        ("///..//a", "400", "///a"),
        ("/a/../b/../c/./d//e", "/c/d/e", "/c/d//e"),
        ("/%2f", "/", "//"),
        ("/%2f%2f", "/", "///"),
        ("/a/%2f", "/a/", "/a//"),
        ("/a//", "/a/", "/a//"),
    ] {
        assert_eq!(shown(path, true), merged, "{path}");
        assert_eq!(shown(path, false), kept, "{path}, slashes kept");
    }
}

#[test]
fn needs_normalising_is_never_missed() {
    let mut random = Random::new(7);
    for _ in 0..200_000 {
        let mut path = b"/".to_vec();
        for _ in 0..random.below(8) {
            path.push(b"/./.a%2eFb?#"[random.below(12) as usize]);
        }
        let Ok(target) = Target::parse(&path) else {
            continue;
        };
        for merge in [true, false] {
            let uri = normalise(target.raw_path, merge);
            if !target.needs_normalising {
                assert_eq!(uri.as_deref(), Ok(target.raw_path), "{path:?}");
            }
            if let Ok(uri) = uri {
                assert_eq!(uri.first(), Some(&b'/'));
                let ends_in_dots = uri.split(|b| *b == b'/').any(|s| s == b"." || s == b"..");
                assert!(!ends_in_dots, "{path:?}");
            }
        }
    }
}

#[test]
fn targets_are_cut_as_nginx_cuts_them() {
    for (raw, path, args, host) in [
        ("/", "/", None, None),
        ("/a?b", "/a", Some("b"), None),
        ("/a?", "/a", Some(""), None),
        ("/a??b", "/a", Some("?b"), None),
        ("/a?x#f", "/a", Some("x"), None),
        ("/a?x#f?y", "/a", Some("x"), None),
        ("/a#f?x", "/a", None, None),
        ("/x?a\"<>", "/x", Some("a\"<>"), None),
        ("http://h", "/", None, Some("h")),
        ("http://h?q", "/", Some("q"), Some("h")),
        ("http://h:80?x", "/", Some("x"), Some("h:80")),
        ("http://h:80/p?q#f", "/p", Some("q"), Some("h:80")),
        ("h+t-t.p1://H.com.:8080/p", "/p", None, Some("H.com.:8080")),
        ("http://[::1]:80/p", "/p", None, Some("[::1]:80")),
        ("HTTP://h:/p", "/p", None, Some("h:")),
    ] {
        let target = Target::parse(raw.as_bytes()).expect(raw);
        assert_eq!(target.raw_path, path.as_bytes(), "{raw}");
        assert_eq!(target.args, args.map(str::as_bytes), "{raw}");
        assert_eq!(target.host, host.map(str::as_bytes), "{raw}");
    }
    for raw in [
        "",
        "*",
        "x",
        "?a",
        "#a",
        "\\a",
        "a:80",
        "http:/p",
        "http:///p",
        "http://u@h/p",
        "http://[::1]x/p",
        "http://h:8a/p",
        "http://h#f",
        "1http://h/",
        "://h/",
        "/a\0b",
        "/a\x01b",
        "/a\x7fb",
        "/a\rb",
        "/a b",
        "/a?b\tc",
        "/a?\x01",
    ] {
        assert!(Target::parse(raw.as_bytes()).is_err(), "{raw:?}");
    }
    assert_eq!(
        split(b"http://h:80?x").map(|parts| parts.request_uri),
        Ok(11..13)
    );
    assert_eq!(split(b"http://h").map(|parts| parts.request_uri), Ok(6..7));
}

#[test]
fn hosts() {
    for (raw, name, port) in [
        ("a", "a", None),
        ("A.B", "a.b", None),
        ("a:80", "a", Some(80)),
        ("a.", "a", None),
        ("a.:80", "a", Some(80)),
        (".a", ".a", None),
        ("a:", "a", None),
        ("[::1]", "[::1]", None),
        ("[A::1]:443", "[a::1]", Some(443)),
        ("a_b", "a_b", None),
        ("*", "*", None),
        ("a%41", "a%41", None),
        ("1.2.3.4:65535", "1.2.3.4", Some(65535)),
        ("[v1.x:y]", "[v1.x:y]", None),
    ] {
        let host = validate_host(raw.as_bytes()).expect(raw);
        assert_eq!(
            (host.name.as_ref(), host.port),
            (name.as_bytes(), port),
            "{raw}"
        );
    }
    for raw in [
        "", ".", "a..", "a..b", "a/b", "a b", "a\tb", "a\0", "a\x01b", "a\x7f", ":80", "::1",
        "a:x", "a:8x", "a:80:90", "a:65536", "[::1", "[::1]]", "[::1].", "[x]", "[]", "a\\b",
        "a?b", "a#b", "a@b", "a\"b", "a<b", "a\u{80}b", "a%b", "a%4", "a]", "[v.x]", "[v1.]",
    ] {
        assert_eq!(
            validate_host(raw.as_bytes()),
            Err(UriError::BadHost),
            "{raw:?}"
        );
    }
}

#[test]
fn random_bytes_never_panic() {
    let mut random = Random::new(1);
    for _ in 0..100_000 {
        let bytes = random.bytes(24);
        let mut path = b"/".to_vec();
        path.extend_from_slice(&bytes);
        for raw in [&bytes, &path] {
            let _ = Target::parse(raw).map(|target| normalise(target.raw_path, true).is_ok());
            let _ = normalise(raw, false);
            let _ = validate_host(raw);
            assert_eq!(unescape(&escape(raw, Class::Uri)).as_ref(), &raw[..]);
        }
    }
}
