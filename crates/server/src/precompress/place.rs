//! Where copies are: a store, or beside their sources. Both answer the same questions.

use super::beside::{self, Found, Refused};
use super::counts::{COUNTS, add};
use super::directive::{Http, Place, Settings};
use super::mark::{self, Mark};
use crate::encoding::best::Effort;
use crate::encoding::negotiate::Coding;
use crate::http::file::LastUse;
use crate::store::{Fetched, Key, Reading, Slot, Store};
use bytes::Bytes;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use sys::file::{Identity, Status};

/// Larger copies are sent from their file.
pub const MEMORY_COPY_MAX: u64 = 128 * 1024;
/// Copies beside their sources that are remembered not to be worth it.
const USELESS_MAX: usize = 65_536;

/// A place as jobs and requests hold it.
#[derive(Clone)]
pub enum Home {
    Store(Arc<Store>),
    Beside,
}

/// What is known of a copy.
pub enum Known {
    /// It was made, and was not smaller by enough.
    Useless(Effort),
    Memory(Bytes, Effort, Option<Arc<dyn LastUse>>),
    File {
        file: File,
        offset: u64,
        length: u64,
        effort: Effort,
        used: Option<Arc<dyn LastUse>>,
    },
    /// There is none yet.
    Missing,
    /// There can be none: the operator's own stands there.
    Foreign,
}

/// Changes whenever a copy beside a source comes.
static BESIDE_VERSION: AtomicU64 = AtomicU64::new(0);
/// What was tried and not worth it, by the hash of path, identity and coding; effort aside. Lost with the process.
static USELESS: Mutex<Option<HashSet<Key>>> = Mutex::new(None);

impl Home {
    #[must_use]
    pub fn of(settings: &Settings, http: &Http) -> Home {
        match &settings.place {
            Place::BuiltIn => Home::Store(Arc::clone(http.built_in.store(http))),
            Place::Directory(directory) => Home::Store(Arc::clone(directory.store(http))),
            Place::Beside => Home::Beside,
        }
    }

    /// Changes whenever a copy comes.
    #[must_use]
    pub fn version(&self) -> u64 {
        match self {
            Home::Store(store) => store.version(),
            Home::Beside => BESIDE_VERSION.load(Ordering::Acquire),
        }
    }

    /// What there is for the file with this identity. `Ok(None)`: not without waiting for the disk.
    pub fn look(
        &self,
        path: &Path,
        identity: &Identity,
        coding: Coding,
        reading: Reading,
    ) -> io::Result<Option<Known>> {
        match self {
            Home::Store(store) => look_in_store(store, identity, coding, reading),
            Home::Beside => look_beside(path, identity, coding, reading),
        }
    }

    /// The effort of the copy that there is, or of the one that was not worth it; blocks on the disk.
    #[must_use]
    pub fn effort(&self, path: &Path, identity: &Identity, coding: Coding) -> Option<Effort> {
        if let Home::Store(store) = self {
            let _adopted = store.find_on_disk(Key::of(&mark::key_text(identity, coding)));
        }
        match self
            .look(path, identity, coding, Reading::Blocking)
            .ok()??
        {
            Known::Useless(effort) | Known::Memory(_, effort, _) | Known::File { effort, .. } => {
                Some(effort)
            }
            Known::Foreign => Some(Effort::Max),
            Known::Missing => None,
        }
    }

    /// Notes that a copy is not worth it; blocks on the disk.
    pub fn put_useless(
        &self,
        path: &Path,
        identity: &Identity,
        coding: Coding,
        effort: Effort,
    ) -> io::Result<()> {
        match self {
            Home::Store(store) => put_in_store(store, path, identity, coding, effort, None),
            Home::Beside => {
                let mut useless = USELESS.lock().unwrap_or_else(PoisonError::into_inner);
                let useless = useless.get_or_insert_default();
                if useless.len() >= USELESS_MAX {
                    useless.clear();
                }
                useless.insert(beside_key(path, identity, coding));
                // One of a former state would be found by gzip_static.
                beside::remove_stale(path);
                BESIDE_VERSION.fetch_add(1, Ordering::AcqRel);
                Ok(())
            }
        }
    }
}

impl Home {
    /// Removes the copies of other states of a file than it is in now; how many there were.
    #[must_use]
    pub fn remove_stale(&self, path: &Path) -> usize {
        let Home::Store(store) = self else {
            return beside::remove_stale(path);
        };
        let status = sys::file::status_at(path);
        let current = status.ok().filter(Status::is_file);
        let current = current.map(|status| keys(&status.identity));
        let is_stale = |slot: &Slot| {
            current
                .as_ref()
                .is_none_or(|keys| !keys.contains(&slot.key))
        };
        store.remove_group(mark::group(path), is_stale)
    }
}

