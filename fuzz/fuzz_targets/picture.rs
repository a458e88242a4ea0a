#![no_main]
//! Pictures of all formats, hostile ones included: an answer or an error, within the limits.

use image::{Format, Limits, Output, Plan, Resampling, Step, render};

libfuzzer_sys::fuzz_target!(|source: &[u8]| {
    let limits = Limits { pixels: 1 << 16, memory: 16 << 20, ..Limits::default() };
    let (width, height, resampling) = (9, 7, Resampling::Best);
    let resize = Step::Resize { width, height, resampling };
    let output = Output::new(Format::Jpeg);
    let _ = render(source, &Plan { steps: vec![resize], animation: true, output }, &limits);
});
