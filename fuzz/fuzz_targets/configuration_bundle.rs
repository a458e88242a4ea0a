#![no_main]
//! What the master sends its worker at a reload.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(bundle) = conf::Bundle::from_bytes(bytes) {
        let again = bundle.to_bytes();
        let read = conf::Bundle::from_bytes(&again).expect("what was written can be read");
        assert_eq!(read.to_bytes(), again);
    }
});
