#![no_main]
//! Films: whatever a description says, the part that comes of it lies in the file, and its head can be read again.

use libfuzzer_sys::fuzz_target;
use wire::mp4::{Description, File, Head, Section};

fuzz_target!(|input: (u16, u16, bool, u32, &[u8])| {
    let (start, length, from_key_frame, file, bytes) = input;
    let section = Section { start: start.into(), length: length.into(), from_key_frame };
    let file = File { kind: Some(b"isom"), samples_end: file.into(), length: file.into() };
    let Ok(description) = Description::read(bytes, bytes.len(), section) else { return };
    if let Ok(cut) = description.cut(&file) {
        assert!(cut.start < cut.end && cut.end <= file.length && cut.head.len() <= 2 * bytes.len() + 4096);
        assert!(matches!(Head::read(&cut.head, u64::MAX), Ok(Some(head)) if head.name == *b"ftyp"));
    }
});
