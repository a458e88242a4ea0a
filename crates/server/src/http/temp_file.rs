//! Temporary files: where bodies go that are too large for memory. A file goes with the last hold on it.

use super::body::{FileRange, OpenFile};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Names tried before it is given up.
const NAMES_MAX: usize = 1000;
/// Digits of a name.
const DIGITS: usize = 10;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A directory for temporary files and the digits of its levels (`client_body_temp_path` and kin).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TempPath {
    pub directory: PathBuf,
    pub levels: [u8; 3],
}

impl TempPath {
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> TempPath {
        TempPath {
            directory: directory.into(),
            levels: [0; 3],
        }
    }

    /// The path of file `number`: as nginx does, the last digits name the directories.
    fn path(&self, number: u32) -> PathBuf {
        let name = format!("{number:0width$}", width = DIGITS);
        let mut path = self.directory.clone();
        let mut end = name.len();
        for &digits in self.levels.iter().take_while(|&&digits| digits > 0) {
            let start = end.saturating_sub(usize::from(digits));
            path.push(&name[start..end]);
            end = start;
        }
        path.push(name);
        path
    }

    /// Creates a file that nobody else has open. The error comes with the path that it is about.
    pub fn create(&self) -> Result<TempFile, (PathBuf, io::Error)> {
        let mut last = None;
        for _ in 0..NAMES_MAX {
            let path = self.path(NUMBER.fetch_add(1, Ordering::Relaxed).wrapping_add(1));
            match open_new(&path) {
                Ok(file) => {
                    return Ok(TempFile {
                        file: Rc::new(OpenFile { fd: file.into() }),
                        path,
                        length: 0,
                        stays: false,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    last = Some((path, error));
                }
                Err(error) => return Err((path, error)),
            }
        }
        Err(last.unwrap_or_else(|| (self.directory.clone(), io::ErrorKind::AlreadyExists.into())))
    }
}

fn open_new(path: &Path) -> io::Result<std::fs::File> {
    let open = || {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
    };
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(directory) = path.parent() {
                let mut builder = DirBuilder::new();
                builder.recursive(true).mode(0o700).create(directory)?;
            }
            open()
        }
        opened => opened,
    }
}

/// A temporary file that is being written or read.
pub struct TempFile {
    pub file: Rc<OpenFile>,
    pub path: PathBuf,
    /// Bytes written.
    pub length: u64,
    /// It is not removed at the end.
    pub stays: bool,
}

impl TempFile {
    /// Appends `bytes`.
    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = sys::io::writev(&self.file.fd, &[IoSlice::new(bytes)])?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.length += written as u64;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// All of it.
    #[must_use]
    pub fn range(&self) -> FileRange {
        FileRange {
            file: Rc::clone(&self.file),
            offset: 0,
            length: self.length,
        }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.stays {
            // Somebody else may have removed it.
            let _gone = std::fs::remove_file(&self.path);
        }
    }
}

impl std::fmt::Debug for TempFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {} bytes", self.path.display(), self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_take_their_digits_from_the_end() {
        let mut path = TempPath::new("/t");
        assert_eq!(path.path(123), Path::new("/t/0000000123"));
        path.levels = [1, 2, 0];
        assert_eq!(path.path(123), Path::new("/t/3/12/0000000123"));
    }

    #[test]
    fn a_file_goes_with_its_holder() {
        let directory = std::env::temp_dir().join(format!("gannet-temp-{}", std::process::id()));
        let path = TempPath {
            directory: directory.clone(),
            levels: [2, 0, 0],
        };
        let mut file = path.create().unwrap();
        file.write(b"some").unwrap();
        file.write(b"thing").unwrap();
        assert_eq!(std::fs::read(&file.path).unwrap(), b"something");
        assert_eq!(file.range().length, 9);
        let name = file.path.clone();
        drop(file);
        assert!(!name.exists());
        std::fs::remove_dir_all(directory).unwrap();
    }
}
