//! `listen`: other programs ask the pool as they ask php-fpm. Each of their connections is served by a task of its own,
//! which reads a request, takes a child for it as the server's own requests do, and passes the records both ways.

use super::{Begun, Lease, Pool, Unavailable};
use crate::log::error::{self, Level};
use crate::net::{Stream, Timer};
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use sys::address::SocketAddress;
use wire::fastcgi::program::{self, Asked, Reader};
use wire::fastcgi::{self, Decoder, Event, Pairs, STDIN_END};

/// How long a web server may be silent within a request, in milliseconds.
const SILENCE_MAX_MS: u64 = 60_000;

/// Why a connection ends before its time.
enum Gone {
    /// The other side has closed it, or broken it off.
    Left,
    /// What it sent is no request.
    Refused(program::Refused),
    Silent,
}

impl Pool {
    /// Whether `listen.allowed_clients` lets somebody in. Other than TCP's, clients are chosen by the socket's mode.
    #[must_use]
    pub fn lets_in(&self, remote: &SocketAddress) -> bool {
        let state = self.state();
        let Some(listen) = &state.defined.settings.listen else {
            return false;
        };
        let Some(ip) = remote.ip().map(|ip| ip.to_canonical()) else {
            return true;
        };
        let same = |allowed: &IpAddr| allowed.to_canonical() == ip;
        listen.allowed.is_empty() || listen.allowed.iter().any(same)
    }

    /// Serves a connection to its end. `rests` is asked while it waits for a request: whether it is to end now.
    pub async fn serve_guest(
        self: Arc<Pool>,
        stream: Stream,
        remote: SocketAddress,
        rests: impl Fn(&Context<'_>) -> bool,
    ) {
        if !self.lets_in(&remote) {
            let (name, ip) = (&self.name, remote.ip());
            let shown = ip.map(|ip| ip.to_string()).unwrap_or_default();
            error::write(
                Level::Error,
                format_args!(
                    "[pool {name}] Connection disallowed: IP address '{shown}' has been dropped."
                ),
            );
            return;
        }
        let mut guest = Guest {
            pool: self,
            stream,
            unread: Vec::new(),
            timer: Timer::default(),
        };
        loop {
            match guest.request(&rests).await {
                Ok(true) => {}
                Ok(false) | Err(Gone::Left) => return,
                Err(Gone::Refused(why)) => return guest.complain(&why),
                Err(Gone::Silent) => return guest.complain(&"the web server is silent"),
            }
        }
    }
}

/// A connection.
struct Guest {
    pool: Arc<Pool>,
    stream: Stream,
    /// Read, and not yet looked at.
    unread: Vec<u8>,
    timer: Timer,
}

impl Guest {
    fn complain(&self, why: &dyn std::fmt::Display) {
        let name = &self.pool.name;
        error::write(
            Level::Error,
            format_args!("[pool {name}] a connection to \"listen\" ends: {why}"),
        );
    }

