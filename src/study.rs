//! `gannet study …` and `gannet tune …`: published measurements, repeated on this machine.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs a study with the arguments after its name.
pub fn run(arguments: &[OsString]) -> ExitCode {
    ExitCode::from(study::command::study(arguments))
}

/// Runs the short form of all of them.
pub fn run_tune(arguments: &[OsString]) -> ExitCode {
    ExitCode::from(study::command::tune(arguments))
}
