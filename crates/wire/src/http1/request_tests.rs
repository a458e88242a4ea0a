//! Tables of what nginx 1.22 answered to each head, sent as raw bytes, and the parser's properties.

use super::*;
use crate::testing::Random;

fn parse_with(head: &[u8], limits: &Limits) -> Result<(Option<usize>, Head), Error> {
    let mut parser = Parser::new();
    let consumed = parser.parse(head, limits)?;
    Ok((consumed, parser.take_head()))
}

fn parse(head: &[u8]) -> Result<Head, Error> {
    let (consumed, parsed) = parse_with(head, &Limits::default())?;
    assert_eq!(
        consumed,
        Some(head.len()),
        "{:?}",
        head.escape_ascii().to_string()
    );
    Ok(parsed)
}

fn status(head: &[u8]) -> u16 {
    parse(head).map_or_else(Error::status, |_| 200)
}

#[test]
fn request_lines_accepted_as_by_nginx() {
    for (line, method, path, version) in [
        ("GET / HTTP/1.0", "GET", "/", Version::Http10),
        ("GET  /x  HTTP/1.0  ", "GET", "/x", Version::Http10),
        ("GET / HTTP/1.1", "GET", "/", Version::Http11),
        ("GET / HTTP/1.00", "GET", "/", Version::Http10),
        ("GET / HTTP/1.01", "GET", "/", Version::Http11),
        ("GET / HTTP/1.9", "GET", "/", Version::Http11),
        ("GET / HTTP/1.100", "GET", "/", Version::Http11),
        ("G-T_X / HTTP/1.0", "G-T_X", "/", Version::Http10),
        ("FOO / HTTP/1.0", "FOO", "/", Version::Http10),
        ("CONNECT / HTTP/1.0", "CONNECT", "/", Version::Http10),
        ("GET http://h HTTP/1.0", "GET", "/", Version::Http10),
        (
            "GET http://h:80/p?q#f HTTP/1.0",
            "GET",
            "/p",
            Version::Http10,
        ),
    ] {
        for end in ["\r\n\r\n", "\n\n", "\r\n\n", "\n\r\n"] {
            let head = format!("{line}{end}");
            let parsed = parse(head.as_bytes()).expect(line);
            let buf = head.as_bytes();
            assert_eq!(parsed.method_span.of(buf), method.as_bytes(), "{line}");
            assert_eq!(parsed.path.of(buf), path.as_bytes(), "{line}");
            assert_eq!(parsed.version, version, "{line}");
            assert_eq!(parsed.request_line.of(buf), line.as_bytes(), "{line}");
        }
    }
}

#[test]
fn http_09_has_no_fields() {
    for head in [
        "GET /\r\n",
        "GET /\n",
        "GET / \r\n",
        "GET   /\r\n",
        "GET http://h/a\r\n",
        "\r\nGET /\r\n",
    ] {
        assert_eq!(parse(head.as_bytes()).expect(head).version, Version::Http09);
    }
    for head in [
        "POST /\r\n",
        "HEAD /\r\n",
        "GET http://h\r\n",
        "GET\r\n",
        "GET \r\n",
        "GET   \r\n",
    ] {
        assert_eq!(status(head.as_bytes()), 400, "{head:?}");
    }
}

