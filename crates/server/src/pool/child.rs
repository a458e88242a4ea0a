//! One child of a pool, as the worker knows it, and what the kernel knows of it.

use super::facts::Facts;
use std::fs;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// Names a child for good: numbers of processes come again.
pub type ChildId = u64;

/// The network thread that has a child's connection registered with its runtime, and how to tell it to let go.
#[derive(Clone, Debug)]
pub struct Home {
    pub thread: u64,
    pub forget: UnboundedSender<ChildId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    Idle,
    Busy,
    /// Its request was given up; it is of use again when it has noticed.
    Abandoned,
}

/// What is told of the last request.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastRequest {
    pub duration: Duration,
    pub cpu: [Duration; 2],
    pub memory: u64,
}

#[derive(Debug)]
pub struct Child {
    pub pid: i32,
    pub connection: Arc<OwnedFd>,
    /// For when the connection has to be given up.
    pub spares: Vec<OwnedFd>,
    /// Counts the connections, so that a kept registration of a former one is not taken for this one's.
    pub connection_number: u32,
    pub home: Option<Home>,
    pub doing: Doing,
    /// Since when it does that.
    pub since: Instant,
    pub started: Instant,
    /// Seconds since 1970.
    pub started_at: i64,
    /// The configuration it was started with.
    pub epoch: u64,
    pub requests: u64,
    pub facts: Facts,
    pub last: LastRequest,
    /// What the kernel had counted when the request began.
    pub cpu_before: [Duration; 2],
    pub slow_told: bool,
    /// Its request took too long, so that it was killed; the request's lease sees this.
    pub terminated: Arc<AtomicBool>,
    /// It goes after its request.
    pub leaving: bool,
}

/// A tick of the kernel's accounts: USER_HZ, 100 on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// Processor time of a process in user and system mode.
pub fn processor_time(pid: i32) -> Option<[Duration; 2]> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let (_, fields) = text.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    let (user, system) = (ticks()?, ticks()?);
    Some([TICK * user, TICK * system])
}

/// Whether a process waits for something else than a processor.
pub fn is_asleep(pid: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = text
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'R')
}

/// Resident memory of a process, in bytes: all of it, and what it shares with nobody but its own children.
pub fn memory(pid: i32) -> Option<Memory> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kilobytes: u64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
        Some(kilobytes * 1024)
    };
    Some(Memory {
        all: field("VmRSS:")?,
        own: field("RssAnon:")? + field("RssShmem:")?,
    })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub all: u64,
    pub own: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_this_process() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let memory = memory(pid).unwrap();
        assert!(memory.own > 0 && memory.own <= memory.all);
        assert!(processor_time(pid).is_some());
        assert_eq!(processor_time(0), None);
    }
}
