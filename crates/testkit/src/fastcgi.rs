//! A toy FastCGI responder: answers canned replies by path, and on every other path tells the parameters it got, in
//! their order, and the body. It reads and writes records by itself, so that it checks the server's codec.

use crate::acceptor::Acceptor;
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const READ_LIMIT: Duration = Duration::from_secs(10);
const REQUEST_LIMIT: usize = 256 * 1024 * 1024;
const RECORD_MAX: usize = 65_535;

const BEGIN_REQUEST: u8 = 1;
const ABORT_REQUEST: u8 = 2;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const KEEP_CONNECTION: u8 = 1;

/// What a program would write.
#[derive(Clone, Default, Debug)]
pub struct Output {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

pub struct Responder {
    acceptor: Acceptor,
}

impl Responder {
    /// `replies` by path: REQUEST_URI without arguments, or else SCRIPT_NAME.
    pub fn start(replies: HashMap<String, Output>) -> std::io::Result<Responder> {
        let serve = move |mut stream: TcpStream| {
            let _ = stream.set_read_timeout(Some(READ_LIMIT));
            // Whoever sends nonsense is hung up on, which the case then shows.
            let _ = serve(&mut stream, &replies);
        };
        Ok(Responder {
            acceptor: Acceptor::start(serve)?,
        })
    }

    pub fn port(&self) -> u16 {
        self.acceptor.port()
    }
}

/// One request as it came.
#[derive(Default)]
struct Request {
    id: u16,
    keep: bool,
    parameters: Vec<u8>,
    body: Vec<u8>,
}

fn serve(stream: &mut TcpStream, replies: &HashMap<String, Output>) -> std::io::Result<()> {
    while let Some(request) = read_request(stream)? {
        let parameters = pairs(&request.parameters).ok_or(ErrorKind::InvalidData)?;
        let output = answer(replies, &parameters, &request.body);
        let mut bytes = Vec::new();
        records(&mut bytes, STDERR, request.id, &output.stderr);
        records(&mut bytes, STDOUT, request.id, &output.stdout);
        record(&mut bytes, STDOUT, request.id, b"");
        record(&mut bytes, END_REQUEST, request.id, &[0; 8]);
        stream.write_all(&bytes)?;
        if !request.keep {
            break;
        }
    }
    Ok(())
}

/// The next request; None at the end of the connection.
fn read_request(stream: &mut TcpStream) -> std::io::Result<Option<Request>> {
    let mut request = Request::default();
    let mut size = 0;
    loop {
        let mut head = [0; 8];
        match stream.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let [
            version,
            kind,
            id_high,
            id_low,
            length_high,
            length_low,
            padding,
            _,
        ] = head;
        let length = usize::from(u16::from_be_bytes([length_high, length_low]));
        let mut content = vec![0; length + usize::from(padding)];
        stream.read_exact(&mut content)?;
        content.truncate(length);
        size += length;
        if version != 1 || size > REQUEST_LIMIT {
            return Err(ErrorKind::InvalidData.into());
        }
        match kind {
            BEGIN_REQUEST if length == 8 => {
                request.id = u16::from_be_bytes([id_high, id_low]);
                request.keep = content[2] & KEEP_CONNECTION != 0;
            }
            PARAMS => request.parameters.extend(content),
            STDIN if content.is_empty() => return Ok(Some(request)),
            STDIN => request.body.extend(content),
            ABORT_REQUEST => return Ok(None),
            _ => return Err(ErrorKind::InvalidData.into()),
        }
    }
}

/// The names and values of PARAMS; None if they do not fill it exactly.
fn pairs(mut bytes: &[u8]) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    while !bytes.is_empty() {
        let (name, value) = (length(&mut bytes)?, length(&mut bytes)?);
        let whole = bytes.split_at_checked(name.checked_add(value)?)?;
        let (name, value) = whole.0.split_at(name);
        pairs.push((
            String::from_utf8_lossy(name).into_owned(),
            String::from_utf8_lossy(value).into_owned(),
        ));
        bytes = whole.1;
    }
    Some(pairs)
}

