//! What produces a response (step 4 of a request's path).

pub mod autoindex;
pub mod compression_status;
pub mod dav;
pub mod empty_gif;
pub mod file_cache;
pub mod flv;
pub mod image_status;
pub mod index;
pub mod mp4;
pub mod precompress_status;
pub mod random_index;
pub mod static_files;
pub mod static_variants;
pub mod status;
pub mod symlinks;
pub mod try_files;

/// The content of a location, chosen when the configuration is read.
#[derive(Debug, Clone, Default)]
pub enum Content {
    /// Files: index, autoindex and static files in this order.
    #[default]
    Files,
    StubStatus,
    EmptyGif,
    PrecompressStatus,
    CompressionStatus(compression_status::Form),
    ImageStatus,
    /// `proxy_pass`.
    Proxy(Arc<proxy::Pass>),
    /// `fastcgi_pass`.
    FastCgi(Arc<fastcgi::Pass>),
}

use crate::config::model::LocationKind;
use crate::http::{Interrupt, Phase, Request, Response};
use crate::log::error::{Level, write_request};
use crate::upstream::{fastcgi, proxy, relay};
use std::sync::Arc;
use wire::http1::Method;

impl Content {
    /// Whether other servers answer.
    #[must_use]
    pub fn is_relay(&self) -> bool {
        matches!(self, Content::Proxy(_) | Content::FastCgi(_))
    }
}

/// Lets the location's content answer.
pub async fn respond(request: &mut Request) -> Phase<Response> {
    match request.location().content {
        Content::Files => files(request).await,
        Content::StubStatus => status::respond(request),
        Content::EmptyGif => empty_gif::respond(request),
        Content::PrecompressStatus => precompress_status::respond(request),
        Content::CompressionStatus(form) => compression_status::respond(request, form),
        Content::ImageStatus => image_status::respond(request),
        Content::Proxy(_) | Content::FastCgi(_) => Box::pin(relayed(request)).await,
    }
}

/// On the heap, so that other requests do not carry the room for it.
async fn relayed(request: &mut Request) -> Phase<Response> {
    match request.location().content.clone() {
        Content::Proxy(pass) => relay::proxy(request, &pass).await,
        Content::FastCgi(pass) => relay::fastcgi(request, &pass).await,
        _ => files(request).await,
    }
}

/// nginx's order for a location without a handler of its own: index and autoindex for paths that end in a slash, files.
async fn files(request: &mut Request) -> Phase<Response> {
    if request.location().settings.flv.on || request.location().settings.mp4.on {
        // A handler of the location's own: what changes files or looks for copies of them does not get to see paths of films.
        if !matches!(request.method, Method::Get | Method::Head) {
            return Err(Interrupt::Status(405));
        }
        if let Some(response) = static_files::respond(request).await? {
            return Ok(response);
        }
    }
    if !request.location().settings.dav.methods.is_empty()
        && let Some(response) = Box::pin(dav::respond(request)).await?
    {
        return Ok(response);
    }
    if let Some(response) = static_variants::respond(request).await? {
        return Ok(response);
    }
    if let Some(response) = static_files::respond(request).await? {
        return Ok(response);
    }
    random_index::respond(request).await?;
    index::respond(request)?;
    if let Some(response) = autoindex::respond(request).await? {
        return Ok(response);
    }
    let path = static_files::PathBuffer::mapped(request);
    write_request(
        request,
        Level::Error,
        format_args!(
            "directory index of \"{}\" is forbidden",
            String::from_utf8_lossy(&path)
        ),
    );
    Err(Interrupt::Status(403))
}

/// `/dir` is sent to `/dir/` where a location of that name passes requests on to another server; routing has found it.
pub fn redirect_to_slash(request: &Request) -> Phase {
    let location = request.location();
    let (LocationKind::Prefix { path, .. } | LocationKind::Exact(path)) = &location.kind else {
        return Ok(());
    };
    if path.len() <= request.uri.len() {
        return Ok(());
    }
    let mut target = wire::uri::escape(path, wire::uri::Class::Uri).into_owned();
    if !request.args.is_empty() {
        target.push(b'?');
        target.extend_from_slice(&request.args);
    }
    Err(Interrupt::Respond(Box::new(Response {
        location: Some(target.into()),
        ..Response::status(301)
    })))
}
