#![no_main]
//! A whole nginx.conf up to the configuration that would serve: directives, templates, patterns, maps, log formats.

use libfuzzer_sys::fuzz_target;
use server::config::{self, Paths};
use std::path::PathBuf;

fuzz_target!(|text: &[u8]| {
    let [prefix, conf_prefix, conf_file, error_log] = ["/", "/", "/nginx.conf", "/log"].map(PathBuf::from);
    let files: conf::Bundle = [(conf_file.clone(), text.to_vec())].into_iter().collect();
    let paths = Paths { prefix, conf_prefix, conf_file, error_log };
    if let (Err(failure), _) = config::load(&files, &paths, b"") {
        assert!(!failure.error.message.is_empty());
    }
});
