//! `limit_except METHODS { … }`: other settings for all methods but those named.

use crate::config::build::Build;
use crate::config::directive::{Arity, LOCATION, Outcome, Set, block};
use crate::config::model::{Child, LocationId, LocationKind};
use crate::http::Request;
use conf::Directive;
use conf::table::{Contexts, Row};
use wire::http1::Method;

pub const DIRECTIVES: &[Row<Set>] = &[block(
    "limit_except",
    LOCATION,
    Arity::AtLeast(1),
    limit_except,
    "Other settings for all methods but those named.",
)];

/// The methods that may be named; GET brings HEAD with it.
const NAMEABLE: [Method; 14] = [
    Method::Get,
    Method::Head,
    Method::Post,
    Method::Put,
    Method::Delete,
    Method::Mkcol,
    Method::Copy,
    Method::Move,
    Method::Options,
    Method::Propfind,
    Method::Proppatch,
    Method::Lock,
    Method::Unlock,
    Method::Patch,
];

/// The methods that the block does not apply to, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Methods(u32);

impl Methods {
    fn add(&mut self, method: Method) {
        self.0 |= 1 << method as u32;
    }

    #[must_use]
    pub fn contains(self, method: Method) -> bool {
        self.0 & 1 << method as u32 != 0
    }
}

fn limit_except(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let seen = |child: &Child| matches!(child, Child::LimitExcept(..));
    if build.frame().children.iter().any(seen) {
        return Err("is duplicate".into());
    }
    let mut methods = Methods::default();
    for word in &directive.args {
        let method = NAMEABLE
            .into_iter()
            .find(|method| method.as_str().as_bytes().eq_ignore_ascii_case(word))
            .ok_or_else(|| format!("invalid method \"{word}\""))?;
        methods.add(method);
    }
    if methods.contains(Method::Get) {
        methods.add(Method::Head);
    }
    let frame = build.nested(directive, Contexts::LIMIT_EXCEPT, LocationKind::LimitExcept)?;
    let child = Child::LimitExcept(methods, Box::new(frame));
    build.frame().children.push(child);
    Ok(())
}

/// The settings for methods that `limit_except` does not name.
#[must_use]
pub fn other_settings(request: &Request) -> Option<LocationId> {
    let (methods, other) = request.location().limit_except?;
    (!methods.contains(request.method)).then_some(other)
}
