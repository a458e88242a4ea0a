#![no_main]
//! DNS responses: whatever a name server sends, reading it ends, and never gives more than the bounds.

use libfuzzer_sys::fuzz_target;
use wire::dns::{Answer, Kind, Query, RECORDS_MAX};

fuzz_target!(|bytes: &[u8]| {
    for kind in [Kind::A, Kind::Aaaa, Kind::Srv] {
        let query = Query::new(b"a.test", kind, 7).expect("a name");
        if let Some(Answer::Records { records, .. }) = query.answer(bytes) {
            assert!((1..=RECORDS_MAX).contains(&records.len()));
        }
    }
});
