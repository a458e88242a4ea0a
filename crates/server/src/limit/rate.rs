//! `limit_rate` and `limit_rate_after`: bytes per second of one response.

use crate::config::build::Build;
use crate::config::directive::{Arity, HSLI, Outcome, Set, row};
use crate::config::setting::Complaint;
use crate::http::Request;
use crate::variables::Template;
use conf::table::Row;
use conf::{Directive, values};

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "limit_rate",
        HSLI,
        Arity::Exactly(1),
        |b, d| amount(b, d, |raw| &mut raw.rate),
        "Bytes per second of a response; 0: no limit.",
    ),
    row(
        "limit_rate_after",
        HSLI,
        Arity::Exactly(1),
        |b, d| amount(b, d, |raw| &mut raw.after),
        "Bytes that are sent before the limit holds.",
    ),
];

/// A number of bytes, fixed or with variables.
#[derive(Debug, Clone)]
pub enum Amount {
    Fixed(u64),
    Variable(Template),
}

impl Amount {
    /// Reads a size, or a text with variables.
    pub fn parse(build: &mut Build<'_>, word: &[u8]) -> Result<Amount, Complaint> {
        let template = Template::compile(word, &mut build.variables)?;
        Ok(match template.constant() {
            Some(text) => Amount::Fixed(values::parse_size(&text).ok_or("invalid value")?),
            None => Amount::Variable(template),
        })
    }

    /// The amount for a request; a value that is no size counts as 0.
    #[must_use]
    pub fn evaluate(&self, request: &Request) -> u64 {
        match self {
            Amount::Fixed(bytes) => *bytes,
            Amount::Variable(template) => {
                values::parse_size(&template.evaluate(request)).unwrap_or(0)
            }
        }
    }
}

crate::config::setting::settings! {
    rate: Amount = Amount::Fixed(0),
    after: Amount = Amount::Fixed(0),
}

impl Settings {
    /// Whether any limit may hold for a request: the one question on the fast path.
    #[must_use]
    pub fn applies(&self, request: &Request) -> bool {
        !matches!(self.rate, Amount::Fixed(0)) || request.limit_rate.get().is_some()
    }

    /// Whether no response is ever limited, but by `set $limit_rate`.
    #[must_use]
    pub fn is_off(&self) -> bool {
        matches!(self.rate, Amount::Fixed(0))
    }

    /// The rate in bytes per second (0: none) and the bytes before it holds.
    #[must_use]
    pub fn evaluate(&self, request: &Request) -> (u64, u64) {
        let rate = request
            .limit_rate
            .get()
            .unwrap_or_else(|| self.rate.evaluate(request));
        (
            rate,
            if rate == 0 {
                0
            } else {
                self.after.evaluate(request)
            },
        )
    }
}

fn amount(
    build: &mut Build<'_>,
    directive: &Directive,
    field: fn(&mut Raw) -> &mut crate::config::setting::Setting<Amount>,
) -> Outcome {
    let amount = Amount::parse(build, &directive.args[0])?;
    field(&mut build.location().limit_rate).set(amount)
}
