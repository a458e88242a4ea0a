//! What was measured on: hardware, kernel and versions, for the head of a report.

use std::fs;
use std::process::Command;

use crate::server::Contender;

/// Pairs of a label and a value, in the order in which they are printed.
pub fn describe(contenders: &[&Contender]) -> Vec<(String, String)> {
    let mut facts = vec![
        (
            "CPU".to_owned(),
            format!("{}, {} cores", processor(), cores()),
        ),
        ("Memory".to_owned(), memory()),
        (
            "Kernel".to_owned(),
            first_line("/proc/sys/kernel/osrelease"),
        ),
        (
            "Revision".to_owned(),
            output("git", &["describe", "--always", "--dirty"]),
        ),
        ("wrk".to_owned(), output("wrk", &["-v"])),
    ];
    for contender in contenders {
        facts.push((contender.name.clone(), contender.version()));
    }
    facts
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = |line: &str| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim().to_owned())
    };
    text.lines()
        .find_map(model)
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn cores() -> usize {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    text.lines()
        .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "))
        .count()
}

fn memory() -> String {
    let line = first_line("/proc/meminfo");
    let kilobytes = line
        .split_whitespace()
        .nth(1)
        .and_then(|word| word.parse::<u64>().ok());
    kilobytes.map_or("unknown".to_owned(), |kilobytes| {
        format!("{} MB", kilobytes >> 10)
    })
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

/// First line a command prints, wherever and however it ends: `wrk -v` ends with 1.
fn output(program: &str, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(arguments).output() else {
        return "unknown".to_owned();
    };
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text)
        .lines()
        .next()
        .unwrap_or("unknown")
        .trim()
        .to_owned()
}
