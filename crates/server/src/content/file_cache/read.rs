//! Opening a file, and reading a small one into memory without keeping the network thread.

use crate::http::body::OpenFile;
use crate::http::file::{Checked, Content, Entry};
use bytes::Bytes;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};
use sys::file::{Identity, Status};
use sys::io::Cached;

/// Files up to this size are kept in memory.
pub const MEMORY_FILE_MAX: u64 = 128 * 1024;
/// Files that one thread reads from a cold disk at the same time; beyond them a file is sent without being kept.
pub const COLD_READS_MAX: usize = 32;
/// A file that changed less than this before it was read may change again without its times telling (the clock of file
/// times ticks every 10 ms or faster): it is served but not kept in memory.
const SETTLED_NS: i64 = 50_000_000;

/// Opens a file, and reads it where it is small and settled. `None`: it is no regular file (any more). `checked`
/// is when the path was looked at.
pub async fn open(name: &Path, checked: Checked) -> io::Result<Option<Rc<Entry>>> {
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

thread_local! {
    static COLD_READS: Cell<usize> = const { Cell::new(0) };
}

/// Counts a read from a cold disk for as long as it takes.
struct ColdRead;

impl ColdRead {
    fn begin() -> Option<ColdRead> {
        let reads = COLD_READS.get();
        if reads >= COLD_READS_MAX {
            return None;
        }
        COLD_READS.set(reads + 1);
        Some(ColdRead)
    }
}

impl Drop for ColdRead {
    fn drop(&mut self) {
        COLD_READS.set(COLD_READS.get() - 1);
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

/// Whether a file is small enough to be kept and old enough for its times to tell the next change.
pub fn fits_memory(identity: &Identity) -> bool {
    identity.size <= MEMORY_FILE_MAX && is_settled_now(identity)
}

/// Whether a file's times would tell its next change.
#[must_use]
pub fn is_settled_now(identity: &Identity) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    is_settled(identity, now.map_or(0, |now| now.as_nanos() as i64))
}

fn is_settled(identity: &Identity, now_ns: i64) -> bool {
    identity.changed_ns.saturating_add(SETTLED_NS) < now_ns
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
