//! Dictionaries (RFC 9842): versions of a script that differ a little, for clients that have the former one.

use crate::browser;
use crate::site::{Site, decoded, until};
use std::fs;
use std::io::Read;
use testkit::origin::Origin;
use testkit::reply::Reply;

/// A script whose lines tell little of one another.
fn script(version: u32) -> Vec<u8> {
    let line = |number: u32| {
        let name = number.wrapping_mul(2_654_435_761);
        format!("function f{name:08x}(a) {{ return a * {number} + 0x{name:x}; }}\n")
    };
    let mut lines: Vec<String> = (0..1500).map(line).collect();
    lines[700] = format!("const version = \"version {version} of the script\";\n");
    lines.concat().into_bytes()
}

/// The value of Available-Dictionary.
fn named(dictionary: &[u8]) -> String {
    use sha2::Digest;
    let hash = sha2::Sha256::digest(dictionary);
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in hash.chunks(3) {
        let bits = chunk
            .iter()
            .fold(0u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            match place <= chunk.len() {
                true => text.push(char::from(
                    letters[(bits >> (18 - 6 * place)) as usize & 63],
                )),
                false => text.push('='),
            }
        }
    }
    format!(":{text}:")
}

/// What a client with the dictionary makes of a reply.
fn with(dictionary: &[u8], reply: &Reply) -> Vec<u8> {
    use sha2::Digest;
    let hash = sha2::Sha256::digest(dictionary);
    let mut out = Vec::new();
    match reply.field("Content-Encoding") {
        Some("dcb") => {
            assert_eq!(&reply.body[..4], b"\xffDCB");
            assert_eq!(reply.body[4..36], hash[..]);
            let mut reader = brotli::Decompressor::new(&reply.body[36..], 4096);
            assert!(reader.attach_dictionary(dictionary.to_vec().into()));
            reader.read_to_end(&mut out).unwrap();
        }
        Some("dcz") => {
            assert_eq!(&reply.body[..8], b"\x5e\x2a\x4d\x18\x20\0\0\0");
            assert_eq!(reply.body[8..40], hash[..]);
            out.reserve(8 << 20);
            // The head is a frame that decoders skip.
            let mut context = zstd_safe::DCtx::create();
            context.load_dictionary(dictionary).unwrap();
            let mut output = zstd_safe::OutBuffer::around(&mut out);
            let mut input = zstd_safe::InBuffer::around(&reply.body);
            while input.pos() < reply.body.len() {
                context.decompress_stream(&mut output, &mut input).unwrap();
            }
        }
        other => out = decoded(other, &reply.body),
    }
    out
}

const SETTINGS: &str = "gzip on; brotli on; zstd on;\
    gzip_types text/javascript; brotli_types text/javascript; zstd_types text/javascript;";
const ALL: &str = "gzip, deflate, br, zstd, dcb, dcz";

fn origin() -> Origin {
    let chunked = |body: &[u8]| {
        let mut reply = b"HTTP/1.1 200 OK\r\nContent-Type: text/javascript\r\n\
            Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            .to_vec();
        for piece in body.chunks(10_000) {
            reply.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            reply.extend_from_slice(piece);
            reply.extend_from_slice(b"\r\n");
        }
        reply.extend_from_slice(b"0\r\n\r\n");
        reply
    };
    let long = [script(3), vec![b'x'; 3 << 20]].concat();
    let replies = [
        ("/made/app.js", chunked(&script(3))),
        ("/made/long.js", chunked(&long)),
    ];
    Origin::start(replies.map(|(path, reply)| (path.to_owned(), reply)).into()).unwrap()
}

