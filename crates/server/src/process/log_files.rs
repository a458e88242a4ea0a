//! Log files by path: opened by the master, which may be root; written by every thread; swapped under the writers when they
//! are reopened.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use super::journal::open_failed;
use sys::user::Uid;

/// The open logs of one configuration.
#[derive(Clone, Debug, Default)]
pub struct LogFiles {
    files: BTreeMap<PathBuf, Arc<File>>,
}

impl LogFiles {
    /// Opens all, or tells which one failed, as nginx does.
    pub fn open(paths: impl IntoIterator<Item = PathBuf>) -> Result<LogFiles, String> {
        let mut files = BTreeMap::new();
        for path in paths {
            if let Entry::Vacant(place) = files.entry(path) {
                let path = place.key();
                let file = sys::file::open_log(path).map_err(|error| open_failed(path, &error))?;
                place.insert(Arc::new(file));
            }
        }
        Ok(LogFiles { files })
    }

    /// Logs that another process opened.
    pub fn received(files: Vec<(PathBuf, OwnedFd)>) -> LogFiles {
        let open = |(path, descriptor)| (path, Arc::new(File::from(descriptor)));
        LogFiles {
            files: files.into_iter().map(open).collect(),
        }
    }

    pub fn file(&self, path: &Path) -> Option<&Arc<File>> {
        self.files.get(path)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Path, &Arc<File>)> {
        self.files.iter().map(|(path, file)| (path.as_path(), file))
    }
}

/// Every log that this process has open, of former configurations too: those still draining write to the same paths.
#[derive(Default)]
pub struct OpenLogs {
    all: Vec<(PathBuf, Weak<File>)>,
}

impl OpenLogs {
    pub fn add(&mut self, files: &LogFiles) {
        self.all.retain(|(_, file)| file.strong_count() > 0);
        for (path, file) in files.iter() {
            self.all.push((path.to_owned(), Arc::downgrade(file)));
        }
    }

    /// Puts freshly opened files in the place of all that were opened at their paths.
    pub fn swap(&self, path: &Path, fresh: &File) -> io::Result<()> {
        for (_, file) in self.all.iter().filter(|(own, _)| own == path) {
            if let Some(file) = file.upgrade() {
                sys::file::replace(&file, fresh.try_clone()?)?;
            }
        }
        Ok(())
    }

    /// The paths, each once.
    pub fn paths(&self) -> Vec<PathBuf> {
        let alive = |(path, file): &(PathBuf, Weak<File>)| {
            (file.strong_count() > 0).then(|| path.to_owned())
        };
        let mut paths: Vec<PathBuf> = self.all.iter().filter_map(alive).collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

/// Opens a log anew and hands it to the worker's user, who may have to open it alone one day.
pub fn reopen(path: &Path, owner: Option<Uid>) -> Result<File, String> {
    let file = sys::file::open_log(path).map_err(|error| open_failed(path, &error))?;
    if let Some(owner) = owner {
        let failed = |error: io::Error| {
            let reason = sys::errno::Errno(&error);
            format!(
                "chown(\"{}\", {}) failed ({reason})",
                path.display(),
                owner.0
            )
        };
        if sys::file::status(&file).map_err(failed)?.uid != owner {
            sys::file::change_owner(&file, owner, None).map_err(failed)?;
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn writers_of_every_generation_follow_a_moved_log() {
        let root = std::env::temp_dir().join(format!("gannet-logs-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let path = root.join("a.log");
        let (old, new) = (
            LogFiles::open([path.clone(), path.clone()]).unwrap(),
            LogFiles::open([path.clone()]).unwrap(),
        );
        let mut open = OpenLogs::default();
        open.add(&old);
        open.add(&new);
        assert_eq!(open.paths(), std::slice::from_ref(&path));
        std::fs::rename(&path, root.join("a.log.1")).unwrap();
        open.swap(&path, &reopen(&path, None).unwrap()).unwrap();
        for files in [&old, &new] {
            let mut file: &File = files.file(&path).unwrap();
            file.write_all(b"x").unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"xx");
        assert_eq!(std::fs::read(root.join("a.log.1")).unwrap(), b"");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_log_that_cannot_be_opened_is_named() {
        let failed = LogFiles::open([PathBuf::from("/nonexistent/a.log")]).unwrap_err();
        let expected = "open() \"/nonexistent/a.log\" failed (2: No such file or directory)";
        assert_eq!(failed, expected);
    }
}
