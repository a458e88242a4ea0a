//! Tests of `fastcgi`: what is written, how a response is read in any pieces, and what is refused.

use super::*;
use crate::testing::Random;

fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    let mut bytes = vec![1, kind, 0, 1, high, low, padding, 0];
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len() + usize::from(padding), b'x');
    bytes
}

const END: &[u8] = &[0, 0, 1, 2, 0, 0, 0, 0];

/// All that a response says, with adjoining pieces joined.
#[derive(Debug, Default, PartialEq, Eq)]
struct Response {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    stdout_ended: bool,
    end: Option<(u32, ProtocolStatus)>,
    error: Option<Error>,
    left: usize,
}

fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Response {
    let (mut decoder, mut response) = (Decoder::new(), Response::default());
    for mut piece in pieces {
        while !decoder.is_done() {
            match decoder.decode(piece) {
                Ok(step) => {
                    match step.event {
                        Event::More => {
                            assert_eq!(step.consumed, piece.len());
                            piece = &[];
                            break;
                        }
                        Event::Stdout(range) => response.stdout.extend_from_slice(&piece[range]),
                        Event::Stderr(range) => response.stderr.extend_from_slice(&piece[range]),
                        Event::StdoutEnd => response.stdout_ended = true,
                        Event::End {
                            application_status,
                            protocol_status,
                        } => response.end = Some((application_status, protocol_status)),
                    }
                    piece = &piece[step.consumed..];
                }
                Err(error) => {
                    response.error = Some(error);
                    return response;
                }
            }
        }
        response.left += piece.len();
    }
    response
}

#[test]
fn a_request_is_written_as_nginx_writes_it() {
    let mut out = b"before".to_vec();
    let mut params = begin(&mut out, true);
    params.pair(b"A", b"b");
    params.prefixed_pair(b"HTTP_", b"X", &[b'v'; 200]);
    for keep in [false, true] {
        params.pair_with(b"LATER", |out| {
            out.extend_from_slice(b"value");
            keep
        });
    }
    params.end().unwrap();
    stdin(&mut out, b"body");
    out.extend_from_slice(&STDIN_END);
    assert_eq!(Pairs::new(params_of(&out[6..])).count(), 3);
    let begin = b"before\x01\x01\0\x01\0\x08\0\0\0\x01\x01\0\0\0\0\0";
    assert_eq!(&out[..begin.len()], begin);
    let params = &out[begin.len()..];
    let length = usize::from(u16::from_be_bytes([params[4], params[5]]));
    let padding = usize::from(params[6]);
    assert_eq!((params[0], params[1], (length + padding) % 8), (1, 4, 0));
    let mut pairs = Pairs::new(&params[8..8 + length]);
    assert_eq!(pairs.next(), Some((&b"A"[..], &b"b"[..])));
    assert_eq!(pairs.next(), Some((&b"HTTP_X"[..], &[b'v'; 200][..])));
    assert_eq!(pairs.next(), Some((&b"LATER"[..], &b"value"[..])));
    assert_eq!((pairs.next(), pairs.rest()), (None, &b""[..]));
    let tail = &params[8 + length + padding..];
    assert_eq!(
        tail,
        b"\x01\x04\0\x01\0\0\0\0\x01\x05\0\x01\0\x04\x04\0body\0\0\0\0\x01\x05\0\x01\0\0\0\0"
    );
}

#[test]
fn a_request_without_parameters_has_one_empty_record() {
    let mut out = Vec::new();
    begin(&mut out, false).end().unwrap();
    assert_eq!(
        out,
        b"\x01\x01\0\x01\0\x08\0\0\0\x01\0\0\0\0\0\0\x01\x04\0\x01\0\0\0\0"
    );
}

#[test]
fn parameters_that_do_not_fit_a_record_are_refused() {
    for (value, expected) in [(65528, None), (65529, Some(65536))] {
        let mut out = b"kept".to_vec();
        let mut params = begin(&mut out, true);
        params.pair(b"AB", &vec![b'v'; value]);
        let refused = params.end().err().map(|error| error.0);
        assert_eq!(refused, expected);
        assert_eq!(out.len() == 4, expected.is_some());
    }
    let text = "fastcgi request record is too big: 65536";
    assert_eq!(TooBig(65536).to_string(), text);
}

#[test]
fn large_input_is_cut_into_records() {
    let data = vec![7; CONTENT_MAX + 10];
    let mut out = Vec::new();
    stdin(&mut out, &data);
    assert_eq!(&out[..8], b"\x01\x05\0\x01\xff\xff\x01\0");
    assert_eq!(&out[8 + 65536..][..8], b"\x01\x05\0\x01\0\x0a\x06\0");
    assert_eq!(out.len(), 8 + 65536 + 8 + 16);
    let before = out.len();
    stdin(&mut out, b"");
    assert_eq!(out.len(), before);
}

