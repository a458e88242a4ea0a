//! The parameters of a request to a FastCGI program: those of `fastcgi_param`, and the client's fields as `HTTP_…`, but
//! for those that `fastcgi_param` speaks of.

use crate::http::{Interrupt, Phase, Request};
use crate::log::error::{Level, write_request};
use crate::variables::Template;
use bytes::Bytes;
use wire::fastcgi;
use wire::fields::date;
use wire::http1::{Field, Known};

/// What a field's parameter begins with.
const PREFIX: &[u8] = b"HTTP_";

/// Fields that ask for a part, or for nothing: not told where the response may be kept.
const OF_PARTS: [Known; 6] = [
    Known::IfModifiedSince,
    Known::IfUnmodifiedSince,
    Known::IfNoneMatch,
    Known::IfMatch,
    Known::Range,
    Known::IfRange,
];

/// One `fastcgi_param`.
#[derive(Debug, Clone)]
pub struct Param {
    pub name: Box<[u8]>,
    pub value: Template,
    pub if_not_empty: bool,
}

/// The parameters of a location's requests, in the order they are written.
#[derive(Debug, Default)]
pub struct Params {
    pieces: Vec<Piece>,
    /// The client's fields that are not told, as their parameters are named behind `HTTP_`.
    replaced: Vec<Box<[u8]>>,
}

#[derive(Debug)]
enum Piece {
    Text {
        name: Box<[u8]>,
        value: Bytes,
    },
    Value {
        name: Box<[u8]>,
        value: Template,
        if_not_empty: bool,
    },
}

impl Params {
    #[must_use]
    pub fn compile(written: &[Param]) -> Params {
        let mut params = Params::default();
        for param in written {
            let field = param.name.strip_prefix(PREFIX);
            let field = field.filter(|field| !field.is_empty());
            params.replaced.extend(field.map(Box::from));
            let name = param.name.clone();
            match param.value.constant() {
                // A field that is set to nothing is hidden.
                Some(value) if value.is_empty() && (param.if_not_empty || field.is_some()) => {}
                Some(value) => params.pieces.push(Piece::Text { name, value }),
                None => params.pieces.push(Piece::Value {
                    name,
                    value: param.value.clone(),
                    if_not_empty: param.if_not_empty,
                }),
            }
        }
        params
    }

    fn replaces(&self, name: &[u8]) -> bool {
        self.replaced.iter().any(|replaced| &**replaced == name)
    }
}

/// Appends the records that begin a request; its body follows them. With `keep` the program is asked to leave the
/// connection open.
pub fn write(request: &Request, keep: bool, out: &mut Vec<u8>) -> Phase {
    let settings = &request.location().settings;
    let mut params = fastcgi::begin(out, keep);
    for piece in &settings.fastcgi.params.pieces {
        match piece {
            Piece::Text { name, value } => params.pair(name, value),
            Piece::Value {
                name,
                value,
                if_not_empty,
            } => params.pair_with(name, |out| {
                let start = out.len();
                value.append(request, out);
                !if_not_empty || out.len() > start
            }),
        }
    }
    let cached = request.cached.as_ref().filter(|cached| cached.is_fetch);
    let own = &settings.fastcgi.params;
    if let Some(cached) = cached {
        if let Some(seconds) = cached.last_modified
            && !own.replaces(b"IF_MODIFIED_SINCE")
        {
            params.pair(b"HTTP_IF_MODIFIED_SINCE", &date::format(seconds));
        }
        if !cached.etag.is_empty() && !own.replaces(b"IF_NONE_MATCH") {
            params.pair(b"HTTP_IF_NONE_MATCH", &cached.etag);
        }
    }
    if settings.fastcgi_relay.pass_request_headers {
        write_fields(request, own, cached.is_some(), &mut params);
    }
    params.end().map_err(|error| {
        let message = format_args!("fastcgi request record is too big: {}", error.0);
        write_request(request, Level::Alert, message);
        Interrupt::Status(500)
    })
}

fn write_fields(
    request: &Request,
    replaced: &Params,
    fetches: bool,
    params: &mut fastcgi::Params<'_>,
) {
    let fields = &request.head.fields;
    let mut name = Vec::with_capacity(64);
    let mut joined = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        if fields[..index]
            .iter()
            .any(|before| same_name(request, before, field))
        {
            continue;
        }
        name.clear();
        name.extend(
            request
                .text(field.name)
                .iter()
                .map(|&byte| parameter_byte(byte)),
        );
        let of_part = fetches && OF_PARTS.contains(&field.known);
        if of_part || replaced.replaces(&name) {
            continue;
        }
        let mut value = request.text(field.value);
        let mut others = (fields[index + 1..].iter())
            .filter(|other| same_name(request, field, other))
            .peekable();
        if others.peek().is_some() {
            joined.clear();
            joined.extend_from_slice(value);
            for other in others {
                let separator: &[u8] = if field.known == Known::Cookie {
                    b"; "
                } else {
                    b", "
                };
                joined.extend_from_slice(separator);
                joined.extend_from_slice(request.text(other.value));
            }
            value = &joined;
        }
        params.prefixed_pair(PREFIX, &name, value);
    }
}

/// A name's byte as it stands in a parameter.
fn parameter_byte(byte: u8) -> u8 {
    match byte {
        b'-' => b'_',
        byte => byte.to_ascii_uppercase(),
    }
}

fn same_name(request: &Request, one: &Field, other: &Field) -> bool {
    one.known == other.known
        && one.name.len() == other.name.len()
        && (request.text(one.name)).eq_ignore_ascii_case(request.text(other.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::registry::Registry;

    #[test]
    fn parameters_take_the_place_of_fields() {
        let mut registry = Registry::default();
        let mut param = |name: &str, value: &str, if_not_empty| Param {
            name: name.as_bytes().into(),
            value: Template::compile(value.as_bytes(), &mut registry).expect("a value"),
            if_not_empty,
        };
        let params = Params::compile(&[
            param("SCRIPT_NAME", "$uri", false),
            param("HTTP_PROXY", "", false),
            param("HTTPS", "", true),
            param("HTTP_", "x", false),
            param("HTTP_X_Y", "", true),
        ]);
        assert_eq!(params.pieces.len(), 2);
        for (name, replaced) in [("PROXY", true), ("X_Y", true), ("S", false), ("", false)] {
            assert_eq!(params.replaces(name.as_bytes()), replaced, "{name}");
        }
        let name: Vec<u8> = b"x-Own_1"
            .iter()
            .map(|&byte| parameter_byte(byte))
            .collect();
        assert_eq!(name, b"X_OWN_1");
    }
}
