//! A client's socket, TCP or UNIX, with reads into a buffer that the thread's connections share.

use crate::http::body::OpenFile;
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Bytes that one read takes at most.
pub const READ_SIZE: usize = 64 * 1024;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_SIZE].into_boxed_slice());
}

/// A client's socket.
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Reads once and hands the bytes to `take`; an empty slice is the end of the stream. The buffer is the thread's:
    /// an idle connection owns none.
    pub fn poll_read<T>(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<T>> {
        SCRATCH.with(|scratch| {
            let mut scratch = scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            let polled = match self {
                Stream::Tcp(stream) => Pin::new(stream).poll_read(context, &mut buffer),
                Stream::Unix(stream) => Pin::new(stream).poll_read(context, &mut buffer),
            };
            match polled {
                Poll::Ready(Ok(())) => Poll::Ready(Ok(take(buffer.filled()))),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            }
        })
    }

    /// Writes what the socket takes now; `WouldBlock` if nothing.
    pub fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        sys::io::writev(self, slices)
    }

    /// Sends one piece; with `more` it waits to share a packet with what follows.
    pub fn try_send(&self, bytes: &[u8], more: bool) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        sys::io::send(self, bytes, more)
    }

    /// Lets the kernel copy from a file; 0 means that the file is shorter than it was.
    pub fn try_sendfile(&self, file: &OpenFile, offset: u64, count: usize) -> io::Result<usize> {
        sys::io::sendfile(self, &file.fd, offset, count)
    }

    /// Waits until the socket may take more. To be called after a write said `WouldBlock`.
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(stream) => stream.poll_write_ready(context),
            Stream::Unix(stream) => stream.poll_write_ready(context),
        }
    }

    /// Tells the runtime that a write would block, so that it waits for the next readiness.
    pub fn clear_writable(&self) {
        let blocked = || Err::<(), _>(io::Error::from(io::ErrorKind::WouldBlock));
        let _ = match self {
            Stream::Tcp(stream) => stream.try_io(Interest::WRITABLE, blocked),
            Stream::Unix(stream) => stream.try_io(Interest::WRITABLE, blocked),
        };
    }

    #[must_use]
    pub fn raw_fd(&self) -> i32 {
        self.as_fd().as_raw_fd()
    }

    #[must_use]
    pub fn is_tcp(&self) -> bool {
        matches!(self, Stream::Tcp(_))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}
