//! `pm auto`: a pool that sizes itself. It grows while requests wait and the machine has processors and memory to spare, and
//! shrinks to what was needed lately. A pure function of numbers and a clock that is handed in.

use super::scaling::{Census, Decision};
use super::settings::Settings;
use std::collections::VecDeque;
use std::time::Duration;

/// What is known of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    pub processors: usize,
    /// The part of all processors that did nothing lately, 0 to 1.
    pub idle_share: f64,
    pub total_memory: u64,
    /// The part of the busy children that wait for something else than a processor, 0 to 1.
    pub sleeping_share: f64,
    /// Bytes that can be had without swapping.
    pub available_memory: u64,
    /// Of its own in the largest child, in bytes; 0 while none has been measured.
    pub child_memory: u64,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            processors: 1,
            idle_share: 1.0,
            sleeping_share: 0.0,
            total_memory: 1 << 30,
            available_memory: 1 << 30,
            child_memory: 0,
        }
    }
}

/// A request must have waited so long before it is worth a child: most waits are over sooner than a child starts.
const PATIENCE: Duration = Duration::from_millis(30);
/// With less than this of the processors idle, more children only take turns.
const IDLE_SHARE_MIN: f64 = 0.1;
/// With this part of the children asleep, more of them are of use whatever the processors do.
const SLEEPING_SHARE_MIN: f64 = 0.5;
/// Children a processor that are always allowed: while some wait for disks and databases, others compute.
const CHILDREN_PER_PROCESSOR: usize = 2;
/// Between two growths: a child has to show first whether it helps.
const GROWTH_PAUSE: Duration = Duration::from_millis(200);
/// This part of the memory is left alone.
const MEMORY_RESERVE: u64 = 10;
/// What a child is taken to need before one has been measured.
const CHILD_MEMORY: u64 = 32 << 20;
/// What was needed in the last so many seconds decides what is kept.
const WINDOW: usize = 30;

/// The memory of the policy.
#[derive(Debug, Default)]
pub struct Auto {
    grown_at: Option<Duration>,
    /// The next growth; it doubles while requests go on waiting.
    step: usize,
    /// The most children busy at once in each of the last seconds.
    peaks: VecDeque<usize>,
    peak: usize,
    /// Why it did not grow, told once.
    refused: bool,
}

impl Auto {
    /// A request waits.
    pub fn grow(
        &mut self,
        settings: &Settings,
        census: &Census,
        machine: &Machine,
        now: Duration,
    ) -> Option<Decision> {
        let total = census.total();
        self.peak = self.peak.max(census.busy + census.waiting.min(1));
        let lacking = census.waiting.saturating_sub(census.idle + census.starting);
        if lacking == 0 {
            return None;
        }
        let least = machine.processors.clamp(1, settings.max_children);
        if total < least {
            let count = lacking.min(least - total);
            return Some(self.grown(count, census, machine, now));
        }
        let early = self
            .grown_at
            .is_some_and(|at| now.saturating_sub(at) < GROWTH_PAUSE);
        if census.longest_wait < PATIENCE || early || census.starting > 0 {
            return None;
        }
        // While the processors are busy there is no sense in more than take turns anyway.
        let always = machine.processors * CHILDREN_PER_PROCESSOR;
        // Children that sleep do not keep them busy, whoever else does.
        let computes = machine.sleeping_share < SLEEPING_SHARE_MIN;
        let sensible = match machine.idle_share < IDLE_SHARE_MIN && computes {
            true => always.saturating_sub(total),
            false => usize::MAX,
        };
        if sensible == 0 {
            return self.refuse("the processors are busy", census, machine);
        }
        let room = settings.max_children.saturating_sub(total);
        if room == 0 {
            return self.refuse("pm.max_children is reached", census, machine);
        }
        let room = room.min(memory_room(machine));
        if room == 0 {
            return self.refuse("memory is short", census, machine);
        }
        // A quarter more at first, then twice as many each time.
        let step = self.step.max(total / 4).max(1);
        self.step = step.saturating_mul(2);
        Some(self.grown(
            step.min(lacking).min(room).min(sensible),
            census,
            machine,
            now,
        ))
    }

    fn grown(
        &mut self,
        count: usize,
        census: &Census,
        machine: &Machine,
        now: Duration,
    ) -> Decision {
        self.grown_at = Some(now);
        self.refused = false;
        Decision::Spawn {
            count,
            why: Some(format!(
                "auto: {count} more children, {}",
                state(census, machine)
            )),
        }
    }

    fn refuse(&mut self, reason: &str, census: &Census, machine: &Machine) -> Option<Decision> {
        if std::mem::replace(&mut self.refused, true) {
            return None;
        }
        let state = state(census, machine);
        Some(Decision::Warn(format!(
            "auto: no more children, {reason}: {state}"
        )))
    }

