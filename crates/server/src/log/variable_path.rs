//! Access logs whose path has variables: opened for each line, or kept open by `open_log_file_cache`. As in nginx, a line is
//! written only if the request's root is a directory, so that a client cannot make logs of its own with invented names.

use super::error::{Level, write_request};
use crate::config::setting::Complaint;
use crate::http::{Request, thread};
use crate::variables::Template;
use conf::{Directive, values};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use sys::errno::Errno;

/// `open_log_file_cache`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFileCache {
    /// Files that a thread keeps open.
    max: u64,
    /// A file that was not written to for this long is closed.
    inactive_ms: u64,
    /// Uses within `inactive_ms` from which on a file is kept open.
    min_uses: u64,
    /// After this long it is checked that the path still leads to the open file.
    valid_ms: u64,
}

/// Reads the directive; `None` for `off`.
pub fn parse_cache(directive: &Directive) -> Result<Option<OpenFileCache>, Complaint> {
    let mut cache = OpenFileCache {
        max: 0,
        inactive_ms: 10_000,
        min_uses: 1,
        valid_ms: 60_000,
    };
    let mut off = false;
    for word in &directive.args {
        let invalid = || {
            Complaint::from(format!(
                "invalid \"open_log_file_cache\" parameter \"{word}\""
            ))
        };
        let seconds = |text: &[u8]| values::parse_sec(text).map(|seconds| seconds * 1000);
        let text = word.split(|&byte| byte == b'=').nth(1).unwrap_or_default();
        match &word[..word.len() - text.len()] {
            b"max=" => cache.max = values::parse_number(text).ok_or_else(invalid)?,
            b"inactive=" => cache.inactive_ms = seconds(text).ok_or_else(invalid)?,
            b"min_uses=" => cache.min_uses = values::parse_number(text).ok_or_else(invalid)?,
            b"valid=" => cache.valid_ms = seconds(text).ok_or_else(invalid)?,
            b"off" => off = true,
            _ => return Err(invalid()),
        }
    }
    if off {
        return Ok(None);
    }
    if cache.max == 0 {
        return Err("\"open_log_file_cache\" must have \"max\" parameter".into());
    }
    Ok(Some(cache))
}

/// Writes a line to the file that `path` gives for the request.
pub fn write(request: &Request, path: &Template, line: &[u8]) {
    if !root_exists(request) {
        return;
    }
    let path = path.evaluate(request);
    let path = Path::new(OsStr::from_bytes(&path));
    match open(request, path) {
        Ok(file) => {
            // As in nginx nobody complains: the file is a different one for each request.
            let _ = (&*file).write(line);
        }
        Err(error) => write_request(
            request,
            Level::Critical,
            format_args!(
                "open() \"{}\" failed ({}) while logging request",
                path.display(),
                Errno(&error)
            ),
        ),
    }
}

/// ENOTDIR, for the text.
const NOT_A_DIRECTORY: i32 = 20;

fn root_exists(request: &Request) -> bool {
    let root = request
        .location()
        .settings
        .static_files
        .root
        .path
        .evaluate(request);
    let root = Path::new(OsStr::from_bytes(&root));
    let found = sys::file::status_at(root).and_then(|status| match status.is_directory() {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(NOT_A_DIRECTORY)),
    });
    let Err(error) = found else {
        return true;
    };
    write_request(
        request,
        Level::Error,
        format_args!(
            "testing \"{}\" existence failed ({}) while logging request",
            root.display(),
            Errno(&error)
        ),
    );
    false
}

/// A path that this thread writes to.
struct Entry {
    file: Option<Rc<File>>,
    device_and_inode: (u64, u64),
    checked_ms: u64,
    used_ms: u64,
    uses: u64,
}

thread_local! {
    static OPEN: RefCell<HashMap<Box<Path>, Entry>> = RefCell::default();
}

fn open(request: &Request, path: &Path) -> io::Result<Rc<File>> {
    let fresh = || sys::file::open_log(path).map(Rc::new);
    let Some(cache) = request.location().settings.access_log.file_cache else {
        return fresh();
    };
    OPEN.with_borrow_mut(|open| cache.open(open, path, thread::monotonic_ms(), fresh))
}

