//! HTTP/2: connections that several users share, a stream for each request.

use crate::failure::Failure;
use crate::plan::Step;
use crate::response::Reader;
use crate::stream::Stream;
use crate::target::plain;
use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Mutex;

/// What a server may send without being told that it was read: of a stream, and of a connection.
const STREAM_WINDOW: u32 = 16 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;

/// The connections of some users of a thread, one to each server.
pub struct Group {
    slots: Vec<Mutex<Option<Connection>>>,
}

/// A connection that is open, or was.
#[derive(Clone)]
pub struct Connection {
    sender: SendRequest<Bytes>,
    traffic: Rc<Traffic>,
}

/// Bytes that were not yet attributed to a request.
#[derive(Default)]
pub struct Traffic {
    sent: Cell<u64>,
    received: Cell<u64>,
}

impl Group {
    pub fn new(endpoints: usize) -> Rc<Group> {
        Rc::new(Group {
            slots: (0..endpoints).map(|_| Mutex::new(None)).collect(),
        })
    }

    /// The place of a server's connection; whoever finds it empty fills it while the others wait.
    pub fn slot(&self, endpoint: usize) -> Option<&Mutex<Option<Connection>>> {
        self.slots.get(endpoint)
    }
}

/// When the parts of an exchange were done.
pub struct Times {
    pub sent_at: Instant,
    pub first_at: Instant,
}

impl Connection {
    /// Shakes hands on a stream; what comes on the connection is read by a task of the thread.
    pub async fn open(stream: Stream) -> Result<Connection, Failure> {
        let traffic = Rc::new(Traffic::default());
        let counted = Counted {
            stream,
            traffic: Rc::clone(&traffic),
        };
        let (sender, connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(counted)
            .await
            .map_err(|error| failure(&error))?;
        tokio::task::spawn_local(async move {
            // What ends the connection is seen by the streams on it.
            let _ended = connection.await;
        });
        Ok(Connection { sender, traffic })
    }

    /// Waits until a stream may begin; fails when the connection takes no more.
    pub async fn ready(&self) -> Result<(), Failure> {
        let ready = self.sender.clone().ready().await;
        ready.map(drop).map_err(|error| failure(&error))
    }

    /// Bytes sent and received since this was asked last: those of the request that ended, and what others began.
    pub fn take_traffic(&self) -> (u64, u64) {
        (self.traffic.sent.take(), self.traffic.received.take())
    }

    /// Sends a request and reads the response.
    pub async fn exchange(
        &self,
        step: &Step,
        request: http::Request<()>,
        values: &[Vec<u8>],
        reader: &mut Reader,
    ) -> Result<Times, Failure> {
        let body = step.request.body.as_ref().map(|body| body.text(values));
        let mut sender = self.sender.clone();
        let is_all = body.as_ref().is_none_or(|body| body.is_empty());
        let (response, mut stream) = sender
            .send_request(request, is_all)
            .map_err(|error| failure(&error))?;
        if let Some(body) = body.filter(|body| !body.is_empty()) {
            stream
                .send_data(Bytes::from(body), true)
                .map_err(|error| failure(&error))?;
        }
        let sent_at = Instant::now();
        let first_at = read(response, reader).await?;
        Ok(Times { sent_at, first_at })
    }
}

/// Reads a response; tells when its head came.
async fn read(response: ResponseFuture, reader: &mut Reader) -> Result<Instant, Failure> {
    let response = response.await.map_err(|error| failure(&error))?;
    let first_at = Instant::now();
    let (head, mut body) = response.into_parts();
    reader.start_http2(&head);
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(|error| failure(&error))?;
        reader.take_body(&piece);
        let returned = body.flow_control().release_capacity(piece.len());
        returned.map_err(|error| failure(&error))?;
    }
    Ok(first_at)
}

/// Why it failed, in few words: what is counted together.
fn failure(error: &h2::Error) -> Failure {
    match (error.get_io(), error.reason()) {
        (Some(error), _) if error.kind() == io::ErrorKind::UnexpectedEof => Failure::Closed,
        (Some(error), _) => Failure::Io(plain(error)),
        (None, Some(reason)) => {
            let what = if error.is_go_away() {
                "GOAWAY"
            } else {
                "RST_STREAM"
            };
            Failure::Http2(format!("{what}, {}", reason.description()))
        }
        (None, None) => Failure::Http2(error.to_string()),
    }
}

/// Whether the server never looked at the request, so that another connection may ask again.
pub fn is_unseen(failure: &Failure) -> bool {
    match failure {
        Failure::Http2(why) => {
            why.starts_with("GOAWAY")
                || why.contains("refused")
                || why.contains("not a result of an error")
        }
        Failure::Closed | Failure::Io(_) => true,
        _ => false,
    }
}

/// Whether the server said that it has not worked on the request, which any method may then ask again (RFC 9113, 8.7).
pub fn is_unprocessed(failure: &Failure) -> bool {
    match failure {
        // Where a connection ends without an error, only streams it did not look at are told so.
        Failure::Http2(why) => {
            why == "RST_STREAM, refused stream before processing any application logic"
                || why == "GOAWAY, not a result of an error"
        }
        _ => false,
    }
}

/// A stream whose bytes are counted.
struct Counted {
    stream: Stream,
    traffic: Rc<Traffic>,
}

impl AsyncRead for Counted {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let counted = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut counted.stream).poll_read(cx, buffer);
        let came = buffer.filled().len().saturating_sub(before) as u64;
        counted
            .traffic
            .received
            .set(counted.traffic.received.get() + came);
        read
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let counted = self.get_mut();
        let written = Pin::new(&mut counted.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = written {
            counted
                .traffic
                .sent
                .set(counted.traffic.sent.get() + count as u64);
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
