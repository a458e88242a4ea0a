//! Between the h2 crate and an upstream's socket: bytes that were read and not yet taken, and writes that may have to wait.

use crate::net::Stream;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The library's side of the socket.
pub struct Socket {
    stream: Stream,
    /// What one read gave and the library had no room for.
    pending: Vec<u8>,
    taken: usize,
}

impl Socket {
    pub fn new(stream: Stream) -> Socket {
        Socket {
            stream,
            pending: Vec::new(),
            taken: 0,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = &mut *self;
        if own.taken < own.pending.len() {
            let rest = &own.pending[own.taken..];
            let count = rest.len().min(buffer.remaining());
            buffer.put_slice(&rest[..count]);
            own.taken += count;
            if own.taken == own.pending.len() {
                (own.pending, own.taken) = (Vec::new(), 0);
            }
            return Poll::Ready(Ok(()));
        }
        let pending = &mut own.pending;
        own.stream.poll_read(context, |bytes| {
            let count = bytes.len().min(buffer.remaining());
            buffer.put_slice(&bytes[..count]);
            pending.extend_from_slice(&bytes[count..]);
        })
    }
}

impl AsyncWrite for Socket {
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
        loop {
            match self.stream.try_write(slices) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stream.clear_writable();
                    ready!(self.stream.poll_writable(context))?;
                }
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.shut_down();
        Poll::Ready(Ok(()))
    }
}
