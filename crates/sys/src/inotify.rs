//! Changes in directories as readable events (inotify).

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::errno::{check, check_size, retry};

/// The kernel writes whole records; this holds some hundred with short names, and at least fifteen with the longest.
const BUFFER_BYTES: usize = 4 << 10;

/// The fixed part of a record: watch, mask, cookie, length of the name.
const HEADER_BYTES: usize = size_of::<libc::inotify_event>();

/// The number of a watch, unique within its `Inotify`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WatchId(i32);

/// What happened. Several may be set at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change(u32);

impl Change {
    /// A file was written and closed, or its attributes or times changed.
    pub fn is_content(self) -> bool {
        self.0 & (libc::IN_CLOSE_WRITE | libc::IN_ATTRIB | libc::IN_MODIFY) != 0
    }

    /// A name appeared.
    pub fn is_arrival(self) -> bool {
        self.0 & (libc::IN_CREATE | libc::IN_MOVED_TO) != 0
    }

    /// A name went.
    pub fn is_departure(self) -> bool {
        self.0 & (libc::IN_DELETE | libc::IN_MOVED_FROM) != 0
    }

    /// The name is that of a directory.
    pub fn is_directory(self) -> bool {
        self.0 & libc::IN_ISDIR != 0
    }

    /// The watched directory itself went, or its watch was removed: no more events from it.
    pub fn is_end_of_watch(self) -> bool {
        self.0 & (libc::IN_IGNORED | libc::IN_DELETE_SELF | libc::IN_MOVE_SELF | libc::IN_UNMOUNT)
            != 0
    }

    /// Events were lost: only a scan tells what happened.
    pub fn is_overflow(self) -> bool {
        self.0 & libc::IN_Q_OVERFLOW != 0
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `None` for an overflow, which belongs to no watch.
    pub watch: Option<WatchId>,
    pub change: Change,
    /// The name inside the watched directory; empty when the event is about the directory itself.
    pub name: OsString,
}

pub struct Inotify {
    descriptor: OwnedFd,
}

impl Inotify {
    /// Non-blocking, closed on exec.
    pub fn new() -> io::Result<Inotify> {
        // SAFETY: the call takes an integer.
        let descriptor =
            check(unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) })?;
        // SAFETY: the kernel just returned this descriptor and nothing else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Inotify { descriptor })
    }

    /// Watches one directory (not those below). `ENOSPC` means that the user's watches are used up.
    pub fn watch(&self, directory: &Path) -> io::Result<WatchId> {
        let path = CString::new(directory.as_os_str().as_bytes())?;
        let mask = libc::IN_CLOSE_WRITE
            | libc::IN_ATTRIB
            | libc::IN_CREATE
            | libc::IN_DELETE
            | libc::IN_MOVE
            | libc::IN_DELETE_SELF
            | libc::IN_MOVE_SELF
            | libc::IN_ONLYDIR
            | libc::IN_EXCL_UNLINK;
        // SAFETY: the path is a live, terminated string.
        let number = check(unsafe {
            libc::inotify_add_watch(self.descriptor.as_raw_fd(), path.as_ptr(), mask)
        })?;
        Ok(WatchId(number))
    }

    /// Ends a watch; that it has ended already is no error.
    pub fn unwatch(&self, watch: WatchId) -> io::Result<()> {
        // SAFETY: the call takes integers.
        match check(unsafe { libc::inotify_rm_watch(self.descriptor.as_raw_fd(), watch.0) }) {
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => Err(error),
            _ => Ok(()),
        }
    }

    /// The events that wait; none when nothing does. Call again until it is empty.
    pub fn read(&self) -> io::Result<Vec<Event>> {
        let mut buffer = [0u8; BUFFER_BYTES];
        let descriptor = self.descriptor.as_raw_fd();
        let result = retry(|| {
            // SAFETY: pointer and length describe one live, writable array.
            check_size(unsafe { libc::read(descriptor, buffer.as_mut_ptr().cast(), buffer.len()) })
        });
        match result {
            Ok(count) => Ok(parse(&buffer[..count])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn parse(mut bytes: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES) {
        let field = |index: usize| -> [u8; 4] {
            let bytes = &header[4 * index..4 * index + 4];
            bytes.try_into().expect("four bytes")
        };
        let Some((padded, rest)) = rest.split_at_checked(u32::from_ne_bytes(field(3)) as usize)
        else {
            break;
        };
        let name = padded.split(|&byte| byte == 0).next().unwrap_or(padded);
        let watch = i32::from_ne_bytes(field(0));
        events.push(Event {
            watch: (watch >= 0).then_some(WatchId(watch)),
            change: Change(u32::from_ne_bytes(field(1))),
            name: OsString::from_vec(name.to_vec()),
        });
        bytes = rest;
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_writes_and_departures_are_told() {
        let root = std::env::temp_dir().join(format!("gannet-sys-inotify-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let inotify = Inotify::new().unwrap();
        assert_eq!(inotify.read().unwrap(), []);
        let watch = inotify.watch(&root).unwrap();
        std::fs::create_dir(root.join("sub")).unwrap();
        std::fs::write(root.join("file"), b"x").unwrap();
        std::fs::remove_file(root.join("file")).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        let events = inotify.read().unwrap();
        let find = |name: &str, is: fn(Change) -> bool| {
            events
                .iter()
                .any(|event| event.watch == Some(watch) && event.name == name && is(event.change))
        };
        assert!(find("sub", |change| change.is_arrival() && change.is_directory()));
        assert!(find("file", |change| change.is_content()
            && !change.is_directory()));
        assert!(find("file", Change::is_departure));
        assert!(find("", Change::is_end_of_watch));
        inotify.unwatch(watch).unwrap();
        assert!(inotify.watch(&root).is_err());
    }

    #[test]
    fn a_broken_record_ends_the_list() {
        let mut record = Vec::new();
        for field in [1u32, libc::IN_CREATE, 0, 8] {
            record.extend(field.to_ne_bytes());
        }
        record.extend(b"name\0\0\0\0");
        assert_eq!(parse(&record).len(), 1);
        assert_eq!(parse(&record)[0].name, "name");
        for cut in 0..record.len() {
            assert_eq!(parse(&record[..cut]), []);
        }
    }
}
