#![no_main]
//! Headers of the PROXY protocol: a whole one is as long as it says, whatever follows, and its types can be asked for.

use libfuzzer_sys::fuzz_target;
use wire::proxy_protocol::{HEADER_MAX, Read, read};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Read::Whole(length, header)) = read(bytes) {
        assert!(length <= HEADER_MAX && read(&bytes[..length]) == Ok(Read::Whole(length, header.clone())));
        for name in [&b"alpn"[..], b"0x20", b"ssl_cn", b"ssl_verify"] {
            let _ = header.as_ref().and_then(|header| header.tlv(name));
        }
    }
});
