//! Files: opening without blocking or following links, the identity that tells a changed file, and its owner.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::errno::{check, retry};
use crate::user::{Gid, Uid};

/// What makes a file this file in this state. The change time betrays a write that put the modification time back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    /// Nanoseconds since 1970.
    pub modified_ns: i64,
    /// Nanoseconds since 1970.
    pub changed_ns: i64,
}

impl Identity {
    /// Seconds since 1970: the value of `Last-Modified`.
    pub fn modified_seconds(&self) -> i64 {
        self.modified_ns.div_euclid(1_000_000_000)
    }
}

/// What the server asks of a file before it serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    pub identity: Identity,
    /// Type and permission bits, as `st_mode`.
    pub mode: u32,
    pub uid: Uid,
    pub gid: Gid,
}

impl Status {
    pub fn is_file(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFREG
    }

    pub fn is_directory(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFDIR
    }

    pub fn is_symlink(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFLNK
    }
}

impl From<&std::fs::Metadata> for Status {
    fn from(data: &std::fs::Metadata) -> Self {
        let nanoseconds =
            |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Status {
            identity: Identity {
                device: data.dev(),
                inode: data.ino(),
                size: data.size(),
                modified_ns: nanoseconds(data.mtime(), data.mtime_nsec()),
                changed_ns: nanoseconds(data.ctime(), data.ctime_nsec()),
            },
            mode: data.mode(),
            uid: Uid(data.uid()),
            gid: Gid(data.gid()),
        }
    }
}

/// The status of an open file.
pub fn status(file: &File) -> io::Result<Status> {
    file.metadata().map(|data| Status::from(&data))
}

/// The status of the file a path leads to.
pub fn status_at(path: &Path) -> io::Result<Status> {
    std::fs::metadata(path).map(|data| Status::from(&data))
}

/// The same, of the link itself where the path ends in one.
pub fn link_status_at(path: &Path) -> io::Result<Status> {
    std::fs::symlink_metadata(path).map(|data| Status::from(&data))
}

/// Opens for reading. A pipe or device does not block the opener.
pub fn open(path: &Path) -> io::Result<File> {
    open_flags(None, path, libc::O_RDONLY | libc::O_NONBLOCK)
}

/// How one step of a walk opens its component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A directory on the way: usable as the start of the next step and for its status, not for reading.
    Directory,
    /// The file itself, for reading.
    File,
    /// Whatever has the name, a link that is not followed too: usable for its status.
    Entry,
}

/// Opens `name` inside an open directory (or from the working directory); refuses a symbolic link with `ELOOP` or
/// `ENOTDIR` unless `follow`. A walk of these is what `disable_symlinks` needs.
pub fn open_step(
    directory: Option<&File>,
    name: &Path,
    step: Step,
    follow: bool,
) -> io::Result<File> {
    let kind = match step {
        Step::Directory => libc::O_PATH | libc::O_DIRECTORY,
        Step::File => libc::O_RDONLY | libc::O_NONBLOCK,
        Step::Entry => libc::O_PATH,
    };
    open_flags(
        directory,
        name,
        kind | if follow { 0 } else { libc::O_NOFOLLOW },
    )
}

/// Opens for appending, created with permission 0644 less the umask: a log file. Writes to it do not mix.
pub fn open_log(path: &Path) -> io::Result<File> {
    open_flags(None, path, libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT)
}

fn open_flags(directory: Option<&File>, path: &Path, flags: libc::c_int) -> io::Result<File> {
    const LOG_PERMISSIONS: libc::c_uint = 0o644;
    let path = terminated(path)?;
    let from = directory.map_or(libc::AT_FDCWD, |directory| directory.as_raw_fd());
    let descriptor = retry(|| {
        // SAFETY: the path is a live, terminated string; the directory is open or the constant for the working one.
        check(unsafe {
            libc::openat(
                from,
                path.as_ptr(),
                flags | libc::O_CLOEXEC,
                LOG_PERMISSIONS,
            )
        })
    })?;
    // SAFETY: the kernel just returned this descriptor and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Makes `target` another name for what `source` has open: all who write to `target` write there from now on, with no
/// moment in which it is closed.
pub fn replace(target: &File, source: File) -> io::Result<()> {
    // SAFETY: both descriptors are open; the kernel exchanges what the first one names in one step.
    retry(|| check(unsafe { libc::dup3(source.as_raw_fd(), target.as_raw_fd(), libc::O_CLOEXEC) }))
        .map(drop)
}

/// Gives a file a name that nothing has; `EEXIST` where something has it. A file system that cannot do this in one step
/// (`EINVAL`) is asked first whether the name is free.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let (source, target) = (terminated(from)?, terminated(to)?);
    let renamed = retry(|| {
        // SAFETY: both paths are live, terminated strings; the directories are the constant for the working one.
        check(unsafe {
            libc::renameat2(
                libc::AT_FDCWD,
                source.as_ptr(),
                libc::AT_FDCWD,
                target.as_ptr(),
                libc::RENAME_NOREPLACE,
            )
        })
    });
    match renamed {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => {
            match link_status_at(to) {
                Ok(_) => Err(io::Error::from_raw_os_error(libc::EEXIST)),
                Err(_) => std::fs::rename(from, to),
            }
        }
        other => other.map(drop),
    }
}

