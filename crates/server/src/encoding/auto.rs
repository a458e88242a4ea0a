//! `gzip_comp_level auto` and kin: the level follows the processor time that the thread had to spare in the last second.
//! The policy is pure, over a clock and a count of used time that are handed in; the thread's own is at the end.

use crate::http::thread;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Steps of effort between the least level and the most.
const STEPS: u8 = 8;
/// How far apart the looks at the clock are.
const SAMPLE_MS: u64 = 100;
/// How far back the load is reckoned from.
const WINDOW_MS: u64 = 1000;
/// Shares of the processor, in percent: from here the effort falls, from here it falls twice as fast, below this it rises.
const BUSY: u64 = 70;
const VERY_BUSY: u64 = 85;
const IDLE: u64 = 45;
/// The shortest time between two rises.
const RISE_MS: u64 = 1000;
/// The longest, after rises that had to be taken back.
const RISE_MAX_MS: u64 = 32_000;
/// A fall this soon after a rise takes it back.
const TAKEN_BACK_MS: u64 = 3_000;

/// Larger bodies get less effort, smaller ones more.
const LARGE: u64 = 128 * 1024;
const HUGE: u64 = 512 * 1024;
const SMALL: u64 = 4 * 1024;

/// How much effort goes into compression now.
#[derive(Debug)]
pub struct Policy {
    effort: u8,
    /// When the clock was looked at, and the processor time used until then, in nanoseconds.
    samples: VecDeque<(u64, u64)>,
    risen_ms: Option<u64>,
    changed_ms: u64,
    wait_ms: u64,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            effort: STEPS / 2,
            samples: VecDeque::new(),
            risen_ms: None,
            changed_ms: 0,
            wait_ms: RISE_MS,
        }
    }
}

impl Policy {
    /// Whether it is time for another look.
    #[must_use]
    pub fn is_due(&self, now_ms: u64) -> bool {
        self.samples
            .back()
            .is_none_or(|&(last_ms, _)| now_ms >= last_ms + SAMPLE_MS)
    }

    /// Takes note of the processor time used so far.
    pub fn observe(&mut self, now_ms: u64, used_ns: u64) {
        if !self.is_due(now_ms) {
            return;
        }
        self.samples.push_back((now_ms, used_ns));
        // The oldest that stays is the youngest that is a whole window old.
        while (self.samples.get(1)).is_some_and(|&(at_ms, _)| at_ms + WINDOW_MS <= now_ms) {
            self.samples.pop_front();
        }
        let Some(&(since_ms, before_ns)) = self.samples.front() else {
            return;
        };
        if since_ms + SAMPLE_MS > now_ms {
            return;
        }
        let load = used_ns.saturating_sub(before_ns) / 10_000 / (now_ms - since_ms).max(1);
        self.follow(now_ms, load);
    }

    /// Falls at once, rises with care: a rise that had to be taken back makes the next one wait twice as long.
    fn follow(&mut self, now_ms: u64, load: u64) {
        if load >= BUSY {
            let step = if load >= VERY_BUSY { 2 } else { 1 };
            if self.effort > 0 && self.risen_ms.is_some_and(|at| now_ms < at + TAKEN_BACK_MS) {
                self.wait_ms = (self.wait_ms * 2).min(RISE_MAX_MS);
                self.risen_ms = None;
            }
            self.effort = self.effort.saturating_sub(step);
            self.changed_ms = now_ms;
        } else if load <= IDLE && self.effort < STEPS && now_ms >= self.changed_ms + self.wait_ms {
            if self.risen_ms.is_some_and(|at| now_ms >= at + TAKEN_BACK_MS) {
                self.wait_ms = RISE_MS;
            }
            self.effort += 1;
            self.risen_ms = Some(now_ms);
            self.changed_ms = now_ms;
        }
    }

    /// The level between two bounds for a body of this length, text or not.
    #[must_use]
    pub fn level(&self, least: u8, most: u8, length: Option<u64>, is_text: bool) -> u8 {
        let by_size: i16 = match length {
            Some(length) if length > HUGE => -2,
            Some(length) if length > LARGE => -1,
            Some(length) if length < SMALL => 2,
            _ => 0,
        };
        let by_type = if is_text { 0 } else { -2 };
        let effort = (i16::from(self.effort) + by_size + by_type).clamp(0, i16::from(STEPS));
        let range = i16::from(most.saturating_sub(least));
        least + u8::try_from((effort * range + 4) / i16::from(STEPS)).unwrap_or(0)
    }
}

thread_local! {
    static POLICY: RefCell<Policy> = RefCell::default();
    /// Processor time that other threads used for this one.
    static ELSEWHERE_NS: Cell<u64> = const { Cell::new(0) };
}

