//! The log files of a configuration: collected and numbered while it is read, opened only when it comes into force (by the
//! master, which may be root), and written by every thread without a lock. The process layer swaps the open file under
//! the writers when logs are reopened.

use super::buffer::Buffered;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// One file that lines are appended to. An empty path is standard error.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: OnceLock<Arc<File>>,
    /// Set by `access_log … buffer=`: the lines of all who name the file go through it.
    pub buffered: OnceLock<Buffered>,
    /// The second in which the disk was last found full; nothing is written in the rest of it.
    full_at: AtomicU64,
    /// The second of the last complaint about a failed write.
    complained_at: AtomicU64,
}

/// Seconds between two complaints about one file.
const COMPLAINT_INTERVAL: u64 = 60;

impl LogFile {
    fn new(path: PathBuf) -> LogFile {
        LogFile {
            path,
            file: OnceLock::new(),
            buffered: OnceLock::new(),
            full_at: AtomicU64::new(0),
            complained_at: AtomicU64::new(0),
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this is standard error.
    #[must_use]
    pub fn is_stderr(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    fn open_file(&self) -> Option<&File> {
        if let Some(file) = self.file.get() {
            return Some(file);
        }
        if !self.is_stderr() {
            return None;
        }
        // A descriptor of its own, so that writers do not queue at the lock of the standard library's stderr.
        let own = io::stderr().as_fd().try_clone_to_owned().ok()?;
        Some(self.file.get_or_init(|| Arc::new(File::from(own))))
    }

    /// Writes `bytes` with one call. `now` is in seconds since 1970. The error is what to complain about now; further
    /// failures within a minute are silent, as in nginx.
    pub fn write(&self, bytes: &[u8], now: u64) -> Result<(), String> {
        let Some(mut file) = self.open_file() else {
            return Ok(());
        };
        if self.full_at.load(Ordering::Relaxed) == now {
            return Ok(());
        }
        let name = self.path.display();
        let complaint = match file.write(bytes) {
            Ok(written) if written == bytes.len() => return Ok(()),
            Ok(written) => format!(
                "write() to \"{name}\" was incomplete: {written} of {}",
                bytes.len()
            ),
            Err(error) => {
                if error.kind() == io::ErrorKind::StorageFull {
                    self.full_at.store(now, Ordering::Relaxed);
                }
                format!(
                    "write() to \"{name}\" failed ({})",
                    sys::errno::Errno(&error)
                )
            }
        };
        let last = self.complained_at.load(Ordering::Relaxed);
        if now < last + COMPLAINT_INTERVAL {
            return Ok(());
        }
        self.complained_at.store(now, Ordering::Relaxed);
        Err(complaint)
    }

    /// Writes out what the threads have buffered.
    pub fn flush(&self) {
        if let Some(buffered) = self.buffered.get() {
            buffered.flush_all(self);
        }
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Seconds since 1970, for writers without a request.
#[must_use]
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// The files of one configuration, in the order of their first mention.
#[derive(Debug, Default)]
pub struct LogFiles {
    files: Vec<Arc<LogFile>>,
}

impl LogFiles {
    /// The file of a path; each path is one file however often it is named. An empty path is standard error.
    pub fn file(&mut self, path: PathBuf) -> Arc<LogFile> {
        if let Some(known) = self.files.iter().find(|file| file.path == path) {
            return Arc::clone(known);
        }
        let file = Arc::new(LogFile::new(path));
        self.files.push(Arc::clone(&file));
        file
    }

    /// The paths to open, each once.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        let named = self.files.iter().filter(|file| !file.is_stderr());
        named.map(|file| file.path.clone()).collect()
    }

    /// Takes the open files; a configuration gets them once, when it comes into force.
    pub fn install(&self, mut find: impl FnMut(&Path) -> Option<Arc<File>>) {
        for file in self.files.iter().filter(|file| !file.is_stderr()) {
            if let Some(open) = find(&file.path) {
                // A configuration that has its files keeps them.
                let _ = file.file.set(open);
            }
        }
    }

    /// Opens every file in this process; the error is nginx's text.
    pub fn open_all(&self) -> Result<(), String> {
        for file in self.files.iter().filter(|file| !file.is_stderr()) {
            let open = sys::file::open_log(&file.path).map_err(|error| {
                format!(
                    "open() \"{}\" failed ({})",
                    file.path.display(),
                    sys::errno::Errno(&error)
                )
            })?;
            let _ = file.file.set(Arc::new(open));
        }
        Ok(())
    }

    /// Opens every file anew and puts it in the place of the one that writers have: what was buffered goes to the old.
    pub fn reopen(&self) -> Result<(), String> {
        self.flush();
        for file in &self.files {
            let Some(open) = file.file.get().filter(|_| !file.is_stderr()) else {
                continue;
            };
            let failed = |call: &str, error: io::Error| {
                format!(
                    "{call} \"{}\" failed ({})",
                    file.path.display(),
                    sys::errno::Errno(&error)
                )
            };
            let fresh = sys::file::open_log(&file.path).map_err(|error| failed("open()", error))?;
            sys::file::replace(open, fresh).map_err(|error| failed("dup3()", error))?;
        }
        Ok(())
    }

    /// Writes out what all threads have buffered: before a reopening and at the end.
    pub fn flush(&self) {
        for file in &self.files {
            file.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("gannet-log-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn one_path_is_one_file_and_reopening_moves_its_writers() {
        let root = directory("reopen");
        let path = root.join("a.log");
        let mut files = LogFiles::default();
        let (first, second) = (files.file(path.clone()), files.file(path.clone()));
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(files.paths(), std::slice::from_ref(&path));
        assert_eq!(first.write(b"lost\n", 1), Ok(()));
        files.open_all().unwrap();
        first.write(b"one\n", 1).unwrap();
        std::fs::rename(&path, root.join("a.log.1")).unwrap();
        second.write(b"two\n", 1).unwrap();
        files.reopen().unwrap();
        second.write(b"three\n", 1).unwrap();
        assert_eq!(std::fs::read(root.join("a.log.1")).unwrap(), b"one\ntwo\n");
        assert_eq!(std::fs::read(&path).unwrap(), b"three\n");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_full_disk_is_complained_about_once_a_minute() {
        let mut files = LogFiles::default();
        let file = files.file(PathBuf::from("/dev/full"));
        files.open_all().unwrap();
        let complaint = file.write(b"x", 1000).unwrap_err();
        assert_eq!(
            complaint,
            "write() to \"/dev/full\" failed (28: No space left on device)"
        );
        assert_eq!(file.write(b"x", 1000), Ok(()));
        assert_eq!(file.write(b"x", 1059), Ok(()));
        assert!(file.write(b"x", 1060).is_err());
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let mut files = LogFiles::default();
        files.file(PathBuf::from("/nonexistent/a.log"));
        assert_eq!(
            files.open_all().unwrap_err(),
            "open() \"/nonexistent/a.log\" failed (2: No such file or directory)"
        );
    }
}
