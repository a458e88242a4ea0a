//! Processors and memory as `pm auto` needs to know them, read from the kernel.

use super::auto::Machine;
use std::fs;
use std::time::{Duration, Instant};

/// What was read is good for so long.
const FRESH: Duration = Duration::from_millis(40);
/// The share of idle time is that of about so long.
const SPAN: Duration = Duration::from_millis(200);

/// Looks at the machine now and then.
#[derive(Debug)]
pub struct Watch {
    start: Instant,
    seen_at: Option<Instant>,
    seen: Machine,
    /// All time and idle time of all processors, and when that was read.
    times: Option<(u64, u64, Instant)>,
}

impl Watch {
    pub fn new() -> Watch {
        let seen = Machine {
            processors: sys::machine::cpu_count().max(1),
            ..Machine::default()
        };
        Watch {
            start: Instant::now(),
            seen_at: None,
            seen,
            times: None,
        }
    }

    pub fn processors(&self) -> usize {
        self.seen.processors
    }

    pub fn since_start(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.start)
    }

    pub fn look(&mut self, now: Instant) -> Machine {
        let fresh = self
            .seen_at
            .is_some_and(|at| now.saturating_duration_since(at) < FRESH);
        if !fresh {
            self.seen_at = Some(now);
            self.read(now);
        }
        self.seen
    }

    fn read(&mut self, now: Instant) {
        if let Some((all, idle)) = fs::read_to_string("/proc/stat")
            .ok()
            .as_deref()
            .and_then(times)
        {
            match self.times {
                Some((all_before, idle_before, at)) => {
                    let span = all.saturating_sub(all_before);
                    if span > 0 && now.saturating_duration_since(at) >= SPAN {
                        self.seen.idle_share =
                            idle.saturating_sub(idle_before) as f64 / span as f64;
                        self.times = Some((all, idle, now));
                    }
                }
                None => self.times = Some((all, idle, now)),
            }
        }
        if let Some((total, available)) = fs::read_to_string("/proc/meminfo")
            .ok()
            .as_deref()
            .and_then(memory)
        {
            self.seen.total_memory = total;
            self.seen.available_memory = available;
        }
        if let Some((limit, used)) = limit_of_group() {
            self.seen.total_memory = self.seen.total_memory.min(limit);
            let available = limit.saturating_sub(used);
            self.seen.available_memory = self.seen.available_memory.min(available);
        }
    }
}

/// All time and idle time, in ticks. Waiting for a disk is idle: another child could compute.
fn times(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let times: Vec<u64> = line
        .split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; the guests' times are in user's.
    let idle = times.get(3)? + times.get(4).copied().unwrap_or(0);
    Some((times.iter().take(8).sum(), idle))
}

/// All memory, and what is available, in bytes.
fn memory(meminfo: &str) -> Option<(u64, u64)> {
    let field = |name: &str| {
        let rest = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        let kilobytes: u64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
        kilobytes.checked_mul(1024)
    };
    Some((field("MemTotal:")?, field("MemAvailable:")?))
}

/// The limit of a container and what is used of it; the page cache can be had back.
fn limit_of_group() -> Option<(u64, u64)> {
    let number = |name: &str| {
        let text = fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let limit = number("memory.max")?;
    let stat = fs::read_to_string("/sys/fs/cgroup/memory.stat").ok()?;
    let cache = stat
        .lines()
        .find_map(|line| line.strip_prefix("inactive_file "))?;
    let used = number("memory.current")?.saturating_sub(cache.trim().parse().ok()?);
    Some((limit, used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_tables_are_read() {
        let stat = "cpu  10 0 20 60 10 0 0 0 5 0\ncpu0 1 2 3 4\n";
        assert_eq!(times(stat), Some((100, 70)));
        let meminfo = "MemTotal:  2000 kB\nMemFree: 1 kB\nMemAvailable:    500 kB\n";
        assert_eq!(memory(meminfo), Some((2000 * 1024, 500 * 1024)));
        assert_eq!((times(""), memory("x")), (None, None));
        let seen = Watch::new().look(Instant::now());
        assert!(seen.processors >= 1 && seen.available_memory <= seen.total_memory);
    }
}
