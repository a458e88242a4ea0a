//! A piece of a file on its way to the socket by sendfile, with cold pages fetched away from the network thread.

use super::pace::Pace;
use super::{SendError, writable, write_all};
use crate::connection::complaints;
use crate::http::Request;
use crate::http::body::FileRange;
use crate::net::{Stream, Timer};
use bytes::Bytes;
use std::io;
use std::rc::Rc;
use sys::io::Cached;

/// Sends a piece of a file.
pub async fn send_file(
    stream: &Stream,
    timer: &mut Timer,
    request: &Request,
    pace: &mut Pace,
    range: FileRange,
) -> Result<(), SendError> {
    if !request.location().settings.transmission.sendfile {
        return copy_file(stream, timer, request, pace, range).await;
    }
    let most = request.location().settings.transmission.sendfile_max_chunk;
    let most = if most == 0 {
        MAX_SENDFILE
    } else {
        most.min(MAX_SENDFILE)
    };
    let mut offset = range.offset;
    let end = range.offset + range.length;
    while offset < end {
        let count = pace.admit((end - offset).min(most)).await;
        let piece = FileRange {
            file: Rc::clone(&range.file),
            offset,
            length: count,
        };
        if !readable_at_once(&piece) {
            fetch(&piece).await?;
        }
        match stream.try_sendfile(&range.file.fd, offset, count as usize) {
            Ok(0) => {
                complaints::truncated(request, &range.file, offset);
                return Err(SendError::Truncated);
            }
            Ok(sent) => {
                offset += sent as u64;
                pace.sent += sent as u64;
                request
                    .sent
                    .bytes
                    .set(request.sent.bytes.get() + sent as u64);
                if sent as u64 == count && offset < end {
                    tokio::task::yield_now().await;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                stream.clear_writable();
                writable(stream, timer, request).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sends a piece of a file through memory, where `sendfile` is off.
async fn copy_file(
    stream: &Stream,
    timer: &mut Timer,
    request: &Request,
    pace: &mut Pace,
    range: FileRange,
) -> Result<(), SendError> {
    let end = range.offset + range.length;
    let mut offset = range.offset;
    while offset < end {
        let mut buffer = vec![0; (end - offset).min(COPY_SIZE) as usize];
        let read = match sys::io::pread_cached(&range.file.fd, &mut buffer, offset)? {
            Cached::Read(read) => read,
            Cached::Cold => {
                let file = range.file.fd.try_clone()?;
                let read = tokio::task::spawn_blocking(move || {
                    let read = sys::io::pread(&file, &mut buffer, offset)?;
                    Ok::<_, io::Error>((buffer, read))
                });
                let (filled, read) = read.await.map_err(|_| SendError::Truncated)??;
                buffer = filled;
                read
            }
        };
        if read == 0 {
            complaints::truncated(request, &range.file, offset);
            return Err(SendError::Truncated);
        }
        buffer.truncate(read);
        offset += read as u64;
        write_all(
            stream,
            timer,
            request,
            pace,
            [Bytes::from(buffer), Bytes::new()],
        )
        .await?;
    }
    Ok(())
}

/// Bytes that are copied at a time.
const COPY_SIZE: u64 = 128 * 1024;

/// Whether the piece's first and last byte are in memory, so that sendfile will not wait for a disk.
pub fn readable_at_once(range: &FileRange) -> bool {
    let cached = |offset| {
        matches!(
            sys::io::pread_cached(&range.file.fd, &mut [0], offset),
            Ok(sys::io::Cached::Read(_))
        )
    };
    range.length == 0 || (cached(range.offset) && cached(range.offset + range.length - 1))
}

/// Brings a piece of a file into memory, away from the network thread.
async fn fetch(range: &FileRange) -> Result<(), SendError> {
    let file = range.file.fd.try_clone()?;
    let (offset, end) = (range.offset, range.offset + range.length);
    let read = tokio::task::spawn_blocking(move || {
        let mut buffer = vec![0; FETCH_SIZE];
        let mut at = offset;
        while at < end {
            match sys::io::pread(&file, &mut buffer, at)? {
                0 => break,
                read => at += read as u64,
            }
        }
        Ok::<(), io::Error>(())
    });
    read.await.map_err(|_| SendError::Truncated)??;
    Ok(())
}

/// Bytes that a background read takes at a time.
const FETCH_SIZE: usize = 256 * 1024;

/// The most one sendfile call is asked for, so that one client does not keep the thread.
pub const MAX_SENDFILE: u64 = 2 * 1024 * 1024;
