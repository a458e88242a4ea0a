#![no_main]
//! The grammar of nginx.conf, and every word of it read as each kind of value.

use conf::{Block, Item, values};
use libfuzzer_sys::fuzz_target;

fn read_values(block: &Block) {
    for item in &block.items {
        let Item::Directive(directive) = item else { continue };
        for word in directive.args.iter().chain([&directive.name]) {
            let _ = (values::parse_flag(word), values::parse_number(word), values::parse_size(word));
            let _ = (values::parse_offset(word), values::parse_msec(word), values::parse_sec(word));
        }
        directive.block.iter().for_each(read_values);
    }
}

fuzz_target!(|text: &[u8]| read_values(&conf::parse_text(text)));
