//! Reading `rewrite`, `if`, `set`, `return` and `break` into the program of their block.

use super::condition::Condition;
use super::replacement::Rewrite;
use super::settings::uninitialized;
use super::{RawStatement, Return, Statement, Target};
use crate::config::build::Build;
use crate::config::directive::{Arity, Outcome, REWRITE, SL, Set, block, row};
use crate::config::model::LocationKind;
use crate::variables::Template;
use conf::table::{Contexts, Row};
use conf::{Directive, values};

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "rewrite",
        REWRITE,
        Arity::Between(2, 3),
        |b, d| {
            let rewrite = Rewrite::parse(b, &d.args)?;
            push(b, Statement::Rewrite(Box::new(rewrite)))
        },
        "Change a path that matches, or send the client elsewhere.",
    ),
    block(
        "if",
        SL,
        Arity::AtLeast(1),
        condition,
        "Statements and settings for requests that meet a condition.",
    ),
    row(
        "set",
        REWRITE,
        Arity::Exactly(2),
        set,
        "Assign a value to a variable.",
    ),
    row(
        "return",
        REWRITE,
        Arity::Between(1, 2),
        answer,
        "Answer with a status, a text or a redirect.",
    ),
    row(
        "break",
        REWRITE,
        Arity::Exactly(0),
        |b, _| push(b, Statement::Break),
        "Skip the statements that follow.",
    ),
];

/// The largest status that `return` takes.
const MAX_STATUS: u64 = 999;

fn push(build: &mut Build<'_>, statement: Statement) -> Outcome {
    build.frame().program.push(RawStatement::Ready(statement));
    Ok(())
}

fn condition(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let condition = Condition::parse(build, &directive.args)?;
    let context = match build.frame().context.contains(Contexts::SERVER) {
        true => Contexts::SERVER_IF,
        false => Contexts::LOCATION_IF,
    };
    let frame = build.nested(directive, context, LocationKind::If)?;
    let statement = RawStatement::If(condition, Box::new(frame));
    build.frame().program.push(statement);
    Ok(())
}

fn set(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let word = &directive.args[0];
    let name = match word.strip_prefix(b"$") {
        Some(name) if !name.is_empty() => name,
        _ => return Err(format!("invalid variable name \"{word}\"").into()),
    };
    let id = build.variables.set(name, uninitialized)?;
    let value = Template::compile(&directive.args[1], &mut build.variables)?;
    let target = match &name.to_ascii_lowercase()[..] {
        b"args" => Target::Args,
        b"limit_rate" => Target::LimitRate,
        _ => Target::Variable(id),
    };
    push(build, Statement::Set(target, value))
}

/// How an address begins that stands where the code is expected.
const URL_STARTS: [&[u8]; 3] = [b"http://", b"https://", b"$scheme"];

fn answer(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let first = &directive.args[0];
    let (status, text) = match (values::parse_number(first), directive.args.get(1)) {
        (Some(status), _) if status > MAX_STATUS => {
            return Err(format!("invalid return code \"{first}\"").into());
        }
        (Some(status), text) => (status as u16, text),
        (None, None) if URL_STARTS.iter().any(|start| first.starts_with(start)) => {
            (302, Some(first))
        }
        (None, _) => return Err(format!("invalid return code \"{first}\"").into()),
    };
    let text = match text {
        Some(text) => Some(Template::compile(text, &mut build.variables)?),
        // Below 400 an answer is made of nothing; above, the error pages make one.
        None if status < 400 => Some(Template::default()),
        None => None,
    };
    let is_empty = |text: &Template| text.constant().is_some_and(|text| text.is_empty());
    let text = text.filter(|text| status < 400 || !is_empty(text));
    push(build, Statement::Return(Return { status, text }))
}
