//! `index`: the file that stands for a directory.

use crate::http::{Phase, Request};

crate::config::setting::settings! {
    placeholder: bool = false,
}

/// Redirects inside the server to the first index file that exists.
pub async fn respond(_: &mut Request) -> Phase {
    Ok(())
}
