//! The rewrite module: `rewrite`, `if`, `set`, `return`, `break`, compiled into a program of statements.

pub mod settings;

/// A statement as read; `if` blocks keep their frame until the settings are resolved.
#[derive(Debug)]
pub struct RawStatement {}

/// A compiled program.
#[derive(Debug, Default)]
pub struct Program {}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Continue,
    /// The URI was rewritten: the location is to be found anew.
    UriChanged,
}

/// Runs a program over a request.
pub fn run(_: &mut crate::http::Request, _: &Program) -> crate::http::Phase<Flow> {
    Ok(Flow::Continue)
}

/// Compiles the statements of a server or location.
pub fn compile(
    _: Vec<RawStatement>,
    _: &mut crate::config::resolve::Resolver,
    _: crate::config::model::LocationId,
) -> Result<Program, conf::Error> {
    Ok(Program::default())
}

impl Program {
    /// Whether the program does nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        true
    }
}
