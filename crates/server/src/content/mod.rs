//! What produces a response (step 4 of a request's path).

pub mod autoindex;
pub mod file_cache;
pub mod index;
pub mod precompress_status;
pub mod static_files;
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
    PrecompressStatus,
}

use crate::config::model::LocationKind;
use crate::http::{Interrupt, Phase, Request, Response};
use crate::log::error::{Level, write_request};

/// Lets the location's content answer.
pub async fn respond(request: &mut Request) -> Phase<Response> {
    match request.location().content {
        Content::Files => files(request).await,
        Content::StubStatus => status::respond(request),
        Content::PrecompressStatus => precompress_status::respond(request),
    }
}

/// nginx's order for a location without a handler of its own: index and autoindex for paths that end in a slash, files.
async fn files(request: &mut Request) -> Phase<Response> {
    if let Some(response) = static_files::respond(request).await? {
        return Ok(response);
    }
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

/// `/dir` is sent to `/dir/` where a location of that name passes requests on to another server.
pub fn redirect_to_slash(request: &Request) -> Phase {
    let location = request.location();
    let LocationKind::Prefix { .. } = location.kind else {
        return Ok(());
    };
    Ok(())
}
