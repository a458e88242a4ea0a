//! A deterministic generator of hostile requests: number N is the same in every run.

/// The body that an answer must not hold: it belongs to a request inside of what was refused.
pub const SMUGGLED: &[u8] = b"the smuggled request was answered";

/// What has to become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Status 4xx or 5xx and close, or close; nothing after it is answered.
    Refused,
    /// Any answer to the first request, but nothing after it.
    NotSmuggled,
    /// Any answers, and an end once we have sent everything.
    Ends,
}

pub struct Hostile {
    pub pieces: Vec<Vec<u8>>,
    pub verdict: Verdict,
}

const SECOND: &str = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Heads that no server may take for good, without their last empty line.
const BAD_HEADS: &[&str] = &[
    "GET /small.txt HTTP/1.1",
    "GET /small.txt HTTP/1.1\r\nHost: localhost\r\nHost: localhost",
    "GET /small.txt HTTP/1.1\r\nHost: a/b",
    "GET /small.txt HTTP/1.1\r\nHost: a\0b",
    "GET /small.txt HTTP/1.1\r\nHost : localhost",
    "GET /small.txt HTTP/1.1\r\n Host: localhost",
    "GET /small.txt HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b",
    "GET /small.txt HTTP/1.1\r\nHost: localhost\r\nX: a\rb",
    "GET /small.txt HTTP/1.1\r\nHost: localhost\r\nX: a\0b",
    "GET /small.txt HTTP/2.0\r\nHost: localhost",
    "GET /small.txt HTTP/1.1x\r\nHost: localhost",
    "GET /small.txt HTTP/1.99999\r\nHost: localhost",
    "GET /small.txt http/1.1\r\nHost: localhost",
    "GET  HTTP/1.1\r\nHost: localhost",
    "GET small.txt HTTP/1.1\r\nHost: localhost",
    "GET /small.txt\0 HTTP/1.1\r\nHost: localhost",
    "GET /small.txt%00 HTTP/1.1\r\nHost: localhost",
    "GET /%zz HTTP/1.1\r\nHost: localhost",
    "GET /../small.txt HTTP/1.1\r\nHost: localhost",
    "GET /a/%2e%2e/%2E./small.txt HTTP/1.1\r\nHost: localhost",
    "get /small.txt HTTP/1.1\r\nHost: localhost",
    "G:T /small.txt HTTP/1.1\r\nHost: localhost",
    "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost",
    "TRACE / HTTP/1.1\r\nHost: localhost",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n",
    "SSH-2.0-OpenSSH_9.2p1",
    "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}",
];

/// Fields with which the end of a body cannot be told for sure.
const BAD_FRAMING: &[&str] = &[
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: 0",
    "Content-Length: +5",
    "Content-Length: -1",
    "Content-Length: 0x5",
    "Content-Length: 5, 5",
    "Content-Length: 5 5",
    "Content-Length: 99999999999999999999",
    "Content-Length: 18446744073709551616",
    "Content-Length : 5",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: identity",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding: \x0bchunked",
];

/// Chunked bodies that break off in nonsense.
const BAD_CHUNKS: &[&str] = &[
    "zz\r\n",
    "-5\r\nhello\r\n",
    "0x5\r\nhello\r\n",
    "FFFFFFFFFFFFFFFFF\r\n",
    "8000000000000000\r\n",
    "5\r\nhelloX\r\n0\r\n\r\n",
    "5hello\r\n",
    "\r\n5\r\nhello\r\n0\r\n\r\n",
    ";\r\n",
];

const VALID: &[&str] = &[
    "GET /small.txt HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-2\r\nAccept-Encoding: gzip\r\n\r\n",
    "HEAD /./a/../small.txt?x=1#y HTTP/1.1\r\nHost: localhost:80\r\nIf-None-Match: \"a\", W/\"b\"\r\nConnection: keep-alive\r\n\r\n",
    "POST /small.txt HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 5\r\n\r\nhello",
    "PUT http://localhost/small.txt HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nT: x\r\n\r\n",
    "GET /small.txt HTTP/1.0\r\nConnection: keep-alive\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n",
    "GET /\r\n",
];

