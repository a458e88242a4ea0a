//! Tables of what nginx answered to each body, and the properties of the coding.

use super::*;
use crate::testing::Random;

/// The body, and how many bytes were not consumed; `Err` also for a body that does not end.
fn decode_in(pieces: &[&[u8]]) -> Result<(Vec<u8>, usize), Error> {
    let mut decoder = Decoder::new();
    let mut body = Vec::new();
    let mut left = 0;
    for piece in pieces {
        let mut at = 0;
        while at < piece.len() && !decoder.is_done() {
            let step = decoder.decode(&piece[at..])?;
            body.extend_from_slice(&piece[at..][step.data.clone()]);
            assert!(step.done || !step.data.is_empty() || at + step.consumed == piece.len());
            at += step.consumed;
        }
        left += piece.len() - at;
    }
    if decoder.is_done() {
        Ok((body, left))
    } else {
        Err(Error::InvalidChunk)
    }
}

#[test]
fn accepted_as_by_nginx() {
    for (input, body) in [
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5 \r\nhello\r\n0\r\n\r\n", "hello"),
        ("5\t\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5;a=b\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5 ;a=b\r\nhello\r\n0;a\r\n\r\n", "hello"),
        ("5\r\nhello\r\n00000\r\n\r\n", "hello"),
        ("00000000000000005\r\nhello\r\n0\r\n\r\n", "hello"),
        ("0\r\nX: y\r\n\r\n", ""),
        ("0\r\nX\r\n\r\n", ""),
        (
            "A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n",
            "01234567890123456789",
        ),
    ] {
        assert_eq!(
            decode_in(&[input.as_bytes()]),
            Ok((body.as_bytes().to_vec(), 0)),
            "{input:?}"
        );
    }
}

#[test]
fn refused() {
    for input in [
        // By nginx 1.22 too.
        " 5\r\nhello\r\n0\r\n\r\n",
        "5;a=\"x\r\n\"\r\nhello\r\n0\r\n\r\n",
        "5;a\rb\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "\r\nhello\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "fffffffffffffffff\r\n",
        "8000000000000000\r\n",
        "5\r\nhello\r\n0\r\r\n\r\n",
        "-1\r\n",
        "+1\r\n",
        "g\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "0\r\nX: y\r z\r\n\r\n",
        // By nginx since 1.29.4: bare line feeds.
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r\n0\n\r\n",
        "5\r\nhello\r\n0\r\n\n",
        "5;a\nb\r\nhello\r\n0\r\n\r\n",
        "0\r\nX: y\n\r\n",
        // By us: NUL in the framing.
        "5;\0\r\nhello\r\n0\r\n\r\n",
        "0\r\n : \0\r\n\r\n",
    ] {
        assert_eq!(
            decode_in(&[input.as_bytes()]),
            Err(Error::InvalidChunk),
            "{input:?}"
        );
    }
}

#[test]
fn the_largest_size_is_read() {
    let mut decoder = Decoder::new();
    let step = decoder
        .decode(b"7fffffffffffffff\r\nab")
        .expect("within 63 bits");
    assert_eq!(step.data, 18..20);
    assert_eq!(decoder.remaining, i64::MAX as u64 - 2);
}

#[test]
fn lines_are_bounded() {
    let long = |n: usize| format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(n));
    assert!(decode_in(&[long(SIZE_LINE_MAX - 1).as_bytes()]).is_ok());
    assert!(decode_in(&[long(SIZE_LINE_MAX).as_bytes()]).is_err());
    assert!(decode_in(&["0".repeat(SIZE_LINE_MAX + 1).as_bytes()]).is_err());
    let trailer = |n: usize| format!("0\r\n{}\r\n", "X: y\r\n".repeat(n));
    assert!(decode_in(&[trailer(TRAILERS_MAX / 6).as_bytes()]).is_ok());
    assert!(decode_in(&[trailer(TRAILERS_MAX / 6 + 1).as_bytes()]).is_err());
}

#[test]
fn trailers_are_kept_when_asked_for() {
    let mut decoder = Decoder::keeping_trailers();
    let mut at = 0;
    let input = b"0\r\nGrpc-Status: 0\r\nX:  y \r\n\r\nGET";
    while !decoder.is_done() {
        at += decoder.decode(&input[at..at + 1]).expect("valid").consumed;
    }
    assert_eq!(&input[at..], b"GET");
    let fields: Vec<_> = trailer_fields(decoder.trailers()).collect();
    assert_eq!(fields, [(&b"Grpc-Status"[..], &b"0"[..]), (b"X", b"y")]);
}

#[test]
fn any_split_gives_the_same() {
    let input = b"5;ext=1\r\nhello\r\n3 \r\n\r\n.\r\n0;x\r\nA: b\r\nC: d\r\n\r\nGET / HTTP/1.1\r\n";
    let whole = decode_in(&[input]);
    assert_eq!(whole, Ok((b"hello\r\n.".to_vec(), 16)));
    for first in 0..=input.len() {
        for second in first..=input.len() {
            let pieces = [&input[..first], &input[first..second], &input[second..]];
            assert_eq!(decode_in(&pieces), whole, "{first} {second}");
        }
    }
}

#[test]
fn decoding_undoes_encoding() {
    let mut random = Random::new(3);
    for _ in 0..2_000 {
        let mut encoded = Vec::new();
        let mut body = Vec::new();
        for _ in 0..random.below(6) {
            let piece = random.bytes(300);
            encode(&piece, &mut encoded);
            body.extend_from_slice(&piece);
        }
        encoded.extend_from_slice(LAST_CHUNK);
        assert_eq!(decode_in(&[&encoded]), Ok((body, 0)));
    }
    assert_eq!(ChunkHead::new(u64::MAX).as_bytes(), b"ffffffffffffffff\r\n");
    assert_eq!(ChunkHead::new(10).as_bytes(), b"a\r\n");
}

#[test]
fn random_bytes_never_panic_and_splits_agree() {
    let mut random = Random::new(5);
    for _ in 0..50_000 {
        let mut input = b"3\r\nabc\r\n".to_vec();
        input.extend(random.bytes(20));
        let split = random.below(input.len() as u64 + 1) as usize;
        assert_eq!(
            decode_in(&[&input]),
            decode_in(&[&input[..split], &input[split..]]),
            "{input:?}"
        );
    }
}
