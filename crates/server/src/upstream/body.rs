//! The body of an upstream's response on its way to the client. It is read as fast as the upstream sends, into memory and
//! then a temporary file, so that a slow client does not hold the upstream; or, without buffering, as the client takes it.

use super::line::Line;
use crate::http::body::{BodyError, BodyStream, Chunk};
use crate::http::request::Client;
use crate::http::temp_file::{TempFile, TempPath};
use crate::http::thread;
use crate::http::trace::{Attempt, Late, Severity};
use crate::net::Timer;
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll};
use sys::errno::Errno;
use wire::fastcgi::{self, Event};
use wire::http1::chunked;

/// Bytes that are read from a temporary file at once.
const FILE_PIECE: u64 = 64 * 1024;
/// Reads from an upstream before other connections of the thread have their turn.
const READS_MAX: u32 = 16;

/// How the end of a body is found.
pub enum Framing {
    /// So many bytes are still to come.
    Length(u64),
    Chunked(Box<chunked::Decoder>),
    /// The upstream closes, or ends the stream.
    UntilClose,
    /// Records; with Content-Length the bytes still to come. A program that was not asked to `keep` the connection may
    /// end the response by closing it.
    FastCgi {
        decoder: Box<fastcgi::Decoder>,
        left: Option<u64>,
        keep: bool,
    },
}

/// What a body is told beyond its framing.
pub struct Limits {
    pub buffering: bool,
    /// Bytes kept in memory.
    pub memory: u64,
    /// Bytes kept in a temporary file.
    pub file: u64,
    pub temp: TempPath,
    /// The fields behind the body are for the client, too.
    pub pass_trailers: bool,
    /// Who waits for this: its end is the end of this, too.
    pub client: Option<Client>,
    pub read_timeout_ms: u64,
    /// Bytes per second read from the upstream; 0: no limit.
    pub rate: u64,
}

/// What is done when a body was read to its end, or will not be: then it is dropped without `complete`.
pub trait Ending {
    /// The response is whole; the connection can serve another request if it is `clean`.
    fn complete(&mut self, line: Line, clean: bool);
    /// A piece of the body, in order.
    fn saw(&mut self, _: &[u8]) {}
}

enum State {
    Reading,
    Whole,
    Failed(String),
}

/// What a read has come to.
enum Progress {
    More,
    /// The response is whole. The connection can go on if `clean`.
    Whole {
        clean: bool,
    },
    Broken(String),
}

/// A response's body.
pub struct UpstreamBody {
    line: Option<Line>,
    framing: Framing,
    store: Store,
    ending: Box<dyn Ending>,
    attempt: Rc<Attempt>,
    timer: Timer,
    waiting: bool,
    state: State,
    read_timeout_ms: u64,
    pass_trailers: bool,
    client: Option<Client>,
    rate: u64,
    /// The rate allows no read now.
    paused: bool,
    started_ms: u64,
    taken: u64,
}

/// What was read and not yet taken.
struct Store {
    late: Rc<Late>,
    buffering: bool,
    memory: VecDeque<Bytes>,
    memory_bytes: u64,
    memory_max: u64,
    spill: Option<Spill>,
    /// 0: no file, or none any more.
    file_max: u64,
    temp: TempPath,
    /// The file could not take a piece: what follows would come before it.
    broken: Option<String>,
}

struct Spill {
    file: TempFile,
    read: u64,
}

impl Store {
    fn keep(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let unread = self.unread();
        let to_file = unread || (self.memory_bytes >= self.memory_max && self.takes_file());
        if to_file && self.write(bytes) {
            return;
        }
        self.memory_bytes += bytes.len() as u64;
        self.memory.push_back(Bytes::copy_from_slice(bytes));
    }

    /// Whether something in the file waits to be read: what comes must follow it there.
    fn unread(&self) -> bool {
        self.spill
            .as_ref()
            .is_some_and(|spill| spill.read < spill.file.length)
    }

    fn takes_file(&self) -> bool {
        self.buffering && self.file_max > 0
    }

