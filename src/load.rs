//! `gannet load …` and `gannet ab …`: the load tester.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs it with the arguments after its name.
pub fn run(arguments: &[OsString]) -> ExitCode {
    ExitCode::from(load::command::load(arguments))
}

/// Runs it with ab's switches.
pub fn run_ab(arguments: &[OsString]) -> ExitCode {
    ExitCode::from(load::command::ab(arguments))
}
