//! Compression on the fly: what needs an upstream that pauses, a client that keeps dictionaries, or all combinations of
//! request and setting.

mod dictionary;
mod site;
mod status;
mod streams;
mod table;
