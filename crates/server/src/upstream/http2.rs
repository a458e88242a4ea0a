//! HTTP/2 to upstreams (`proxy_http_version 2`, RFC 9113): a connection by the h2 crate, which carries one exchange after
//! another, as in nginx. A task of the thread reads and writes it, so that it answers pings and hears farewells while it is
//! kept.

mod message; // heads of HTTP/1, and back
mod socket; // between the library and the socket

use super::early_hints;
use super::failure::{Failure, Stage};
use super::receive::{Answer, From};
use super::response_head;
use super::send::{NotSent, Sender};
use super::settings::{Family, Settings};
use crate::http::trace::Attempt;
use crate::http::{Interrupt, Request};
use crate::log::error::{Level, write_request};
use crate::net::{Stream, Timer};
use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use socket::Socket;
use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use tokio::task::AbortHandle;
use wire::http1::response::Parser;

/// What an upstream may send of a response's body that nobody has taken yet.
const WINDOW: u32 = 256 * 1024;
/// Bytes of a response's fields as HTTP/2 counts them; what `proxy_buffer_size` says is looked at then.
const FIELDS_MAX: u64 = 64 * 1024;

/// A connection, and the exchange on it.
pub struct Connection {
    requests: SendRequest<Bytes>,
    task: AbortHandle,
    body: RefCell<Option<RecvStream>>,
    trailers: RefCell<Vec<(Bytes, Bytes)>>,
    /// The rest of a request whose response has begun.
    upload: RefCell<Option<Upload>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Nothing is under way that anybody waits for: the upstream sees the connection end.
        self.task.abort();
    }
}

impl Connection {
    /// Begins to speak HTTP/2 on a connection that stands. Whether the upstream does so too is seen at the first response.
    pub async fn open(stream: Stream, settings: &Settings) -> Result<Connection, Failure> {
        let fields_max = u32::try_from(settings.buffer_size.max(FIELDS_MAX)).unwrap_or(u32::MAX);
        let (requests, connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_header_list_size(fields_max)
            .handshake(Socket::new(stream))
            .await
            .map_err(|error| failure(error, Stage::Connecting))?;
        let task = tokio::task::spawn_local(async move {
            // The streams on it hear what ended it.
            let _ended = connection.await;
        });
        Ok(Connection {
            requests,
            task: task.abort_handle(),
            body: RefCell::default(),
            trailers: RefCell::default(),
            upload: RefCell::default(),
        })
    }

    /// Whether another request may be sent.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let asked = self.requests.clone().poll_ready(&mut context);
        !self.task.is_finished()
            && self.upload.borrow().is_none()
            && matches!(asked, Poll::Ready(Ok(())))
    }

    /// Makes ready for the next exchange: what is left of the last one is given up.
    pub fn clear(&self) {
        self.body.take();
        self.upload.take();
        self.trailers.take();
    }

    /// The fields that came behind the body.
    #[must_use]
    pub fn take_trailers(&self) -> Vec<(Bytes, Bytes)> {
        self.trailers.take()
    }

