//! Variables of a connection's TLS: what its handshake settled. Without TLS none of them has a value.

use super::{Fixed, append};
use crate::http::Request;
use crate::tls::{ciphers, offered};
use rustls::{Connection, HandshakeKind, ProtocolVersion};

pub const FIXED: &[Fixed] = &[
    ("acme_certificate", |request, out| {
        let pair = request.server().acme.as_ref().and_then(|slot| slot.pair());
        append(pair.as_ref().map(|pair| &pair.certificate[..]), out)
    }),
    ("acme_certificate_key", |request, out| {
        let pair = request.server().acme.as_ref().and_then(|slot| slot.pair());
        append(pair.as_ref().map(|pair| &pair.key[..]), out)
    }),
    ("ssl_alpn_protocol", |request, out| {
        with(request, |connection| {
            append(connection.alpn_protocol(), out)
        })
    }),
    ("ssl_cipher", |request, out| {
        with(request, |connection| {
            let suite = connection.negotiated_cipher_suite();
            let name = suite.and_then(|suite| ciphers::name(suite.suite()));
            append(name.map(str::as_bytes), out)
        })
    }),
    ("ssl_ciphers", |request, out| {
        let settled = request.connection.settled.get();
        settled.is_some_and(|settled| {
            offered::append(&settled.suites, offered::SUITES, out);
            true
        })
    }),
    ("ssl_curves", |request, out| {
        let settled = request.connection.settled.get();
        settled.is_some_and(|settled| {
            offered::append(&settled.groups, offered::GROUPS, out);
            !settled.groups.is_empty()
        })
    }),
    // No early data is taken.
    ("ssl_early_data", |_, _| false),
    ("ssl_curve", |request, out| {
        with(request, |connection| {
            let group = connection.negotiated_key_exchange_group();
            let name = group.map(|group| ciphers::group_name(group.name()));
            append(name.map(str::as_bytes), out)
        })
    }),
    ("ssl_protocol", |request, out| {
        with(request, |connection| {
            let name = match connection.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => Some("TLSv1.3"),
                Some(ProtocolVersion::TLSv1_2) => Some("TLSv1.2"),
                _ => None,
            };
            append(name.map(str::as_bytes), out)
        })
    }),
    ("ssl_server_name", |request, out| {
        let name = request.connection.asked_name.get();
        append(name.map(|name| name.as_bytes()), out)
    }),
    ("ssl_session_reused", |request, out| {
        with(request, |connection| {
            let reused = connection.handshake_kind() == Some(HandshakeKind::Resumed);
            append(Some(if reused { b"r" } else { b"." }), out)
        })
    }),
];

/// Asks the connection, if TLS is spoken on it.
fn with(request: &Request, ask: impl FnOnce(&Connection) -> bool) -> bool {
    let session = request.connection.stream.tls();
    session.is_some_and(|session| ask(session.borrow().connection()))
}
