//! Files by path, kept by each thread: small hot bodies in memory, and what `open_file_cache` keeps open. Without that
//! directive a file is looked at (`stat`) in each turn of the thread's event loop in which it is served, after the request
//! was received, so that a changed file is never sent stale; see ARCHITECTURE.md, "Fresh and fast". What stays unseen is a
//! writer through a shared memory map, whose changes the kernel dates late.

mod directive;
mod table;

pub use directive::{DIRECTIVES, OpenFileCache, Raw, Settings};

use super::symlinks::{Guard, Refused};
use crate::http::body::{FileRange, OpenFile};
use crate::http::{Body, Request, thread};
use crate::log::error::Level;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};
use sys::file::{Identity, Status};
use sys::io::Cached;
use table::{Limits, Table, Used};
use wire::fields::{date, etag};

/// Files up to this size are kept in memory.
pub const MEMORY_FILE_MAX: u64 = 128 * 1024;
/// What one thread keeps of bodies in memory. What `open_file_cache` keeps has the same limit of its own.
pub const MEMORY_MAX: u64 = 32 * 1024 * 1024;
/// Bodies that one thread keeps.
pub const ENTRIES_MAX: usize = 8192;
/// Files that one thread reads from a cold disk at the same time; beyond them a file is sent without being kept.
pub const COLD_READS_MAX: usize = 32;
/// Bytes that an entry takes beside its body.
const ENTRY_BYTES: u64 = 256;
/// Entries that are looked at for `inactive` when one is added.
const SWEEP: usize = 2;
/// A file that changed less than this before it was read may change again without its times telling (the clock of file
/// times ticks every 10 ms or faster): it is served but not kept in memory.
const SETTLED_NS: i64 = 50_000_000;

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
    checked_turn: Cell<u64>,
    checked_ms: Cell<u64>,
    used: Cell<bool>,
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
    fn new(path: &[u8], identity: Identity, content: Content, checked: Checked) -> Rc<Entry> {
        let modified = identity.modified_seconds();
        Rc::new(Entry {
            path: path.into(),
            identity,
            content,
            modified,
            last_modified: Bytes::copy_from_slice(&date::format(modified)),
            etag: Bytes::from(etag::of_file(modified, identity.size)),
            checked_turn: Cell::new(checked.turn),
            checked_ms: Cell::new(checked.ms),
            used: Cell::new(false),
        })
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

    fn bytes(&self) -> u64 {
        ENTRY_BYTES
            + match &self.content {
                Content::Memory(bytes) => bytes.len() as u64,
                Content::File(_) => 0,
            }
    }

    /// Whether a file that is still the same could be kept in memory now and is not.
    fn may_settle(&self) -> bool {
        matches!(self.content, Content::File(_)) && fits_memory(&self.identity)
    }
}

/// The moment in which a path was looked at.
#[derive(Clone, Copy)]
struct Checked {
    turn: u64,
    ms: u64,
}

impl Checked {
    fn now() -> Checked {
        Checked {
            turn: thread::turn(),
            ms: thread::monotonic_ms(),
        }
    }

    fn note(self, entry: &Entry) {
        entry.checked_turn.set(self.turn);
        entry.checked_ms.set(self.ms);
    }
}

impl Used for Rc<Entry> {
    fn note_use(&self) {
        self.used.set(true);
    }

    fn take_use(&self) -> bool {
        self.used.replace(false)
    }
}

/// Whether a file is small enough to be kept and old enough for its times to tell the next change.
fn fits_memory(identity: &Identity) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    identity.size <= MEMORY_FILE_MAX
        && is_settled(identity, now.map_or(0, |now| now.as_nanos() as i64))
}

fn is_settled(identity: &Identity, now_ns: i64) -> bool {
    identity.changed_ns.saturating_add(SETTLED_NS) < now_ns
}

/// What stands at a path.
#[derive(Debug, Clone)]
pub enum Lookup {
    File(Rc<Entry>),
    Directory,
    /// Neither a file nor a directory.
    Other,
    Failed(Failure),
}

/// Why a path could not be opened.
#[derive(Debug, Clone, Copy)]
pub struct Failure {
    pub call: &'static str,
    /// The kernel's number.
    pub number: i32,
}

