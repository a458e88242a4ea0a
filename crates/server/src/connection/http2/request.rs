//! A stream's head becomes a request, as `connection::request_head` makes one of HTTP/1's.

use super::Streams;
use super::stream::Stream;
use super::turns::{Piece, Priority};
use crate::config::Generation;
use crate::connection::http1::new_request;
use crate::connection::{complaints, request_head, secured};
use crate::http::request::Incoming;
use crate::http::{Request, thread};
use h2::RecvStream;
use h2::server::SendResponse;
use std::rc::Rc;
use wire::http1::{Error, Known};
use wire::http2::{Target, compose};

/// The fields of a head are larger than all buffers: as in nginx the connection ends.
pub struct TooLarge;

/// A request with its stream, or the status to refuse it with.
pub struct Prepared {
    pub request: Box<Request>,
    pub stream: Rc<Stream>,
    pub refused: Option<u16>,
}

/// Makes a request of a stream's head.
pub fn prepare(
    generation: &Rc<Generation>,
    streams: &Rc<Streams>,
    listener: usize,
    head: http::Request<RecvStream>,
    respond: SendResponse<Piece>,
) -> Result<Prepared, TooLarge> {
    let (parts, body) = head.into_parts();
    let mut request = new_request(generation, &streams.info, thread::monotonic_ms());
    let ended = body.is_end_stream();
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    let target = Target {
        method: parts.method.as_str().as_bytes(),
        authority: (parts.uri.authority()).map(|authority| authority.as_str().as_bytes()),
        path: path.as_bytes(),
    };
    let fields = parts.headers.iter();
    let fields = fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    let config = &generation.config;
    let default = config.server(config.http.listens[listener].hosts.default);
    let limits = request_head::limits(&default.settings.request_head);
    let Request { buffer, head, .. } = &mut *request;
    let composed = compose(target, fields, &limits, buffer, head);
    let priority = request.field(Known::Priority).map(Priority::parse);
    let stream = Stream::new(respond, body, streams, priority.unwrap_or_default());
    let stream = Rc::new(stream);
    request.stream = Some(Rc::clone(&stream) as _);
    let refused = match composed {
        Err(Error::HeaderTooLarge) => return Err(TooLarge),
        Err(error) => {
            request_head::prepare_refused(&mut request, listener);
            Some(complaints::refused(&request, error))
        }
        Ok(()) => request_head::prepare(&mut request, listener)
            .and_then(|()| secured::check(&request, config.http.listens[listener].listen.ssl))
            .err(),
    };
    streams.has_passed(request.buffer.len());
    if !ended {
        request.incoming = Incoming::Stream;
        request.chunked = request.content_length.is_none();
    } else {
        request.incoming = Incoming::Done;
    }
    Ok(Prepared {
        request,
        stream,
        refused,
    })
}
