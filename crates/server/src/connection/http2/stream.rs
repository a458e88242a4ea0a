//! One stream as its request sees it: the body that comes, and whether the client still wants the answer.

use super::turns::{Piece, Priority, Turn};
use super::{Streams, fields};
use crate::http::client_stream::{ClientStream, Gone};
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// A frame's head.
pub const FRAME_HEAD: u64 = 9;

/// How far the answer is.
pub enum Sending {
    Awaiting(SendResponse<Piece>),
    Begun(SendStream<Piece>),
}

/// A stream.
pub struct Stream {
    pub sending: RefCell<Sending>,
    receiving: RefCell<RecvStream>,
    streams: Rc<Streams>,
    priority: Rc<Cell<Priority>>,
    number: u64,
}

impl Stream {
    pub fn new(
        respond: SendResponse<Piece>,
        body: RecvStream,
        streams: &Rc<Streams>,
        priority: Priority,
    ) -> Stream {
        let priority = Rc::new(Cell::new(priority));
        streams.announce(respond.stream_id().as_u32(), &priority);
        Stream {
            sending: RefCell::new(Sending::Awaiting(respond)),
            receiving: RefCell::new(body),
            streams: Rc::clone(streams),
            priority,
            number: streams.info.requests.get(),
        }
    }

    /// Its claim to be sent.
    pub fn turn(&self) -> Turn {
        Turn::new(&self.streams.turns, Rc::clone(&self.priority), self.number)
    }

    /// Part of its body, for the library.
    pub fn piece(&self, bytes: Bytes) -> Piece {
        self.streams.has_passed(bytes.len());
        self.streams.turns.piece(bytes)
    }

    /// Ends the stream before its end.
    pub fn reset(&self, reason: Reason) {
        match &mut *self.sending.borrow_mut() {
            Sending::Awaiting(respond) => respond.send_reset(reason),
            Sending::Begun(body) => body.send_reset(reason),
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Stream({})", self.number)
    }
}

impl ClientStream for Stream {
    fn poll_data(&self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Gone>>> {
        let mut receiving = self.receiving.borrow_mut();
        Poll::Ready(match ready!(receiving.poll_data(context)) {
            None => None,
            Some(Ok(bytes)) => {
                self.streams.has_passed(bytes.len());
                // Fails when the stream is gone, which the next call tells.
                let _gone = receiving.flow_control().release_capacity(bytes.len());
                Some(Ok(bytes))
            }
            Some(Err(error)) => Some(Err(match error.reason() {
                Some(Reason::PROTOCOL_ERROR) if error.is_library() => Gone::WrongLength,
                _ => Gone::Closed,
            })),
        })
    }

    fn poll_reset(&self, context: &mut Context<'_>) -> Poll<()> {
        match &mut *self.sending.borrow_mut() {
            Sending::Awaiting(respond) => respond.poll_reset(context).map(drop),
            Sending::Begun(body) => body.poll_reset(context).map(drop),
        }
    }

    fn send_interim(&self, status: u16, lines: &[u8]) -> u64 {
        let Sending::Awaiting(respond) = &mut *self.sending.borrow_mut() else {
            return 0;
        };
        let Ok(status) = http::StatusCode::from_u16(status) else {
            return 0;
        };
        let mut head = http::Response::new(());
        *head.status_mut() = status;
        fields::add_lines(lines, head.headers_mut());
        let length = fields::length(head.headers());
        match respond.send_informational(head) {
            Ok(()) => length,
            Err(_) => 0,
        }
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn name(&self, tls: bool) -> &'static str {
        match tls {
            true => "h2",
            false => "h2c",
        }
    }
}
