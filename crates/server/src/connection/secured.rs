//! What a request must find about TLS on its connection before the phases begin.

use crate::http::Request;
use crate::log::error::{self, Level};
use crate::tls::directive::VerifyClient;

/// The status to refuse a request with that came by a connection without the TLS that its address asks for, or without
/// the certificate that its server asks clients for.
#[inline]
pub fn check(request: &Request, expected: bool) -> Result<(), u16> {
    if !expected {
        return Ok(());
    }
    if !request.connection.is_tls() {
        complain(
            request,
            format_args!("client sent plain HTTP request to HTTPS port"),
        );
        return Err(497);
    }
    match request.server().settings.tls.verify_client {
        VerifyClient::Off => Ok(()),
        verify => check_certificate(request, verify),
    }
}

fn check_certificate(request: &Request, verify: VerifyClient) -> Result<(), u16> {
    let settled = request.connection.settled.get();
    if let Some(flaw) = settled.and_then(|settled| settled.flaw)
        && !(verify == VerifyClient::OptionalNoIssuer && flaw.is_of_unknown_issuer())
    {
        let (code, text) = (flaw.code(), flaw.text());
        complain(
            request,
            format_args!("client SSL certificate verify error: ({code}:{text})"),
        );
        return Err(495);
    }
    let session = request.connection.stream.tls();
    let has_shown_one =
        session.is_some_and(|session| session.borrow().connection().peer_certificates().is_some());
    if verify == VerifyClient::On && !has_shown_one {
        complain(
            request,
            format_args!("client sent no required SSL certificate"),
        );
        return Err(496);
    }
    if let Some(trouble) = settled.and_then(|settled| settled.trouble) {
        let text = trouble.as_str();
        complain(
            request,
            format_args!("client SSL certificate verify error: {text}"),
        );
        return Err(495);
    }
    Ok(())
}

/// Whether a request may ask for its host on its connection: one whose server asks clients for certificates has to be named
/// in the handshake.
pub fn host_is_of_handshake(request: &Request, listener: usize) -> bool {
    let settled = request.connection.settled.get();
    let Some(name) = settled.and_then(|settled| settled.server_name.as_ref()) else {
        return true;
    };
    if request.host == name.as_bytes() {
        return true;
    }
    let config = &request.generation.config;
    let server = config.http.listens[listener]
        .hosts
        .find(&request.host, request);
    if config.server(server).settings.tls.verify_client == VerifyClient::Off {
        return true;
    }
    complain(
        request,
        format_args!(
            "client attempted to request the server name different from the one that was negotiated"
        ),
    );
    false
}

fn complain(request: &Request, message: std::fmt::Arguments<'_>) {
    error::write_request(
        request,
        Level::Info,
        format_args!("{message} while reading client request headers"),
    );
}
