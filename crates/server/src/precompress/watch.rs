//! The directories that copies are made from, watched on a thread of low priority: what changes loses its copies at once
//! and gets new ones, and with `precompress_scan` all files get theirs before anybody asks. Nothing depends on it being
//! seen here: a request compares identities itself.

use super::counts::{COUNTS, add};
use super::directive::{Http, Settings};
use super::job::{self, Job};
use super::place::Home;
use super::{beside, mark};
use crate::background::{self, Full, Urgency};
use crate::config::model::{Config, Location, LocationKind};
use crate::http::mime;
use crate::log::error::{Level, write};
use crate::routing::pattern::Pattern;
use crate::store::{SCAN_PARTS, Store};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use sys::inotify::{Event, Inotify, WatchId};
use sys::io::Watch;

/// Directories that are watched; what lies in others is looked at when it is asked for.
const WATCHES_MAX: usize = 16_384;
/// How deep directories may lie below a root.
const DEPTH_MAX: usize = 32;
/// How often the thread looks for a new configuration, and for roots that lead elsewhere.
const TICK: Duration = Duration::from_secs(1);
/// How long a scan waits when the queue is full.
const FULL_WAIT: Duration = Duration::from_millis(50);
const NICE: i32 = 19;

/// The files of one location.
struct Root {
    path: PathBuf,
    /// Of the path's bytes, how many stand before the URI.
    before_uri: usize,
    /// A pattern that URIs must match.
    pattern: Option<Pattern>,
    settings: Settings,
    mime: mime::Settings,
    home: Home,
    rate: u64,
}

static WATCHER: Mutex<Option<Sender<Vec<Root>>>> = Mutex::new(None);
/// The stores whose directories were or are being read.
static SCANNED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Takes the roots of a configuration that comes into force.
pub fn start(config: &Config) {
    let http = &config.http.precompress;
    let is_on = |location: &Location| location.settings.precompress.on;
    job::set_wanted(config.http.locations.iter().any(is_on));
    let roots: Vec<Root> = config
        .http
        .locations
        .iter()
        .filter_map(|location| root(location, http))
        .collect();
    for root in &roots {
        if let Home::Store(store) = &root.home {
            scan_store(store);
        }
    }
    let mut watcher = WATCHER.lock().unwrap_or_else(PoisonError::into_inner);
    if roots.is_empty() && watcher.is_none() {
        return;
    }
    let sender = watcher.get_or_insert_with(spawn);
    // Without the thread nothing is watched, and nothing stale is served.
    let _gone = sender.send(roots);
}

fn spawn() -> Sender<Vec<Root>> {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name(String::from("precompress"));
    let spawned = thread.spawn(move || {
        // Refused by some sandboxes: the work is done at the priority there is.
        let _refused = sys::process::set_thread_priority(NICE);
        run(&receiver);
    });
    if let Err(error) = spawned {
        write(
            Level::Error,
            format_args!(
                "precompress: files are not watched ({})",
                sys::errno::Errno(&error)
            ),
        );
    }
    sender
}

/// The directory of a location's files, where it is known before a request comes.
fn root(location: &Location, http: &Http) -> Option<Root> {
    let settings = &location.settings;
    if !settings.precompress.on {
        return None;
    }
    let root = &settings.static_files.root;
    let mut path = root.path.constant()?.to_vec();
    let appended = !root.is_alias();
    let (before_uri, mut pattern) = (path.len(), None);
    match &location.kind {
        LocationKind::None | LocationKind::If => {}
        LocationKind::Prefix { path: uri, .. } | LocationKind::Exact(uri) => {
            path.extend_from_slice(if appended { uri } else { b"" });
        }
        LocationKind::Regex(matcher) if appended => pattern = Some(matcher.pattern.clone()),
        // Where these lead is known only from the request.
        LocationKind::Regex(_) | LocationKind::Named(_) | LocationKind::LimitExcept => return None,
    }
    // A location's name may end within a file's.
    let end = memchr::memrchr(b'/', &path).filter(|_| path.len() > before_uri);
    let directory = end.map_or(&path[..], |end| &path[..end]);
    Some(Root {
        path: PathBuf::from(OsStr::from_bytes(directory)),
        before_uri,
        pattern,
        settings: settings.precompress.clone(),
        mime: settings.mime.clone(),
        home: Home::of(&settings.precompress, http),
        rate: http.rate,
    })
}