    /// One request; whether there may be another.
    async fn request(&mut self, rests: &impl Fn(&Context<'_>) -> bool) -> Result<bool, Gone> {
        let mut reader = Reader::default();
        if !self.read_head(&mut reader, rests).await? {
            return Ok(false);
        }
        let (id, keeps) = (reader.id(), reader.keeps());
        let mut out = Vec::new();
        let mut is_clean = false;
        match self.child(reader.params()).await? {
            Ok(Begun::Lease(lease)) => match request_head(reader.params()) {
                Some(head) => is_clean = self.relay(lease, reader, head).await?,
                None => answer(&mut out, id, &status_text(431, None)),
            },
            Ok(Begun::Answer(text)) => answer(&mut out, id, &text),
            Err(refused) => answer(&mut out, id, &self.refusal(&refused)),
        }
        if !out.is_empty() {
            // A body, if there is one, is not read: then the connection ends with the answer.
            is_clean = self.unread == STDIN_END;
            self.unread.clear();
            self.write_all(&out).await?;
        }
        Ok(keeps && is_clean)
    }

    /// Reads up to the end of the parameters; false if the connection ends between requests.
    async fn read_head(
        &mut self,
        reader: &mut Reader,
        rests: &impl Fn(&Context<'_>) -> bool,
    ) -> Result<bool, Gone> {
        loop {
            let step = reader.read(&self.unread).map_err(Gone::Refused)?;
            self.unread.drain(..step.consumed);
            match step.asked {
                Asked::More => {}
                Asked::Begun => {
                    self.timer.clear();
                    return Ok(true);
                }
                Asked::Values => {
                    let mut out = Vec::new();
                    program::values_answer(&mut out);
                    self.write_all(&out).await?;
                    *reader = Reader::default();
                    continue;
                }
                Asked::Body(_) | Asked::BodyEnd | Asked::Aborted => return Err(Gone::Left),
            }
            let is_fresh = reader.is_fresh();
            if !is_fresh {
                self.timer.set(SILENCE_MAX_MS);
            }
            let (stream, timer, unread) = (&self.stream, &mut self.timer, &mut self.unread);
            let read = poll_fn(|context| {
                let take = |bytes: &[u8]| {
                    unread.extend_from_slice(bytes);
                    !bytes.is_empty()
                };
                if let Poll::Ready(read) = stream.poll_read(context, take) {
                    return Poll::Ready(read.map_err(|_| Gone::Left));
                }
                if is_fresh {
                    return match rests(context) {
                        true => Poll::Ready(Ok(false)),
                        false => Poll::Pending,
                    };
                }
                timer.poll_expired(context).map(|()| Err(Gone::Silent))
            })
            .await?;
            match (read, is_fresh) {
                (true, _) => {}
                (false, true) => return Ok(false),
                (false, false) => return Err(Gone::Left),
            }
        }
    }

    /// A child for the request, unless the web server goes away meanwhile.
    async fn child(&self, params: &[u8]) -> Result<Result<Begun, Unavailable>, Gone> {
        let mut begun = pin!(self.pool.begin(params));
        poll_fn(|context| {
            if let Poll::Ready(begun) = begun.as_mut().poll(context) {
                return Poll::Ready(Ok(begun));
            }
            let ended = self.stream.poll_ended(context);
            ended.map(|()| Err(Gone::Left))
        })
        .await
    }

    /// What a web server is told that gets no child.
    fn refusal(&self, refused: &Unavailable) -> Vec<u8> {
        let name = &self.pool.name;
        let (what, status, retry_after) = match refused {
            Unavailable::Full { retry_after } => {
                ("its queue is full".to_owned(), 503, Some(*retry_after))
            }
            Unavailable::TooOld { retry_after } => {
                let what = "the request has waited too long".to_owned();
                (what, 503, Some(*retry_after))
            }
            Unavailable::NoChild { reason } => (format!("no worker: {reason}"), 502, None),
            Unavailable::Unusable { error } => {
                let reason = sys::errno::Errno(error).to_string();
                (format!("dup() failed ({reason})"), 500, None)
            }
        };
        error::write(
            Level::Error,
            format_args!("[pool {name}] a request from \"listen\" was refused: {what}"),
        );
        status_text(status, retry_after)
    }

    /// Passes the request to the child and its response back; whether the connection is as a next request needs it.
    async fn relay(&mut self, lease: Lease, reader: Reader, head: Vec<u8>) -> Result<bool, Gone> {
        let fate = lease.fate();
        let mut relay = Relay {
            id: reader.id(),
            reader,
            to_child: Pending::of(head),
            to_guest: Pending::default(),
            body_ended: false,
            decoder: Decoder::new(),
            status: Status::default(),
            ended: false,
            moved: true,
        };
        relay.take_body(&mut self.unread)?;
        let outcome = poll_fn(|context| {
            let Some(child) = lease.stream() else {
                return Poll::Ready(Err(Trouble::Child));
            };
            let turned = relay.turn(context, &self.stream, child, &mut self.unread);
            if turned.is_pending() && relay.waits_for_guest() {
                if std::mem::take(&mut relay.moved) {
                    self.timer.set(SILENCE_MAX_MS);
                }
                let silent = |()| Err(Trouble::Guest(Gone::Silent));
                return self.timer.poll_expired(context).map(silent);
            }
            self.timer.clear();
            relay.moved = true;
            turned
        })
        .await;
        match outcome {
            Ok(()) => {
                let is_clean = relay.body_ended && relay.to_child.is_empty();
                lease.finish(is_clean, relay.status.code());
                Ok(relay.body_ended)
            }
            // Dropped, the request counts as given up.
            Err(Trouble::Guest(gone)) => Err(gone),
            Err(Trouble::Child) => {
                drop(lease);
                if relay.status.begun {
                    // The web server sees that the response is not whole.
                    return Ok(false);
                }
                let status = if fate.was_terminated() { 504 } else { 502 };
                let mut out = Vec::new();
                answer(&mut out, relay.id, &status_text(status, None));
                self.write_all(&out).await?;
                Ok(false)
            }
        }
    }

    async fn write_all(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        let mut pending = Pending::of(bytes.to_vec());
        self.timer.set(SILENCE_MAX_MS);
        let (stream, timer) = (&self.stream, &mut self.timer);
        let written = poll_fn(|context| match pending.poll_flush(context, stream) {
            Poll::Ready(written) => Poll::Ready(written.map_err(|_| Gone::Left)),
            Poll::Pending => timer.poll_expired(context).map(|()| Err(Gone::Silent)),
        })
        .await;
        self.timer.clear();
        written
    }
}

/// The request as a child of ours reads it; `None` if its parameters do not fit a record.
fn request_head(params: &[u8]) -> Option<Vec<u8>> {
    let mut head = Vec::with_capacity(params.len() + 64);
    let mut written = fastcgi::begin(&mut head, true);
    for (name, value) in Pairs::new(params) {
        written.pair(name, value);
    }
    written.end().ok()?;
    Some(head)
}

fn answer(out: &mut Vec<u8>, id: u16, text: &[u8]) {
    program::stdout(out, id, text);
    program::end(out, id, 0);
}

fn status_text(status: u16, retry_after: Option<u64>) -> Vec<u8> {
    let line = crate::http::status::line(status).unwrap_or("500 Internal Server Error");
    let retry = retry_after.map(|seconds| format!("Retry-After: {seconds}\r\n"));
    let retry = retry.unwrap_or_default();
    format!("Status: {line}\r\n{retry}Content-type: text/html\r\n\r\n").into_bytes()
}

/// Bytes on their way out.
#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    written: usize,
}

impl Pending {
    fn of(bytes: Vec<u8>) -> Pending {
        Pending { bytes, written: 0 }
    }

    fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    /// Writes what the socket takes; ready when all is written.
    fn poll_flush(&mut self, context: &mut Context<'_>, stream: &Stream) -> Poll<io::Result<()>> {
        while let Some(rest @ [_, ..]) = self.bytes.get(self.written..) {
            match stream.try_write(&[IoSlice::new(rest)]) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    stream.clear_writable();
                    if let Poll::Ready(Err(error)) = stream.poll_writable(context) {
                        return Poll::Ready(Err(error));
                    }
                    return Poll::Pending;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.bytes.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }
}

enum Trouble {
    Guest(Gone),
    Child,
}

/// The status that a child's output begins with, for the access log.
#[derive(Default)]
struct Status {
    begun: bool,
    code: Option<u16>,
}

impl Status {
    fn see(&mut self, output: &[u8]) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let digits = output
            .strip_prefix(b"Status: ")
            .and_then(|rest| rest.get(..3));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        self.code = digits.and_then(|digits| digits.parse().ok());
    }

    fn code(&self) -> u16 {
        self.code.unwrap_or(200)
    }
}

/// A request and its response under way.
struct Relay {
    id: u16,
    reader: Reader,
    to_child: Pending,
    to_guest: Pending,
    body_ended: bool,
    decoder: Decoder,
    status: Status,
    /// The child has said that the request is over.
    ended: bool,
    /// Something has come from the web server, or gone to it.
    moved: bool,
}

impl Relay {
    fn waits_for_guest(&self) -> bool {
        !self.to_guest.is_empty() || (!self.body_ended && self.to_child.is_empty())
    }

