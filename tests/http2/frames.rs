//! A client that speaks HTTP/2 frame by frame, so that it can also do what no client should.

use std::io::{Read, Write};
use std::net::TcpStream;
use testkit::client::Client;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const PRIORITY_UPDATE: u8 = 0x10;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// The largest window there is.
const WINDOW_MAX: u32 = i32::MAX as u32;

/// A frame that came.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// A frame as bytes.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let stream = stream.to_be_bytes();
    [&length[1..], &[kind, flags], &stream, payload].concat()
}

/// The compressed head of a GET, without any compression but the static table's.
pub fn head(path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    // :method GET, :scheme http, :path, :authority h.
    let mut block = vec![0x82, 0x86, 0x04];
    let text = |block: &mut Vec<u8>, text: &str| {
        assert!(text.len() < 127, "one byte is enough for the length");
        block.push(text.len() as u8);
        block.extend_from_slice(text.as_bytes());
    };
    text(&mut block, path);
    block.push(0x01);
    text(&mut block, "h");
    for (name, value) in fields {
        block.push(0);
        text(&mut block, name);
        text(&mut block, value);
    }
    block
}

/// A GET on a stream.
pub fn get(stream: u32, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(
        HEADERS,
        END_STREAM | END_HEADERS,
        stream,
        &head(path, fields),
    )
}

pub struct Frames {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Frames {
    /// Connects, with windows as large as they can be.
    pub fn connect(port: u16) -> Frames {
        let mut frames = Frames {
            stream: Client::connect(port).unwrap().into_stream(),
            received: Vec::new(),
        };
        let window = [&[0, 4][..], &WINDOW_MAX.to_be_bytes()].concat();
        let rest = WINDOW_MAX - 65_535;
        let begin = [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            frame(SETTINGS, 0, 0, &window),
            frame(SETTINGS, 1, 0, &[]),
            frame(WINDOW_UPDATE, 0, 0, &rest.to_be_bytes()),
        ];
        frames.send(&begin.concat());
        frames
    }

    /// Sends bytes; a server that closes is no error.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// The next frame; `None` at the end of the connection, or when nothing comes.
    pub fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(head) = self.received.first_chunk::<9>() {
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                let (kind, flags) = (head[3], head[4]);
                if self.received.len() >= 9 + length {
                    let payload = self.received[9..9 + length].to_vec();
                    self.received.drain(..9 + length);
                    return Some(Frame {
                        kind,
                        flags,
                        stream,
                        payload,
                    });
                }
            }
            let mut buffer = [0; 64 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(count) if count > 0 => self.received.extend_from_slice(&buffer[..count]),
                _ => return None,
            }
        }
    }

    /// Reads until a frame of the kind came.
    pub fn until(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.next()?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// Reads a stream to its end; gives the bytes of its body.
    pub fn body(&mut self, stream: u32) -> Option<usize> {
        let mut length = 0;
        loop {
            let frame = self.next()?;
            if frame.stream != stream {
                continue;
            }
            match frame.kind {
                RST_STREAM => return None,
                DATA => length += frame.payload.len(),
                _ => {}
            }
            if matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0 {
                return Some(length);
            }
        }
    }
}

/// The error that a GOAWAY names.
pub fn error(goaway: &Frame) -> u32 {
    let code = goaway
        .payload
        .get(4..8)
        .and_then(|code| code.try_into().ok());
    u32::from_be_bytes(code.unwrap())
}