/// Reads a store's directory once in the life of the process, in the background and part by part: what belongs to files
/// that are as they were is kept.
fn scan_store(store: &Arc<Store>) {
    let mut scanned = SCANNED.lock().unwrap_or_else(PoisonError::into_inner);
    if !scanned
        .iter()
        .any(|directory| directory == store.directory())
    {
        scanned.push(store.directory().to_path_buf());
        scan_part(Arc::clone(store), 0);
    }
}

fn scan_part(store: Arc<Store>, part: u16) {
    let job = move || {
        store.scan_part(part, |head| {
            let Some(mark) = mark::Mark::decode(&head.metadata) else {
                return false;
            };
            let source = sys::file::status_at(Path::new(OsStr::from_bytes(mark.path)));
            let identity = source.map(|status| mark::identity_bytes(&status.identity));
            identity.is_ok_and(|identity| mark::identity_of_text(&head.text) == Some(&identity))
        });
        if part + 1 < SCAN_PARTS {
            scan_part(store, part + 1);
        }
    };
    // A part that finds the queue full is left out: its entries are found when they are asked for.
    let _full = background::pool().submit(Urgency::Idle, job);
}

fn run(receiver: &Receiver<Vec<Root>>) {
    while let Ok(mut roots) = receiver.recv() {
        // Until no watches can be set; another configuration may ask for fewer.
        while let Some(mut watcher) = Watcher::new(std::mem::take(&mut roots)) {
            match watcher.watch(receiver) {
                Ended::Replaced(others) => roots = others,
                Ended::Again => roots = watcher.roots,
                Ended::Gone => return,
            }
        }
    }
}

/// Why a watch ended.
enum Ended {
    Replaced(Vec<Root>),
    /// Something was lost, or a root leads elsewhere.
    Again,
    Gone,
}

struct Watcher {
    inotify: Inotify,
    directories: HashMap<WatchId, PathBuf>,
    roots: Vec<Root>,
    /// Where the roots led to.
    real: Vec<Option<PathBuf>>,
    told: bool,
}

impl Watcher {
    fn new(roots: Vec<Root>) -> Option<Watcher> {
        let inotify = match Inotify::new() {
            Ok(inotify) => inotify,
            Err(error) => {
                tell(&error);
                return None;
            }
        };
        let real = roots
            .iter()
            .map(|root| root.path.canonicalize().ok())
            .collect();
        Some(Watcher {
            inotify,
            directories: HashMap::new(),
            roots,
            real,
            told: false,
        })
    }

    fn watch(&mut self, receiver: &Receiver<Vec<Root>>) -> Ended {
        for index in 0..self.roots.len() {
            let path = self.roots[index].path.clone();
            self.walk(&path, Some(index));
        }
        loop {
            match receiver.try_recv() {
                Ok(roots) => return Ended::Replaced(roots),
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return Ended::Gone,
                Err(std::sync::mpsc::TryRecvError::Empty) => {}
            }
            let watches = [Watch {
                descriptor: self.inotify.as_fd(),
                read: true,
                write: false,
            }];
            let ready = sys::io::wait(&watches, Some(TICK));
            if !ready.is_ok_and(|ready| ready.iter().any(|ready| ready.read))
                && self.leads_elsewhere()
            {
                return Ended::Again;
            }
            loop {
                let events = self.inotify.read().unwrap_or_default();
                if events.is_empty() {
                    break;
                }
                if events.iter().any(|event| event.change.is_overflow()) {
                    return Ended::Again;
                }
                events.iter().for_each(|event| self.take(event));
            }
            COUNTS
                .watched
                .store(self.directories.len() as u64, Ordering::Relaxed);
        }
    }

    /// Whether a root is another directory than it was: a link was switched, a directory appeared.
    fn leads_elsewhere(&self) -> bool {
        let now = self.roots.iter().map(|root| root.path.canonicalize().ok());
        !now.eq(self.real.iter().cloned())
    }

    fn take(&mut self, event: &Event) {
        let Some(watch) = event.watch else { return };
        let Some(directory) = self.directories.get(&watch) else {
            return;
        };
        if event.change.is_end_of_watch() {
            self.directories.remove(&watch);
            return;
        }
        let path = directory.join(&event.name);
        if event.change.is_directory() {
            if event.change.is_arrival() {
                self.walk(&path, None);
            }
        } else if !event.name.is_empty() {
            self.changed(&path);
        }
    }

