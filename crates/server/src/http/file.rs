//! A file that is served: what it was when someone last looked at it, and its bytes or the open file.

use super::body::{FileRange, OpenFile};
use super::{Body, counters, thread};
use bytes::Bytes;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use sys::file::Identity;
use wire::fields::{date, etag};

/// A regular file as it was when it was last looked at.
pub struct Entry {
    pub path: Rc<[u8]>,
    pub identity: Identity,
    pub content: Content,
    /// Seconds since 1970.
    pub modified: i64,
    pub last_modified: Bytes,
    pub etag: Bytes,
    /// When the file was last looked at: the turn, and the thread's clock.
    pub checked_turn: Cell<u64>,
    pub checked_ms: Cell<u64>,
    /// It was served since the file cache last asked.
    pub used: Cell<bool>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Entry({})", String::from_utf8_lossy(&self.path))
    }
}

/// A file's bytes.
pub enum Content {
    Memory(Bytes),
    File(Rc<OpenFile>),
}

impl Entry {
    /// The file at `path`, which was looked at when `checked` says.
    #[must_use]
    pub fn new(path: &[u8], identity: Identity, content: Content, checked: Checked) -> Rc<Entry> {
        let modified = identity.modified_seconds();
        Rc::new(Entry {
            path: path.into(),
            identity,
            content,
            modified,
            // HTTP has dates before 1970, nginx has not.
            last_modified: Bytes::copy_from_slice(&date::format(modified.max(0))),
            etag: Bytes::from(etag::of_file(modified, identity.size)),
            checked_turn: Cell::new(checked.turn),
            checked_ms: Cell::new(checked.ms),
            used: Cell::new(false),
        })
    }

    /// The same file without its bytes: what tells whether it is still as it was.
    #[must_use]
    pub fn without_content(&self) -> Entry {
        Entry {
            path: Rc::clone(&self.path),
            identity: self.identity,
            content: Content::Memory(Bytes::new()),
            modified: self.modified,
            last_modified: self.last_modified.clone(),
            etag: self.etag.clone(),
            checked_turn: self.checked_turn.clone(),
            checked_ms: self.checked_ms.clone(),
            used: Cell::new(false),
        }
    }

    /// The bytes, where they are kept in memory.
    #[must_use]
    pub fn memory(&self) -> Option<Bytes> {
        match &self.content {
            Content::Memory(bytes) => Some(bytes.clone()),
            Content::File(_) => None,
        }
    }

    /// The whole file as a body.
    #[must_use]
    pub fn body(&self) -> Body {
        match &self.content {
            Content::Memory(bytes) if bytes.is_empty() => Body::Empty,
            Content::Memory(bytes) => Body::Memory(bytes.clone()),
            Content::File(file) => Body::File(FileRange {
                file: Rc::clone(file),
                offset: 0,
                length: self.identity.size,
            }),
        }
    }

    /// Bytes of the body that are in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        match &self.content {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::File(_) => 0,
        }
    }
}

/// Where something is kept that was used: whoever makes room there wants to know when.
pub trait LastUse: Send + Sync {
    /// In seconds since 1970.
    fn note(&self, second: u64);
}

/// A file's bytes in a content coding, made ahead.
pub struct Copied {
    /// The name of the coding.
    pub coding: &'static str,
    /// The place of its counter.
    pub number: usize,
    pub content: Content,
    /// Where the bytes begin, in `Content::File`.
    pub offset: u64,
    pub length: u64,
    pub etag: Bytes,
    /// Where it is kept, and uses are noted.
    pub used: Option<Arc<dyn LastUse>>,
}

impl Copied {
    #[must_use]
    pub fn body(&self) -> Body {
        match &self.content {
            Content::Memory(bytes) => Body::Memory(bytes.clone()),
            Content::File(file) => Body::File(FileRange {
                file: Rc::clone(file),
                offset: self.offset,
                length: self.length,
            }),
        }
    }

    /// The bytes, where they are kept in memory.
    #[must_use]
    pub fn memory(&self) -> Option<Bytes> {
        match &self.content {
            Content::Memory(bytes) => Some(bytes.clone()),
            Content::File(_) => None,
        }
    }

    /// Counts and notes a use; writes to the memory that threads share once a second at most.
    pub fn note_use(&self) {
        counters::count_copy(self.number);
        let now = thread::unix_ms() / 1000;
        if let Some(used) = &self.used {
            used.note(now);
        }
    }
}

impl fmt::Debug for Copied {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Copied({} {})", self.coding, self.length)
    }
}

/// The moment in which a path was looked at.
#[derive(Debug, Clone, Copy)]
pub struct Checked {
    pub turn: u64,
    pub ms: u64,
}

impl Checked {
    #[must_use]
    pub fn now() -> Checked {
        Checked {
            turn: thread::turn(),
            ms: thread::monotonic_ms(),
        }
    }

    pub fn note(self, entry: &Entry) {
        entry.checked_turn.set(self.turn);
        entry.checked_ms.set(self.ms);
    }
}