/// Bytes that a file system has left for those who are not root.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a structure of integers, for which zeros are a value.
    let mut status: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero byte, and the structure is the call's to fill.
    retry(|| check(unsafe { libc::statvfs(path.as_ptr(), &raw mut status) }))?;
    Ok(status.f_bavail.saturating_mul(status.f_frsize))
}

/// Hands an open file to a user.
pub fn change_owner(file: impl AsFd, user: Uid, group: Option<Gid>) -> io::Result<()> {
    // -1 leaves the group as it is.
    let group = group.map_or(libc::gid_t::MAX, |group| group.0);
    // SAFETY: the call takes a borrowed, open descriptor and integers.
    check(unsafe { libc::fchown(file.as_fd().as_raw_fd(), user.0, group) }).map(drop)
}

/// Hands a path (a directory, say) to a user, and leaves its group.
pub fn change_owner_at(path: &Path, user: Uid) -> io::Result<()> {
    std::os::unix::fs::chown(path, Some(user.0), None)
}

/// Keeps a descriptor open over exec, or (the usual state) closes it there.
pub fn set_close_on_exec(descriptor: impl AsFd, on: bool) -> io::Result<()> {
    let flags = if on { libc::FD_CLOEXEC } else { 0 };
    // SAFETY: F_SETFD takes a borrowed, open descriptor and an integer.
    check(unsafe { libc::fcntl(descriptor.as_fd().as_raw_fd(), libc::F_SETFD, flags) }).map(drop)
}

fn terminated(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_new_name_replaces_nothing() {
        let root = std::env::temp_dir().join(format!("gannet-sys-rename-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let (from, to) = (root.join("from"), root.join("to"));
        std::fs::write(&from, b"1").unwrap();
        rename_new(&from, &to).unwrap();
        std::fs::write(&from, b"2").unwrap();
        let refused = rename_new(&from, &to).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EEXIST));
        assert_eq!(std::fs::read(&to).unwrap(), b"1");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn links_are_followed_only_when_asked() {
        let root = std::env::temp_dir().join(format!("gannet-sys-links-{}", std::process::id()));
        std::fs::create_dir_all(root.join("real")).unwrap();
        std::fs::write(root.join("real/file"), b"x").unwrap();
        std::os::unix::fs::symlink("real", root.join("directory")).unwrap();
        std::os::unix::fs::symlink("file", root.join("real/link")).unwrap();
        let top = open_step(None, &root, Step::Directory, true).unwrap();
        assert!(open_step(Some(&top), Path::new("directory"), Step::Directory, false).is_err());
        let real = open_step(Some(&top), Path::new("directory"), Step::Directory, true).unwrap();
        assert!(status(&real).unwrap().is_directory());
        let refused = open_step(Some(&real), Path::new("link"), Step::File, false).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ELOOP));
        let link = open_step(Some(&real), Path::new("link"), Step::Entry, false).unwrap();
        assert!(status(&link).unwrap().is_symlink());
        let file = open_step(Some(&real), Path::new("link"), Step::File, true).unwrap();
        assert_eq!(
            status(&file).unwrap(),
            status_at(&root.join("real/file")).unwrap()
        );
        assert!(
            link_status_at(&root.join("real/link"))
                .unwrap()
                .is_symlink()
        );
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_write_changes_the_identity_even_with_the_time_put_back() {
        let path = std::env::temp_dir().join(format!("gannet-sys-identity-{}", std::process::id()));
        std::fs::write(&path, b"one").unwrap();
        let before = status_at(&path).unwrap();
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        // The kernel stamps files with a clock of some milliseconds: write until it has moved.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while status_at(&path).unwrap().identity == before.identity
            && std::time::Instant::now() < deadline
        {
            let mut file = File::options().write(true).open(&path).unwrap();
            file.write_all(b"two").unwrap();
            file.set_modified(modified).unwrap();
        }
        let after = status_at(&path).unwrap();
        assert_eq!(after.identity.modified_ns, before.identity.modified_ns);
        assert_ne!(after.identity.changed_ns, before.identity.changed_ns);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_replaced_file_takes_the_writes_of_the_former() {
        let root = std::env::temp_dir().join(format!("gannet-sys-replace-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let mut log = open_log(&root.join("a")).unwrap();
        log.write_all(b"1").unwrap();
        replace(&log, open_log(&root.join("b")).unwrap()).unwrap();
        log.write_all(b"2").unwrap();
        assert_eq!(std::fs::read(root.join("a")).unwrap(), b"1");
        assert_eq!(std::fs::read(root.join("b")).unwrap(), b"2");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_path_with_a_zero_byte_is_an_error() {
        assert_eq!(
            open(Path::new("a\0b")).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }
}
