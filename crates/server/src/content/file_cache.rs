//! Files by path, kept by each thread: small hot bodies in memory, and what `open_file_cache` keeps open. Without that
//! directive a file is looked at (`stat`) in each turn of the thread's event loop in which it is served, after the request
//! was received, so that a changed file is never sent stale; see ARCHITECTURE.md, "Fresh and fast". What stays unseen is a
//! writer through a shared memory map, whose changes the kernel dates late.

mod directive;
pub mod failure;
mod read;

pub use directive::{DIRECTIVES, OpenFileCache, Raw, Settings};
pub use failure::Failure;
pub use read::is_settled_now;

use super::symlinks::{Guard, Refused};
use crate::http::body::OpenFile;
use crate::http::file::{Checked, Content, Entry};
use crate::http::{Request, thread};
use crate::store::table::{Limits, Table, Used};
use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

/// What one thread keeps of bodies in memory. What `open_file_cache` keeps has the same limit of its own.
pub const MEMORY_MAX: u64 = 32 * 1024 * 1024;
/// Bodies that one thread keeps.
pub const ENTRIES_MAX: usize = 8192;
/// Bytes that an entry takes beside its body.
const ENTRY_BYTES: u64 = 256;
/// Entries that are looked at for `inactive` when one is added.
const SWEEP: usize = 2;

/// What stands at a path.
#[derive(Debug, Clone)]
pub enum Lookup {
    File(Rc<Entry>),
    Directory,
    /// Neither a file nor a directory.
    Other,
    Failed(Failure),
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

impl Used for Rc<Entry> {
    fn note_use(&self) {
        self.used.set(true);
    }

    fn take_use(&self) -> bool {
        self.used.replace(false)
    }
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
            Some(entry) if entry.identity == status.identity && !may_settle(&entry) => {
                checked.note(&entry);
                if settings.open.is_some() {
                    keep(settings, path, &Lookup::File(Rc::clone(&entry)), checked);
                }
                return Lookup::File(entry);
            }
            _ => match read::open(name, checked).await {
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

/// Whether a file that is still the same could be kept in memory now and is not.
fn may_settle(entry: &Entry) -> bool {
    matches!(entry.content, Content::File(_)) && read::fits_memory(&entry.identity)
}

fn bytes_of(entry: &Entry) -> u64 {
    ENTRY_BYTES + entry.memory_bytes()
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
                        bytes_of(entry),
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
        Lookup::File(entry) => (Rc::clone(&entry.path), bytes_of(entry)),
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
