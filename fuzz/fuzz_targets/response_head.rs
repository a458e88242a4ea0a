#![no_main]
//! Heads of upstream responses: the same verdict however the bytes are cut.

use libfuzzer_sys::fuzz_target;
use wire::http1::{body, response::Parser};

fuzz_target!(|bytes: &[u8]| {
    let (max, mut whole, mut pieces) = (4096, Parser::new(), Parser::new());
    let verdict = whole.parse(bytes, max);
    let early = (1..=bytes.len()).map(|end| pieces.parse(&bytes[..end], max)).find(|step| *step != Ok(None));
    assert_eq!(early.unwrap_or(Ok(None)), verdict);
    if let Ok(Some(length)) = verdict {
        let head = whole.take_head();
        let _ = body::response_framing(&head.fields, &bytes[..length], head.status, false);
    }
});
