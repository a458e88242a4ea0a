//! `map $source $variable { … }`.

use super::registry::VariableId;
use crate::http::Request;

/// A compiled map.
#[derive(Debug)]
pub struct Map {}

impl Map {
    /// Appends the value that the map gives for `request`.
    pub fn append(&self, _: VariableId, _: &Request, _: &mut Vec<u8>) -> bool {
        false
    }
}