#[test]
fn request_lines_refused_as_by_nginx() {
    for (line, expected) in [
        (&b" GET / HTTP/1.0"[..], 400),
        (b"GET\t/x HTTP/1.0", 400),
        (b"GET /x\tHTTP/1.0", 400),
        (b"GET / HTTP/1.", 400),
        (b"GET / HTTP/1", 400),
        (b"GET / HTTP/01.0", 400),
        (b"GET / HTTP/0.9", 400),
        (b"GET / HTTP/1.1000", 400),
        (b"GET / HTTP/1x.0", 400),
        (b"GET / HTTP/a.0", 400),
        (b"GET / HTTP/1.0x", 400),
        (b"GET / HTTP/1.0 x", 400),
        (b"GET / http/1.0", 400),
        (b"GET / FTP/1.0", 400),
        (b"GET / H", 400),
        (b"GET /a b HTTP/1.0", 400),
        (b"GET /a HTTP /1.0", 400),
        (b"GET / HTTP/2", 505),
        (b"GET / HTTP/2.0", 505),
        (b"GET / HTTP/2x", 505),
        (b"GET / HTTP/11.0", 505),
        (b"GET / HTTP/12", 505),
        (b"GET / HTTP/999.0", 505),
        (b"get / HTTP/1.0", 400),
        (b"GET1 / HTTP/1.0", 400),
        (b"GE\0T / HTTP/1.0", 400),
        (b"OPTIONS * HTTP/1.0", 400),
        (b"CONNECT a:80 HTTP/1.1", 400),
        (b"PRI * HTTP/2.0", 400),
        (b"GET x HTTP/1.0", 400),
        (b"GET http:/p HTTP/1.0", 400),
        (b"GET http://u@h/p HTTP/1.0", 400),
        (b"GET /a\0b HTTP/1.0", 400),
        (b"GET /a\x01b HTTP/1.0", 400),
        (b"GET /a\x7fb HTTP/1.0", 400),
        (b"GET /a\rb HTTP/1.0", 400),
        (b"GET / HTTP/1.0\rX", 400),
        (b"GET / HTTP/1.0\r", 400),
        (b"GET /x?a\tb HTTP/1.0", 400),
    ] {
        let head = [line, b"\r\n\r\n"].concat();
        assert_eq!(status(&head), expected, "{}", line.escape_ascii());
    }
}

/// nginx answers these without waiting for the line's end.
#[test]
fn garbage_is_refused_at_once() {
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01"[..],
        b"\x16",
        b"\0",
        b"gET",
        b"GET\r",
        b"GET\n",
        b" ",
        b"\r\nx",
    ] {
        let result = parse_with(bytes, &Limits::default()).map(|_| ());
        assert_eq!(result, Err(Error::InvalidMethod), "{bytes:?}");
    }
    for bytes in [&b"G"[..], b"", b"GET ", b"GET /", b"\r\n"] {
        let (consumed, _) = parse_with(bytes, &Limits::default()).expect("incomplete, not wrong");
        assert_eq!(consumed, None);
    }
}

#[test]
fn fields_and_known_names() {
    let buf = b"\r\nPOST http://H:8/p//q?a=%20#f HTTP/1.1\r\nhOST: a\r\nX_Y: dropped\r\nX-Z:  1  \r\nEmpty\r\n\r\nbody";
    let (consumed, head) = parse_with(buf, &Limits::default()).expect("valid");
    assert_eq!(consumed, Some(buf.len() - 4));
    assert_eq!(head.method, Method::Post);
    assert_eq!(head.target.of(buf), b"http://H:8/p//q?a=%20#f");
    assert_eq!(head.request_uri.of(buf), b"/p//q?a=%20#f");
    assert_eq!(head.path.of(buf), b"/p//q");
    assert_eq!(head.args.map(|args| args.of(buf)), Some(&b"a=%20"[..]));
    assert_eq!(head.authority.map(|host| host.of(buf)), Some(&b"H:8"[..]));
    assert!(head.needs_normalising);
    assert_eq!(head.version_span.of(buf), b"HTTP/1.1");
    assert_eq!(head.fields.len(), 3);
    assert_eq!(head.value(Known::Host, buf), Some(&b"a"[..]));
    assert_eq!(head.fields[0].name.of(buf), b"hOST");
    assert_eq!(head.value_by_name(b"x-z", buf), Some(&b"1"[..]));
    assert_eq!(head.value_by_name(b"EMPTY", buf), Some(&b""[..]));
    assert_eq!(head.value_by_name(b"x_y", buf), None);
}

#[test]
fn folded_lines_are_refused() {
    for fold in [" fold", "\tfold"] {
        assert_eq!(
            status(format!("GET / HTTP/1.1\r\nX: v\r\n{fold}\r\n\r\n").as_bytes()),
            400
        );
    }
}

fn line_of(start: &str, end: &str, len: usize) -> String {
    format!("{start}{}{end}", "a".repeat(len - start.len() - end.len()))
}