impl Failure {
    fn new(call: &'static str, error: &io::Error) -> Failure {
        Failure {
            call,
            number: error.raw_os_error().unwrap_or_default(),
        }
    }

    /// The status that nginx answers.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self.number {
            libc_errno::ENOENT | libc_errno::ENOTDIR | libc_errno::ENAMETOOLONG => 404,
            libc_errno::EACCES | libc_errno::EMLINK | libc_errno::ELOOP => 403,
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

    /// `2: No such file or directory`.
    #[must_use]
    pub fn describe(&self) -> String {
        let error = io::Error::from_raw_os_error(self.number);
        sys::errno::Errno(&error).to_string()
    }
}

/// Linux's numbers for the errors that decide a status.
pub(super) mod libc_errno {
    pub const ENOENT: i32 = 2;
    pub const EACCES: i32 = 13;
    pub const ENOTDIR: i32 = 20;
    pub const EMLINK: i32 = 31;
    pub const ENAMETOOLONG: i32 = 36;
    pub const ELOOP: i32 = 40;
}

/// What `open_file_cache` keeps of a path.
struct Kept {
    what: Lookup,
    checked_ms: u64,
    used_ms: u64,
    inactive_ms: u64,
    uses: u64,
    used: Cell<bool>,
}

impl Used for Kept {
    fn note_use(&self) {
        self.used.set(true);
    }

    fn take_use(&self) -> bool {
        self.used.replace(false)
    }
}

#[derive(Default)]
struct Files {
    memory: Table<Rc<Entry>>,
    open: Table<Kept>,
    cold_reads: usize,
}

thread_local! {
    static FILES: RefCell<Files> = RefCell::default();
}

/// What is known of a path before it is looked at.
enum Known {
    /// No need to look.
    Fresh(Lookup),
    /// The file as it was.
    Stale(Rc<Entry>),
    Nothing,
}

/// Looks at `path` for a request, and opens the file there.
pub async fn lookup(request: &Request, path: &[u8]) -> Lookup {
    let location = &request.location().settings;
    if let Some(guard) = &location.symlinks.guard {
        return guarded(guard, request, path);
    }
    let settings = &location.file_cache;
    let checked = Checked::now();
    let known = match recall(request, settings, path) {
        Known::Fresh(found) => return found,
        Known::Stale(entry) => Some(entry),
        Known::Nothing => None,
    };
    let name = Path::new(OsStr::from_bytes(path));
    let found = match sys::file::status_at(name) {
        Err(error) => Lookup::Failed(Failure::new("open()", &error)),
        Ok(status) if status.is_directory() => Lookup::Directory,
        Ok(status) if !status.is_file() => Lookup::Other,
        Ok(status) => match known {
            Some(entry) if entry.identity == status.identity && !entry.may_settle() => {
                checked.note(&entry);
                if settings.open.is_some() {
                    keep(settings, path, &Lookup::File(Rc::clone(&entry)), checked);
                }
                return Lookup::File(entry);
            }
            _ => match open(name, checked).await {
                Ok(Some(entry)) => Lookup::File(entry),
                Ok(None) => Lookup::Other,
                Err(error) => Lookup::Failed(Failure::new("open()", &error)),
            },
        },
    };
    keep(settings, path, &found, checked);
    found
}

/// Whether a kept file is still what stands at its path, looked at after the request was sent, or taken for true by
/// `open_file_cache`.
#[must_use]
pub fn is_fresh(entry: &Entry, request: &Request, settings: &Settings) -> bool {
    entry.used.set(true);
    if request.read_with_turn && entry.checked_turn.get() == thread::turn() {
        return true;
    }
    let age_ms = thread::monotonic_ms() - entry.checked_ms.get();
    if settings.open.is_some() && settings.min_uses <= 1 && age_ms < settings.valid_ms() {
        return true;
    }
    let status = sys::file::status_at(Path::new(OsStr::from_bytes(&entry.path)));
    let fresh = status.is_ok_and(|status| status.identity == entry.identity);
    if fresh {
        Checked::now().note(entry);
    }
    fresh
}

