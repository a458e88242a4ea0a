//! The `gannet` binary.
fn main() {}
