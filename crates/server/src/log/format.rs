//! format

#[derive(Debug, Default)]
pub struct RawFormats {}
