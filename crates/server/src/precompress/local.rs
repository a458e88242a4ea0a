//! What a network thread knows of the copies of a file: looked up without a lock, and looked for anew only when copies have
//! come since.

use super::beside;
use super::place::{Home, Known};
use crate::encoding::best::Effort;
use crate::encoding::negotiate::{CODINGS, Coding};
use crate::http::body::OpenFile;
use crate::http::file::{Content, Copied, Entry};
use crate::http::thread;
use crate::store::table::{Limits, Table, Used};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use sys::file::Identity;
use wire::fields::etag;

/// Bytes of copies that one thread keeps in memory.
pub const MEMORY_MAX: u64 = 32 * 1024 * 1024;
/// Files of whose copies one thread knows.
pub const FILES_MAX: usize = 8192;
/// Bytes that an entry takes beside the copies.
const ENTRY_BYTES: u64 = 512;
/// How often a thread asks for copies that do not come.
const ASK_AGAIN_MS: u64 = 1000;

/// What a thread knows of one copy.
#[derive(Clone, Default)]
pub enum State {
    #[default]
    Unknown,
    /// As of `version`.
    Missing,
    /// As of `version`: the operator's own stands there.
    Foreign,
    Useless(Effort),
    /// With where the copy lies and what it is, where others may write there.
    Ready(Rc<Copied>, Effort, Option<Rc<(PathBuf, Identity)>>),
}

/// The copies of a file in one state.
#[derive(Default)]
pub struct Variants {
    states: RefCell<[State; CODINGS]>,
    version: Cell<u64>,
    asked_ms: Cell<Option<u64>>,
    used: Cell<bool>,
}

impl Used for Rc<Variants> {
    fn note_use(&self) {
        self.used.set(true);
    }

    fn take_use(&self) -> bool {
        self.used.replace(false)
    }
}

thread_local! {
    static TABLE: RefCell<Table<Rc<Variants>>> = RefCell::default();
    static KEY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The variants of a file as it is now.
#[must_use]
pub fn variants(home: &Home, entry: &Entry) -> Rc<Variants> {
    with_key(home, entry, |key| {
        TABLE.with_borrow_mut(|table| {
            if let Some(known) = table.find(key) {
                return Rc::clone(known);
            }
            let fresh = Rc::new(Variants::default());
            table.insert(key.into(), Rc::clone(&fresh), ENTRY_BYTES, LIMITS);
            fresh
        })
    })
}

const LIMITS: Limits = Limits {
    entries: FILES_MAX,
    bytes: MEMORY_MAX,
};

/// The identity, and the place: the store's directory, or for copies beside it the source's path.
fn with_key<T>(home: &Home, entry: &Entry, act: impl FnOnce(&[u8]) -> T) -> T {
    let mut key = KEY.take();
    key.clear();
    key.extend_from_slice(&super::mark::identity_bytes(&entry.identity));
    match home {
        Home::Store(store) => {
            key.extend_from_slice(store.directory().as_os_str().as_encoded_bytes())
        }
        Home::Beside => {
            key.push(0);
            key.extend_from_slice(&entry.path);
        }
    }
    let result = act(&key);
    KEY.set(key);
    result
}

impl Variants {
    /// What is known of a copy, if nothing has come since that could change it.
    #[must_use]
    pub fn state(&self, home: &Home, coding: Coding) -> State {
        let version = home.version();
        let mut states = self.states.borrow_mut();
        if self.version.replace(version) != version {
            for state in states.iter_mut() {
                if matches!(state, State::Missing | State::Foreign) {
                    *state = State::Unknown;
                }
            }
        }
        let state = &mut states[coding as usize];
        // A file that others may write to is the copy only as long as it is as it was.
        if let State::Ready(copied, _, Some(known)) = state
            && matches!(copied.content, Content::File(_))
            && !is_still(&known.0, &known.1)
        {
            *state = State::Unknown;
        }
        state.clone()
    }

    /// Keeps what was found.
    pub fn set(self: &Rc<Self>, home: &Home, entry: &Entry, coding: Coding, found: Known) -> State {
        let state = state_of(entry, coding, found);
        self.states.borrow_mut()[coding as usize] = state.clone();
        let bytes = self.bytes();
        with_key(home, entry, |key| {
            TABLE.with_borrow_mut(|table| table.insert(key.into(), Rc::clone(self), bytes, LIMITS));
        });
        state
    }

    fn bytes(&self) -> u64 {
        let states = self.states.borrow();
        let memory = states.iter().map(|state| match state {
            State::Ready(copied, ..) if matches!(copied.content, Content::Memory(_)) => {
                copied.length
            }
            _ => 0,
        });
        ENTRY_BYTES + memory.sum::<u64>()
    }

    /// Whether it is time to ask for copies that are missing; notes that it was done.
    #[must_use]
    pub fn may_ask(&self) -> bool {
        let now = thread::monotonic_ms();
        let due = self
            .asked_ms
            .get()
            .is_none_or(|asked| now >= asked + ASK_AGAIN_MS);
        if due {
            self.asked_ms.set(Some(now));
        }
        due
    }
}

fn state_of(entry: &Entry, coding: Coding, found: Known) -> State {
    let copied = |content, offset, length, used| {
        Rc::new(Copied {
            coding: coding.as_str(),
            number: coding as usize,
            content,
            offset,
            length,
            etag: etag_of(entry, coding, length),
            used,
        })
    };
    match found {
        Known::Missing => State::Missing,
        Known::Foreign => State::Foreign,
        Known::Useless(effort) => State::Useless(effort),
        Known::Memory(bytes, effort, used) => {
            let length = bytes.len() as u64;
            State::Ready(
                copied(Content::Memory(bytes), 0, length, used),
                effort,
                None,
            )
        }
        Known::File {
            file,
            offset,
            length,
            effort,
            used,
        } => {
            // In a store nobody else writes.
            let known = match used {
                Some(_) => None,
                None => match sys::file::status(&file) {
                    Ok(status) => Some(Rc::new((beside_path(entry, coding), status.identity))),
                    Err(_) => return State::Missing,
                },
            };
            let open = Content::File(Rc::new(OpenFile { fd: file.into() }));
            State::Ready(copied(open, offset, length, used), effort, known)
        }
    }
}

fn beside_path(entry: &Entry, coding: Coding) -> PathBuf {
    beside::path_of(Path::new(OsStr::from_bytes(&entry.path)), coding)
}

fn is_still(path: &Path, identity: &Identity) -> bool {
    sys::file::status_at(path).is_ok_and(|status| status.identity == *identity)
}

/// The source's time and the copy's size as gzip_static has them, and the coding: a strong validator of these bytes.
fn etag_of(entry: &Entry, coding: Coding, length: u64) -> Bytes {
    let tag = etag::of_file(entry.modified, length);
    Bytes::from(format!(
        "{}-{}\"",
        tag.trim_end_matches('"'),
        coding.as_str()
    ))
}