    /// Each second: keeps what the busiest moment of the window needed, and one more.
    pub fn shrink(
        &mut self,
        settings: &Settings,
        census: &Census,
        machine: &Machine,
        now: Duration,
    ) -> Option<Decision> {
        if census.waiting > 0 {
            return self.grow(settings, census, machine, now);
        }
        self.step = 0;
        self.peaks.push_back(self.peak.max(census.busy));
        self.peak = census.busy;
        if self.peaks.len() < WINDOW {
            return None;
        }
        while self.peaks.len() > WINDOW {
            self.peaks.pop_front();
        }
        let needed = self.peaks.iter().copied().max().unwrap_or(0) + 1;
        let least = machine.processors.clamp(1, settings.max_children);
        let kept = needed.max(least);
        let excess = census.total().saturating_sub(kept).min(census.idle);
        if excess == 0 {
            return None;
        }
        // Half of it at a time, so that a wave of requests a minute does not meet an empty house.
        let count = excess.div_ceil(2);
        Some(Decision::Retire {
            count,
            why: Some(format!(
                "auto: {count} fewer children, {needed} were needed in {WINDOW} seconds, {}",
                state(census, machine)
            )),
        })
    }

    pub fn note_busy(&mut self, busy: usize) {
        self.peak = self.peak.max(busy);
    }
}

/// How many more children the memory has room for.
fn memory_room(machine: &Machine) -> usize {
    let reserve = machine.total_memory / MEMORY_RESERVE;
    let child = match machine.child_memory {
        0 => CHILD_MEMORY,
        measured => measured,
    };
    let free = machine.available_memory.saturating_sub(reserve);
    usize::try_from(free / child).unwrap_or(usize::MAX)
}

fn state(census: &Census, machine: &Machine) -> String {
    format!(
        "{} of {} busy, {} requests wait up to {} ms, {:.0} % of {} processors idle, {} MB free, {} MB a child",
        census.busy,
        census.total(),
        census.waiting,
        census.longest_wait.as_millis(),
        machine.idle_share * 100.0,
        machine.processors,
        machine.available_memory >> 20,
        machine.child_memory >> 20,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::scaling::Scaler;
    use crate::pool::settings::{Pm, Reading};

    fn settings(max: usize) -> Settings {
        let mut reading = Reading::new("www");
        reading.entry("pm.max_children", &max.to_string()).unwrap();
        reading.finish(Some(Pm::Auto)).unwrap()
    }

    /// Plays a pool on a virtual clock: `load` requests are there all the time, each child works on one. Children use the
    /// share `cpu` of a processor.
    fn play(max: usize, load: usize, cpu: f64, memory: u64, seconds: u64) -> (usize, usize) {
        let settings = settings(max);
        let mut scaler = Scaler::default();
        let mut machine = Machine {
            processors: 4,
            total_memory: 8 << 30,
            child_memory: 64 << 20,
            ..Machine::default()
        };
        let mut children = Scaler::initial(&settings, &machine);
        let mut most = children;
        for step in 0..seconds * 20 {
            let now = Duration::from_millis(step * 50);
            let busy = load.min(children);
            machine.idle_share = (1.0 - busy as f64 * cpu / 4.0).max(0.0);
            machine.available_memory = memory.saturating_sub(children as u64 * (64 << 20));
            let census = Census {
                starting: 0,
                idle: children - busy,
                busy,
                waiting: load - busy,
                longest_idle: Duration::ZERO,
                longest_wait: Duration::from_millis(if load > busy { 100 } else { 0 }),
            };
            let waits = scaler.request_waits(&settings, &census, &machine, now);
            let tick = (step % 20 == 0).then(|| scaler.tick(&settings, &census, &machine, now));
            for decision in waits.into_iter().chain(tick.flatten()) {
                match decision {
                    Decision::Spawn { count, .. } => children += count,
                    Decision::Retire { count, .. } => children -= count,
                    Decision::Warn(_) => {}
                }
            }
            most = most.max(children);
        }
        (children, most)
    }

    #[test]
    fn children_that_compute_fill_the_processors_and_no_more() {
        let (end, most) = play(256, 100, 1.0, 8 << 30, 60);
        assert!((4..=8).contains(&end) && most <= 8, "{end} {most}");
    }

    #[test]
    fn children_that_wait_become_as_many_as_are_needed() {
        let (end, _) = play(256, 100, 0.01, 16 << 30, 60);
        assert_eq!(end, 100);
        let (end, most) = play(50, 100, 0.01, 16 << 30, 60);
        assert_eq!((end, most), (50, 50));
    }

    #[test]
    fn memory_ends_the_growth() {
        // 2 GB, of which 0.8 GB are left alone: 19 children of 64 MB.
        let (end, most) = play(256, 100, 0.01, 2 << 30, 60);
        assert!((16..=20).contains(&end) && most <= 20, "{end} {most}");
    }

    #[test]
    fn what_is_not_needed_any_more_goes_after_the_window() {
        let settings = settings(256);
        let mut scaler = Scaler::default();
        let machine = Machine {
            processors: 4,
            ..Machine::default()
        };
        let mut children = 40;
        for second in 0..120 {
            let census = Census {
                idle: children - 6,
                busy: 6,
                ..Census::default()
            };
            let now = Duration::from_secs(second);
            if let Some(Decision::Retire { count, .. }) =
                scaler.tick(&settings, &census, &machine, now)
            {
                assert!(second >= 29, "{second}");
                children -= count;
            }
        }
        assert_eq!(children, 7);
    }
}
