//! Content codings: which of them a client gets, and what makes and undoes them.

pub mod auto; // levels that follow the load
pub mod best; // copies that are made once and sent often
mod brotli_dictionary; // brotli over a dictionary
pub mod dictionary; // what clients have already
pub mod gunzip; // gzip undone
pub mod levels; // what a configured level means to a library
pub mod negotiate; // which coding a client gets
pub mod permission; // gzip_proxied and kin
pub mod seen; // bodies seen before
pub mod stream; // bodies in pieces
pub mod verify; // copies compared with their sources
pub mod whole; // bodies in memory

#[cfg(test)]
pub mod tests;
