//! nginx.conf's grammar: bytes in, a tree with positions out, and the means to read values and check directives.
//!
//! This crate knows one directive, `include`. Everything a directive means lives with the feature that acts on it;
//! here are only the words, blocks and lines, in the order nginx would meet them.

mod position; // where a thing stands, and what is wrong with it
mod tree; // words, directives, blocks: what a text becomes

mod bundle; // what was read, kept to be read again elsewhere
mod glob; // patterns of `include`
mod source; // where texts come from

mod lexer; // bytes to words
mod parser; // words to blocks, following `include`

pub mod table; // which directive may stand where, with how many arguments
pub mod values; // flags, numbers, sizes, times

pub use bundle::{Bundle, Malformed, Recorder};
pub use lexer::MAX_WORD_BYTES;
pub use parser::{
    MAX_BLOCK_DEPTH, MAX_DIRECTIVES, MAX_INCLUDE_DEPTH, MAX_INCLUDES, parse, parse_command_line,
    parse_text,
};
pub use position::{Error, Position};
pub use source::{Disk, MAX_FILE_BYTES, Source, os_error};
pub use tree::{Block, Directive, Item, SourceFile, Tree, Word};
