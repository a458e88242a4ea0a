//! `early_hints`: whether the client sees an upstream's 103 before the response itself.

use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, row};
use crate::http::Request;
use crate::http::request::Connection;
use crate::variables::Template;
use conf::Directive;
use conf::table::Row;
use std::sync::Arc;
use wire::http1::response::Head;
use wire::http1::{Known, Version};

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "early_hints",
    HSL,
    Arity::AtLeast(1),
    early_hints,
    "Conditions, one of which must hold for a 103 of an upstream to pass.",
)];

crate::config::setting::settings! {
    conditions: Arc<Vec<Template>> = Arc::default(),
}

fn early_hints(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().early_hints.conditions.vacant()?;
    let conditions = directive.args.iter();
    let conditions = conditions
        .map(|word| Template::compile(word, &mut build.variables))
        .collect::<Result<_, _>>()?;
    build
        .location()
        .early_hints
        .conditions
        .set(Arc::new(conditions))
}

impl Settings {
    /// Whether hints pass to this client: it must speak 1.1, and a condition be neither empty nor 0.
    fn hold_for(&self, request: &Request) -> bool {
        request.version >= Version::Http11
            && self.conditions.iter().any(|condition| {
                let value = condition.evaluate(request);
                !value.is_empty() && value != "0"
            })
    }
}

/// Sends the hints on, as far as the socket takes them whole: they are not worth waiting for.
pub fn pass(request: &Request, head: &Head, buffer: &[u8]) {
    // What a request inside a request hears is not for the client.
    if request.depth > 0
        || head.status != 103
        || !request.location().settings.early_hints.hold_for(request)
    {
        return;
    }
    let mut fields = Vec::new();
    for field in &head.fields {
        let is_of_the_hop = matches!(
            field.known,
            Known::Connection
                | Known::TransferEncoding
                | Known::ContentLength
                | Known::Date
                | Known::Server
        );
        if !is_of_the_hop {
            for part in [
                field.name.of(buffer),
                b": ",
                field.value.of(buffer),
                b"\r\n",
            ] {
                fields.extend_from_slice(part);
            }
        }
    }
    let sent = match &request.stream {
        Some(stream) => stream.send_interim(103, &fields),
        None => send(&request.connection, &fields),
    };
    request.sent.bytes.set(request.sent.bytes.get() + sent);
}

/// Gives the bytes that went out.
fn send(connection: &Connection, fields: &[u8]) -> u64 {
    let out = [b"HTTP/1.1 103 Early Hints\r\n", fields, b"\r\n"].concat();
    match connection.stream.try_send(&out, false) {
        Ok(sent) if sent == out.len() => sent as u64,
        Ok(_) => {
            // A part of them would spoil the response.
            let _gone = sys::socket::shutdown(&connection.stream, std::net::Shutdown::Both);
            0
        }
        Err(_) => 0,
    }
}
