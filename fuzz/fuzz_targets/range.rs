#![no_main]
//! Range fields: every part lies inside the representation, and together they are no longer than it.

use libfuzzer_sys::fuzz_target;
use wire::fields::range::{Wanted, parse};

fuzz_target!(|input: (u32, Option<u8>, &[u8])| {
    let (size, max, value) = (u64::from(input.0), input.1, input.2);
    if let Wanted::Parts(parts) = parse(value, size, max.map(usize::from)) {
        assert!(!parts.is_empty() && parts.iter().all(|part| part.start < part.end && part.end <= size));
        assert!(parts.iter().map(|part| part.end - part.start).sum::<u64>() <= size);
        assert!(max.is_none_or(|max| parts.len() <= usize::from(max)));
    }
});