#[test]
fn pairs_survive_the_way() {
    let mut random = Random::new(7);
    for _ in 0..500 {
        let (name, value) = (random.bytes(300), random.bytes(300));
        let mut out = Vec::new();
        pair(&mut out, &name, &value);
        let mut pairs = Pairs::new(&out);
        assert_eq!(pairs.next(), Some((&name[..], &value[..])));
        assert_eq!(pairs.next(), None);
        for cut in 0..out.len() {
            assert_eq!(Pairs::new(&out[..cut]).next(), None);
        }
    }
}

#[test]
fn a_response_reads_alike_however_it_is_cut() {
    let mut bytes = record(7, b"PHP Warning", 5);
    bytes.extend(record(6, b"Status: 404\r\n\r\nnot", 0));
    bytes.extend(record(7, b"", 3));
    bytes.extend(record(6, b" found", 2));
    bytes.extend(record(6, b"", 0));
    bytes.extend(record(7, b" late", 3));
    bytes.extend(record(3, END, 4));
    bytes.extend(b"left");
    let expected = Response {
        stdout: b"Status: 404\r\n\r\nnot found".to_vec(),
        stderr: b"PHP Warning late".to_vec(),
        stdout_ended: true,
        end: Some((258, ProtocolStatus::Complete)),
        error: None,
        left: 4,
    };
    assert_eq!(decode(std::iter::once(&bytes[..])), expected);
    for size in 1..bytes.len() {
        assert_eq!(decode(bytes.chunks(size)), expected, "{size}");
    }
}

#[test]
fn ends_are_read_however_short_or_long() {
    for (content, status) in [
        (&b""[..], (0, ProtocolStatus::Complete)),
        (b"\0\0\0\x05", (5, ProtocolStatus::Complete)),
        (b"\0\0\0\0\x02\0\0\0", (0, ProtocolStatus::Overloaded)),
        (
            b"\0\0\0\0\x01\0\0\0more",
            (0, ProtocolStatus::CannotMultiplex),
        ),
        (b"\0\0\0\0\x03\0\0\0", (0, ProtocolStatus::UnknownRole)),
        (b"\0\0\0\0\x09\0\0\0", (0, ProtocolStatus::Other(9))),
    ] {
        for size in [1, 3, 100] {
            let response = decode(record(3, content, 1).chunks(size));
            assert_eq!(response.end, Some(status), "{content:?}");
        }
    }
    let mut decoder = Decoder::new();
    let bytes = record(3, END, 0);
    let step = decoder.decode(&bytes).unwrap();
    assert_eq!(step.consumed, bytes.len());
    assert!(matches!(step.event, Event::End { .. }));
}

#[test]
fn what_is_no_response_is_refused_in_nginx_order() {
    for (bytes, error, text) in [
        (
            b"\x02\x09\x01\x02",
            Error::Version(2),
            "unsupported FastCGI protocol version: 2",
        ),
        (
            b"\x01\x09\x01\x02",
            Error::Kind(9),
            "invalid FastCGI record type: 9",
        ),
        (
            b"\x01\x0a\0\0",
            Error::Kind(10),
            "invalid FastCGI record type: 10",
        ),
        (
            b"\x01\x06\x01\x02",
            Error::IdHigh(1),
            "unexpected FastCGI request id high byte: 1",
        ),
        (
            b"\x01\x06\0\x02",
            Error::IdLow(2),
            "unexpected FastCGI request id low byte: 2",
        ),
    ] {
        let mut head = bytes.to_vec();
        head.extend([0; 4]);
        assert_eq!(decode(head.chunks(3)).error, Some(error));
        assert_eq!(error.to_string(), text);
    }
    assert_eq!(
        decode(std::iter::once(&b"HTTP/1.1 200"[..])).error,
        Some(Error::Version(b'H'))
    );
}

#[test]
fn random_bytes_do_no_harm() {
    let mut random = Random::new(3);
    for _ in 0..2000 {
        let mut bytes = Vec::new();
        for _ in 0..random.below(5) {
            let kind = [3, 6, 7, 6, 5][random.below(5) as usize];
            bytes.extend(record(kind, &random.bytes(40), random.below(9) as u8));
        }
        bytes.extend(random.bytes(10));
        let whole = decode(std::iter::once(&bytes[..]));
        assert_eq!(decode(bytes.chunks(1)), whole);
    }
}
