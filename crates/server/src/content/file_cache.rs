//! Open files and small hot bodies, kept by each thread. A file is looked at (`stat`) at least once in every turn of the
//! thread's event loop in which it is served, after the request was received, so that a changed file is never sent stale;
//! see ARCHITECTURE.md, "Fresh and fast".

use crate::http::body::{FileRange, OpenFile};
use crate::http::{Body, Request, thread};
use crate::log::error::Level;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};
use sys::file::Identity;
use wire::fields::date;

crate::config::setting::settings! {
    placeholder: bool = false,
}

/// Files up to this size are kept in memory.
pub const MEMORY_FILE_MAX: u64 = 128 * 1024;
/// Memory that one thread keeps file bodies in.
pub const MEMORY_MAX: u64 = 32 * 1024 * 1024;
/// Entries that one thread keeps.
pub const ENTRIES_MAX: usize = 8192;
/// A file that changed less than this before it was read may change again without its times telling (the clock of file
/// times ticks coarsely): it is served but not kept.
const SETTLED_NS: i64 = 50_000_000;

/// A regular file as it was when it was last looked at.
pub struct Entry {
    pub path: Box<[u8]>,
    pub identity: Identity,
    pub content: Content,
    /// Seconds since 1970.
    pub modified: i64,
    pub last_modified: Bytes,
    pub etag: Bytes,
    checked_turn: Cell<u64>,
}

/// A file's bytes.
pub enum Content {
    Memory(Bytes),
    File(Rc<OpenFile>),
}

impl Entry {
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
}

impl fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Entry({})", String::from_utf8_lossy(&self.path))
    }
}

/// What stands at a path.
pub enum Lookup {
    File(Rc<Entry>),
    Directory,
    /// Neither a file nor a directory.
    Other,
    Failed(Failure),
}

/// Why a path could not be opened.
#[derive(Debug)]
pub struct Failure {
    pub call: &'static str,
    pub error: io::Error,
}

impl Failure {
    /// The status that nginx answers.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self.error.raw_os_error() {
            Some(libc_errno::ENOENT | libc_errno::ENOTDIR | libc_errno::ENAMETOOLONG) => 404,
            Some(libc_errno::EACCES | libc_errno::ELOOP) => 403,
            _ => 500,
        }
    }

    #[must_use]
    pub fn level(&self) -> Level {
        match self.status() {
            404 | 403 => Level::Error,
            _ => Level::Critical,
        }
    }

    /// The kernel's number.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.error.raw_os_error().unwrap_or_default()
    }

    /// `2: No such file or directory`.
    #[must_use]
    pub fn describe(&self) -> String {
        sys::errno::Errno(&self.error).to_string()
    }
}

/// Linux's numbers for the errors that decide a status.
pub(super) mod libc_errno {
    pub const ENOENT: i32 = 2;
    pub const EACCES: i32 = 13;
    pub const ENOTDIR: i32 = 20;
    pub const ENAMETOOLONG: i32 = 36;
    pub const ELOOP: i32 = 40;
}

#[derive(Default)]
struct Files {
    entries: HashMap<Box<[u8]>, Rc<Entry>, foldhash::fast::RandomState>,
    memory: u64,
}

thread_local! {
    static FILES: RefCell<Files> = RefCell::default();
}

/// Looks at `path` for a request.
pub async fn lookup(request: &Request, path: &[u8]) -> Lookup {
    let kept = FILES.with(|files| files.borrow().entries.get(path).cloned());
    if let Some(entry) = &kept
        && request.read_with_turn
        && entry.checked_turn.get() == thread::turn()
    {
        return Lookup::File(Rc::clone(entry));
    }
    let name = Path::new(OsStr::from_bytes(path));
    let status = match sys::file::status_at(name) {
        Ok(status) => status,
        Err(error) => return failed("open()", error, path),
    };
    if let Some(entry) = kept {
        if entry.identity == status.identity {
            entry.checked_turn.set(thread::turn());
            return Lookup::File(entry);
        }
        forget(path);
    }
    if status.is_directory() {
        return Lookup::Directory;
    }
    if !status.is_file() {
        return Lookup::Other;
    }
    match open(name, path) {
        Ok(entry) => Lookup::File(entry),
        Err(error) => failed("open()", error, path),
    }
}