/// The sizes at which nginx changes its answer, with 1k and 4 times 8k.
#[test]
fn sizes_as_nginx_limits_them() {
    for (len, expected) in [
        (1024, 200),
        (1025, 200),
        (8192, 200),
        (8193, 414),
        (20_000, 414),
    ] {
        let head = line_of("GET /", " HTTP/1.0\r\n", len) + "\r\n";
        assert_eq!(status(head.as_bytes()), expected, "request line of {len}");
    }
    for (count, len, expected) in [
        (1, 8192, 200),
        (1, 8193, 494),
        (3, 8192, 200),
        (4, 8000, 200),
        (4, 8192, 494),
        (5, 900, 200),
        (5, 4096, 200),
        (5, 4097, 494),
        (5, 8000, 494),
        (526, 64, 200),
        (527, 64, 494),
    ] {
        let head =
            "GET / HTTP/1.0\r\n".to_string() + &line_of("X: ", "\r\n", len).repeat(count) + "\r\n";
        assert_eq!(status(head.as_bytes()), expected, "{count} lines of {len}");
    }
    let endless = [b"GET /".to_vec(), vec![b'a'; 9000]].concat();
    assert_eq!(
        parse_with(&endless, &Limits::default()).map(|_| ()),
        Err(Error::RequestLineTooLong)
    );
    let endless = [b"GET / HTTP/1.1\r\nX: ".to_vec(), vec![b'a'; 9000]].concat();
    assert_eq!(
        parse_with(&endless, &Limits::default()).map(|_| ()),
        Err(Error::HeaderTooLarge)
    );
}

#[test]
fn counts_are_limited() {
    let lines = |n: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(n));
    assert_eq!(status(lines(1000).as_bytes()), 200);
    assert_eq!(parse(lines(1001).as_bytes()), Err(Error::TooManyHeaders));
    let blank = |n: usize| format!("{}GET / HTTP/1.0\r\n\r\n", "\r\n".repeat(n));
    assert_eq!(status(blank(40).as_bytes()), 200);
    assert_eq!(status(blank(513).as_bytes()), 400);
}

/// Feeds the pieces one after the other, as a connection does.
fn parse_in_pieces(
    buf: &[u8],
    ends: &[usize],
    parser: &mut Parser,
) -> Result<Option<usize>, Error> {
    parser.reset();
    for end in ends {
        if let Some(consumed) = parser.parse(&buf[..*end], &Limits::default())? {
            return Ok(Some(consumed));
        }
    }
    parser.parse(buf, &Limits::default())
}

#[test]
fn any_split_gives_the_same() {
    let mut parser = Parser::new();
    for buf in [
        &b"\r\n\nGET /a/../b?c HTTP/1.1\r\nHost: a\r\nX_Y: 1\r\nCookie: a=b; c=d\r\n\r\nrest"[..],
        b"GET /\r\n",
        b"GET / HTTP/1.1\nHost: a\n\nx",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"get / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/3.0\r\n\r\n",
        b"GET / HTTP/2E\xde\r\rt: x\nC\n\n",
        b"POST /\r \nA: b\n\n",
        b"GET / HTTP/1.1\r\rA: b\n\n",
        b"GET / HTTP/1.1\nA: b\rc\n\n",
    ] {
        let whole = parse_in_pieces(buf, &[], &mut parser);
        let head = parser.head().clone();
        for first in 0..=buf.len() {
            for second in first..=buf.len() {
                let split = parse_in_pieces(buf, &[first, second], &mut parser);
                assert_eq!(split, whole, "{first} {second}");
                if whole.is_ok() {
                    assert_eq!(parser.head(), &head);
                }
            }
        }
    }
}

#[test]
fn random_bytes_never_panic_and_splits_agree() {
    let mut random = Random::new(11);
    let mut parser = Parser::new();
    for _ in 0..50_000 {
        let mut buf = match random.below(3) {
            0 => Vec::new(),
            1 => b"GET /".to_vec(),
            _ => b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec(),
        };
        buf.extend(random.bytes(30));
        let split = random.below(buf.len() as u64 + 1) as usize;
        let whole = parse_in_pieces(&buf, &[], &mut parser);
        assert_eq!(
            parse_in_pieces(&buf, &[split], &mut parser),
            whole,
            "{}",
            buf.escape_ascii()
        );
    }
}
