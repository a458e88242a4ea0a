//! Compressed copies while files change, while the server is killed, and where copies cannot be kept.

mod beside;
mod command;
mod crash;
mod freshness;
mod reload;
mod rewriting;
mod site;
mod trouble;