    /// Watches a directory and those below; has the files looked at, of one root or of all that it belongs to.
    fn walk(&mut self, top: &Path, only: Option<usize>) {
        let mut waiting = vec![(top.to_path_buf(), 0)];
        let mut met = HashSet::new();
        while let Some((directory, depth)) = waiting.pop() {
            let status = sys::file::status_at(&directory);
            let is_new = status.is_ok_and(|status| {
                status.is_directory() && met.insert((status.identity.device, status.identity.inode))
            });
            // A link may lead back to where it stands.
            if !is_new || depth > DEPTH_MAX {
                continue;
            }
            self.watch_directory(&directory);
            for entry in std::fs::read_dir(&directory)
                .into_iter()
                .flatten()
                .flatten()
            {
                let path = entry.path();
                match entry.file_type() {
                    Ok(kind) if kind.is_file() => self.scanned(&path, only),
                    Ok(kind) if kind.is_dir() => waiting.push((path, depth + 1)),
                    Ok(kind) if kind.is_symlink() => match path.is_dir() {
                        true => waiting.push((path, depth + 1)),
                        false => self.scanned(&path, only),
                    },
                    _ => {}
                }
            }
        }
    }

    fn watch_directory(&mut self, directory: &Path) {
        if self.directories.len() >= WATCHES_MAX {
            return;
        }
        match self.inotify.watch(directory) {
            Ok(watch) => drop(self.directories.insert(watch, directory.to_path_buf())),
            Err(error) if !self.told => {
                self.told = true;
                tell(&error);
            }
            Err(_) => {}
        }
    }

    /// A file that a walk has met.
    fn scanned(&self, path: &Path, only: Option<usize>) {
        if is_copy(path) {
            let name = path.file_name().and_then(OsStr::to_str);
            if name.is_some_and(beside::is_abandoned) {
                // The next walk may try again.
                let _left = std::fs::remove_file(path);
            } else {
                self.remove_if_stale(path);
            }
            return;
        }
        for (index, root) in self.roots.iter().enumerate() {
            if only.is_none_or(|only| only == index) && root.settings.scan && root.covers(path) {
                add(&COUNTS.scanned, 1);
                root.submit(path, Urgency::Idle);
            }
        }
    }

    /// A copy that a walk has met: what became of its source may have happened while nobody was told.
    fn remove_if_stale(&self, copy: &Path) {
        let is_beside =
            |root: &Root| matches!(root.home, Home::Beside) && copy.starts_with(&root.path);
        if let Some(source) = beside::source_of(copy).filter(|_| self.roots.iter().any(is_beside)) {
            add(&COUNTS.stale, beside::remove_stale(&source) as u64);
        }
    }

    /// A file that came, changed or went.
    fn changed(&self, path: &Path) {
        if is_copy(path) {
            return;
        }
        for root in self
            .roots
            .iter()
            .filter(|root| path.starts_with(&root.path))
        {
            let stale = root.home.remove_stale(path);
            add(&COUNTS.stale, stale as u64);
            // What had copies is worth new ones.
            if (stale > 0 || root.settings.scan) && root.covers(path) {
                root.submit(path, Urgency::Asked);
            }
        }
    }
}

impl Root {
    /// Whether a file of this location has copies.
    fn covers(&self, path: &Path) -> bool {
        let bytes = path.as_os_str().as_bytes();
        if !path.starts_with(&self.path) {
            return false;
        }
        let uri = bytes.get(self.before_uri..).unwrap_or_default();
        if !self
            .pattern
            .as_ref()
            .is_none_or(|pattern| pattern.is_match(uri))
        {
            return false;
        }
        let kind = self.mime.of_path(bytes);
        let status = sys::file::status_at(path);
        status.is_ok_and(|status| {
            status.is_file() && self.settings.covers(kind.as_ref(), status.identity.size)
        })
    }

    /// Queues a file; waits as long as the queue is full, for there is time.
    fn submit(&self, path: &Path, urgency: Urgency) {
        let job = Job {
            path: path.to_path_buf(),
            home: self.home.clone(),
            codings: self.settings.codings,
            effort: self.settings.effort,
            min_length: self.settings.min_length,
            max_length: self.settings.max_length,
            rate: self.rate,
        };
        while job::submit(urgency, job.clone()) == Err(Full) {
            std::thread::sleep(FULL_WAIT);
        }
    }
}

/// Whether a name is one that copies beside their sources have, whole or being written.
fn is_copy(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    beside::source_of(path).is_some() || beside::is_temporary(name)
}

fn tell(error: &std::io::Error) {
    write(
        Level::Warning,
        format_args!(
            "precompress: not all files are watched, changes are seen when files are asked for ({})",
            sys::errno::Errno(error)
        ),
    );
}