/// The same under `disable_symlinks`, where nothing is kept.
fn guarded(guard: &Guard, request: &Request, path: &[u8]) -> Lookup {
    let opened = guard.open(request, path).and_then(|file| {
        let status = sys::file::status(&file).map_err(|error| Refused {
            call: "fstat()",
            error,
        })?;
        Ok((file, status))
    });
    match opened {
        Err(refused) => Lookup::Failed(Failure::new(refused.call, &refused.error)),
        Ok((_, status)) if status.is_directory() => Lookup::Directory,
        Ok((_, status)) if !status.is_file() => Lookup::Other,
        Ok((file, status)) => {
            let content = Content::File(Rc::new(OpenFile { fd: file.into() }));
            Lookup::File(Entry::new(path, status.identity, content, Checked::now()))
        }
    }
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
    let location = &request.location().settings;
    if let Some(guard) = &location.symlinks.guard {
        return match guarded(guard, request, path) {
            Lookup::Failed(failure) => Err(failure),
            Lookup::Directory => Ok(Kind::Directory),
            Lookup::File(_) | Lookup::Other => Ok(Kind::File),
        };
    }
    let settings = &location.file_cache;
    let checked = Checked::now();
    let known = match recall(request, settings, path) {
        Known::Fresh(Lookup::Failed(failure)) => {
            return Err(Failure {
                call: "stat()",
                ..failure
            });
        }
        Known::Fresh(Lookup::Directory) => return Ok(Kind::Directory),
        Known::Fresh(_) => return Ok(Kind::File),
        Known::Stale(entry) => Some(entry),
        Known::Nothing => None,
    };
    let status = match sys::file::status_at(Path::new(OsStr::from_bytes(path))) {
        Ok(status) => status,
        Err(error) => {
            let failure = Failure::new("stat()", &error);
            keep(settings, path, &Lookup::Failed(failure), checked);
            return Err(failure);
        }
    };
    if status.is_directory() {
        keep(settings, path, &Lookup::Directory, checked);
        return Ok(Kind::Directory);
    }
    if let Some(entry) = known
        && entry.identity == status.identity
    {
        checked.note(&entry);
    }
    Ok(Kind::File)
}

/// What the tables hold: fresh is what was looked at in this turn, after the request came, and what `open_file_cache`
/// takes for true.
fn recall(request: &Request, settings: &Settings, path: &[u8]) -> Known {
    FILES.with_borrow_mut(|files| {
        if let Some(open) = &settings.open
            && let Some(kept) = files.open.find(path)
        {
            let now = thread::monotonic_ms();
            if now - kept.used_ms > open.inactive_ms {
                kept.uses = 0;
            }
            let valid = now - kept.checked_ms < settings.valid_ms();
            let rare = kept.uses < settings.min_uses && matches!(kept.what, Lookup::File(_));
            kept.used_ms = now;
            kept.uses += 1;
            if valid && !rare {
                return Known::Fresh(kept.what.clone());
            }
            if let Lookup::File(entry) = &kept.what {
                return Known::Stale(Rc::clone(entry));
            }
        }
        match files.memory.find(path) {
            Some(entry) if request.read_with_turn && entry.checked_turn.get() == thread::turn() => {
                Known::Fresh(Lookup::File(Rc::clone(entry)))
            }
            Some(entry) => Known::Stale(Rc::clone(entry)),
            None => Known::Nothing,
        }
    })
}

/// Keeps what was found: bodies in memory, and with `open_file_cache` all that it covers.
fn keep(settings: &Settings, path: &[u8], found: &Lookup, checked: Checked) {
    FILES.with_borrow_mut(|files| {
        match found {
            Lookup::File(entry) if matches!(entry.content, Content::Memory(_)) => {
                let limits = Limits {
                    entries: ENTRIES_MAX,
                    bytes: MEMORY_MAX,
                };
                let known = files
                    .memory
                    .find(path)
                    .is_some_and(|kept| Rc::ptr_eq(kept, entry));
                if !known {
                    files.memory.insert(
                        Rc::clone(&entry.path),
                        Rc::clone(entry),
                        entry.bytes(),
                        limits,
                    );
                }
            }
            _ => files.memory.remove(path),
        }
        let Some(open) = &settings.open else {
            return;
        };
        let covered = match found {
            Lookup::File(_) | Lookup::Directory => true,
            Lookup::Failed(_) => settings.errors,
            Lookup::Other => false,
        };
        if !covered {
            files.open.remove(path);
            return;
        }
        keep_open(&mut files.open, open, path, found, checked);
    });
}

