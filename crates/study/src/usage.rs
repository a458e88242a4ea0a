//! Processor time and memory of a server's processes, from `/proc`.

use std::fs;
use std::time::Duration;

/// A process and all its descendants.
pub fn family(root: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return vec![root];
    };
    let parents: Vec<(u32, u32)> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_string_lossy().parse().ok())
        .filter_map(|process| Some((process, parent(process)?)))
        .collect();
    let mut family = vec![root];
    let mut next = 0;
    while let Some(&member) = family.get(next) {
        let children = parents.iter().filter(|(_, parent)| *parent == member);
        family.extend(children.map(|(child, _)| child));
        next += 1;
    }
    family
}

fn parent(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    fields(&stat)?.nth(1)?.parse().ok()
}

/// The fields of a `stat` line after its second, which may hold anything between its parentheses.
fn fields(stat: &str) -> Option<std::str::SplitWhitespace<'_>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace())
}

/// User and system time of these processes and of their children that have ended.
pub fn processor_time(processes: &[u32]) -> Duration {
    let ticks: u64 = processes
        .iter()
        .filter_map(|process| fs::read_to_string(format!("/proc/{process}/stat")).ok())
        .filter_map(|stat| ticks(&stat))
        .sum();
    let a_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_secs_f64(ticks as f64 / a_second as f64)
}

/// utime, stime, cutime and cstime together.
fn ticks(stat: &str) -> Option<u64> {
    let times = fields(stat)?.skip(11).take(4);
    times.map(|field| field.parse::<u64>().ok()).sum()
}

/// Memory that these processes hold, each shared page divided among those that share it, in bytes. What may not be read is
/// not counted.
pub fn memory(processes: &[u32]) -> u64 {
    let kilobytes = |process: &u32| {
        let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    processes.iter().filter_map(kilobytes).sum::<u64>() * 1024
}

/// Of these processes those whose program is called so.
pub fn named(processes: &[u32], prefix: &str) -> usize {
    let is_named = |process: &&u32| {
        let name = fs::read_to_string(format!("/proc/{process}/comm"));
        name.is_ok_and(|name| name.starts_with(prefix))
    };
    processes.iter().filter(is_named).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stat_is_read() {
        let line = "7 (a) b) S 1 7 7 0 -1 4194560 3 0 0 0 10 20 30 40 20 0";
        assert_eq!(ticks(line), Some(100));
        assert_eq!(fields(line).and_then(|mut all| all.nth(1)), Some("1"));
        assert_eq!(ticks("7 (a"), None);
    }

    #[test]
    fn this_process_is_its_own_family() {
        let own = std::process::id();
        let family = family(own);
        assert!(family.contains(&own));
        assert!(memory(&[own]) > 100_000);
        assert_eq!(named(&[own], "no program"), 0);
        assert!(processor_time(&family) < Duration::from_secs(3600));
    }
}
