//! What the requests inside one client's request share where pages include others (`ssi`).

use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Shared by a client's request and all requests inside it.
#[derive(Debug, Default)]
pub struct Includes {
    /// What `set` has set.
    pub variables: RefCell<HashMap<Box<[u8]>, Bytes>>,
    /// What `block` has defined, by name; the first of a name counts.
    pub blocks: RefCell<Vec<(Bytes, Vec<u8>)>>,
    /// Bytes of both.
    pub kept: Cell<usize>,
    /// Pages that were included.
    pub count: Cell<u32>,
}
