//! `autoindex`: a directory's listing.

use crate::http::{Phase, Request, Response};

crate::config::setting::settings! {
    placeholder: bool = false,
}

/// Lists the directory of the request's path where `autoindex` is on.
pub async fn respond(_: &mut Request) -> Phase<Option<Response>> {
    Ok(None)
}