fn keep_open(
    table: &mut Table<Kept>,
    open: &OpenFileCache,
    path: &[u8],
    found: &Lookup,
    checked: Checked,
) {
    let now = thread::monotonic_ms();
    table.sweep(SWEEP, |kept| now - kept.used_ms > kept.inactive_ms);
    let uses = table.find(path).map_or(1, |kept| kept.uses);
    let (path, bytes) = match found {
        Lookup::File(entry) => (Rc::clone(&entry.path), entry.bytes()),
        _ => (path.into(), ENTRY_BYTES),
    };
    let kept = Kept {
        what: found.clone(),
        checked_ms: checked.ms,
        used_ms: now,
        inactive_ms: open.inactive_ms,
        uses,
        used: Cell::new(false),
    };
    let limits = Limits {
        entries: open.max,
        bytes: MEMORY_MAX,
    };
    table.insert(path, kept, bytes, limits);
}

/// Opens a file, and reads it where it is small and settled. `None`: it is no regular file (any more). `checked`
/// is when the path was looked at.
async fn open(name: &Path, checked: Checked) -> io::Result<Option<Rc<Entry>>> {
    let path = name.as_os_str().as_bytes();
    let file = sys::file::open(name)?;
    let status = sys::file::status(&file)?;
    if !status.is_file() {
        return Ok(None);
    }
    let identity = status.identity;
    if !fits_memory(&identity) {
        let content = Content::File(Rc::new(OpenFile { fd: file.into() }));
        return Ok(Some(Entry::new(path, identity, content, checked)));
    }
    let mut bytes = vec![0; identity.size as usize];
    let (file, read) = match sys::io::pread_cached(&file, &mut bytes, 0)? {
        Cached::Read(read) if read == bytes.len() => (file, Some(bytes)),
        _ if bytes.is_empty() => (file, Some(bytes)),
        _ => read_cold(file, bytes).await?,
    };
    let content = match read {
        Some(bytes) if is_still(&file, &identity)? => Content::Memory(Bytes::from(bytes)),
        _ => Content::File(Rc::new(OpenFile { fd: file.into() })),
    };
    Ok(Some(Entry::new(path, identity, content, checked)))
}

/// Whether a file is as it was before it was read, so that what was read is one state of it.
fn is_still(file: &File, before: &Identity) -> io::Result<bool> {
    sys::file::status(file).map(|status: Status| status.identity == *before)
}

/// Counts a read from a cold disk for as long as it takes.
struct ColdRead;

impl ColdRead {
    fn begin() -> Option<ColdRead> {
        FILES.with_borrow_mut(|files| {
            if files.cold_reads >= COLD_READS_MAX {
                return None;
            }
            files.cold_reads += 1;
            Some(ColdRead)
        })
    }
}

impl Drop for ColdRead {
    fn drop(&mut self) {
        FILES.with_borrow_mut(|files| files.cold_reads -= 1);
    }
}

/// Reads a whole file away from the network thread; `None` if it is shorter than it was, or too many are being read.
async fn read_cold(file: File, mut bytes: Vec<u8>) -> io::Result<(File, Option<Vec<u8>>)> {
    let Some(_counted) = ColdRead::begin() else {
        return Ok((file, None));
    };
    let read = tokio::task::spawn_blocking(move || {
        let mut at = 0;
        while at < bytes.len() {
            match sys::io::pread(&file, &mut bytes[at..], at as u64)? {
                0 => return Ok((file, None)),
                read => at += read,
            }
        }
        Ok((file, Some(bytes)))
    });
    read.await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels since 6.13 date a change finely where someone has looked at the file, so that only older ones show end
    /// to end what this prevents.
    #[test]
    fn a_file_is_kept_once_its_times_tell() {
        let changed = |changed_ns| Identity {
            device: 1,
            inode: 1,
            size: 1,
            modified_ns: 0,
            changed_ns,
        };
        let now = 1_000_000_000_000;
        assert!(is_settled(&changed(now - SETTLED_NS - 1), now));
        assert!(!is_settled(&changed(now - SETTLED_NS), now));
        assert!(!is_settled(&changed(now), now));
        assert!(
            !is_settled(&changed(now + 5 * SETTLED_NS), now),
            "a clock set back"
        );
    }
}
