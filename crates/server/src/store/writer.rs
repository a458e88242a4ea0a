//! Writing an entry: into a file of another name, which gets its own when it is whole. Whatever ends the process before
//! that leaves no entry.

use super::format::Head;
use super::index::Slot;
use super::key::Key;
use super::{Store, unix_seconds};
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use twox_hash::XxHash3_64;

/// How the names of files begin that are being written; the process's number and a counter follow.
pub const TEMPORARY: &str = "tmp-";

/// What the counter of temporary names stands at.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// An entry that is being written; dropped before its end, it leaves nothing.
pub struct Writer {
    bytes_max: u64,
    file: File,
    /// None once it has its own name.
    temporary: Option<PathBuf>,
    head: Head,
    hasher: XxHash3_64,
}

impl Writer {
    pub(super) fn create(
        store: &Store,
        text: &[u8],
        metadata: &[u8],
        group: u64,
    ) -> io::Result<Writer> {
        let head = Head {
            text: text.into(),
            metadata: metadata.into(),
            group,
            body_bytes: 0,
            body_hash: 0,
        };
        let room = head.encode().ok_or(io::ErrorKind::InvalidInput)?;
        let (file, path) = create_file(&store.directory)?;
        let mut writer = Writer {
            bytes_max: store.bytes_max(),
            file,
            temporary: Some(path),
            head,
            hasher: XxHash3_64::with_seed(0),
        };
        writer.file.write_all(&room)?;
        Ok(writer)
    }

    /// Appends to the body. An error is for good: the entry will not be.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.head.body_bytes += bytes.len() as u64;
        if self.head.file_bytes() > self.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.hasher.write(bytes);
        self.file.write_all(bytes)
    }

    /// Other metadata of the same length.
    pub fn set_metadata(&mut self, metadata: &[u8]) -> io::Result<()> {
        if metadata.len() != self.head.metadata.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.head.metadata = metadata.into();
        Ok(())
    }

    /// Where the body begins in the file.
    #[must_use]
    pub fn body_offset(&self) -> u64 {
        self.head.bytes()
    }

    /// Bytes of the body so far.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.head.body_bytes
    }

    /// The file, for who reads along.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Makes the entry what its key leads to in the store it was begun for, in place of the former one.
    pub fn finish(mut self, store: &Store) -> io::Result<Arc<Slot>> {
        self.head.body_hash = self.hasher.finish();
        let head = self.head.encode().ok_or(io::ErrorKind::InvalidInput)?;
        self.file.write_all_at(&head, 0)?;
        let key = Key::of(&self.head.text);
        let target = store.path(key);
        let Some(temporary) = &self.temporary else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        match std::fs::rename(temporary, &target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_directory(target.parent().unwrap_or(&store.directory))?;
                std::fs::rename(temporary, &target)?;
            }
            other => other?,
        }
        self.temporary = None;
        let bytes = self.head.file_bytes();
        let slot = store.slot(key, bytes, self.head.group, unix_seconds(), true);
        store.added(Arc::clone(&slot));
        Ok(slot)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(path) = &self.temporary {
            // The next scan removes what could not be removed now.
            let _left = std::fs::remove_file(path);
        }
    }
}

/// A new file to write to.
pub(super) fn create_file(directory: &Path) -> io::Result<(File, PathBuf)> {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!("{TEMPORARY}{}-{number}", sys::process::own_pid()));
    let open = || {
        let mut options = File::options();
        options
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
    };
    let file = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_directory(directory)?;
            open()?
        }
        other => other?,
    };
    Ok((file, path))
}

/// Whether a file can be made in a directory.
pub fn probe(directory: &Path) -> io::Result<()> {
    let (_file, path) = create_file(directory)?;
    std::fs::remove_file(path)
}

fn make_directory(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Whether a temporary file's writer is gone: its process does not exist, or the file is too old to be anybody's.
#[must_use]
pub fn is_abandoned(name: &str, age_seconds: u64) -> bool {
    const ABANDONED_SECONDS: u64 = 3600;
    let number = name
        .strip_prefix(TEMPORARY)
        .and_then(|rest| rest.split('-').next());
    let writer = number
        .and_then(|digits| digits.parse().ok())
        .map(sys::process::Pid);
    match writer {
        Some(pid) => age_seconds > ABANDONED_SECONDS || !sys::process::exists(pid),
        None => false,
    }
}
