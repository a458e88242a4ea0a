#![no_main]
//! The values of other header fields.

use libfuzzer_sys::fuzz_target;
use wire::fields::{accept_encoding, cache_control::CacheControl, connection, cookie, date, etag, list};

fuzz_target!(|value: &[u8]| {
    if let Some(seconds) = date::parse(value) {
        assert_eq!(date::parse(&date::format(seconds)), Some(seconds));
    }
    let _ = (etag::matches_weak(value, b"\"a\""), etag::matches_strong(value, b"\"a\""));
    assert_eq!(accept_encoding::mention(value, "br").unwrap_or(0), accept_encoding::quality(value, "br"));
    let _ = (etag::if_range_holds(value, Some(b"\"a\""), Some(0)), accept_encoding::quality(value, "gzip"));
    let _ = (CacheControl::parse([value].into_iter()), cookie::find([value].into_iter(), b"a"));
    let _ = (connection::persistence(value), list::has_token(value, "close"), list::elements(value).count());
});
