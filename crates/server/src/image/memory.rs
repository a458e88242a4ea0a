//! Small pictures that a thread sent lately, so that the next request needs no file. A key names a source as it was, so
//! what stands here is never wrong.

use crate::store::Key;
use crate::store::table::{Limits, Table, Used};
use ::image::Format;
use bytes::Bytes;
use std::cell::{Cell, RefCell};

/// A thread's pictures.
const MEMORY: Limits = Limits {
    entries: 8192,
    bytes: 32 * 1024 * 1024,
};

struct Picture {
    bytes: Bytes,
    format: Format,
    used: Cell<bool>,
}

impl Used for Picture {
    fn note_use(&self) {
        self.used.set(true);
    }

    fn take_use(&self) -> bool {
        self.used.replace(false)
    }
}

thread_local! {
    static PICTURES: RefCell<Table<Picture>> = RefCell::default();
}

/// The picture of a key.
#[must_use]
pub fn find(key: Key) -> Option<(Bytes, Format)> {
    PICTURES.with_borrow_mut(|pictures| {
        let picture = pictures.find(&key.bytes())?;
        Some((picture.bytes.clone(), picture.format))
    })
}

pub fn keep(key: Key, bytes: &Bytes, format: Format) {
    let picture = Picture {
        bytes: bytes.clone(),
        format,
        used: Cell::new(false),
    };
    let size = bytes.len() as u64;
    PICTURES.with_borrow_mut(|pictures| {
        pictures.insert(key.bytes().as_slice().into(), picture, size, MEMORY);
    });
}
