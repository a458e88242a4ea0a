//! A response that is coming: one task writes it to the store as its upstream sends it, and whoever wants it reads along,
//! on whatever thread. If the disk takes no more, the rest goes through memory at the pace of the slowest reader, so that
//! nobody's response breaks off; it is not kept then.

use super::entry::Entry;
use super::flight::Lead;
use super::zone::{MEMORY_BODY_MAX, Zone};
use crate::http::body::{BodyError, BodyStream, Chunk};
use crate::store::Writer;
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::fs::File;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Bytes that are read at once.
const PIECE: u64 = 64 * 1024;
/// Bytes in memory for readers where the disk takes none.
const MEMORY_MAX: u64 = 1 << 20;

#[derive(Debug, Clone)]
enum End {
    Whole,
    Broken(String),
}

struct Inner {
    /// Bytes of the body that are in the file.
    written: u64,
    /// What comes behind these, where the disk took no more.
    rest: VecDeque<Bytes>,
    /// Where `rest` begins and ends.
    rest_from: u64,
    rest_until: u64,
    end: Option<End>,
    /// Where each reader stands; `None`: the place is free.
    readers: Vec<Option<u64>>,
    waiting: Vec<Waker>,
    /// The task that fetches, while it waits for room.
    paused: Option<Waker>,
}

/// A response that is coming.
pub struct Fill {
    /// Head and freshness; its body is here.
    pub entry: Arc<Entry>,
    pub length: Option<u64>,
    file: Option<File>,
    offset: u64,
    inner: Mutex<Inner>,
}