/// One byte, or four with the first bit set.
fn length(bytes: &mut &[u8]) -> Option<usize> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(usize::from(first));
    }
    let (four, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    usize::try_from(u32::from_be_bytes(*four) & 0x7fff_ffff).ok()
}

fn answer(
    replies: &HashMap<String, Output>,
    parameters: &[(String, String)],
    body: &[u8],
) -> Output {
    let value = |name: &str| {
        let found = parameters.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.split('?').next().unwrap_or(value))
    };
    let path = value("REQUEST_URI").or(value("SCRIPT_NAME")).unwrap_or("");
    if let Some(canned) = replies.get(path) {
        return canned.clone();
    }
    let mut stdout = b"Content-Type: text/plain\r\n\r\n".to_vec();
    for (name, value) in parameters {
        stdout.extend_from_slice(format!("{name}={value}\n").as_bytes());
    }
    stdout.push(b'\n');
    stdout.extend_from_slice(body);
    Output {
        stdout,
        stderr: Vec::new(),
    }
}

/// A stream's bytes in as many records as they need.
fn records(bytes: &mut Vec<u8>, kind: u8, id: u16, content: &[u8]) {
    for piece in content.chunks(RECORD_MAX) {
        record(bytes, kind, id, piece);
    }
}

fn record(bytes: &mut Vec<u8>, kind: u8, id: u16, content: &[u8]) {
    let [id_high, id_low] = id.to_be_bytes();
    let length = u16::try_from(content.len()).unwrap_or(u16::MAX);
    let [length_high, length_low] = length.to_be_bytes();
    // Up to a multiple of eight, as PHP does it.
    let padding = (8 - content.len() % 8) % 8;
    let padding_byte = u8::try_from(padding).unwrap_or(0);
    bytes.extend_from_slice(&[
        1,
        kind,
        id_high,
        id_low,
        length_high,
        length_low,
        padding_byte,
        0,
    ]);
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len() + padding, 0);
}

#[cfg(test)]
mod tests {
    use super::{KEEP_CONNECTION, Output, Responder, pairs, record};
    use std::collections::HashMap;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    fn pairs_have_short_and_long_lengths() {
        let mut bytes = vec![1, 2, b'a', b'b', b'c', 0x80, 0, 0, 1, 0];
        bytes.push(b'd');
        let found = pairs(&bytes).expect("two pairs");
        assert_eq!(found[0], ("a".to_string(), "bc".to_string()));
        assert_eq!(found[1], ("d".to_string(), String::new()));
        for broken in [
            &b"\x01"[..],
            b"\x01\x02ab",
            b"\xff\xff\xff\xff\xff\xff\xff\xffa",
            b"\x80",
        ] {
            assert!(pairs(broken).is_none(), "{broken:?}");
        }
    }

    #[test]
    fn a_kept_connection_has_two_replies() {
        let canned = Output {
            stdout: b"Status: 404\r\n\r\n".to_vec(),
            stderr: b"oops".to_vec(),
        };
        let replies = HashMap::from([("/a".to_string(), canned)]);
        let responder = Responder::start(replies).expect("it starts");
        let mut stream = TcpStream::connect(("127.0.0.1", responder.port())).expect("it listens");
        let mut request = Vec::new();
        for (keep, uri) in [(KEEP_CONNECTION, "/a?x"), (0, "/b")] {
            record(&mut request, 1, 1, &[0, 1, keep, 0, 0, 0, 0, 0]);
            let name = "REQUEST_URI";
            let mut parameters = vec![name.len() as u8, uri.len() as u8];
            parameters.extend_from_slice(format!("{name}{uri}").as_bytes());
            record(&mut request, 4, 1, &parameters);
            record(&mut request, 4, 1, b"");
            record(&mut request, 5, 1, b"");
        }
        stream.write_all(&request).expect("it reads");
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).expect("it answers");
        let text = String::from_utf8_lossy(&reply);
        assert!(
            text.contains("oops") && text.contains("Status: 404"),
            "{text:?}"
        );
        assert!(text.contains("REQUEST_URI=/b\n"), "{text:?}");
    }
}
