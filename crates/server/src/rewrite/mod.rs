//! The rewrite module: `rewrite`, `if`, `set`, `return`, `break`, compiled into programs of statements. A server's runs
//! before the location is found, a location's after; one that changes the path has the location found anew.

pub mod directive;
pub mod settings;

mod condition; // what `if` asks
mod replacement; // what `rewrite` puts in place of the path

use crate::config::build::Frame;
use crate::config::model::LocationId;
use crate::config::resolve::Resolver;
use crate::http::request::Slot;
use crate::http::{Body, Interrupt, Phase, Request, Response};
use crate::log::error::{Level, write_request};
use crate::routing::pattern::GivenUp;
use crate::variables::{Template, VariableId};
use bytes::Bytes;
use condition::Condition;
use replacement::Rewrite;

/// A statement as read; `if` blocks keep their frame until the settings are resolved.
pub enum RawStatement {
    If(Condition, Box<Frame>),
    Ready(Statement),
}

/// A statement.
#[derive(Debug)]
pub enum Statement {
    Rewrite(Box<Rewrite>),
    If {
        condition: Box<Condition>,
        /// The settings that hold from then on; none in a server.
        location: Option<LocationId>,
        body: Vec<Statement>,
    },
    Set(Target, Template),
    Return(Return),
    Break,
}

/// What `set` assigns to.
#[derive(Debug)]
pub enum Target {
    Variable(VariableId),
    Args,
    LimitRate,
}

/// `return`.
#[derive(Debug)]
pub struct Return {
    pub status: u16,
    /// A text or a URL. Without it a status from 400 on goes to the error pages.
    pub text: Option<Template>,
}

/// A compiled program.
#[derive(Debug, Default)]
pub struct Program {
    statements: Vec<Statement>,
}

impl Program {
    /// Whether the program does nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Continue,
    /// The URI was rewritten: the location is to be found anew.
    UriChanged,
}

/// Compiles the statements of a server, or of the location `outer`.
pub fn compile(
    statements: Vec<RawStatement>,
    resolver: &mut Resolver,
    outer: Option<LocationId>,
) -> Result<Program, conf::Error> {
    Ok(Program {
        statements: compile_block(statements, resolver, outer)?,
    })
}

fn compile_block(
    statements: Vec<RawStatement>,
    resolver: &mut Resolver,
    outer: Option<LocationId>,
) -> Result<Vec<Statement>, conf::Error> {
    let mut compiled = Vec::with_capacity(statements.len());
    for statement in statements {
        compiled.push(match statement {
            RawStatement::Ready(statement) => statement,
            RawStatement::If(condition, mut frame) => {
                let body = std::mem::take(&mut frame.program);
                let location = match outer {
                    Some(outer) => Some(resolver.nested(*frame, outer)?),
                    None => None,
                };
                Statement::If {
                    condition: Box::new(condition),
                    location,
                    body: compile_block(body, resolver, outer)?,
                }
            }
        });
    }
    Ok(compiled)
}

/// Runs a program over a request.
pub fn run(request: &mut Request, program: &Program) -> Phase<Flow> {
    if program.statements.is_empty() {
        return Ok(Flow::Continue);
    }
    let mut run = Run {
        log: request.location().settings.rewrite.log,
        escape: true,
        uri_changed: false,
        scratch: Vec::new(),
    };
    run.block(request, &program.statements)?;
    Ok(match run.uri_changed {
        true => Flow::UriChanged,
        false => Flow::Continue,
    })
}

/// Logs that a match was given up; the client sees 500.
pub fn given_up(request: &Request, subject: &[u8], given_up: &GivenUp) -> Interrupt {
    write_request(
        request,
        Level::Alert,
        format_args!(
            "pcre2_match() failed: {} on \"{}\" using \"{}\"",
            given_up.code,
            String::from_utf8_lossy(subject),
            String::from_utf8_lossy(&given_up.pattern)
        ),
    );
    Interrupt::Status(500)
}

/// Whether the statements after this one are run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Next,
    Stop,
}

/// A program being run.
struct Run {
    /// `rewrite_log`.
    log: bool,
    /// Captures are escaped where they are put into values: an oddity of nginx, until the first rewrite.
    escape: bool,
    uri_changed: bool,
    /// Room for the values that conditions look at.
    scratch: Vec<u8>,
}

impl Run {
    fn block(&mut self, request: &mut Request, statements: &[Statement]) -> Phase<Step> {
        for statement in statements {
            if self.statement(request, statement)? == Step::Stop {
                return Ok(Step::Stop);
            }
        }
        Ok(Step::Next)
    }

    fn statement(&mut self, request: &mut Request, statement: &Statement) -> Phase<Step> {
        match statement {
            Statement::Rewrite(rewrite) => return self.rewrite(request, rewrite),
            Statement::If {
                condition,
                location,
                body,
            } => {
                if self.holds(request, condition)? {
                    if let Some(location) = location {
                        request.location = *location;
                    }
                    return self.block(request, body);
                }
            }
            Statement::Set(target, value) => self.set(request, target, value),
            Statement::Return(answer) => return Err(respond(request, answer)),
            Statement::Break => {
                request.rewritten_in_place |= std::mem::take(&mut self.uri_changed);
                return Ok(Step::Stop);
            }
        }
        Ok(Step::Next)
    }

    /// Appends a value; captures in it are escaped where nginx escapes them.
    fn append(&self, request: &Request, template: &Template, out: &mut Vec<u8>) {
        let escape = self.escape && request.path_was_escaped();
        template.append_with(request, out, escape);
    }

    fn set(&self, request: &mut Request, target: &Target, template: &Template) {
        let value = match template.constant() {
            Some(constant) => constant,
            None => {
                let mut value = Vec::new();
                self.append(request, template, &mut value);
                Bytes::from(value)
            }
        };
        match target {
            Target::Variable(id) => request.assign(*id, Slot::Value(value)),
            Target::Args => {
                request.args.clear();
                request.args.extend_from_slice(&value);
                request.uri_changed = true;
            }
            Target::LimitRate => match conf::values::parse_size(&value) {
                Some(bytes) => request.limit_rate.set(Some(bytes)),
                None => write_request(
                    request,
                    Level::Error,
                    format_args!(
                        "invalid $limit_rate \"{}\"",
                        String::from_utf8_lossy(&value)
                    ),
                ),
            },
        }
    }
}

/// The answer of `return`.
fn respond(request: &Request, answer: &Return) -> Interrupt {
    let Some(text) = &answer.text else {
        return Interrupt::Status(answer.status);
    };
    // The text may ask for it.
    request.sent.status.set(answer.status);
    let text = text.evaluate(request);
    if matches!(answer.status, 301 | 302 | 303 | 307 | 308) {
        return redirect(answer.status, text);
    }
    let mut response = Response::new(answer.status, Body::Memory(text));
    response.content_type = request.location().settings.mime.of_path(&request.uri);
    Interrupt::Respond(Box::new(response))
}

/// An answer that sends the client elsewhere; `error_page` may stand in for it.
fn redirect(status: u16, location: Bytes) -> Interrupt {
    Interrupt::Respond(Box::new(Response {
        location: Some(location),
        ..Response::status(status)
    }))
}