    /// Takes the next piece of the body; an empty slice is its end.
    pub fn poll_read<T>(
        &self,
        context: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<T>> {
        self.poll_upload(context);
        let mut body = self.body.borrow_mut();
        let Some(stream) = &mut *body else {
            return Poll::Ready(Ok(take(&[])));
        };
        loop {
            match ready!(stream.poll_data(context)) {
                Some(Ok(piece)) if piece.is_empty() => {}
                Some(Ok(piece)) => {
                    // Fails only where more is given back than was taken.
                    let _known = stream.flow_control().release_capacity(piece.len());
                    return Poll::Ready(Ok(take(&piece)));
                }
                Some(Err(error)) => return Poll::Ready(Err(io_error(error))),
                None => break,
            }
        }
        if let Some(fields) = ready!(stream.poll_trailers(context)).map_err(io_error)? {
            let copied = fields.iter().map(|(name, value)| {
                let name = Bytes::copy_from_slice(name.as_str().as_bytes());
                (name, Bytes::copy_from_slice(value.as_bytes()))
            });
            self.trailers.replace(copied.collect());
        }
        *body = None;
        Poll::Ready(Ok(take(&[])))
    }

    /// Sends on what was not sent before the response began.
    fn poll_upload(&self, context: &mut Context<'_>) {
        let mut place = self.upload.borrow_mut();
        while let Some(upload) = &mut *place {
            match upload.poll_step(context, None) {
                Poll::Pending => return,
                Poll::Ready(Ok(true)) => {}
                // An upstream that has answered needs no more of it.
                Poll::Ready(Ok(false) | Err(_)) => *place = None,
            }
        }
    }

    /// Whether nothing follows the head that came.
    #[must_use]
    pub fn has_no_body(&self) -> bool {
        (self.body.borrow().as_ref()).is_none_or(RecvStream::is_end_stream)
    }
}

/// A request's body on its way.
struct Upload {
    sender: Sender,
    stream: SendStream<Bytes>,
    piece: Bytes,
    /// Nothing follows the piece.
    last: bool,
    /// The piece waits for the upstream, not for whoever makes it.
    blocked: bool,
}

impl Upload {
    /// Sends or fetches a piece. False: all was sent, or the upstream wants no more.
    fn poll_step(
        &mut self,
        context: &mut Context<'_>,
        request: Option<&mut Request>,
    ) -> Poll<Result<bool, NotSent>> {
        self.blocked = false;
        if self.piece.is_empty() && !self.last {
            (self.piece, self.last) = ready!(self.sender.poll_piece(request, context))?;
        }
        if self.piece.is_empty() {
            if self.last {
                // It fails where the stream has ended already.
                let _ended = self.stream.send_data(Bytes::new(), true);
            }
            return Poll::Ready(Ok(!self.last));
        }
        let mut room = self.stream.capacity();
        if room == 0 {
            self.stream.reserve_capacity(self.piece.len());
            self.blocked = true;
            room = self.stream.capacity();
        }
        while room == 0 {
            match ready!(self.stream.poll_capacity(context)) {
                Some(Ok(more)) => room = more,
                // The response says why.
                Some(Err(_)) | None => return Poll::Ready(Ok(false)),
            }
        }
        self.blocked = false;
        let now = self.piece.split_to(room.min(self.piece.len()));
        let ends = self.last && self.piece.is_empty();
        let sent = self.stream.send_data(now, ends);
        Poll::Ready(Ok(sent.is_ok() && !ends))
    }
}

/// What an exchange is made with.
pub struct Terms<'a> {
    pub client: &'a Connection,
    /// The head as HTTP/1 has it, and what `proxy_set_body` put behind it.
    pub head: &'a [u8],
    pub settings: &'a Settings,
    pub attempt: &'a Attempt,
}

/// Sends a request, and waits for the head of the response. `body` makes the body, unless one stands behind the head.
pub async fn exchange(
    terms: Terms<'_>,
    request: &mut Request,
    body: impl FnOnce(Vec<u8>) -> Sender,
    timer: &mut Timer,
) -> Result<Answer, NotSent> {
    let https = (request.proxied.as_ref()).is_some_and(|proxied| proxied.https);
    let outgoing = message::request(terms.head, https).map_err(|error| {
        write_request(
            request,
            Level::Error,
            format_args!("{error} in a request for HTTP/2"),
        );
        NotSent::Interrupt(Interrupt::Status(500))
    })?;
    terms.client.clear();
    let sender = body(outgoing.body.to_vec());
    let is_all = sender.is_empty();
    let sent = &terms.attempt.bytes_sent;
    sent.set(sent.get() + terms.head.len() as u64);
    let mut requests = terms.client.requests.clone();
    let (response, stream) = requests
        .send_request(outgoing.request, is_all)
        .map_err(|error| NotSent::Failure(failure(error, Stage::Sending)))?;
    let upload = Upload {
        sender,
        stream,
        piece: Bytes::new(),
        last: false,
        blocked: false,
    };
    let mut waiting = Waiting {
        upload: (!is_all).then_some(upload),
        response,
        came: None,
        limit: Cell::new(None),
    };
    let shaken = waiting.head(&terms, request, timer).await;
    timer.clear();
    shaken?;
    waiting.answer(&terms)
}

/// An exchange until the head of the response is there.
struct Waiting {
    upload: Option<Upload>,
    response: ResponseFuture,
    came: Option<http::Response<RecvStream>>,
    /// For what the timer was set.
    limit: Cell<Option<Stage>>,
}

impl Waiting {
    async fn head(
        &mut self,
        terms: &Terms<'_>,
        request: &mut Request,
        timer: &mut Timer,
    ) -> Result<(), NotSent> {
        std::future::poll_fn(|context| {
            while let Poll::Ready(done) = self.poll_step(terms, request, context) {
                self.limit.set(None);
                if done? {
                    return Poll::Ready(Ok(()));
                }
            }
            let stage = match &self.upload {
                Some(_) => Stage::Sending,
                None => Stage::ReadingHead,
            };
            let reads_client = (self.upload.as_ref()).is_some_and(|u| u.sender.reads_client());
            if !reads_client
                && terms.settings.heeds_client(request)
                && request.poll_client_ended(context).is_ready()
            {
                return Poll::Ready(Err(NotSent::Failure(Failure::ClientGone(stage))));
            }
            // While the client is slow its own timeout holds.
            if self.upload.as_ref().is_some_and(|upload| !upload.blocked) {
                return Poll::Pending;
            }
            if self.limit.replace(Some(stage)) != Some(stage) {
                timer.set(match stage {
                    Stage::Sending => terms.settings.send_timeout_ms,
                    _ => terms.settings.read_timeout_ms,
                });
            }
            timer
                .poll_expired(context)
                .map(|()| Err(NotSent::Failure(Failure::TimedOut(stage))))
        })
        .await
    }

