//! What was measured on, for the head of a report.

use std::fs;

/// Label and value, in the order in which they are shown.
pub fn describe() -> Vec<(String, String)> {
    [
        ("Processors", processors()),
        ("Memory", memory()),
        ("Kernel", kernel()),
        ("Load average before", load()),
    ]
    .map(|(label, value)| (label.to_owned(), value))
    .to_vec()
}

fn processors() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim().to_owned())
    });
    let model = model.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    format!("{}, {model}", sys::machine::cpu_count())
}

fn memory() -> String {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.map_or_else(unknown, |kilobytes| format!("{} MB", kilobytes >> 10))
}

fn kernel() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease");
    text.map_or_else(|_| unknown(), |text| text.trim().to_owned())
}

/// How many processes wanted a processor in the minute before: others than the study should not.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.map_or_else(unknown, str::to_owned)
}

fn unknown() -> String {
    "unknown".to_owned()
}
