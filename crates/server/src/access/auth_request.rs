//! `auth_request`: another request inside the server decides whether a client is let in.

use super::satisfy::Answer;
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, row};
use crate::http::request::Slot;
use crate::http::{Interrupt, Phase, Request, Response};
use crate::log::error::{Level, write_request};
use crate::variables::map::directive::variable_name;
use crate::variables::{Template, VariableId};
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use std::sync::Arc;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "auth_request",
        HSL,
        Arity::Exactly(1),
        auth_request,
        "The path of the request that decides whether a client is let in; off: none.",
    ),
    row(
        "auth_request_set",
        HSL,
        Arity::Exactly(2),
        auth_request_set,
        "A variable that is set to a value of that request when it has ended.",
    ),
];

// The variables of a block take the place of all the outer block's.
crate::config::setting::settings! {
    uri: Option<Bytes> = None,
    assigned: Arc<Vec<Assigned>> = Arc::default(),
}

/// One `auth_request_set`.
#[derive(Debug, Clone)]
pub struct Assigned {
    variable: VariableId,
    value: Template,
}

fn auth_request(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let word = &directive.args[0];
    let uri = (word[..] != *b"off").then(|| Bytes::copy_from_slice(word));
    build.location().auth_request.uri.set(uri)
}

fn auth_request_set(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let [name, value] = &directive.args[..] else {
        return Err("invalid value".into());
    };
    let variable = build.variables.assigned(variable_name(name)?)?;
    let value = Template::compile(value, &mut build.variables)?;
    let assigned = &mut build.location().auth_request.assigned.0;
    Arc::make_mut(assigned.get_or_insert_default()).push(Assigned { variable, value });
    Ok(())
}

/// What the answer to the other request says of this one.
pub fn judge(request: &Request, other: &Request, response: Option<Response>) -> Phase<Answer> {
    for assigned in request.location().settings.auth_request.assigned.iter() {
        let value = assigned.value.evaluate(other);
        request.assign(assigned.variable, Slot::Value(value));
    }
    let status = response
        .as_ref()
        .map_or(other.sent.status.get(), |response| response.status);
    match status {
        200..=299 => Ok(Answer::Pass),
        401 => {
            let fields = response.map(|response| response.headers);
            for value in fields
                .iter()
                .flat_map(|fields| fields.find_all("WWW-Authenticate"))
            {
                let mut fields = request.fields.borrow_mut();
                fields.push("WWW-Authenticate", value.clone());
            }
            Err(Interrupt::Status(401))
        }
        403 => Err(Interrupt::Status(403)),
        status => {
            write_request(
                request,
                Level::Error,
                format_args!("auth request unexpected status: {status}"),
            );
            Err(Interrupt::Status(500))
        }
    }
}
