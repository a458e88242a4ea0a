#![no_main]
//! Pages with commands: cut into two pieces anywhere they give the same text and events, and values can be read.

use libfuzzer_sys::fuzz_target;
use wire::ssi::{Event, Parser, expression, pieces};

fn read(parts: [&[u8]; 2]) -> (Vec<u8>, Vec<Event>) {
    let (mut parser, mut text, mut events) = (Parser::new(64), Vec::new(), Vec::new());
    for mut part in parts {
        events.extend(std::iter::from_fn(|| parser.next(&mut part, &mut text)));
    }
    (text, events)
}

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, page) = input;
    let whole = read([page, b""]);
    assert_eq!(whole, read(page.split_at(usize::from(cut) % (page.len() + 1)).into()));
    let _ = (pieces(page), expression(page));
});
