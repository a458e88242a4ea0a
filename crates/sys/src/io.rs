//! Moving bytes: scattered reads and writes, sendfile, reads that refuse to block, and waiting for readiness.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::errno::{check, check_size, retry};

/// The kernel takes at most this many slices in one call (`IOV_MAX`); longer lists are cut.
pub const MAX_SLICES: usize = 1024;

/// Reads into several buffers; 0 at the end of the stream.
pub fn readv(from: impl AsFd, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let (pointer, count) = (buffers.as_mut_ptr(), slices(buffers.len()));
    // SAFETY: IoSliceMut has the layout of iovec (guaranteed by std), and the first `count` of them are live.
    retry(|| check_size(unsafe { libc::readv(from.as_fd().as_raw_fd(), pointer.cast(), count) }))
}

/// Writes several buffers in one call. On a closed connection the error is `BrokenPipe` (std ignores SIGPIPE).
pub fn writev(to: impl AsFd, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
    let (pointer, count) = (buffers.as_ptr(), slices(buffers.len()));
    // SAFETY: IoSlice has the layout of iovec (guaranteed by std), and the first `count` of them are live.
    retry(|| check_size(unsafe { libc::writev(to.as_fd().as_raw_fd(), pointer.cast(), count) }))
}

/// Sends a file's bytes from `offset` without copying them through the process; returns how many went, 0 when the file
/// ends before `offset`.
pub fn sendfile(to: impl AsFd, file: impl AsFd, offset: u64, count: usize) -> io::Result<usize> {
    let mut position = file_offset(offset)?;
    let (to, file) = (to.as_fd().as_raw_fd(), file.as_fd().as_raw_fd());
    // SAFETY: both descriptors are borrowed and open; the offset pointer outlives the call.
    retry(|| check_size(unsafe { libc::sendfile64(to, file, &raw mut position, count) }))
}

/// Reads from a file at an offset, blocking on the disk if need be.
pub fn pread(file: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let position = file_offset(offset)?;
    let file = file.as_fd().as_raw_fd();
    retry(|| {
        // SAFETY: pointer and length describe one live, writable slice.
        check_size(unsafe {
            libc::pread64(file, buffer.as_mut_ptr().cast(), buffer.len(), position)
        })
    })
}

/// What a read that refuses to block found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// These bytes were in memory (0: the file ends here). Fewer than asked for means that the next are not.
    Read(usize),
    /// The read would wait for the disk, or the file system cannot tell.
    Cold,
}

/// Reads from a file only what the page cache holds, so that a network thread never waits for a disk.
pub fn pread_cached(file: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<Cached> {
    let position = file_offset(offset)?;
    let slice = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let file = file.as_fd().as_raw_fd();
    let result = retry(|| {
        // SAFETY: the one iovec describes a live, writable slice that nothing else touches during the call.
        check_size(unsafe { libc::preadv2(file, &raw const slice, 1, position, libc::RWF_NOWAIT) })
    });
    match result {
        Ok(count) => Ok(Cached::Read(count)),
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EOPNOTSUPP | libc::ENOSYS) => Ok(Cached::Cold),
            _ => Err(error),
        },
    }
}

/// Sends on a socket without SIGPIPE; `more` says that further bytes follow at once, so the kernel may wait for them.
pub fn send(socket: impl AsFd, bytes: &[u8], more: bool) -> io::Result<usize> {
    let flags = libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: pointer and length describe one live slice.
    retry(|| check_size(unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), flags) }))
}

/// Whether a read, or an accept, would find something now. For a listening socket this is cheaper than an accept that
/// finds nobody: that one makes a file for the connection before it looks.
pub fn is_readable(descriptor: impl AsFd) -> bool {
    let mut watch = libc::pollfd {
        fd: descriptor.as_fd().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the one pollfd lives through the call, which does not wait.
    let found = unsafe { libc::poll(&raw mut watch, 1, 0) };
    // A failed poll must not hide what an accept would report.
    found != 0
}

/// Takes bytes from a non-blocking socket. 0 means that the peer has closed, `WouldBlock` that nothing waits.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let socket = socket.as_fd().as_raw_fd();
    retry(|| {
        // SAFETY: pointer and length describe one live, writable slice.
        check_size(unsafe { libc::recv(socket, buffer.as_mut_ptr().cast(), buffer.len(), 0) })
    })
}

/// Looks at the bytes waiting on a socket and leaves them there; never blocks. 0 means that the peer has closed.
pub fn peek(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    let socket = socket.as_fd().as_raw_fd();
    retry(|| {
        // SAFETY: pointer and length describe one live, writable slice.
        check_size(unsafe { libc::recv(socket, buffer.as_mut_ptr().cast(), buffer.len(), flags) })
    })
}

/// What a file's pages are going to be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    Sequential,
    WillNeed,
    DontNeed,
}

/// Tells the page cache; `length` 0 reaches to the end of the file.
pub fn advise(file: impl AsFd, offset: u64, length: u64, advice: Advice) -> io::Result<()> {
    let advice = match advice {
        Advice::Sequential => libc::POSIX_FADV_SEQUENTIAL,
        Advice::WillNeed => libc::POSIX_FADV_WILLNEED,
        Advice::DontNeed => libc::POSIX_FADV_DONTNEED,
    };
    let (offset, length) = (file_offset(offset)?, file_offset(length)?);
    // SAFETY: the call takes a borrowed, open descriptor and integers.
    match unsafe { libc::posix_fadvise64(file.as_fd().as_raw_fd(), offset, length, advice) } {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

/// One descriptor to wait for.
pub struct Watch<'a> {
    pub descriptor: BorrowedFd<'a>,
    pub read: bool,
    pub write: bool,
}

/// What a watched descriptor is ready for. An error or the end of the stream makes it readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    pub read: bool,
    pub write: bool,
}

