#![no_main]
//! Request heads: the same verdict however the bytes are cut, and nothing in the verdict points outside of them.

use libfuzzer_sys::fuzz_target;
use wire::http1::request::{Limits, Parser};
use wire::http1::{body, check};

fuzz_target!(|bytes: &[u8]| {
    let (limits, mut whole, mut pieces) = (Limits::default(), Parser::new(), Parser::new());
    let verdict = whole.parse(bytes, &limits);
    let early = (1..=bytes.len()).map(|end| pieces.parse(&bytes[..end], &limits)).find(|step| *step != Ok(None));
    assert_eq!(early.unwrap_or(Ok(None)), verdict);
    if let Ok(Some(length)) = verdict {
        assert_eq!(whole.head(), pieces.head());
        let (head, bytes) = (whole.take_head(), &bytes[..length]);
        let _ = (check(&head, bytes), body::request_framing(&head.fields, bytes, head.version));
        assert!(head.path.of(bytes).starts_with(b"/"));
    }
});