/// An xorshift generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit.max(1)
    }

    fn one_of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len())]
    }
}

impl Hostile {
    /// Request number `number`.
    pub fn generate(number: u64) -> Hostile {
        let mut random = Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        let (bytes, verdict) = match number % 10 {
            0 | 1 => (
                format!("{}\r\n\r\n{SECOND}", random.one_of(BAD_HEADS)),
                Verdict::Refused,
            ),
            2 => (bad_framing(&mut random), Verdict::Refused),
            3 => (bad_chunks(&mut random), Verdict::NotSmuggled),
            4 => (flood(&mut random), Verdict::Refused),
            5 => (garbage(&mut random), Verdict::Refused),
            _ => (String::new(), Verdict::Ends),
        };
        let bytes = match verdict {
            Verdict::Ends => mutated(&mut random),
            _ => bytes.chars().map(|byte| byte as u8).collect(),
        };
        Hostile {
            pieces: split(&mut random, &bytes),
            verdict,
        }
    }
}

fn bad_framing(random: &mut Random) -> String {
    let version = if random.below(4) == 0 { "1.0" } else { "1.1" };
    let (fields, path) = (
        random.one_of(BAD_FRAMING),
        random.one_of(&["/small.txt", "/none"]),
    );
    format!("POST {path} HTTP/{version}\r\nHost: localhost\r\n{fields}\r\n\r\n0\r\n\r\n{SECOND}")
}

fn bad_chunks(random: &mut Random) -> String {
    let (chunks, method) = (random.one_of(BAD_CHUNKS), random.one_of(&["GET", "POST"]));
    format!(
        "{method} /small.txt HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}{SECOND}"
    )
}

/// Too long a line, too many lines, too large a head.
fn flood(random: &mut Random) -> String {
    let extra = random.below(60_000);
    let head = "GET /small.txt HTTP/1.1\r\nHost: localhost\r\n";
    match random.below(4) {
        0 => format!(
            "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n{SECOND}",
            "a".repeat(9_000 + extra)
        ),
        1 => format!("{head}X: {}\r\n\r\n{SECOND}", "b".repeat(9_000 + extra)),
        2 => format!(
            "{head}{}\r\n{SECOND}",
            "X: y\r\n".repeat(1_100 + extra / 100)
        ),
        _ => format!(
            "{head}{}\r\n{SECOND}",
            format!("X: {}\r\n", "z".repeat(4_000)).repeat(12)
        ),
    }
}

/// Bytes that are no text; the first one is no letter.
fn garbage(random: &mut Random) -> String {
    let length = 4 + random.below(2_000);
    let first = char::from(0x80 | random.next() as u8);
    let rest = (0..length).map(|_| char::from((random.next() >> 24) as u8));
    std::iter::once(first)
        .chain(rest)
        .chain("\r\n\r\n".chars())
        .collect()
}

/// A valid request with a few accidents.
fn mutated(random: &mut Random) -> Vec<u8> {
    const TELLING: &[u8] = b"\r\n\0 :/%.;,\t0aZ\xff-";
    let mut bytes = random.one_of(VALID).as_bytes().to_vec();
    if random.below(3) == 0 {
        bytes.extend_from_slice(random.one_of(VALID).as_bytes());
    }
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        match random.below(5) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes.insert(at, TELLING[random.below(TELLING.len())]),
            2 => drop(bytes.remove(at)),
            3 => bytes.truncate(at.max(1)),
            _ => {
                let end = (at + random.below(20)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
        if bytes.is_empty() {
            bytes.push(b'G');
        }
    }
    bytes
}

/// Mostly in one piece, sometimes in a few.
fn split(random: &mut Random, bytes: &[u8]) -> Vec<Vec<u8>> {
    let size = match random.below(4) {
        0 => bytes.len().div_ceil(1 + random.below(5)),
        _ => bytes.len(),
    };
    bytes.chunks(size.max(1)).map(<[u8]>::to_vec).collect()
}