/// The level that this thread can afford now.
#[must_use]
pub fn level(least: u8, most: u8, length: Option<u64>, is_text: bool) -> u8 {
    let now_ms = thread::monotonic_ms();
    POLICY.with_borrow_mut(|policy| {
        if policy.is_due(now_ms) {
            policy.observe(now_ms, sys::machine::thread_cpu_ns() + ELSEWHERE_NS.get());
        }
        policy.level(least, most, length, is_text)
    })
}

/// Counts what another thread did for this one.
pub fn note_elsewhere(used_ns: u64) {
    ELSEWHERE_NS.set(ELSEWHERE_NS.get() + used_ns);
}

/// Whether a media type is text, which compresses well.
#[must_use]
pub fn is_text(content_type: &[u8]) -> bool {
    content_type.starts_with(b"text/")
        || [&b"json"[..], b"xml", b"javascript"]
            .iter()
            .any(|word| memchr::memmem::find(content_type, word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread whose load is what `load` says of the time and the policy's effort; the efforts, every 100 ms.
    fn simulate(policy: &mut Policy, seconds: u64, load: impl Fn(u64, u8) -> u64) -> Vec<u8> {
        let (mut used_ns, mut efforts) = (0, Vec::new());
        let start = policy.samples.back().map_or(0, |&(at, ns)| {
            used_ns = ns;
            at
        });
        for now_ms in (start + 100..=start + seconds * 1000).step_by(100) {
            used_ns += load(now_ms, policy.effort) * 1_000_000;
            policy.observe(now_ms, used_ns);
            efforts.push(policy.effort);
        }
        efforts
    }

    #[test]
    fn an_idle_thread_takes_its_time_and_a_busy_one_hurries() {
        let mut policy = Policy::default();
        let efforts = simulate(&mut policy, 10, |_, _| 5);
        assert_eq!(efforts.last(), Some(&STEPS));
        let efforts = simulate(&mut policy, 3, |_, _| 100);
        assert_eq!(efforts.last(), Some(&0), "{efforts:?}");
        let efforts = simulate(&mut policy, 20, |_, _| 20);
        assert_eq!(efforts.last(), Some(&STEPS), "{efforts:?}");
    }

    #[test]
    fn in_between_nothing_changes() {
        let mut policy = Policy::default();
        let efforts = simulate(&mut policy, 30, |_, _| 60);
        assert!(efforts.iter().all(|&effort| effort == STEPS / 2));
    }

    /// The load that the effort itself makes: each step costs 15 % of the processor.
    #[test]
    fn it_settles_where_its_own_work_is_the_load() {
        let mut policy = Policy::default();
        simulate(&mut policy, 60, |_, effort| 10 + 15 * u64::from(effort));
        let efforts = simulate(&mut policy, 60, |_, effort| 10 + 15 * u64::from(effort));
        let changes = efforts.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes <= 4, "{changes} changes: {efforts:?}");
        assert!(
            efforts.iter().all(|effort| (1..=5).contains(effort)),
            "{efforts:?}"
        );
    }

    #[test]
    fn a_load_that_comes_and_goes_does_not_make_it_flap() {
        let mut policy = Policy::default();
        let bursts = |now_ms: u64, _| if now_ms % 4000 < 2000 { 95 } else { 10 };
        simulate(&mut policy, 60, bursts);
        let efforts = simulate(&mut policy, 60, bursts);
        let changes = efforts.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes <= 40, "{changes} changes");
    }

    #[test]
    fn levels_stay_between_the_bounds() {
        let mut policy = Policy::default();
        for effort in 0..=STEPS {
            policy.effort = effort;
            for length in [None, Some(0), Some(5_000), Some(200_000), Some(1 << 30)] {
                for is_text in [true, false] {
                    let level = policy.level(3, 7, length, is_text);
                    assert!((3..=7).contains(&level));
                    assert_eq!(policy.level(5, 5, length, is_text), 5);
                }
            }
        }
        policy.effort = STEPS;
        assert_eq!(policy.level(1, 9, None, true), 9);
        policy.effort = 0;
        assert_eq!(policy.level(1, 9, None, true), 1);
        assert!(policy.level(1, 9, Some(100), true) > 1);
    }

    #[test]
    fn text_is_told_by_its_type() {
        for (kind, text) in [
            ("text/html", true),
            ("application/json", true),
            ("image/svg+xml", true),
            ("application/javascript", true),
            ("font/ttf", false),
        ] {
            assert_eq!(is_text(kind.as_bytes()), text, "{kind}");
        }
    }
}
