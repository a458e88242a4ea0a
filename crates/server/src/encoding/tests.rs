//! What the tests of this folder decode with, and what they compress.

use super::negotiate::Coding;
use std::io::{Read, Write};

/// Text with some order and some noise, `length` bytes long.
pub fn sample(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut text = Vec::with_capacity(length + 32);
    while text.len() < length {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Writing to memory does not fail.
        let _ = writeln!(text, "<li>item {}</li>", state >> 18);
    }
    text.truncate(length);
    text
}

/// A whole stream, decoded by another implementation than made it where there is one.
pub fn decode(coding: Coding, coded: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match coding {
        Coding::Gzip => {
            let mut reader = flate2::read::MultiGzDecoder::new(coded);
            reader.read_to_end(&mut out).unwrap();
        }
        Coding::Brotli => {
            let mut reader = brotli::Decompressor::new(coded, 4096);
            reader.read_to_end(&mut out).unwrap();
        }
        Coding::Zstd => {
            out.reserve(4 << 20);
            zstd_safe::decompress(&mut out, coded).unwrap();
        }
    }
    out
}

/// What comes out of the beginning of a stream.
pub fn decode_so_far(coding: Coding, coded: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match coding {
        Coding::Gzip => {
            let mut decoder = super::gunzip::Decoder::default();
            decoder.read(coded, 1 << 20, &mut out).unwrap();
        }
        Coding::Brotli => {
            let mut reader = brotli::Decompressor::new(coded, 4096);
            let mut byte = [0];
            while let Ok(1) = reader.read(&mut byte) {
                out.push(byte[0]);
            }
        }
        Coding::Zstd => {
            out.reserve(1 << 20);
            let mut context = zstd_safe::DCtx::create();
            let mut output = zstd_safe::OutBuffer::around(&mut out);
            let mut input = zstd_safe::InBuffer::around(coded);
            while input.pos() < coded.len() {
                context.decompress_stream(&mut output, &mut input).unwrap();
            }
        }
    }
    out
}
