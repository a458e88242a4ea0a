//! Compression on the fly: what needs an upstream that pauses, a client that keeps dictionaries, other people's decoders, or all combinations of
//! request and setting.

mod browser;
mod decoders;
mod dictionary;
mod site;
mod status;
mod streams;
mod table;