    /// Appends to the file; false if there is none to be had. One that fails breaks the response.
    fn write(&mut self, bytes: &[u8]) -> bool {
        let spill = match &mut self.spill {
            Some(spill) => spill,
            None => match self.temp.create() {
                Ok(file) => {
                    let path = file.path.display();
                    let text = format!(
                        "an upstream response is buffered to a temporary file {path} while reading upstream"
                    );
                    self.late.say(Severity::Warning, text);
                    self.spill.insert(Spill { file, read: 0 })
                }
                Err((path, error)) => {
                    let (path, reason) = (path.display(), Errno(&error));
                    let text =
                        format!("open() \"{path}\" failed ({reason}) while reading upstream");
                    self.late.say(Severity::Critical, text);
                    self.file_max = 0;
                    return false;
                }
            },
        };
        match spill.file.write(bytes) {
            Ok(()) => true,
            Err(error) => {
                let (path, reason) = (spill.file.path.display(), Errno(&error));
                self.broken = Some(format!("pwritev() \"{path}\" failed ({reason})"));
                true
            }
        }
    }

    fn is_full(&self) -> bool {
        let written = self.spill.as_ref().map_or(0, |spill| spill.file.length);
        if self.unread() {
            return written >= self.file_max;
        }
        self.memory_bytes >= self.memory_max && (!self.takes_file() || written >= self.file_max)
    }

    /// The next piece, in the order they came.
    fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        // What is in the file came after what is in memory.
        let from_file = self
            .spill
            .as_mut()
            .filter(|spill| spill.read < spill.file.length)
            .filter(|_| self.memory.is_empty());
        let Some(spill) = from_file else {
            let piece = self.memory.pop_front()?;
            self.memory_bytes -= piece.len() as u64;
            return Some(Ok(piece));
        };
        let count = (spill.file.length - spill.read).min(FILE_PIECE);
        let mut piece = vec![0; count as usize];
        match sys::io::pread(&spill.file.file.fd, &mut piece, spill.read) {
            Ok(read) if read > 0 => {
                spill.read += read as u64;
                piece.truncate(read);
                Some(Ok(Bytes::from(piece)))
            }
            Ok(_) => Some(Err(BodyError {
                reason: format!("\"{}\" was truncated", spill.file.path.display()),
            })),
            Err(error) => Some(Err(BodyError {
                reason: format!("pread() failed ({})", Errno(&error)),
            })),
        }
    }
}

impl UpstreamBody {
    pub fn new(
        line: Line,
        framing: Framing,
        limits: Limits,
        ending: Box<dyn Ending>,
        attempt: Rc<Attempt>,
        late: Rc<Late>,
    ) -> UpstreamBody {
        UpstreamBody {
            line: Some(line),
            framing,
            store: Store {
                late,
                buffering: limits.buffering,
                memory: VecDeque::new(),
                memory_bytes: 0,
                memory_max: limits.memory,
                spill: None,
                file_max: limits.file,
                temp: limits.temp,
                broken: None,
            },
            ending,
            attempt,
            timer: Timer::default(),
            waiting: false,
            state: State::Reading,
            read_timeout_ms: limits.read_timeout_ms,
            pass_trailers: limits.pass_trailers,
            client: limits.client,
            rate: limits.rate,
            paused: false,
            started_ms: thread::monotonic_ms(),
            taken: 0,
        }
    }

    /// Takes the bytes that came with the head; a body without any is whole with that.
    pub fn begin(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        let progress = self.decode(bytes);
        self.settle(progress);
    }

    /// Takes bytes that came with the head of a program's response and were unwrapped with it.
    pub fn begin_unwrapped(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        let mut own = bytes;
        if let Framing::FastCgi {
            left: Some(left), ..
        } = &mut self.framing
        {
            let taken = (bytes.len() as u64).min(*left);
            *left -= taken;
            let (data, beyond) = bytes.split_at(taken as usize);
            own = data;
            let _told = self.nothing_beyond(beyond);
        }
        self.keep(own);
    }

    /// The whole body, if it is here already.
    pub fn take_whole(&mut self) -> Option<Bytes> {
        let has_trailers = self.pass_trailers && !self.store.late.trailers.borrow().is_empty();
        if !matches!(self.state, State::Whole) || self.store.spill.is_some() || has_trailers {
            return None;
        }
        self.store.memory_bytes = 0;
        match self.store.memory.len() {
            0 => Some(Bytes::new()),
            1 => self.store.memory.pop_front(),
            _ => {
                let mut whole = BytesMut::new();
                for piece in self.store.memory.drain(..) {
                    whole.extend_from_slice(&piece);
                }
                Some(whole.freeze())
            }
        }
    }

