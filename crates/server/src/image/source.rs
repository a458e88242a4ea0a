//! What a picture is made of: the file of a response, or a body that is collected.

use super::work::Source;
use crate::cache::forms::Forms;
use crate::http::body::{BodyStream, Chunk};
use crate::http::file::{Content, Entry};
use crate::http::{Body, Interrupt, Phase, Request, Response, body_reader};
use crate::log::error::{Level, write_request};
use crate::store::Store;
use bytes::{Bytes, BytesMut};
use std::fs::File;
use std::future::poll_fn;
use std::sync::Arc;
use sys::file::Identity;
use wire::http1::Method;

/// Bytes read from a file at once.
const READ: usize = 64 * 1024;

/// A source and what tells it from all others, in all of its states.
pub struct Origin {
    pub source: Source,
    pub identity: Vec<u8>,
    /// The pictures of one source belong together.
    pub group: u64,
    /// The store of a cache that keeps the source: its pictures are kept beside it, and go with it.
    pub store: Option<Arc<Store>>,
}

/// What a response has to offer.
pub enum Taken {
    Origin(Origin),
    /// Only its head is known.
    HeadOnly,
    /// More than was allowed: so many bytes are known of.
    TooLarge(u64),
}

/// The source of a response. A body that was collected stays the response's.
pub async fn of_response(
    request: &mut Request,
    response: &mut Response,
    bytes_max: u64,
) -> Phase<Taken> {
    if let Some(length) = response.content_length.filter(|&length| length > bytes_max) {
        return Ok(Taken::TooLarge(length));
    }
    if let Some(origin) = of_file(response) {
        return Ok(Taken::Origin(origin));
    }
    if request.method == Method::Head && matches!(response.body, Body::Empty | Body::Stream(_)) {
        // The upstream was asked for the head alone: what would come of the body is not known.
        response.content_length = None;
        response.etag = None;
        return Ok(Taken::HeadOnly);
    }
    let forms = response.forms.take();
    if let Some(forms) = &forms
        && response.content_length.is_some()
        && let Some(source) = at_hand(&response.body)
    {
        return Ok(Taken::Origin(of_cache(forms, source)));
    }
    let stream = body_reader::stream(std::mem::take(&mut response.body), READ);
    match collect(stream, bytes_max).await {
        Ok(Some(bytes)) => {
            response.set_body(Body::Memory(bytes.clone()));
            Ok(Taken::Origin(match &forms {
                Some(forms) => of_cache(forms, Source::Memory(bytes)),
                None => of_memory(bytes),
            }))
        }
        Ok(None) => Ok(Taken::TooLarge(bytes_max.saturating_add(1))),
        Err(reason) => {
            write_request(request, Level::Error, format_args!("{reason}"));
            Err(Interrupt::Status(502))
        }
    }
}

/// The file, where the response is nothing else.
fn of_file(response: &Response) -> Option<Origin> {
    let entry = response.file.as_ref()?;
    if response.copied.is_some() || response.made.is_some() {
        return None;
    }
    let source = match &entry.content {
        Content::Memory(bytes) => Source::Memory(bytes.clone()),
        Content::File(file) => {
            let file = File::from(file.fd.try_clone().ok()?);
            Source::File(file, entry.identity)
        }
    };
    Some(Origin {
        source,
        identity: identity_text(&entry.identity),
        group: group(entry),
        store: None,
    })
}

/// A body that need not be collected: its file is read when the picture is made, if it is.
fn at_hand(body: &Body) -> Option<Source> {
    match body {
        Body::Memory(bytes) => Some(Source::Memory(bytes.clone())),
        Body::File(range) => {
            let file = File::from(range.file.fd.try_clone().ok()?);
            Some(Source::Part(file, range.offset, range.length))
        }
        _ => None,
    }
}

/// A response of the cache is told from others by its version.
fn of_cache(forms: &Forms, source: Source) -> Origin {
    Origin {
        source,
        identity: forms.prefix(),
        group: forms.group(),
        store: Some(Arc::clone(forms.store())),
    }
}

fn group(entry: &Entry) -> u64 {
    crate::store::format::hash(&entry.path)
}

/// A file's identity as text of a key.
#[must_use]
pub fn identity_text(identity: &Identity) -> Vec<u8> {
    let Identity {
        device,
        inode,
        size,
        modified_ns,
        changed_ns,
    } = identity;
    format!("file {device} {inode} {size} {modified_ns} {changed_ns} ").into_bytes()
}

/// Bytes are told from others by what they are.
fn of_memory(bytes: Bytes) -> Origin {
    let hash = blake3::hash(&bytes);
    let identity = format!("bytes {} ", hash.to_hex()).into_bytes();
    Origin {
        group: crate::store::format::hash(&identity),
        source: Source::Memory(bytes),
        identity,
        store: None,
    }
}

/// The whole of a body; `None`: it is longer than allowed.
async fn collect(mut stream: Box<dyn BodyStream>, bytes_max: u64) -> Result<Option<Bytes>, String> {
    let mut whole = BytesMut::new();
    let mut first: Option<Bytes> = None;
    while let Some(chunk) = poll_fn(|context| stream.poll_chunk(context)).await {
        let Chunk { bytes, .. } = chunk.map_err(|error| error.reason)?;
        let before = whole.len() + first.as_ref().map_or(0, Bytes::len);
        if (before + bytes.len()) as u64 > bytes_max {
            return Ok(None);
        }
        match first.take() {
            None if whole.is_empty() => first = Some(bytes),
            None => whole.extend_from_slice(&bytes),
            Some(one) => {
                whole.extend_from_slice(&one);
                whole.extend_from_slice(&bytes);
            }
        }
    }
    Ok(Some(first.unwrap_or_else(|| whole.freeze())))
}
