//! Between the h2 crate and the socket: what was read and not yet taken, and what is to be written. Frames are gathered and
//! go out together when the connection has no more to say for now.

use super::watch::Watch;
use crate::http::request::Connection;
use crate::net::Stream;
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are gathered before they go to the socket.
const GATHERED_MAX: usize = 64 * 1024;
/// Bytes that are read in one pass, so that one client does not keep the thread.
const READ_MAX: usize = 256 * 1024;
/// A buffer that is larger is given back when it is empty.
const KEPT_MAX: usize = 4 * 1024;
/// Slices that go to the socket at once: what was gathered, a frame's head, its body.
const SLICES_MAX: usize = 8;

/// What is to be written, shared with the connection, which says when.
#[derive(Default)]
pub struct Output {
    waiting: Vec<u8>,
    written: usize,
    /// Something went out since it was last asked.
    moved: bool,
    /// Bytes read in this pass.
    read: usize,
    /// The socket had nothing more in this pass.
    drained: bool,
    /// Bytes read at all.
    pub total: u64,
    /// What came that the library does not tell of.
    pub watch: Watch,
}

impl Output {
    /// Begins a pass.
    pub fn begin_turn(&mut self) {
        self.read = 0;
        self.drained = false;
    }

    /// Whether something went out since the last time.
    pub fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Writes what waits; pending if the socket is full.
    pub fn poll_send(
        &mut self,
        stream: &Stream,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.written < self.waiting.len() {
            ready!(self.poll_write(stream, &[], context))?;
        }
        self.waiting.clear();
        self.written = 0;
        if self.waiting.capacity() > KEPT_MAX {
            self.waiting = Vec::new();
        }
        // TLS may keep back what the socket did not take.
        stream.poll_flush(context)
    }

    /// Writes what waits and then of `slices`; gives how much of these went out.
    fn poll_write(
        &mut self,
        stream: &Stream,
        slices: &[IoSlice<'_>],
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let waiting = self.waiting.get(self.written..).unwrap_or_default();
            let length = waiting.len();
            let mut all = [IoSlice::new(&[]); SLICES_MAX];
            let given = slices.iter().map(|slice| &**slice);
            let mut count = 0;
            for (place, slice) in all.iter_mut().zip(std::iter::once(waiting).chain(given)) {
                *place = IoSlice::new(slice);
                count += 1;
            }
            match stream.try_write(&all[..count]) {
                Ok(sent) => {
                    self.moved = true;
                    self.written += sent.min(length);
                    if sent < length {
                        return Poll::Ready(Ok(0));
                    }
                    self.waiting.clear();
                    self.written = 0;
                    return Poll::Ready(Ok(sent - length));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    stream.clear_writable();
                    ready!(stream.poll_writable(context))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Takes `slices`, to be written later if there is room.
    fn poll_take(
        &mut self,
        stream: &Stream,
        slices: &[IoSlice<'_>],
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        loop {
            let waiting = self.waiting.len() - self.written;
            if waiting + length <= GATHERED_MAX {
                for slice in slices {
                    self.waiting.extend_from_slice(slice);
                }
                return Poll::Ready(Ok(length));
            }
            let written = ready!(self.poll_write(stream, slices, context))?;
            if written > 0 {
                return Poll::Ready(Ok(written));
            }
        }
    }
}

/// The library's side of the socket.
pub struct Link {
    info: Rc<Connection>,
    output: Rc<RefCell<Output>>,
}

impl Link {
    pub fn new(info: Rc<Connection>, output: Rc<RefCell<Output>>) -> Link {
        output.borrow_mut().watch.take(&info.pending.borrow());
        Link { info, output }
    }
}

impl AsyncRead for Link {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let pending = &mut *self.info.pending.borrow_mut();
        if !pending.is_empty() {
            let count = pending.len().min(buffer.remaining());
            buffer.put_slice(&pending[..count]);
            pending.drain(..count);
            if pending.is_empty() {
                *pending = Vec::new();
            }
            return Poll::Ready(Ok(()));
        }
        let output = &mut *self.output.borrow_mut();
        if output.drained {
            return Poll::Pending;
        }
        if output.read >= READ_MAX {
            output.drained = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let watch = &mut output.watch;
        let read = self.info.stream.poll_read(context, |bytes| {
            watch.take(bytes);
            let count = bytes.len().min(buffer.remaining());
            buffer.put_slice(&bytes[..count]);
            pending.extend_from_slice(&bytes[count..]);
            bytes.len()
        });
        output.drained = read.is_pending();
        let read = ready!(read)?;
        output.read += read;
        output.total += read as u64;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Link {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut output = self.output.borrow_mut();
        output.poll_take(&self.info.stream, slices, context)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Not yet: the connection sends when its pass is over.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