impl OpenFileCache {
    fn open(
        &self,
        open: &mut HashMap<Box<Path>, Entry>,
        path: &Path,
        now: u64,
        fresh: impl FnOnce() -> io::Result<Rc<File>>,
    ) -> io::Result<Rc<File>> {
        if let Some(entry) = open.get_mut(path)
            && now.saturating_sub(entry.used_ms) <= self.inactive_ms
        {
            entry.uses += 1;
            entry.used_ms = now;
            if let Some(file) = entry.valid_file(path, now, self.valid_ms) {
                return Ok(file);
            }
        } else {
            self.make_room(open, now);
            open.insert(path.into(), Entry::new(now));
        }
        let file = fresh()?;
        if let Some(entry) = open.get_mut(path)
            && entry.uses >= self.min_uses
        {
            entry.keep(&file, now)?;
        }
        Ok(file)
    }

    /// Drops what is inactive; then, if need be, what was not used for longest.
    fn make_room(&self, open: &mut HashMap<Box<Path>, Entry>, now: u64) {
        if (open.len() as u64) < self.max {
            return;
        }
        open.retain(|_, entry| now.saturating_sub(entry.used_ms) <= self.inactive_ms);
        while open.len() as u64 >= self.max {
            let oldest = open.iter().min_by_key(|(_, entry)| entry.used_ms);
            let Some(oldest) = oldest.map(|(path, _)| path.clone()) else {
                return;
            };
            open.remove(&oldest);
        }
    }
}

impl Entry {
    fn new(now: u64) -> Entry {
        Entry {
            file: None,
            device_and_inode: (0, 0),
            checked_ms: now,
            used_ms: now,
            uses: 1,
        }
    }

    fn keep(&mut self, file: &Rc<File>, now: u64) -> io::Result<()> {
        let identity = sys::file::status(file)?.identity;
        self.device_and_inode = (identity.device, identity.inode);
        self.checked_ms = now;
        self.file = Some(Rc::clone(file));
        Ok(())
    }

    /// The open file, unless the path was checked too long ago and leads elsewhere by now.
    fn valid_file(&mut self, path: &Path, now: u64, valid_ms: u64) -> Option<Rc<File>> {
        let file = self.file.clone()?;
        if now.saturating_sub(self.checked_ms) < valid_ms {
            return Some(file);
        }
        let identity = sys::file::status_at(path).ok()?.identity;
        if (identity.device, identity.inode) != self.device_and_inode {
            return None;
        }
        self.checked_ms = now;
        Some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn files_are_kept_checked_and_dropped() {
        let root = std::env::temp_dir().join(format!("gannet-paths-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let cache = OpenFileCache {
            max: 2,
            inactive_ms: 1000,
            min_uses: 2,
            valid_ms: 100,
        };
        let mut open = HashMap::new();
        let opened = Cell::new(0);
        let mut write = |name: &str, now: u64| {
            let path = root.join(name);
            let fresh = || {
                opened.set(opened.get() + 1);
                sys::file::open_log(&path).map(Rc::new)
            };
            let file = cache.open(&mut open, &path, now, fresh).unwrap();
            (&*file).write_all(name.as_bytes()).unwrap();
            opened.get()
        };
        // The second use keeps it open.
        assert_eq!([write("a", 0), write("a", 1), write("a", 2)], [1, 2, 2]);
        // Still the file of its path.
        assert_eq!(write("a", 200), 2);
        // Moved away: noticed when it is checked again.
        std::fs::rename(root.join("a"), root.join("a.1")).unwrap();
        assert_eq!([write("a", 210), write("a", 400)], [2, 3]);
        assert_eq!(std::fs::read(root.join("a.1")).unwrap(), b"aaaaa");
        assert_eq!(std::fs::read(root.join("a")).unwrap(), b"a");
        // Room for two: the one that was not used for longest goes.
        assert_eq!(
            [write("b", 410), write("c", 420), write("a", 430)],
            [4, 5, 6]
        );
        std::fs::remove_dir_all(root).unwrap();
    }
}