/// Waits until a descriptor is ready or the time is over (`None`: no end); a signal ends the wait early, with nothing
/// ready. The answer has one entry for each watch, in order.
pub fn wait(watches: &[Watch<'_>], timeout: Option<Duration>) -> io::Result<Vec<Ready>> {
    let mut polls: Vec<libc::pollfd> = watches.iter().map(poll_entry).collect();
    // Round up, or the last fraction of a millisecond would be spun away.
    let timeout = match timeout {
        None => -1,
        Some(time) => {
            libc::c_int::try_from(time.as_micros().div_ceil(1000)).unwrap_or(libc::c_int::MAX)
        }
    };
    let count = libc::nfds_t::try_from(polls.len()).map_err(io::Error::other)?;
    // SAFETY: pointer and count describe one live, writable array.
    match check(unsafe { libc::poll(polls.as_mut_ptr(), count, timeout) }) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            return Ok(vec![Ready::default(); polls.len()]);
        }
        other => other?,
    };
    let gone = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
    let ready = |poll: &libc::pollfd| Ready {
        read: poll.revents & (libc::POLLIN | gone) != 0,
        write: poll.revents & libc::POLLOUT != 0,
    };
    Ok(polls.iter().map(ready).collect())
}

fn poll_entry(watch: &Watch<'_>) -> libc::pollfd {
    let read = if watch.read { libc::POLLIN } else { 0 };
    let write = if watch.write { libc::POLLOUT } else { 0 };
    libc::pollfd {
        fd: watch.descriptor.as_raw_fd(),
        events: read | write,
        revents: 0,
    }
}

fn slices(count: usize) -> libc::c_int {
    libc::c_int::try_from(count.min(MAX_SLICES)).expect("at most 1024")
}

fn file_offset(offset: u64) -> io::Result<libc::off64_t> {
    libc::off64_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn file_with(bytes: &[u8], name: &str) -> File {
        let path = std::env::temp_dir().join(format!("gannet-sys-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    #[test]
    fn slices_travel_in_order() {
        let (a, b) = UnixStream::pair().unwrap();
        assert_eq!(
            writev(
                &a,
                &[IoSlice::new(b"hel"), IoSlice::new(b""), IoSlice::new(b"lo")]
            )
            .unwrap(),
            5
        );
        let mut look = [0; 8];
        assert_eq!(peek(&b, &mut look).unwrap(), 5);
        let (mut first, mut second) = ([0; 2], [0; 9]);
        let count = readv(
            &b,
            &mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)],
        )
        .unwrap();
        assert_eq!((count, &first, &second[..3]), (5, b"he", &b"llo"[..]));
        assert_eq!(
            peek(&b, &mut look).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
    }

    #[test]
    fn more_slices_than_the_kernel_takes_are_cut() {
        let (a, _b) = UnixStream::pair().unwrap();
        let many = vec![IoSlice::new(b"x"); MAX_SLICES + 5];
        assert_eq!(writev(&a, &many).unwrap(), MAX_SLICES);
    }

    #[test]
    fn files_are_sent_and_read_from_an_offset() {
        let file = file_with(b"0123456789", "offset");
        let (a, mut b) = UnixStream::pair().unwrap();
        assert_eq!(sendfile(&a, &file, 2, 3).unwrap(), 3);
        assert_eq!(sendfile(&a, &file, 10, 3).unwrap(), 0);
        drop(a);
        let mut got = String::new();
        b.read_to_string(&mut got).unwrap();
        assert_eq!(got, "234");
        let mut buffer = [0; 4];
        assert_eq!(pread(&file, &mut buffer, 8).unwrap(), 2);
        assert_eq!(
            pread(&file, &mut buffer, u64::MAX).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
        advise(&file, 0, 0, Advice::WillNeed).unwrap();
        // Whether the temporary directory can tell is up to its file system; wrong bytes it may not give.
        if let Cached::Read(count) = pread_cached(&file, &mut buffer, 1).unwrap() {
            assert_eq!(&buffer[..count], &b"1234"[..count]);
        }
    }

    #[test]
    fn sending_to_the_dead_is_an_error_not_a_signal() {
        let (a, b) = UnixStream::pair().unwrap();
        drop(b);
        assert_eq!(
            send(&a, b"x", true).unwrap_err().kind(),
            io::ErrorKind::BrokenPipe
        );
    }

    #[test]
    fn waiting_ends_with_readiness_or_with_time() {
        let (mut a, b) = UnixStream::pair().unwrap();
        let watch = || {
            [Watch {
                descriptor: b.as_fd(),
                read: true,
                write: false,
            }]
        };
        assert_eq!(
            wait(&watch(), Some(Duration::ZERO)).unwrap(),
            [Ready::default()]
        );
        a.write_all(b"x").unwrap();
        assert!(wait(&watch(), None).unwrap()[0].read);
    }
}