    /// Ready when something has moved; true when the response is to be passed on.
    fn poll_step(
        &mut self,
        terms: &Terms<'_>,
        request: &mut Request,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool, NotSent>> {
        if self.came.is_none() {
            let failed = |error| NotSent::Failure(failure(error, Stage::ReadingHead));
            match self.response.poll_informational(context) {
                Poll::Ready(Some(Ok(interim))) => {
                    pass_hints(request, &interim);
                    return Poll::Ready(Ok(false));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(failed(error))),
                Poll::Ready(None) | Poll::Pending => {}
            }
            if let Poll::Ready(response) = Pin::new(&mut self.response).poll(context) {
                self.came = Some(response.map_err(failed)?);
            }
        }
        if let Some(response) = &self.came {
            // What the client has yet to send can be fetched only here; the rest goes on beside the response.
            let waits = (self.upload.as_ref()).is_some_and(|u| u.sender.reads_client());
            if !waits || response.body().is_end_stream() {
                return Poll::Ready(Ok(true));
            }
        }
        let Some(upload) = &mut self.upload else {
            return Poll::Pending;
        };
        let before = upload.piece.len();
        let more = ready!(upload.poll_step(context, Some(request)))?;
        let sent = before.saturating_sub(upload.piece.len()) as u64;
        let counted = &terms.attempt.bytes_sent;
        counted.set(counted.get() + sent);
        if !more {
            self.upload = None;
        }
        Poll::Ready(Ok(false))
    }

    fn answer(self, terms: &Terms<'_>) -> Result<Answer, NotSent> {
        let invalid = |text: String| NotSent::Failure(Failure::Invalid(text));
        let Some(response) = self.came else {
            return Err(NotSent::Failure(Failure::Closed(Stage::ReadingHead)));
        };
        let (parts, stream) = response.into_parts();
        let mut buffer = Vec::with_capacity(512);
        message::write_response(parts.status.as_u16(), &parts.headers, &mut buffer);
        let received = &terms.attempt.bytes_received;
        received.set(received.get() + buffer.len() as u64);
        let most = usize::try_from(terms.settings.buffer_size).unwrap_or(usize::MAX);
        let mut parser = Parser::new();
        let head_length = match parser.parse(&buffer, most) {
            Ok(Some(length)) => length,
            Ok(None) => return Err(invalid("upstream sent invalid header".to_owned())),
            Err(error) => return Err(invalid(error.to_string())),
        };
        let head = parser.take_head();
        response_head::check(Family::Proxy, &head, &buffer).map_err(invalid)?;
        let is_ended = stream.is_end_stream();
        terms.client.body.replace(Some(stream));
        // Who reads from the client is no longer there to be asked.
        let upload = (self.upload).filter(|upload| !upload.sender.reads_client() && !is_ended);
        terms.client.upload.replace(upload);
        Ok(Answer {
            buffer,
            head_length,
            head,
            from: From::Http2 {
                no_body: terms.client.has_no_body(),
            },
            is_early: false,
        })
    }
}

fn pass_hints(request: &Request, interim: &http::Response<()>) {
    let mut text = Vec::new();
    message::write_response(interim.status().as_u16(), interim.headers(), &mut text);
    let mut parser = Parser::new();
    if let Ok(Some(_)) = parser.parse(&text, text.len() + 1) {
        early_hints::pass(request, parser.head(), &text);
    }
}

/// What an error of the library is for the request. What the upstream says it has not begun with may be asked elsewhere.
fn failure(error: h2::Error, stage: Stage) -> Failure {
    let reason = error.reason();
    let is_unseen =
        error.is_remote() && (error.is_go_away() || reason == Some(Reason::REFUSED_STREAM));
    if is_unseen {
        return Failure::Refused(format!("upstream refused the request ({error})"));
    }
    if error.is_io() {
        return match error.into_io() {
            // What is not the system's is the library's word for the end.
            Some(error) if error.raw_os_error().is_some() => Failure::call("recv()", error, stage),
            _ => Failure::Closed(stage),
        };
    }
    match error.is_remote() {
        true => Failure::Invalid(format!("upstream rejected the request ({error})")),
        false => Failure::Invalid(format!("upstream sent invalid HTTP/2 ({error})")),
    }
}

fn io_error(error: h2::Error) -> io::Error {
    match error.is_io() {
        true => error
            .into_io()
            .unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()),
        false => io::Error::other(error),
    }
}
