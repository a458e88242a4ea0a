//! The live view: a bar with requests a second, latencies and errors on a terminal, nothing elsewhere. Also where Ctrl-C is
//! heard.

use crate::engine::{Control, Observer};
use crate::plan::Plan;
use crate::series::Series;
use crate::units::show_rate;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};
use sys::signal::{Signal, SignalReader};

/// After Ctrl-C, requests under way are waited for so long.
const PATIENCE: Duration = Duration::from_secs(2);
/// Times a second that the bar is drawn.
const DRAWS: u8 = 5;

/// The bar of a run.
pub struct Progress {
    bar: ProgressBar,
    by_requests: bool,
    signals: SignalReader,
    interrupted: Option<Instant>,
}

impl Progress {
    /// Must be made before there are threads: they inherit that the signals are read here.
    pub fn new(plan: &Plan, quiet: bool) -> Result<Progress, String> {
        let signals = SignalReader::new(&[Signal::Int, Signal::Term])
            .map_err(|error| format!("cannot read signals: {error}"))?;
        let bar = match (plan.requests, plan.expected()) {
            (Some(requests), _) => ProgressBar::new(requests),
            (None, Some(time)) => {
                ProgressBar::new(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
            }
            (None, None) => ProgressBar::no_length(),
        };
        bar.set_draw_target(if quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(DRAWS)
        });
        let form = "{elapsed:>4} {wide_bar:.dim} {percent:>3}% {msg}";
        let style = ProgressStyle::with_template(form)
            .map_err(|error| format!("the bar: {error}"))?
            .progress_chars("━╸ ");
        bar.set_style(style);
        Ok(Progress {
            bar,
            by_requests: plan.requests.is_some(),
            signals,
            interrupted: None,
        })
    }

    /// Takes the bar away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// The first signal ends the run softly, the second, or time, at once.
    fn hear(&mut self, control: &Control) {
        while let Ok(Some(_)) = self.signals.read() {
            if self.interrupted.is_some() {
                control.abort();
            }
            self.interrupted.get_or_insert_with(Instant::now);
            control.stop();
        }
        if self
            .interrupted
            .is_some_and(|since| since.elapsed() > PATIENCE)
        {
            control.abort();
        }
    }
}

impl Observer for Progress {
    fn look(&mut self, elapsed: Duration, series: &Series, control: &Control) {
        self.hear(control);
        if self.bar.is_hidden() {
            return;
        }
        let position = if self.by_requests {
            series.requests
        } else {
            u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
        };
        self.bar.set_position(position);
        if let Some(point) = series.points.last() {
            self.bar.set_message(format!(
                "{}/s  p50 {:.2} p99 {:.2} ms  {} users  {} failed",
                show_rate(point.requests as f64 / point.length_s),
                point.p50_ms,
                point.p99_ms,
                point.users,
                series.failures
            ));
        }
    }
}