    /// Reads what the upstream has sent. Ready when the response is whole or will not be; pending when nothing more is
    /// there, or no room.
    pub fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<()> {
        for _ in 0..READS_MAX {
            if !matches!(self.state, State::Reading) {
                return Poll::Ready(());
            }
            if self.store.is_full() {
                return Poll::Pending;
            }
            if self.paused && self.timer.poll_expired(context).is_pending() {
                return Poll::Pending;
            }
            self.paused = false;
            if self.read_once(context).is_pending() {
                return Poll::Pending;
            }
        }
        // Others have their turn; this goes on in the next one.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn read_once(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(line) = self.line.take() else {
            self.fail("upstream connection is gone".into());
            return Poll::Ready(());
        };
        let polled = line.poll_read(context, |bytes| match bytes {
            [] => None,
            bytes => Some((bytes.len() as u64, self.decode(bytes))),
        });
        self.line = Some(line);
        match polled {
            Poll::Pending => {
                if !std::mem::replace(&mut self.waiting, true) {
                    self.timer.set(self.read_timeout_ms);
                }
                if self.timer.poll_expired(context).is_pending() {
                    return Poll::Pending;
                }
                self.fail("upstream timed out (110: Connection timed out)".into());
            }
            Poll::Ready(Ok(Some((read, progress)))) => {
                self.waiting = false;
                self.taken += read;
                let received = &self.attempt.bytes_received;
                received.set(received.get() + read);
                self.count(read as usize);
                self.settle(progress);
                self.keep_to_rate();
            }
            Poll::Ready(Ok(None)) => match self.framing {
                Framing::UntilClose => self.settle(Progress::Whole { clean: false }),
                Framing::FastCgi { left, keep, .. }
                    if left == Some(0) || (left.is_none() && !keep) =>
                {
                    self.settle(Progress::Whole { clean: false });
                }
                _ => self.fail("upstream prematurely closed connection".into()),
            },
            Poll::Ready(Err(error)) => self.fail(format!("recv() failed ({})", Errno(&error))),
        }
        Poll::Ready(())
    }

    /// `proxy_limit_rate`: waits until what was read fits the rate.
    fn keep_to_rate(&mut self) {
        if self.rate == 0 || !matches!(self.state, State::Reading) {
            return;
        }
        let due_ms = self.taken.saturating_mul(1000) / self.rate;
        let elapsed_ms = thread::monotonic_ms().saturating_sub(self.started_ms);
        if due_ms > elapsed_ms {
            self.timer.set(due_ms - elapsed_ms);
            self.paused = true;
        }
    }

    fn fail(&mut self, reason: String) {
        let text = format!("{reason} while reading upstream");
        self.store.late.say(Severity::Error, text);
        self.state = State::Failed(reason);
        self.line = None;
        self.attempt.end();
    }

    /// Nobody wants the rest.
    fn give_up(&mut self) {
        self.client = None;
        let reason = "client prematurely closed connection, so upstream connection is closed too";
        let text = format!("epoll_wait() reported that {reason} while sending to client");
        self.store.late.say(Severity::Info, text);
        self.state = State::Failed(reason.into());
        self.line = None;
        self.attempt.end();
    }

    fn settle(&mut self, progress: Progress) {
        if let Some(reason) = self.store.broken.take() {
            return self.fail(reason);
        }
        match progress {
            Progress::More => {}
            Progress::Broken(reason) => self.fail(reason),
            Progress::Whole { clean } => {
                self.state = State::Whole;
                self.attempt.end();
                self.timer.clear();
                if let Some(line) = self.line.take() {
                    let clean = clean || line.ends_well(&self.store.late);
                    self.ending.complete(line, clean);
                }
            }
        }
    }

    /// Counts bytes of the body as they came, framing and all, as nginx does.
    fn count(&self, bytes: usize) {
        let length = &self.attempt.response_length;
        length.set(length.get() + bytes as u64);
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.ending.saw(bytes);
        self.store.keep(bytes);
    }

    /// Takes the body's bytes out of what came.
    fn decode(&mut self, bytes: &[u8]) -> Progress {
        match &mut self.framing {
            Framing::UntilClose => {
                self.keep(bytes);
                Progress::More
            }
            Framing::Length(left) => {
                let taken = (bytes.len() as u64).min(*left);
                *left -= taken;
                let is_whole = *left == 0;
                let (own, beyond) = bytes.split_at(taken as usize);
                self.keep(own);
                match is_whole {
                    true => Progress::Whole {
                        clean: self.nothing_beyond(beyond),
                    },
                    false => Progress::More,
                }
            }
            Framing::Chunked(_) => self.decode_chunks(bytes),
            Framing::FastCgi { .. } => self.decode_records(bytes),
        }
    }

    /// Whether nothing follows the response. What does is dropped, and the connection with it.
    fn nothing_beyond(&mut self, bytes: &[u8]) -> bool {
        if !bytes.is_empty() {
            let text = "upstream sent more data than specified in \"Content-Length\" header while reading upstream";
            self.store.late.say(Severity::Warning, text);
        }
        bytes.is_empty()
    }

    fn decode_chunks(&mut self, mut bytes: &[u8]) -> Progress {
        loop {
            let Framing::Chunked(decoder) = &mut self.framing else {
                return Progress::More;
            };
            let Ok(step) = decoder.decode(bytes) else {
                return Progress::Broken("upstream sent invalid chunked response".into());
            };
            if step.done {
                let fields = chunked::trailer_fields(decoder.trailers());
                let fields = fields.map(|(name, value)| {
                    (Bytes::copy_from_slice(name), Bytes::copy_from_slice(value))
                });
                let trailers = fields.collect();
                self.store.late.trailers.replace(trailers);
                return Progress::Whole {
                    clean: step.consumed == bytes.len(),
                };
            }
            let (data, consumed) = (step.data, step.consumed);
            self.keep(&bytes[data]);
            bytes = &bytes[consumed..];
            if bytes.is_empty() || consumed == 0 {
                return Progress::More;
            }
        }
    }

    fn decode_records(&mut self, mut bytes: &[u8]) -> Progress {
        loop {
            let Framing::FastCgi { decoder, left, .. } = &mut self.framing else {
                return Progress::More;
            };
            let step = match decoder.decode(bytes) {
                Ok(step) => step,
                Err(error) => return Progress::Broken(format!("upstream sent {error}")),
            };
            match step.event {
                Event::More => return Progress::More,
                Event::Stdout(range) => {
                    let mut data = &bytes[range];
                    let mut beyond: &[u8] = &[];
                    if let Some(left) = left {
                        let taken = (data.len() as u64).min(*left);
                        *left -= taken;
                        (data, beyond) = data.split_at(taken as usize);
                    }
                    self.keep(data);
                    let _told = self.nothing_beyond(beyond);
                }
                Event::Stderr(range) => {
                    let text = String::from_utf8_lossy(&bytes[range]);
                    let text = text.trim_end_matches(['\r', '\n']);
                    let text = format!("FastCGI sent in stderr: \"{text}\" while reading upstream");
                    self.store.late.say(Severity::Error, text);
                }
                Event::StdoutEnd => {}
                Event::End { .. } => {
                    if left.is_some_and(|left| left > 0) {
                        return Progress::Broken(
                            "upstream prematurely closed FastCGI stdout".into(),
                        );
                    }
                    return Progress::Whole {
                        clean: step.consumed == bytes.len(),
                    };
                }
            }
            bytes = &bytes[step.consumed..];
        }
    }
}

impl BodyStream for UpstreamBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        loop {
            if let Some(piece) = self.store.next() {
                let flush = !self.store.buffering;
                return Poll::Ready(Some(piece.map(|bytes| Chunk { bytes, flush })));
            }
            match &self.state {
                State::Whole => return Poll::Ready(None),
                State::Failed(reason) => {
                    let reason = reason.clone();
                    return Poll::Ready(Some(Err(BodyError { reason })));
                }
                State::Reading => {}
            }
            let before = self.store.memory_bytes;
            if self.poll_receive(context).is_pending() && self.store.memory_bytes == before {
                let gone = self
                    .client
                    .as_ref()
                    .is_some_and(|client| client.poll_ended(context).is_ready());
                if !gone {
                    return Poll::Pending;
                }
                self.give_up();
            }
        }
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) {
        if self.store.buffering {
            let _later = self.poll_receive(context);
        }
    }

    fn trailers(&mut self) -> Vec<(Bytes, Bytes)> {
        match self.pass_trailers {
            true => self.store.late.trailers.borrow().clone(),
            false => Vec::new(),
        }
    }
}
