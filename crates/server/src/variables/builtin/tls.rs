//! Variables of a connection's TLS: what its handshake settled. Without TLS none of them has a value.

use super::{Fixed, append};
use crate::http::Request;
use crate::tls::settled::Settled;
use crate::tls::{ciphers, offered};
use rustls::{Connection, HandshakeKind, ProtocolVersion};
use std::io::Write as _;

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
    ("ssl_early_data", |request, out| {
        // A request that is there while the handshake is not done was in the early data.
        let is_early = |connection: &Connection| connection.is_handshaking();
        with(request, |connection| {
            append(is_early(connection).then_some(b"1"), out)
        })
    }),
    ("ssl_client_sigalg", |request, out| {
        signed(request, |settled| settled.client_signed, out)
    }),
    ("ssl_sigalg", |request, out| {
        signed(request, |settled| settled.signed, out)
    }),
    ("ssl_sigalgs", |request, out| {
        let settled = request.connection.settled.get();
        settled.is_some_and(|settled| {
            offered::append(&settled.schemes, offered::SCHEMES, out);
            !settled.schemes.is_empty()
        })
    }),
    ("ssl_session_id", session_id),
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

/// A signature of the handshake; there is none where a session was taken up.
fn signed(request: &Request, of: fn(&Settled) -> Option<u16>, out: &mut Vec<u8>) -> bool {
    let is_new =
        |connection: &Connection| connection.handshake_kind() != Some(HandshakeKind::Resumed);
    let settled = request.connection.settled.get();
    match settled
        .and_then(|settled| of(settled))
        .filter(|_| with(request, is_new))
    {
        Some(scheme) => {
            offered::append(&[scheme], offered::SCHEMES, out);
            true
        }
        None => false,
    }
}

/// The session's identifier in hexadecimal; of TLS 1.3, which has none that both sides know, 32 bytes derived of its keys.
fn session_id(request: &Request, out: &mut Vec<u8>) -> bool {
    let Some(session) = request.connection.stream.tls() else {
        return false;
    };
    let session = session.borrow();
    let connection = session.connection();
    let derived = match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => {
            let label = b"EXPORTER-gannet-session-id";
            connection.export_keying_material([0; 32], label, None).ok()
        }
        _ => None,
    };
    let id = derived
        .as_ref()
        .map_or(session.id(), |derived| &derived[..]);
    for byte in id {
        // Memory takes all of it.
        let _whole = write!(out, "{byte:02x}");
    }
    !id.is_empty()
}

/// Asks the connection, if TLS is spoken on it.
fn with(request: &Request, ask: impl FnOnce(&Connection) -> bool) -> bool {
    let session = request.connection.stream.tls();
    session.is_some_and(|session| ask(session.borrow().connection()))
}
