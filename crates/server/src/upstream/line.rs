//! A connection that carries one exchange: one of our own to a server, or a pool's to one of its children.

use super::http2::Connection;
use super::idle::{Link, Wire};
use crate::http::trace::Late;
use crate::net::Stream;
use crate::pool::Lease;
use std::io;
use std::task::{Context, Poll};

pub enum Line {
    Own(Link),
    Leased(Box<Lease>),
}

impl Line {
    /// The socket; `None` for a child that was given back, and where HTTP/2 is spoken.
    #[must_use]
    pub fn stream(&self) -> Option<&Stream> {
        match self {
            Line::Own(link) => match &link.wire {
                Wire::Plain(stream) => Some(stream),
                Wire::Http2(_) => None,
            },
            Line::Leased(lease) => lease.stream(),
        }
    }

    /// The connection where HTTP/2 is spoken.
    #[must_use]
    pub fn http2(&self) -> Option<&Connection> {
        match self {
            Line::Own(Link {
                wire: Wire::Http2(client),
                ..
            }) => Some(client),
            _ => None,
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

    /// What the end of it means for a response that goes on until then: with HTTP/2 the connection is well, and fields
    /// may have come behind the body.
    pub fn ends_well(&self, late: &Late) -> bool {
        let Some(connection) = self.http2() else {
            return false;
        };
        late.trailers.replace(connection.take_trailers());
        true
    }

    /// Reads once and hands the bytes to `take`; an empty slice is the end.
    pub fn poll_read<T>(
        &self,
        context: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<T>> {
        match (self.stream(), self.http2()) {
            (Some(stream), _) => stream.poll_read(context, take),
            (None, Some(client)) => client.poll_read(context, take),
            (None, None) => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}
