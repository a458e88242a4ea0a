//! What a request must find about TLS on its connection before the phases begin.

use crate::http::Request;
use crate::log::error::{self, Level};

/// The status to refuse a request with that came by a connection without the TLS that its address asks for.
pub fn check(request: &Request, expected: bool) -> Result<(), u16> {
    if !expected || request.connection.is_tls() {
        return Ok(());
    }
    error::write_request(
        request,
        Level::Info,
        format_args!(
            "client sent plain HTTP request to HTTPS port while reading client request headers"
        ),
    );
    Err(497)
}