fn site(origin: &Origin, more: &str) -> Site {
    let inside = format!(
        "{SETTINGS} {more}\n\
         location /app/ {{ use_as_dictionary /app/*.js dest=script,style id=a\\\"b; compression_dictionary html/app/*.js; }}\n\
         location /made/ {{ compression_dictionary html/app/*.js; proxy_pass http://127.0.0.1:{}; }}\n\
         location /fonts/ {{ compression_dictionary html/app/*.js; add_header Access-Control-Allow-Origin *; alias html/app/; }}",
        origin.port()
    );
    let files = [
        ("app/1.js", script(1)),
        ("app/2.js", script(2)),
        ("other.js", script(1)),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, &text[..]));
    let site = Site::start("", &inside, &files);
    for path in ["/app/2.js", "/made/app.js", "/fonts/2.js"] {
        until("the dictionaries are read", || {
            let fields = [
                ("Accept-Encoding", "dcz"),
                ("Available-Dictionary", &named(&script(1))[..]),
            ];
            let reply = site.ask("GET", path, &fields);
            reply.field("Content-Encoding") == Some("dcz")
        });
    }
    site
}

#[test]
fn a_client_gets_the_difference_to_what_it_has() {
    let origin = origin();
    let site = site(&origin, "");
    let (one, two, three) = (script(1), script(2), script(3));
    let reply = site.ask("GET", "/app/1.js", &[("Accept-Encoding", ALL)]);
    assert_eq!(
        reply.field("Use-As-Dictionary"),
        Some(r#"match="/app/*.js", match-dest=("script" "style"), id="a\"b""#)
    );
    assert_eq!(
        reply.field("Vary"),
        Some("Accept-Encoding, Available-Dictionary")
    );
    assert_eq!(reply.field("Content-Encoding"), Some("zstd"));
    let plain = reply.body.len();
    let has_one = named(&one);
    for (path, accepted, coding, expected) in [
        ("/app/2.js", ALL, "dcz", &two),
        ("/app/2.js", "br, dcb", "dcb", &two),
        ("/app/2.js", "gzip, dcz;q=0, dcb;q=1", "dcb", &two),
        ("/app/2.js", "gzip, br;q=0.9, dcb;q=0.5", "gzip", &two),
        ("/app/2.js", "gzip, br, zstd", "zstd", &two),
        ("/app/1.js", ALL, "dcz", &one),
        ("/made/app.js", ALL, "dcz", &three),
        // Nobody knows how long it becomes.
        ("/made/app.js", "br, dcb", "br", &three),
        ("/other.js", ALL, "zstd", &one),
    ] {
        let fields = [
            ("Accept-Encoding", accepted),
            ("Available-Dictionary", &has_one[..]),
        ];
        let reply = site.ask("GET", path, &fields);
        assert_eq!(
            reply.field("Content-Encoding"),
            Some(coding),
            "{path} {accepted}"
        );
        assert!(with(&one, &reply) == *expected, "{path} {accepted}");
        if coding.starts_with("dc") {
            assert!(
                reply.body.len() * 20 < plain,
                "{path}: {} of {plain}",
                reply.body.len()
            );
        }
        let head = site.ask("HEAD", path, &fields);
        assert_eq!(head.field("Content-Encoding"), Some(coding), "HEAD {path}");
        assert_eq!(head.field("ETag"), reply.field("ETag"));
        assert!(reply.field("ETag").is_none_or(|tag| tag.starts_with("W/")));
    }
    let fields = [
        ("Accept-Encoding", ALL),
        ("Available-Dictionary", &has_one[..]),
    ];
    let reply = site.ask("GET", "/made/long.js", &fields);
    assert_eq!(reply.field("Content-Encoding"), Some("dcz"));
    assert!(with(&one, &reply).starts_with(&three));
}

#[test]
fn a_dictionary_is_what_the_client_names_and_may_use() {
    let origin = origin();
    let site = site(&origin, "precompress on; precompress_store copies;");
    let has_one = named(&script(1));
    let coding = |path: &str, fields: &[(&str, &str)]| {
        let accepted = [("Accept-Encoding", ALL)];
        let fields: Vec<_> = accepted.iter().chain(fields).copied().collect();
        let reply = site.ask("GET", path, &fields);
        assert_eq!(reply.status(), 200, "{fields:?}");
        assert!(with(&script(1), &reply) == script(2), "{fields:?}");
        reply.field("Content-Encoding").unwrap_or("none").to_owned()
    };
    let unknown = named(b"never seen");
    let (one, cross) = (
        ("Available-Dictionary", &has_one[..]),
        ("Sec-Fetch-Site", "cross-site"),
    );
    for (path, fields, expected) in [
        ("/app/2.js", vec![one], "dcz"),
        (
            "/app/2.js",
            vec![("Available-Dictionary", &unknown[..])],
            "zstd",
        ),
        ("/app/2.js", vec![("Available-Dictionary", "x")], "zstd"),
        ("/app/2.js", vec![one, one], "zstd"),
        (
            "/app/2.js",
            vec![one, ("Sec-Fetch-Site", "same-origin")],
            "dcz",
        ),
        (
            "/app/2.js",
            vec![one, cross, ("Sec-Fetch-Mode", "no-cors")],
            "zstd",
        ),
        (
            "/app/2.js",
            vec![one, cross, ("Sec-Fetch-Mode", "navigate")],
            "dcz",
        ),
        (
            "/app/2.js",
            vec![
                one,
                cross,
                ("Sec-Fetch-Mode", "cors"),
                ("Origin", "http://a"),
            ],
            "zstd",
        ),
        (
            "/fonts/2.js",
            vec![
                one,
                cross,
                ("Sec-Fetch-Mode", "cors"),
                ("Origin", "http://a"),
            ],
            "dcz",
        ),
    ] {
        assert_eq!(coding(path, &fields), expected, "{path} {fields:?}");
    }
    let range = site.ask(
        "GET",
        "/app/2.js",
        &[one, ("Accept-Encoding", ALL), ("Range", "bytes=0-9")],
    );
    assert_eq!(
        (range.status(), range.field("Content-Encoding")),
        (200, Some("dcz"))
    );
    // A file that came later is found when a client names it.
    let four = script(4);
    fs::write(site.root().join("app/4.js"), &four).unwrap();
    let has_four = named(&four);
    until("the new file is a dictionary", || {
        let fields = [
            ("Accept-Encoding", ALL),
            ("Available-Dictionary", &has_four[..]),
        ];
        let reply = site.ask("GET", "/app/2.js", &fields);
        let found = reply.field("Content-Encoding") == Some("dcz");
        assert!(with(if found { &four } else { b"" }, &reply) == script(2));
        found
    });
}

/// Loads two versions of a script, and asks for what they said.
const PAGE: &str = "<!doctype html><title>versions</title><script>
const load = number => new Promise((ok, no) => {
  const script = document.createElement('script');
  Object.assign(script, { src: `/app/${number}.js`, onload: () => ok(version), onerror: no });
  document.head.append(script);
});
const rest = () => new Promise(ok => setTimeout(ok, 1000));
(async () => {
  const said = [];
  for (let number = 1; number <= 4; number++) { said.push(await load(number)); await rest(); }
  fetch('/said/' + said.join('/').replaceAll(' ', '-'));
})();
</script>";

#[test]
fn chromium_uses_dictionaries() {
    for order in ["zstd br gzip", "br zstd gzip"] {
        let inside = format!(
            "{SETTINGS} compression_order {order}; expires 1h; location /app/ {{ use_as_dictionary /app/*.js; \
             compression_dictionary html/app/*.js; }}"
        );
        // `const` may stand in one script only.
        let text = |version| {
            String::from_utf8(script(version))
                .unwrap()
                .replace("const version", "version")
        };
        let files = [1, 2, 3, 4].map(|version| (format!("app/{version}.js"), text(version)));
        let mut files: Vec<(&str, &[u8])> = files
            .iter()
            .map(|(name, text)| (&name[..], text.as_bytes()))
            .collect();
        files.push(("index.html", PAGE.as_bytes()));
        let site = Site::start("", &inside, &files);
        let Some(_browser) = browser::open(&site) else {
            return;
        };
        until("the page has all versions", || {
            site.access_log().contains("/said/")
        });
        let log = site.access_log();
        let said: Vec<String> = (1..5)
            .map(|version| format!("version-{version}-of-the-script"))
            .collect();
        assert!(log.contains(&format!("/said/{}", said.join("/"))), "{log}");
        let coding = if order.starts_with("br") {
            "dcb"
        } else {
            "dcz"
        };
        // The browser takes its time to keep a dictionary.
        assert!(log.contains(&format!("/app/4.js 200 {coding}")), "{log}");
    }
}
