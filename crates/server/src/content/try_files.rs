//! `try_files`: the first of several files that exists, or else another URI.

use crate::http::{Phase, Request};

crate::config::setting::settings! {
    placeholder: bool = false,
}

/// Looks the files up and sends the request on.
pub async fn check(_: &mut Request) -> Phase {
    Ok(())
}
