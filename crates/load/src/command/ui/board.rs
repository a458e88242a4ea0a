//! The runs of the page: one at a time, begun and stopped from it, its state kept for all who look.

use crate::command::arguments::Arguments;
use crate::command::{planning, reach};
use crate::engine::{Control, Observer, run};
use crate::plan::{Pace, USERS_MAX};
use crate::report::Report;
use crate::series::{Point, Series};
use crate::units;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// As good as for ever: a run that is stopped by hand.
const UNTIL_STOPPED: Duration = Duration::from_secs(10 * 365 * 86_400);
/// How long requests under way are waited for when the program ends.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the page asks for; an empty field leaves the matter open.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Wish {
    users: String,
    rate: String,
    duration: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Ready,
    Running,
    Stopping,
    Ended,
}

impl Phase {
    fn as_str(self) -> &'static str {
        match self {
            Phase::Ready => "ready",
            Phase::Running => "running",
            Phase::Stopping => "stopping",
            Phase::Ended => "ended",
        }
    }

    fn is_busy(self) -> bool {
        matches!(self, Phase::Running | Phase::Stopping)
    }
}

/// What is known of the run under way, or of the last one.
struct State {
    phase: Phase,
    /// Another number whenever the points are no longer those of before with more at the end.
    epoch: u64,
    points: Vec<Point>,
    elapsed: Duration,
    requests: u64,
    failures: u64,
    complaint: Option<String>,
    control: Arc<Control>,
    report: Option<Arc<Report>>,
}

/// The runs.
pub struct Board {
    arguments: Arguments,
    state: Mutex<State>,
    ended: Condvar,
}