/// The keys that copies of a file have in a store.
fn keys(identity: &Identity) -> [Key; 3] {
    Coding::ALL.map(|coding| Key::of(&mark::key_text(identity, coding)))
}

fn look_in_store(
    store: &Arc<Store>,
    identity: &Identity,
    coding: Coding,
    reading: Reading,
) -> io::Result<Option<Known>> {
    let text = mark::key_text(identity, coding);
    let Some(slot) = store.find(Key::of(&text)) else {
        return Ok(Some(Known::Missing));
    };
    let Some(fetched) = store.fetch(&slot, MEMORY_COPY_MAX, reading)? else {
        return Ok(None);
    };
    let (Fetched::Memory { head, .. } | Fetched::File { head, .. }) = &fetched;
    let known = match Mark::decode(&head.metadata) {
        Some(mark) if *head.text == *text => (mark.effort, mark.useful),
        _ => return Ok(Some(Known::Missing)),
    };
    let used: Option<Arc<dyn LastUse>> = Some(Arc::<Slot>::clone(&slot));
    Ok(Some(match (known, fetched) {
        ((effort, false), _) => Known::Useless(effort),
        ((effort, true), Fetched::Memory { body, .. }) => Known::Memory(body, effort, used),
        ((effort, true), Fetched::File { head, file }) => Known::File {
            file,
            offset: head.bytes(),
            length: head.body_bytes,
            effort,
            used,
        },
    }))
}

fn look_beside(
    path: &Path,
    identity: &Identity,
    coding: Coding,
    reading: Reading,
) -> io::Result<Option<Known>> {
    let (file, mark) = match beside::look(path, identity, coding)? {
        Found::Ours(file, mark) => (file, mark),
        Found::Foreign => return Ok(Some(Known::Foreign)),
        Found::Stale | Found::Nothing => {
            let useless = USELESS.lock().unwrap_or_else(PoisonError::into_inner);
            let key = beside_key(path, identity, coding);
            let is_useless = useless
                .as_ref()
                .is_some_and(|useless| useless.contains(&key));
            return Ok(Some(match is_useless {
                true => Known::Useless(Effort::Max),
                false => Known::Missing,
            }));
        }
    };
    // Its bytes are compared with what was written, which needs all of them.
    if reading == Reading::Cached {
        return Ok(None);
    }
    let bytes = beside::read(&file, &mark)?;
    Ok(Some(match mark.length <= MEMORY_COPY_MAX {
        true => Known::Memory(Bytes::from(bytes), mark.effort, None),
        false => Known::File {
            file,
            offset: 0,
            length: mark.length,
            effort: mark.effort,
            used: None,
        },
    }))
}

fn beside_key(path: &Path, identity: &Identity, coding: Coding) -> Key {
    let mut text = mark::key_text(identity, coding);
    text.extend_from_slice(path.as_os_str().as_bytes());
    Key::of(&text)
}

fn put_in_store(
    store: &Store,
    path: &Path,
    identity: &Identity,
    coding: Coding,
    effort: Effort,
    body: Option<&[u8]>,
) -> io::Result<()> {
    let mark = Mark {
        effort,
        useful: body.is_some(),
        path: path.as_os_str().as_bytes(),
    };
    let text = mark::key_text(identity, coding);
    let body = body.unwrap_or_default();
    store
        .put(&text, &mark.encode(), mark::group(path), body)
        .map(drop)
}

/// A copy about to be made, in a place that was found to take it.
pub enum Writer<'a> {
    Store(&'a Arc<Store>),
    Beside(beside::Writer),
}

impl Home {
    /// Whether a copy can be written here, asked before the work of making it.
    pub fn writer(
        &self,
        path: &Path,
        identity: &Identity,
        coding: Coding,
    ) -> Result<Writer<'_>, Refused> {
        Ok(match self {
            Home::Store(store) => {
                store.prepare()?;
                Writer::Store(store)
            }
            Home::Beside => Writer::Beside(beside::Writer::create(path, identity, coding)?),
        })
    }
}

impl Writer<'_> {
    pub fn finish(
        self,
        path: &Path,
        identity: &Identity,
        mode: u32,
        made: (Coding, Effort, &[u8]),
    ) -> Result<(), Refused> {
        let (coding, effort, body) = made;
        match self {
            Writer::Store(store) => {
                put_in_store(store, path, identity, coding, effort, Some(body))?;
                // Of a source that changed meanwhile it is never used; nobody else may be told of the change any more.
                match beside::is_as(path, identity) {
                    true => Ok(()),
                    false => {
                        let home = Home::Store(Arc::clone(store));
                        add(&COUNTS.stale, home.remove_stale(path) as u64);
                        Err(Refused::Changed)
                    }
                }
            }
            Writer::Beside(writer) => {
                writer.finish(identity, mode, effort, body)?;
                BESIDE_VERSION.fetch_add(1, Ordering::AcqRel);
                Ok(())
            }
        }
    }
}
