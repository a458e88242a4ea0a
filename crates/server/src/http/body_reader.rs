//! A body of known length as a stream: files in pieces, read without keeping the network thread waiting for a disk.

use super::Body;
use super::body::{BodyError, BodyStream, Chunk, FileRange, Part};
use bytes::Bytes;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use sys::io::Cached;
use tokio::task::JoinHandle;

/// A piece of a file being read on the blocking pool.
type Reading = JoinHandle<io::Result<Vec<u8>>>;

/// The parts of a body that are still to be read.
struct BodyReader {
    parts: VecDeque<Part>,
    /// The most that is read from a file at once.
    step: usize,
    reading: Option<Reading>,
}

/// The body as a stream whose chunks from files have at most `step` bytes; a stream stays as it is.
#[must_use]
pub fn stream(body: Body, step: usize) -> Box<dyn BodyStream> {
    let parts = match body {
        Body::Stream(stream) => return stream,
        // A tunnel is no body.
        Body::Empty | Body::Tunnel(_) => VecDeque::new(),
        Body::Memory(bytes) => VecDeque::from([Part::Memory(bytes)]),
        Body::File(range) => VecDeque::from([Part::File(range)]),
        Body::Parts(parts) => VecDeque::from(parts),
    };
    Box::new(BodyReader {
        parts,
        step: step.max(1),
        reading: None,
    })
}

/// Reads the whole of a file's piece where the page cache has it: `None` if it is not there at once, or not whole.
#[must_use]
pub fn read_at_once(range: &FileRange) -> Option<Bytes> {
    let mut buffer = vec![0; usize::try_from(range.length).ok()?];
    match sys::io::pread_cached(&range.file.fd, &mut buffer, range.offset) {
        Ok(Cached::Read(read)) if read == buffer.len() => Some(Bytes::from(buffer)),
        _ => None,
    }
}

impl BodyStream for BodyReader {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        loop {
            if let Some(reading) = &mut self.reading {
                let Poll::Ready(read) = Pin::new(reading).poll(context) else {
                    return Poll::Pending;
                };
                self.reading = None;
                let read = read.map_err(io::Error::other).and_then(|read| read);
                return Poll::Ready(Some(self.take(read)));
            }
            match self.parts.front_mut() {
                None => return Poll::Ready(None),
                Some(part) if part.is_empty() => {
                    self.parts.pop_front();
                }
                Some(Part::Memory(bytes)) => {
                    let bytes = std::mem::take(bytes);
                    self.parts.pop_front();
                    return Poll::Ready(Some(Ok(Chunk {
                        bytes,
                        flush: false,
                    })));
                }
                Some(Part::File(range)) => {
                    let length = self
                        .step
                        .min(usize::try_from(range.length).unwrap_or(self.step));
                    match read_piece(range, length) {
                        Piece::Read(read) => return Poll::Ready(Some(self.take(read))),
                        Piece::Reading(reading) => self.reading = Some(reading),
                    }
                }
            }
        }
    }
}

enum Piece {
    Read(io::Result<Vec<u8>>),
    Reading(Reading),
}

/// Reads from the page cache, or begins to read on the blocking pool.
fn read_piece(range: &FileRange, length: usize) -> Piece {
    let mut buffer = vec![0; length];
    match sys::io::pread_cached(&range.file.fd, &mut buffer, range.offset) {
        Ok(Cached::Read(read)) => {
            buffer.truncate(read);
            Piece::Read(Ok(buffer))
        }
        Err(error) => Piece::Read(Err(error)),
        Ok(Cached::Cold) => match range.file.fd.try_clone() {
            Err(error) => Piece::Read(Err(error)),
            Ok(file) => {
                let offset = range.offset;
                Piece::Reading(tokio::task::spawn_blocking(move || {
                    let read = sys::io::pread(&file, &mut buffer, offset)?;
                    buffer.truncate(read);
                    Ok(buffer)
                }))
            }
        },
    }
}

impl BodyReader {
    /// What was read of the first part is taken off it. A file that has become shorter ends the stream early.
    fn take(&mut self, read: io::Result<Vec<u8>>) -> Result<Chunk, BodyError> {
        let bytes = read.map_err(|error| BodyError {
            reason: format!("reading a file failed: {error}"),
        })?;
        if bytes.is_empty() {
            return Err(BodyError {
                reason: "the file was truncated while it was sent".to_owned(),
            });
        }
        if let Some(Part::File(range)) = self.parts.front_mut() {
            range.offset += bytes.len() as u64;
            range.length -= (bytes.len() as u64).min(range.length);
        }
        Ok(Chunk {
            bytes: Bytes::from(bytes),
            flush: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::body::OpenFile;
    use std::io::Write;
    use std::rc::Rc;

    fn read_all(body: Body, step: usize) -> Result<(Vec<u8>, usize), String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let mut stream = stream(body, step);
            let (mut all, mut largest) = (Vec::new(), 0);
            while let Some(chunk) = std::future::poll_fn(|context| stream.poll_chunk(context)).await
            {
                let chunk = chunk.map_err(|error| error.reason)?;
                largest = largest.max(chunk.bytes.len());
                all.extend_from_slice(&chunk.bytes);
            }
            Ok((all, largest))
        })
    }

    #[test]
    fn all_parts_come_in_order_and_no_piece_is_too_large() {
        let path = std::env::temp_dir().join(format!("body-reader-{}", std::process::id()));
        std::fs::File::create(&path)
            .and_then(|mut file| file.write_all(b"0123456789"))
            .expect("a file");
        let file = Rc::new(OpenFile {
            fd: std::fs::File::open(&path).expect("it is there").into(),
        });
        std::fs::remove_file(&path).expect("it was there");
        let range = |offset, length| FileRange {
            file: Rc::clone(&file),
            offset,
            length,
        };
        let parts = vec![
            Part::Memory(Bytes::from_static(b"a")),
            Part::File(range(2, 5)),
            Part::Memory(Bytes::new()),
            Part::File(range(0, 1)),
        ];
        let read = read_all(Body::Parts(parts), 2);
        assert_eq!(read, Ok((b"a234560".to_vec(), 2)));
        assert_eq!(read_all(Body::Empty, 10), Ok((Vec::new(), 0)));
        assert!(read_all(Body::File(range(5, 6)), 100).is_err(), "too short");
        assert_eq!(read_at_once(&range(1, 3)).as_deref(), Some(&b"123"[..]));
        assert_eq!(read_at_once(&range(8, 3)), None);
    }
}
