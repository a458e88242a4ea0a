//! Filters over a response, one file each; their order is one list in `pipeline::filters`.

pub mod addition;
pub mod charset;
pub mod compress;
pub mod dictionary;
pub mod expires;
pub mod gunzip;
pub mod headers;
pub mod not_modified;
pub mod range;
pub mod rewritten;
pub mod slice;
pub mod ssi;
pub mod sub;
pub mod userid;
