//! The bytes of a block of `requests`: plain blocks get CRLF, `Host`, `Connection: close` and `Content-Length`;
//! `raw` ones are C escapes and nothing else.

use super::blocks::{self, Block};
use crate::fastcgi::Output;
use regex::{Captures, Regex};
use std::collections::HashMap;
use std::net::IpAddr;

pub struct Request {
    pub bytes: Vec<u8>,
    /// The methods of the requests in it, in order; HEAD replies have no body.
    pub methods: Vec<String>,
    pub options: Options,
}

pub struct Options {
    raw: bool,
    /// Shuts the sending side after the request.
    pub half: bool,
    /// Closes without reading.
    pub close: bool,
    /// Reads one reply and leaves the connection to the next block.
    pub keep: bool,
    /// Goes by HTTP/2, on a connection of its own.
    pub http2: bool,
    /// Does not take the connection that the block before has kept.
    pub new: bool,
    pub split: Option<usize>,
    /// 1 for %PORT%, 2 for %PORT2%, …
    pub port: usize,
    pub from: IpAddr,
    /// Speak TLS and ask for the server of this name.
    pub https: Option<String>,
    /// Show this certificate: the name of files below `%ROOT%` without their ends.
    pub cert: Option<String>,
    /// Speak TLS 1.2.
    pub tls12: bool,
}

pub fn assemble(block: &Block) -> Result<Request, String> {
    let options = options(block)?;
    let text = expand(&block.text);
    let bytes = if options.raw {
        unescape(&text)?
    } else {
        plain(&text, options.keep)
    };
    Ok(Request {
        methods: methods(&bytes),
        bytes,
        options,
    })
}

fn options(block: &Block) -> Result<Options, String> {
    let mut options = Options {
        raw: false,
        half: false,
        close: false,
        keep: false,
        http2: false,
        new: false,
        split: None,
        port: 1,
        from: IpAddr::from([127, 0, 0, 1]),
        https: None,
        cert: None,
        tls12: false,
    };
    for (name, value) in &block.options {
        let wrong = || format!("{}: option {name}={value} is not understood", block.name);
        match (name.as_str(), value.as_str()) {
            ("raw", "") => options.raw = true,
            ("half", "") => options.half = true,
            ("close", "") => options.close = true,
            ("keep", "") => options.keep = true,
            ("http2", "") => options.http2 = true,
            ("https", "") => options.https = Some("localhost".to_string()),
            ("https", name) => options.https = Some(name.to_string()),
            ("cert", name) => options.cert = Some(name.to_string()),
            ("tls12", "") => options.tls12 = true,
            ("new", "") => options.new = true,
            ("split", count) => options.split = Some(count.parse().map_err(|_| wrong())?),
            ("port", number) => {
                options.port = number.parse().ok().filter(|&n| n > 0).ok_or_else(wrong)?
            }
            ("from", address) => options.from = address.parse().map_err(|_| wrong())?,
            _ => return Err(wrong()),
        }
    }
    Ok(options)
}

/// `%REPEAT(text,count)%` stands for the text so many times.
fn expand(text: &str) -> String {
    let pattern = Regex::new(r"%REPEAT\((.*?),(\d+)\)%").expect("the pattern is written here");
    let repeat = |found: &Captures| found[1].repeat(found[2].parse().unwrap_or(1));
    pattern.replace_all(text, repeat).into_owned()
}

/// A head and, after an empty line, a body.
fn plain(text: &str, keep: bool) -> Vec<u8> {
    let text = text.trim_end_matches('\n');
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let lower = head.to_ascii_lowercase();
    let has = |name: &str| lower.contains(&format!("\n{name}:"));
    let mut lines: Vec<String> = head.lines().map(str::to_string).collect();
    if !has("host") {
        lines.insert(1.min(lines.len()), "Host: localhost".to_string());
    }
    if !body.is_empty() && !has("content-length") && !has("transfer-encoding") {
        lines.push(format!("Content-Length: {}", body.len()));
    }
    if !keep && !has("connection") {
        lines.push("Connection: close".to_string());
    }
    format!("{}\r\n\r\n{body}", lines.join("\r\n")).into_bytes()
}

/// Drops line ends and resolves `\r \n \t \0 \\ \xNN`.
fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes().filter(|&byte| byte != b'\n');
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next() {
            Some(b'r') => b'\r',
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'0') => 0,
            Some(b'\\') => b'\\',
            Some(b'x') => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&digits, 16).map_err(|_| format!("bad escape \\x{digits}"))?
            }
            other => return Err(format!("bad escape \\{}", other.map_or(' ', char::from))),
        });
    }
    Ok(bytes)
}

/// The first words of what look like request lines.
fn methods(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let pattern = Regex::new(r"(?m)^([A-Z]+) \S+ HTTP/1").expect("the pattern is written here");
    pattern
        .captures_iter(&text)
        .map(|found| found[1].to_string())
        .collect()
}

/// The `origin` file: blocks named by path, each a reply with plain line ends.
pub fn canned_replies(text: &str) -> Result<HashMap<String, Vec<u8>>, String> {
    if text.trim().is_empty() {
        return Ok(HashMap::new());
    }
    let blocks = blocks::parse(text)?;
    blocks
        .into_iter()
        .map(|block| {
            let bytes = if block.option("raw").is_some() {
                unescape(&expand(&block.text))?
            } else {
                reply(&expand(&block.text))
            };
            Ok((block.name, bytes))
        })
        .collect()
}

/// What a FastCGI program writes, by path. A plain block's head gets CRLF, nothing is added.
pub fn canned_outputs(text: &str) -> Result<HashMap<String, Output>, String> {
    if text.trim().is_empty() {
        return Ok(HashMap::new());
    }
    let outputs = blocks::parse(text)?.into_iter().map(|block| {
        let text = expand(&block.text);
        let stdout = if block.option("raw").is_some() {
            unescape(&text)?
        } else {
            let text = text.trim_end_matches('\n');
            let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
            format!("{}\r\n\r\n{body}", head.replace('\n', "\r\n")).into_bytes()
        };
        let stderr = block.option("stderr").unwrap_or_default().into();
        Ok((block.name, Output { stdout, stderr }))
    });
    outputs.collect()
}

fn reply(text: &str) -> Vec<u8> {
    let text = text.trim_end_matches('\n');
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let lower = head.to_ascii_lowercase();
    let mut lines: Vec<String> = head.lines().map(str::to_string).collect();
    if !lower.contains("\ncontent-length:") && !lower.contains("\ntransfer-encoding:") {
        lines.push(format!("Content-Length: {}", body.len()));
    }
    format!("{}\r\n\r\n{body}", lines.join("\r\n")).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::{assemble, blocks};

    fn bytes(text: &str) -> String {
        let blocks = blocks::parse(text).expect("blocks");
        String::from_utf8(assemble(&blocks[0]).expect("a request").bytes).expect("text")
    }

    #[test]
    fn plain_blocks_are_completed_and_raw_ones_are_not() {
        let whole = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        assert_eq!(bytes("=== a\nGET / HTTP/1.1\n\n"), whole);
        let post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(bytes("=== a keep\nPOST / HTTP/1.1\nHost: x\n\nabc\n"), post);
        assert_eq!(
            bytes("=== a raw\nGET /\\x41\\r\\n\n\\r\\n%REPEAT(ab,3)%\n"),
            "GET /A\r\n\r\nababab"
        );
    }

    #[test]
    fn unknown_options_are_refused() {
        let blocks = blocks::parse("=== a later\nGET / HTTP/1.1\n").expect("blocks");
        assert!(assemble(&blocks[0]).is_err());
    }
}
