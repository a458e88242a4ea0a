#![no_main]
//! Request targets, paths and hosts: a normalised path stays inside the root.

use libfuzzer_sys::fuzz_target;
use wire::uri::{self, Target};

fuzz_target!(|bytes: &[u8]| {
    let _ = (uri::validate_host(bytes), uri::normalise(bytes, false));
    let Ok(target) = Target::parse(bytes) else { return };
    let Ok(path) = uri::normalise(target.raw_path, true) else { return };
    assert!(path.starts_with(b"/") && !path.contains(&0));
    assert!(path.split(|&byte| byte == b'/').all(|segment| segment != b".." && segment != b"."));
    assert!(target.needs_normalising || path == target.raw_path);
});