    /// Goes on until nothing moves; ready when the response has been passed on.
    fn turn(
        &mut self,
        context: &mut Context<'_>,
        guest: &Stream,
        child: &Stream,
        unread: &mut Vec<u8>,
    ) -> Poll<Result<(), Trouble>> {
        loop {
            let mut moves = false;
            match self.to_child.poll_flush(context, child) {
                // Its answer may have come all the same.
                Poll::Ready(Err(_)) => self.to_child = Pending::default(),
                Poll::Ready(Ok(())) if !self.body_ended => {
                    moves |= self.read_body(context, guest, unread)?.is_continue();
                }
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            if self.body_ended && !self.ended && guest.poll_ended(context).is_ready() {
                return Poll::Ready(Err(Trouble::Guest(Gone::Left)));
            }
            let before = self.to_guest.written;
            let flushed = self.to_guest.poll_flush(context, guest);
            self.moved |= self.to_guest.written != before;
            match flushed {
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Trouble::Guest(Gone::Left))),
                Poll::Ready(Ok(())) if self.ended => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) => moves |= self.read_response(context, child)?.is_continue(),
                Poll::Pending => {}
            }
            if !moves {
                return Poll::Pending;
            }
        }
    }

    fn read_body(
        &mut self,
        context: &mut Context<'_>,
        guest: &Stream,
        unread: &mut Vec<u8>,
    ) -> Result<ControlFlow<()>, Trouble> {
        let take = |bytes: &[u8]| {
            unread.extend_from_slice(bytes);
            !bytes.is_empty()
        };
        match guest.poll_read(context, take) {
            Poll::Pending => Ok(ControlFlow::Break(())),
            Poll::Ready(Ok(true)) => {
                self.moved = true;
                self.take_body(unread).map_err(Trouble::Guest)?;
                Ok(ControlFlow::Continue(()))
            }
            Poll::Ready(Ok(false) | Err(_)) => Err(Trouble::Guest(Gone::Left)),
        }
    }

    /// Makes records for the child of what has come.
    fn take_body(&mut self, unread: &mut Vec<u8>) -> Result<(), Gone> {
        let mut at = 0;
        while !self.body_ended {
            let rest = unread.get(at..).unwrap_or_default();
            let step = self.reader.read(rest).map_err(Gone::Refused)?;
            match step.asked {
                Asked::More => {
                    at += step.consumed;
                    break;
                }
                Asked::Body(range) => {
                    let piece = rest.get(range).unwrap_or_default();
                    fastcgi::stdin(&mut self.to_child.bytes, piece);
                }
                Asked::BodyEnd => {
                    self.body_ended = true;
                    self.to_child.bytes.extend_from_slice(&STDIN_END);
                }
                Asked::Aborted | Asked::Begun | Asked::Values => return Err(Gone::Left),
            }
            at += step.consumed;
        }
        unread.drain(..at.min(unread.len()));
        Ok(())
    }

    fn read_response(
        &mut self,
        context: &mut Context<'_>,
        child: &Stream,
    ) -> Result<ControlFlow<()>, Trouble> {
        let read = child.poll_read(context, |bytes| match bytes {
            [] => Err(Trouble::Child),
            bytes => self.take_response(bytes),
        });
        match read {
            Poll::Pending => Ok(ControlFlow::Break(())),
            Poll::Ready(Ok(taken)) => taken.map(ControlFlow::Continue),
            Poll::Ready(Err(_)) => Err(Trouble::Child),
        }
    }

    /// Makes records for the web server of what the child said.
    fn take_response(&mut self, mut bytes: &[u8]) -> Result<(), Trouble> {
        let out = &mut self.to_guest.bytes;
        loop {
            let step = self.decoder.decode(bytes).map_err(|_| Trouble::Child)?;
            match step.event {
                Event::More => return Ok(()),
                Event::Stdout(range) => {
                    let piece = bytes.get(range).unwrap_or_default();
                    self.status.see(piece);
                    program::stdout(out, self.id, piece);
                }
                Event::Stderr(range) => {
                    program::stderr(out, self.id, bytes.get(range).unwrap_or_default());
                }
                Event::StdoutEnd => {}
                Event::End {
                    application_status, ..
                } => {
                    self.ended = true;
                    program::end(out, self.id, application_status);
                    // Bytes after the end belong to nothing: the child cannot be used again.
                    return match step.consumed == bytes.len() {
                        true => Ok(()),
                        false => Err(Trouble::Child),
                    };
                }
            }
            bytes = bytes.get(step.consumed..).unwrap_or_default();
        }
    }
}
