//! A connection that carries one exchange: one of our own to a server, or a pool's to one of its children.

use super::idle::Link;
use crate::net::Stream;
use crate::pool::Lease;
use std::io;
use std::task::{Context, Poll};

pub enum Line {
    Own(Link),
    Leased(Box<Lease>),
}

impl Line {
    /// The socket; `None` only for a child that was given back.
    #[must_use]
    pub fn stream(&self) -> Option<&Stream> {
        match self {
            Line::Own(link) => Some(&link.stream),
            Line::Leased(lease) => lease.stream(),
        }
    }

    /// It has served a request before, so that the peer may have closed it meanwhile.
    #[must_use]
    pub fn is_reused(&self) -> bool {
        match self {
            Line::Own(link) => link.reused,
            // Looked at when it was lent.
            Line::Leased(_) => false,
        }
    }

    /// Reads once and hands the bytes to `take`; an empty slice is the end.
    pub fn poll_read<T>(
        &self,
        context: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<T>> {
        match self.stream() {
            Some(stream) => stream.poll_read(context, take),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}