/// Whether a kept file is still what stands at its path, looked at after the request was sent.
#[must_use]
pub fn is_fresh(entry: &Entry, request: &Request) -> bool {
    if request.read_with_turn && entry.checked_turn.get() == thread::turn() {
        return true;
    }
    let status = sys::file::status_at(Path::new(OsStr::from_bytes(&entry.path)));
    let fresh = status.is_ok_and(|status| status.identity == entry.identity);
    if fresh {
        entry.checked_turn.set(thread::turn());
    }
    fresh
}

/// What kind of thing a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Directory,
    /// A file, or something that nginx takes for one until it is opened.
    File,
}

/// Looks at `path` without opening it.
pub fn look(request: &Request, path: &[u8]) -> Result<Kind, Failure> {
    let kept = FILES.with(|files| files.borrow().entries.get(path).cloned());
    if let Some(entry) = &kept
        && request.read_with_turn
        && entry.checked_turn.get() == thread::turn()
    {
        return Ok(Kind::File);
    }
    let status = sys::file::status_at(Path::new(OsStr::from_bytes(path)));
    let status = status.map_err(|error| Failure {
        call: "stat()",
        error,
    })?;
    if let Some(entry) = kept
        && entry.identity == status.identity
    {
        entry.checked_turn.set(thread::turn());
    }
    Ok(match status.is_directory() {
        true => Kind::Directory,
        false => Kind::File,
    })
}

fn failed(call: &'static str, error: io::Error, path: &[u8]) -> Lookup {
    forget(path);
    Lookup::Failed(Failure { call, error })
}

fn forget(path: &[u8]) {
    FILES.with(|files| {
        let mut files = files.borrow_mut();
        if let Some(entry) = files.entries.remove(path)
            && let Content::Memory(bytes) = &entry.content
        {
            files.memory -= bytes.len() as u64;
        }
    });
}

/// Opens a file and keeps it where it is small and settled.
fn open(name: &Path, path: &[u8]) -> io::Result<Rc<Entry>> {
    let file = sys::file::open(name)?;
    let before = sys::file::status(&file)?.identity;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos() as i64;
    let settled = before.changed_ns + SETTLED_NS < now;
    let mut content = None;
    if before.size <= MEMORY_FILE_MAX && settled {
        let mut bytes = vec![0; before.size as usize];
        let read = sys::io::pread_cached(&file, &mut bytes, 0)?;
        let whole = before.size == 0 || read == sys::io::Cached::Read(bytes.len());
        if whole && sys::file::status(&file)?.identity == before {
            content = Some(Content::Memory(Bytes::from(bytes)));
        }
    }
    let keep = content.is_some();
    let modified = before.modified_seconds();
    let entry = Rc::new(Entry {
        path: path.into(),
        identity: before,
        content: content.unwrap_or_else(|| Content::File(Rc::new(OpenFile { fd: file.into() }))),
        modified,
        last_modified: Bytes::copy_from_slice(&date::format(modified)),
        etag: Bytes::from(format!("\"{:x}-{:x}\"", modified, before.size)),
        checked_turn: Cell::new(thread::turn()),
    });
    if keep {
        remember(path, &entry);
    }
    Ok(entry)
}

fn remember(path: &[u8], entry: &Rc<Entry>) {
    FILES.with(|files| {
        let mut files = files.borrow_mut();
        if files.entries.len() >= ENTRIES_MAX || files.memory + entry.identity.size > MEMORY_MAX {
            files.entries.clear();
            files.memory = 0;
        }
        files.memory += entry.identity.size;
        files.entries.insert(path.into(), Rc::clone(entry));
    });
}
