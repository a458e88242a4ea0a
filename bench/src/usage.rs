//! What a group of processes has used: CPU time to the nanosecond where the kernel tells, and memory.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// A reading of the CPU time of processes; two of them make a duration.
pub struct CpuTime {
    by_process: BTreeMap<u32, ProcessTime>,
}

/// `schedstat` counts nanoseconds but forgets threads that ended; `stat` remembers them but counts in ticks.
struct ProcessTime {
    threads_ns: BTreeMap<u32, u64>,
    whole_ns: u64,
}

impl CpuTime {
    pub fn of(processes: &[u32]) -> Result<CpuTime> {
        let read = |process: &u32| Ok((*process, ProcessTime::read(*process)?));
        Ok(CpuTime {
            by_process: processes.iter().map(read).collect::<Result<_>>()?,
        })
    }

    /// User and system time used since `before`. Fails when a process came or went in between.
    pub fn since(&self, before: &CpuTime) -> Result<Duration> {
        ensure!(
            self.by_process.keys().eq(before.by_process.keys()),
            "the server's processes changed during the measurement"
        );
        let pairs = self.by_process.values().zip(before.by_process.values());
        Ok(Duration::from_nanos(
            pairs.map(|(now, then)| now.since(then)).sum(),
        ))
    }
}

impl ProcessTime {
    fn read(process: u32) -> Result<ProcessTime> {
        let mut threads_ns = BTreeMap::new();
        for entry in fs::read_dir(format!("/proc/{process}/task"))? {
            let entry = entry?;
            let thread = entry.file_name().to_string_lossy().parse()?;
            // A thread may end between the listing and the reading.
            if let Ok(text) = fs::read_to_string(entry.path().join("schedstat")) {
                threads_ns.insert(thread, first_number(&text)?);
            }
        }
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        Ok(ProcessTime {
            threads_ns,
            whole_ns: ticks(&stat)? * tick_ns(),
        })
    }

    fn since(&self, before: &ProcessTime) -> u64 {
        let spent = |(thread, now): (&u32, &u64)| {
            now.saturating_sub(before.threads_ns.get(thread).copied().unwrap_or(0))
        };
        let threads_ns: u64 = self.threads_ns.iter().map(spent).sum();
        let whole_ns = self.whole_ns.saturating_sub(before.whole_ns);
        // User and system time are each rounded at both ends; beyond that a thread has ended unseen.
        if whole_ns > threads_ns + 4 * tick_ns() {
            whole_ns
        } else {
            threads_ns
        }
    }
}

fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second()
}

fn first_number(text: &str) -> Result<u64> {
    text.split_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .context("schedstat")
}

/// utime + stime of a `stat` line, whose second field may hold anything between its parentheses.
fn ticks(stat: &str) -> Result<u64> {
    let fields: Vec<&str> = after_name(stat)?.split_whitespace().collect();
    let field = |index: usize| fields.get(index).and_then(|word| word.parse::<u64>().ok());
    Ok(field(11).context("utime")? + field(12).context("stime")?)
}

/// User and system time of this process's children that have ended, to a tick.
pub fn children_cpu() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = after_name(&stat)?.split_whitespace().collect();
    let field = |index: usize| fields.get(index).and_then(|word| word.parse::<u64>().ok());
    let ticks = field(13).context("cutime")? + field(14).context("cstime")?;
    Ok(Duration::from_nanos(ticks * tick_ns()))
}

fn after_name(stat: &str) -> Result<&str> {
    Ok(stat.rsplit_once(')').context("/proc/PID/stat")?.1)
}

/// A process and all its descendants.
pub fn family(root: u32) -> Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(process) = entry?.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else {
            continue;
        };
        let parent = after_name(&stat)?
            .split_whitespace()
            .nth(1)
            .and_then(|word| word.parse().ok());
        parents.push((process, parent.unwrap_or(0)));
    }
    let mut family = vec![root];
    let mut next = 0;
    while let Some(&member) = family.get(next) {
        family.extend(
            parents
                .iter()
                .filter(|(_, parent)| *parent == member)
                .map(|(child, _)| child),
        );
        next += 1;
    }
    family.sort_unstable();
    Ok(family)
}

/// Whether the process runs a program whose name begins so; one that is gone does not.
pub fn is_named(process: u32, prefix: &str) -> bool {
    fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.starts_with(prefix))
}

/// Memory of the processes together, in bytes: their share (PSS) of anonymous and shared pages. Pages of program files
/// are left out, for how much of them counts depends on who else runs the same program.
pub fn memory(processes: &[u32]) -> Result<u64> {
    let mut total = 0;
    for process in processes {
        let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
        for label in ["Pss_Anon:", "Pss_Shmem:"] {
            let line = rollup
                .lines()
                .find_map(|line| line.strip_prefix(label))
                .context("Pss")?;
            total += first_number(line)? * 1024;
        }
    }
    Ok(total)
}

/// Time one core has been busy since boot, whoever used it.
pub fn core_busy(core: usize) -> Result<Duration> {
    let stat = fs::read_to_string("/proc/stat")?;
    let label = format!("cpu{core} ");
    let line = stat
        .lines()
        .find_map(|line| line.strip_prefix(&label))
        .context("no such core")?;
    let fields: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
    // user nice system idle iowait irq softirq steal; guest time is already inside user.
    let busy = fields
        .iter()
        .take(8)
        .enumerate()
        .filter(|(index, _)| !matches!(index, 3 | 4));
    Ok(Duration::from_nanos(
        busy.map(|(_, ticks)| ticks).sum::<u64>() * tick_ns(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_with_a_hostile_name_is_read() {
        let stat = "7 (a) b 1 2) S 1 7 7 0 -1 4194560 1 0 0 0 12 34 0 0 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat).ok(), Some(46));
    }

    #[test]
    fn time_of_a_thread_that_ended_is_not_lost() {
        let before = ProcessTime {
            threads_ns: [(1, 5), (2, 10)].into(),
            whole_ns: 0,
        };
        let long = 100 * tick_ns();
        let after = ProcessTime {
            threads_ns: [(1, 8)].into(),
            whole_ns: long,
        };
        assert_eq!(after.since(&before), long);
        let precise = ProcessTime {
            threads_ns: [(1, 8), (2, 10), (3, 4)].into(),
            whole_ns: tick_ns(),
        };
        assert_eq!(precise.since(&before), 7);
    }

    #[test]
    fn this_process_uses_time_and_memory() -> Result<()> {
        let me = family(std::process::id())?;
        assert!(me.contains(&std::process::id()));
        assert!(memory(&[std::process::id()])? > 0);
        let before = CpuTime::of(&[std::process::id()])?;
        let used = || CpuTime::of(&[std::process::id()])?.since(&before);
        while used()?.is_zero() {}
        assert!(used()? < Duration::from_secs(60));
        Ok(())
    }
}