impl Board {
    pub fn new(arguments: Arguments) -> Board {
        Board {
            arguments,
            state: Mutex::new(State {
                phase: Phase::Ready,
                epoch: 0,
                points: Vec::new(),
                elapsed: Duration::ZERO,
                requests: 0,
                failures: 0,
                complaint: None,
                control: Arc::default(),
                report: None,
            }),
            ended: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a run, or says why not.
    pub fn start(self: &Arc<Board>, wish: &Wish) -> Result<(), String> {
        let arguments = wished(&self.arguments, wish)?;
        let (mut plan, _) = planning::plan(&arguments)?;
        let control = Arc::new(Control::default());
        if !matches!(&plan.pace, Pace::Closed(stages) if !stages.is_empty()) {
            control.set_users(plan.users);
        }
        {
            let mut state = self.state();
            if state.phase.is_busy() {
                return Err("a run is under way".to_owned());
            }
            *state = State {
                phase: Phase::Running,
                epoch: state.epoch + 1,
                points: Vec::new(),
                elapsed: Duration::ZERO,
                requests: 0,
                failures: 0,
                complaint: None,
                control: Arc::clone(&control),
                report: None,
            };
        }
        let board = Arc::clone(self);
        let work = move || {
            let outcome =
                reach(&mut plan).and_then(|()| run(&Arc::new(plan), &control, &mut Watch(&board)));
            board.close(outcome);
        };
        let started = std::thread::Builder::new()
            .name("run".to_owned())
            .spawn(work);
        started.map(|_| ()).map_err(|error| {
            let complaint = format!("cannot start a thread: {error}");
            self.close(Err(complaint.clone()));
            complaint
        })
    }

    /// Has more or fewer users at work in the run under way, or says why not.
    pub fn change(&self, wish: &Wish) -> Result<(), String> {
        let users = number_of_users(&wish.users)?;
        let users = users.ok_or_else(|| "how many users?".to_owned())?;
        if !(1..=USERS_MAX).contains(&users) {
            return Err(format!("users must be between 1 and {USERS_MAX}"));
        }
        let state = self.state();
        if state.phase != Phase::Running {
            return Err("no run is under way".to_owned());
        }
        if state.control.users().is_none() {
            return Err("the users follow the stages that were asked for".to_owned());
        }
        state.control.set_users(users);
        Ok(())
    }

    /// Ends the run; requests under way are waited for, unless it is said twice.
    pub fn stop(&self) {
        let mut state = self.state();
        match state.phase {
            Phase::Running => {
                state.phase = Phase::Stopping;
                state.control.stop();
            }
            Phase::Stopping => state.control.abort(),
            Phase::Ready | Phase::Ended => {}
        }
    }

    fn close(&self, outcome: Result<Report, String>) {
        let mut state = self.state();
        state.phase = Phase::Ended;
        match outcome {
            Ok(report) => {
                // The last point is often shorter than it seemed, or goes with the one before.
                state.epoch += 1;
                state.points.clone_from(&report.points);
                state.elapsed = report.elapsed;
                state.requests = report.total.requests;
                state.failures = report.total.failures;
                state.report = Some(Arc::new(report));
            }
            Err(complaint) => state.complaint = Some(complaint),
        }
        self.ended.notify_all();
    }

    /// The state for a page that has `from` points of this epoch.
    pub fn show(&self, epoch: u64, from: usize) -> Value {
        let state = self.state();
        let from = if epoch == state.epoch { from } else { 0 };
        json!({
            "phase": state.phase.as_str(),
            "epoch": state.epoch,
            "points": state.points.get(from..).unwrap_or_default(),
            "elapsed_s": state.elapsed.as_secs_f64(),
            "requests": state.requests,
            "failures": state.failures,
            "complaint": state.complaint,
            "has_report": state.report.is_some(),
        })
    }

    /// The report of the last run.
    pub fn report(&self) -> Option<Arc<Report>> {
        self.state().report.clone()
    }

    /// Stops what is under way; gives the last report.
    pub fn end(&self) -> Option<Arc<Report>> {
        self.stop();
        let busy = |state: &mut State| state.phase.is_busy();
        let waited = self.ended.wait_timeout_while(self.state(), PATIENCE, busy);
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        state.control.abort();
        if !timeout.timed_out() {
            return state.report.clone();
        }
        let waited = self.ended.wait_timeout_while(state, PATIENCE, busy);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.report.clone()
    }
}

/// The arguments of the command line, with those of the page in their place.
fn wished(arguments: &Arguments, wish: &Wish) -> Result<Arguments, String> {
    let mut arguments = arguments.clone();
    let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    arguments.users = number_of_users(&wish.users)?;
    arguments.rate = given(&wish.rate)
        .map(|text| units::rate(&text))
        .transpose()?;
    arguments.duration = given(&wish.duration)
        .map(|text| units::duration(&text))
        .transpose()?;
    // A log and stages have an end of their own.
    let ends =
        arguments.requests.is_some() || arguments.replay.is_some() || arguments.stages.is_some();
    if arguments.duration.is_none() && !ends {
        arguments.duration = Some(UNTIL_STOPPED);
    }
    Ok(arguments)
}

/// The number in a field of the page, if there is one.
fn number_of_users(text: &str) -> Result<Option<usize>, String> {
    match text.trim() {
        "" => Ok(None),
        text => {
            let wrong = |_| format!("\"{text}\" is no number of users");
            Ok(Some(text.parse().map_err(wrong)?))
        }
    }
}

/// Copies what a run says of itself to the board.
struct Watch<'a>(&'a Board);

impl Observer for Watch<'_> {
    fn look(&mut self, elapsed: Duration, series: &Series, _: &Control) {
        let mut state = self.0.state();
        if series.points.len() < state.points.len() {
            // Two points became one.
            state.epoch += 1;
            state.points.clear();
        }
        let known = state.points.len();
        let new = series.points.get(known..).unwrap_or_default();
        state.points.extend_from_slice(new);
        state.elapsed = elapsed;
        state.requests = series.requests;
        state.failures = series.failures;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn the_page_s_wishes_replace_the_arguments() {
        let words = ["gannet load", "-c", "7", "--rate", "9", "http://a/"];
        let arguments = Arguments::parse_from(words);
        let wish = |users: &str, rate: &str, duration: &str| Wish {
            users: users.to_owned(),
            rate: rate.to_owned(),
            duration: duration.to_owned(),
        };
        let empty = wished(&arguments, &wish("", " ", "")).unwrap();
        assert_eq!((empty.users, empty.rate), (None, None));
        assert_eq!(empty.duration, Some(UNTIL_STOPPED));
        let full = wished(&arguments, &wish("3", "20", "2s")).unwrap();
        assert_eq!((full.users, full.rate), (Some(3), Some(20.0)));
        assert_eq!(full.duration, Some(Duration::from_secs(2)));
        for wrong in [wish("x", "", ""), wish("", "-1", ""), wish("", "", "1y")] {
            assert!(wished(&arguments, &wrong).is_err(), "{wrong:?}");
        }
    }
}
