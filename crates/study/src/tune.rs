//! The short form of all studies: a few cases of each, and the directives that they speak for.

use crate::command::measure;
use crate::measure::Interruption;
use crate::report;
use crate::rounds::Progress;
use crate::studies::Study;
use crate::study::{Advice, Asked, Report};
use clap::ValueEnum;

pub const TITLE: &str = "Directives for this machine and this site";

/// What came of it.
pub struct Tuned {
    pub reports: Vec<Report>,
    pub advice: Vec<Advice>,
    /// Studies that could not be done, and why.
    pub left_out: Vec<String>,
}

/// Runs all studies, one after the other; one that cannot be done is left out, by name.
pub fn run(
    asked: &Asked,
    interruption: &mut Interruption,
    progress: &Progress,
) -> Result<Tuned, String> {
    let mut tuned = Tuned {
        reports: Vec::new(),
        advice: Vec::new(),
        left_out: Vec::new(),
    };
    for study in Study::value_variants() {
        if interruption.came() {
            break;
        }
        match measure(*study, asked, interruption, progress) {
            Ok((report, _)) => {
                for advice in &report.findings.advice {
                    // The first study that speaks for a directive names it.
                    if !tuned
                        .advice
                        .iter()
                        .any(|known| known.directive == advice.directive)
                    {
                        tuned.advice.push(advice.clone());
                    }
                }
                tuned.reports.push(report);
            }
            Err(why) => tuned.left_out.push(format!("{}: {why}", study.as_str())),
        }
    }
    match tuned.reports.is_empty() && !tuned.left_out.is_empty() {
        true => Err(tuned.left_out.join("; ")),
        false => Ok(tuned),
    }
}

/// What is printed.
pub fn text(tuned: &Tuned) -> String {
    let mut text = String::new();
    if let Some(report) = tuned.reports.first() {
        let facts = report.machine.iter();
        text.extend(facts.map(|(label, value)| format!("{label}: {value}\n")));
    }
    text.push_str(&report::advice(&tuned.advice));
    for left_out in &tuned.left_out {
        text.push_str(&format!("\nNot measured: {left_out}\n"));
    }
    text
}