impl Fill {
    /// The body goes to `file` from `offset` on.
    #[must_use]
    pub fn new(
        entry: Arc<Entry>,
        length: Option<u64>,
        file: Option<File>,
        offset: u64,
    ) -> Arc<Fill> {
        Arc::new(Fill {
            entry,
            length,
            file,
            offset,
            inner: Mutex::new(Inner {
                written: 0,
                rest: VecDeque::new(),
                rest_from: 0,
                rest_until: 0,
                end: None,
                readers: Vec::new(),
                waiting: Vec::new(),
                paused: None,
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many more bytes are in the file.
    pub fn wrote(&self, bytes: u64) {
        let mut inner = self.lock();
        inner.written += bytes;
        inner.rest_from = inner.written;
        inner.rest_until = inner.written;
        wake(inner);
    }

    /// The disk takes no more: a piece for those who read along.
    pub fn keep(&self, bytes: Bytes) {
        let mut inner = self.lock();
        inner.rest_until += bytes.len() as u64;
        inner.rest.push_back(bytes);
        wake(inner);
    }

    pub fn complete(&self) {
        self.end(End::Whole);
    }

    pub fn fail(&self, reason: String) {
        self.end(End::Broken(reason));
    }

    fn end(&self, end: End) {
        let mut inner = self.lock();
        if inner.end.is_none() {
            inner.end = Some(end);
        }
        wake(inner);
    }

    /// Ready when there is room for more in memory; false when nobody reads any more.
    pub fn poll_room(&self, context: &Context<'_>) -> Poll<bool> {
        let mut inner = self.lock();
        let slowest = inner.readers.iter().flatten().min().copied();
        let Some(slowest) = slowest else {
            return Poll::Ready(false);
        };
        while let Some(first) = inner.rest.front().map(|first| first.len() as u64) {
            if inner.rest_from + first > slowest {
                break;
            }
            inner.rest_from += first;
            inner.rest.pop_front();
        }
        if inner.rest_until - inner.rest_from < MEMORY_MAX {
            return Poll::Ready(true);
        }
        inner.paused = Some(context.waker().clone());
        Poll::Pending
    }

    /// Reads along from the beginning.
    #[must_use]
    pub fn reader(self: &Arc<Self>) -> Reader {
        let mut inner = self.lock();
        let free = inner.readers.iter().position(Option::is_none);
        // Who comes too late for what is no longer there is told so when it reads.
        let number = match free {
            Some(number) => number,
            None => {
                inner.readers.push(None);
                inner.readers.len() - 1
            }
        };
        if let Some(place) = inner.readers.get_mut(number) {
            *place = Some(0);
        }
        drop(inner);
        Reader {
            fill: Arc::clone(self),
            number,
            at: 0,
        }
    }

    fn read_file(&self, at: u64, count: u64) -> Result<Bytes, String> {
        let mut piece = vec![0; count as usize];
        let Some(file) = &self.file else {
            return Err("there is no file".into());
        };
        match sys::io::pread(file, &mut piece, self.offset + at) {
            Ok(0) => Err("the cache file was truncated".into()),
            Ok(read) => {
                piece.truncate(read);
                Ok(Bytes::from(piece))
            }
            Err(error) => Err(format!("pread() failed ({})", sys::errno::Errno(&error))),
        }
    }
}

fn wake(mut inner: MutexGuard<'_, Inner>) {
    let waiting = std::mem::take(&mut inner.waiting);
    drop(inner);
    waiting.into_iter().for_each(Waker::wake);
}

/// Reads along with a response that is coming.
pub struct Reader {
    fill: Arc<Fill>,
    number: usize,
    at: u64,
}

impl Reader {
    fn moved(&mut self, bytes: u64) {
        self.at += bytes;
        let mut inner = self.fill.lock();
        if let Some(place) = inner.readers.get_mut(self.number) {
            *place = Some(self.at);
        }
        let paused = inner.paused.take();
        drop(inner);
        if let Some(waker) = paused {
            waker.wake();
        }
    }
}

impl BodyStream for Reader {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let broken = |reason: String| Poll::Ready(Some(Err(BodyError { reason })));
        let (written, whole) = {
            let mut inner = self.fill.lock();
            if self.at >= inner.written {
                let mut from = inner.rest_from;
                for piece in &inner.rest {
                    if from == self.at {
                        let bytes = piece.clone();
                        drop(inner);
                        self.moved(bytes.len() as u64);
                        return Poll::Ready(Some(Ok(Chunk {
                            bytes,
                            flush: false,
                        })));
                    }
                    from += piece.len() as u64;
                }
                if self.at < inner.rest_from {
                    return broken("the response was not kept".into());
                }
                match &inner.end {
                    Some(End::Whole) => return Poll::Ready(None),
                    Some(End::Broken(reason)) => return broken(reason.clone()),
                    None => {}
                }
                if !(inner.waiting.iter()).any(|waker| waker.will_wake(context.waker())) {
                    inner.waiting.push(context.waker().clone());
                }
                return Poll::Pending;
            }
            (inner.written, inner.end.is_some())
        };
        let count = (written - self.at).min(PIECE);
        match self.fill.read_file(self.at, count) {
            Ok(bytes) => {
                self.moved(bytes.len() as u64);
                let flush = !whole && self.at >= written;
                Poll::Ready(Some(Ok(Chunk { bytes, flush })))
            }
            Err(reason) => broken(reason),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut inner = self.fill.lock();
        if let Some(place) = inner.readers.get_mut(self.number) {
            *place = None;
        }
        let paused = inner.paused.take();
        drop(inner);
        if let Some(waker) = paused {
            waker.wake();
        }
    }
}

/// The task that fetches a response.
pub struct Fetching {
    pub zone: Arc<Zone>,
    pub fill: Arc<Fill>,
    /// None once the disk has refused.
    pub writer: Option<Writer>,
    pub lead: Option<Lead>,
}

impl Fetching {
    /// Reads the response to its end.
    pub async fn run(mut self, mut stream: Box<dyn BodyStream>) {
        let mut small: Option<BytesMut> = Some(BytesMut::new());
        loop {
            let chunk = match poll_fn(|context| stream.poll_chunk(context)).await {
                Some(Ok(chunk)) => chunk.bytes,
                Some(Err(error)) => return self.fill.fail(error.reason),
                None => break,
            };
            if let Some(bytes) = &mut small {
                bytes.extend_from_slice(&chunk);
                if bytes.len() as u64 > MEMORY_BODY_MAX {
                    small = None;
                }
            }
            self.write(&chunk);
            if self.writer.is_none() {
                self.fill.keep(chunk);
                if !poll_fn(|context| self.fill.poll_room(context)).await {
                    return self.fill.fail("the response could not be kept".into());
                }
            }
        }
        self.settle(small.map(BytesMut::freeze));
        self.fill.complete();
    }

    fn write(&mut self, bytes: &[u8]) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        match writer.write(bytes) {
            Ok(()) => self.fill.wrote(bytes.len() as u64),
            Err(error) => {
                self.zone.complain("write", &error);
                self.writer = None;
                if let Some(lead) = self.lead.take() {
                    lead.refuse();
                }
            }
        }
    }

    /// The response is whole: it takes its place.
    fn settle(&mut self, body: Option<Bytes>) {
        let Some(writer) = self.writer.take() else {
            return;
        };
        let entry = match body {
            None => Arc::clone(&self.fill.entry),
            some => {
                let whole = &self.fill.entry;
                match Entry::new(whole.text.clone(), whole.facts.clone(), some) {
                    Some(entry) => Arc::new(entry),
                    None => return,
                }
            }
        };
        match writer.finish(&self.zone.store) {
            Ok(slot) => self.zone.adopt_written(&entry, slot),
            Err(error) => self.zone.complain("write", &error),
        }
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        // A task that was given up; after its end this changes nothing.
        self.fill.fail("the fetch was given up".into());
    }
}
