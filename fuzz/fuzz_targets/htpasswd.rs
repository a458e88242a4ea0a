#![no_main]
//! Files of users: what is found for a user stands behind its name in a line of its own.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (user, file) = input;
    if let Some(hash) = wire::htpasswd::find(file, user) {
        assert!(!hash.contains(&b'\n') && !hash.contains(&b':'));
        let line = [user, b":", hash].concat();
        assert!(file.windows(line.len()).any(|window| window == line));
    }
});
