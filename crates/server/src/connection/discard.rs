//! Bodies that nobody reads: what the client still sends of them is dropped.

use super::http1::Http1;
use crate::http::request::Incoming;
use crate::http::{Request, thread};
use crate::request_body::unread;
use wire::http1::Error;

/// Drops what `bytes` hold of the body and returns how many bytes that were.
fn drop_from(incoming: &mut Incoming, bytes: &[u8]) -> Result<usize, Error> {
    match incoming {
        Incoming::Done | Incoming::Stream => Ok(0),
        Incoming::Length(left) => {
            let taken = (bytes.len() as u64).min(*left);
            *left -= taken;
            if *left == 0 {
                *incoming = Incoming::Done;
            }
            Ok(taken as usize)
        }
        Incoming::Chunked(decoder) => {
            let mut at = 0;
            while at < bytes.len() {
                let step = decoder.decode(&bytes[at..])?;
                at += step.consumed;
                if step.done {
                    *incoming = Incoming::Done;
                    break;
                }
                if step.consumed == 0 {
                    break;
                }
            }
            Ok(at)
        }
    }
}

/// Drops what has been received of a body that the response does not need.
pub fn pending(connection: &mut Http1, request: &mut Request) -> Result<(), Error> {
    let mut pending = connection.info.pending.borrow_mut();
    if pending.is_empty() {
        return Ok(());
    }
    let taken = drop_from(&mut request.incoming, &pending)?;
    request.received.set(request.received.get() + taken as u64);
    pending.drain(..taken);
    Ok(())
}

/// Reads and drops the rest of the body, for `lingering_time` at most; false if the connection cannot go on.
pub async fn rest(connection: &mut Http1, request: &mut Request) -> bool {
    let (time_ms, timeout_ms) = {
        let settings = &request.location().settings.keepalive;
        (settings.lingering_time_ms, settings.lingering_timeout_ms)
    };
    let end = thread::monotonic_ms() + time_ms;
    while unread(request) {
        let left = end.saturating_sub(thread::monotonic_ms());
        if left == 0 {
            return false;
        }
        connection.timer.set(left.min(timeout_ms));
        let mut rest = Vec::new();
        let read = connection
            .read_some(|bytes| {
                let taken = drop_from(&mut request.incoming, bytes)?;
                rest.extend_from_slice(&bytes[taken..]);
                Ok::<usize, Error>(bytes.len())
            })
            .await;
        match read {
            Some(Ok(Ok(read))) if read > 0 => connection
                .info
                .pending
                .borrow_mut()
                .extend_from_slice(&rest),
            _ => return false,
        }
    }
    true
}
