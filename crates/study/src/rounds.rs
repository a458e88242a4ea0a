//! Rounds: each measures every case on every server, which take turns, so that what disturbs the machine disturbs all.

use crate::measure::{Interruption, measure};
use crate::results::Results;
use crate::study::{Asked, Case, Contender};
use crate::workspace::Workspace;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The bar of a study on a terminal.
pub struct Progress(ProgressBar);

impl Progress {
    pub fn new(quiet: bool) -> Result<Progress, String> {
        let bar = ProgressBar::no_length();
        bar.set_draw_target(match quiet {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        });
        let form = "{elapsed:>4} {bar:30.dim} {pos}/{len} {msg}";
        let style = ProgressStyle::with_template(form)
            .map_err(|error| format!("the bar: {error}"))?
            .progress_chars("━╸ ");
        bar.set_style(style);
        Ok(Progress(bar))
    }

    /// Takes the bar away.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}

/// Measures all cases; ends early, with what there is, when interrupted.
pub fn run(
    name: &str,
    cases: &[Case],
    asked: &Asked,
    workspace: &Workspace,
    interruption: &mut Interruption,
    progress: &Progress,
) -> Result<Results, String> {
    let mut results = Results::new(&asked.contenders);
    let total: usize = cases.iter().map(|case| servers(case, asked, 0).len()).sum();
    progress.0.set_length((total * asked.rounds) as u64);
    progress.0.set_position(0);
    for round in 0..asked.rounds {
        for case in cases {
            for contender in servers(case, asked, round) {
                let message = format!("{name}: {} on {}", case.key, contender.as_str());
                progress.0.set_message(message);
                let measured = match interruption.came() {
                    true => None,
                    false => measure(case, contender, workspace, interruption)?,
                };
                let Some(figures) = measured else {
                    results.was_interrupted = true;
                    return Ok(results);
                };
                results.add(&case.key, contender, figures);
                progress.0.inc(1);
            }
        }
    }
    Ok(results)
}

/// Who can do a case, in the order of the round: every other one backwards, so that nobody always comes first.
fn servers(case: &Case, asked: &Asked, round: usize) -> Vec<Contender> {
    let mut servers = asked.contenders.clone();
    servers.retain(|contender| case.only.is_none_or(|only| only == *contender));
    if round % 2 == 1 {
        servers.reverse();
    }
    servers
}
