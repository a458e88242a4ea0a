//! `gannet load …`: the load tester.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs it with the arguments after its name.
pub fn run(arguments: &[OsString]) -> ExitCode {
    ExitCode::from(load::command::load(arguments))
}
