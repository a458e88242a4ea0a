//! gzip at every level, whole and in pieces, undone by gunzip, by zcat and by Chromium.

use crate::browser;
use crate::site::{Site, until};
use std::io::Write;
use std::process::{Command, Stdio};
use testkit::origin::Origin;

/// A file that is compressed whole, and one that is compressed in pieces.
const FILES: [(&str, usize); 3] = [
    ("short.html", 300),
    ("page.html", 60_000),
    ("long.html", 1_200_000),
];

/// Text that repeats itself, but never for long.
fn text(length: usize) -> Vec<u8> {
    let line = |number: u32| {
        let name = number.wrapping_mul(2_654_435_761);
        format!(
            "<li class=\"c{}\">entry {name:x} of {number}</li>\n",
            number % 7
        )
    };
    let mut text = (0..)
        .map(line)
        .flat_map(String::into_bytes)
        .take(length)
        .collect::<Vec<u8>>();
    if let Some(last) = text.last_mut() {
        *last = b'.';
    }
    text
}

/// What can be asked for: each file at some levels, padded, and from an upstream.
fn paths() -> Vec<(String, usize)> {
    let mut paths: Vec<(String, usize)> = (1..=9)
        .flat_map(|level| {
            FILES[..2]
                .iter()
                .map(move |(name, length)| (format!("/{level}/{name}"), *length))
        })
        .collect();
    paths.extend(["/1/long.html", "/9/long.html"].map(|path| (path.to_owned(), FILES[2].1)));
    paths.extend(FILES.map(|(name, length)| (format!("/padded/{name}"), length)));
    paths.extend(FILES.map(|(name, length)| (format!("/made/{name}"), length)));
    paths
}

fn origin() -> Origin {
    let reply = |(name, length): (&str, usize)| {
        let mut reply =
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
                .to_vec();
        for piece in text(length).chunks(7_000) {
            reply.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            reply.extend_from_slice(piece);
            reply.extend_from_slice(b"\r\n");
        }
        reply.extend_from_slice(b"0\r\n\r\n");
        (format!("/{name}"), reply)
    };
    Origin::start(FILES.map(reply).into()).unwrap()
}

fn site(origin: &Origin, index: &str) -> Site {
    let levels: String = (1..=9)
        .map(|level| format!("location /{level}/ {{ gzip_comp_level {level}; alias html/; }}\n"))
        .collect();
    let inside = format!(
        "gzip on; compression_cache off; {levels} location /padded/ {{ gzip_padding 3000; alias html/; }}\n\
         location /made/ {{ proxy_pass http://127.0.0.1:{}/; }}",
        origin.port()
    );
    let texts = FILES.map(|(_, length)| text(length));
    let mut files: Vec<(&str, &[u8])> = FILES
        .iter()
        .zip(&texts)
        .map(|((name, _), text)| (*name, &text[..]))
        .collect();
    files.push(("index.html", index.as_bytes()));
    Site::start("", &inside, &files)
}

/// What a program makes of its input; `None` where it is not installed.
fn through(program: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let child = Command::new(program[0])
        .args(&program[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.ok()?;
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input).unwrap());
        child.wait_with_output().unwrap()
    });
    assert!(output.status.success(), "{program:?}");
    Some(output.stdout)
}

#[test]
fn gunzip_and_zcat_undo_what_is_sent() {
    let origin = origin();
    let site = site(&origin, "");
    for (path, length) in paths() {
        let reply = site.ask(
            "GET",
            &path,
            &[("Accept-Encoding", "gzip"), ("Connection", "close")],
        );
        assert_eq!(reply.field("Content-Encoding"), Some("gzip"), "{path}");
        for program in [&["gunzip", "-c"][..], &["zcat"]] {
            match through(program, &reply.body) {
                Some(undone) => assert!(undone == text(length), "{program:?} {path}"),
                None => println!("skipped: {program:?} is not installed"),
            }
        }
    }
}

/// A page that fetches paths and says what came: a sum of the bytes.
const SCRIPT: &str = "<script>
const sum = bytes => { let sum = 7; for (const byte of bytes) sum = (Math.imul(sum, 31) + byte) >>> 0; return sum; };
(async () => {
  const said = [];
  for (const path of PATHS) {
    const reply = await fetch(path, { cache: 'no-store' });
    said.push(sum(new Uint8Array(await reply.arrayBuffer())));
  }
  fetch('/said/' + said.join('/'));
})();
</script>";

#[test]
fn chromium_undoes_what_is_sent() {
    let origin = origin();
    let paths = paths();
    let names: Vec<String> = paths.iter().map(|(path, _)| format!("'{path}'")).collect();
    let page = SCRIPT.replace("PATHS", &format!("[{}]", names.join(", ")));
    let site = site(&origin, &page);
    let Some(_browser) = browser::open(&site) else {
        return;
    };
    until("the page has fetched all", || {
        site.access_log().contains("/said/")
    });
    let sum = |bytes: &[u8]| {
        bytes.iter().fold(7_u32, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u32::from(*byte))
        })
    };
    let sums: Vec<String> = paths
        .iter()
        .map(|(_, length)| sum(&text(*length)).to_string())
        .collect();
    let log = site.access_log();
    assert!(log.contains(&format!("/said/{} ", sums.join("/"))), "{log}");
    // The log tells the path that is asked for, and what it came in.
    assert_eq!(log.matches(" 200 gzip").count(), paths.len() + 1, "{log}");
}
