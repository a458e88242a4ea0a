//! Where requests come from: URLs, a list of them, an access log, a scenario.

use super::arguments::Arguments;
use super::planning::{MEASURE_FILE_MAX, read};
use crate::assembly::{self, Assembly, Sent};
use crate::plan::{Checks, Order, Pace, Task};
use crate::replay;
use crate::request;
use crate::scenario::{self, Scenario};
use crate::template::Template;
use std::collections::HashMap;
use std::path::Path;

/// The largest body that may be sent.
const BODY_MAX: u64 = 1 << 30;
/// URLs of a list.
const URLS_MAX: usize = 1_000_000;

/// What a source gives to the plan.
#[derive(Debug)]
pub struct Source {
    pub tasks: Vec<Task>,
    pub order: Order,
    /// The requests of a source that ends.
    pub requests: Option<u64>,
    pub pace: Option<Pace>,
    pub scenario: Option<Scenario>,
    /// What a user should know about it.
    pub remark: Option<String>,
}

impl Source {
    fn new(tasks: Vec<Task>, order: Order) -> Source {
        Source {
            tasks,
            order,
            requests: None,
            pace: None,
            scenario: None,
            remark: None,
        }
    }
}

/// Reads the source that the arguments name.
pub fn source(arguments: &Arguments, assembly: &mut Assembly) -> Result<Source, String> {
    let files = [&arguments.list, &arguments.replay, &arguments.scenario];
    if files.iter().filter(|file| file.is_some()).count() > 1 {
        return Err("--list, --replay and --scenario exclude each other".to_owned());
    }
    if arguments.speed.is_some() && arguments.replay.is_none() {
        return Err("--speed belongs to --replay".to_owned());
    }
    if files.iter().any(|file| file.is_some()) && arguments.urls.len() > 1 {
        return Err("beside a file, one URL names the server".to_owned());
    }
    let base = arguments.urls.first().map(String::as_str);
    if let Some(path) = &arguments.scenario {
        return from_scenario(arguments, path, base, assembly);
    }
    let common = Common::new(arguments)?;
    if let Some(path) = &arguments.replay {
        let base = base.ok_or("--replay needs the URL of the server")?;
        return from_log(arguments, path, base, &common, assembly);
    }
    let listed;
    let urls = match &arguments.list {
        Some(path) => {
            listed = list(path, base)?;
            &listed
        }
        None => &arguments.urls,
    };
    if urls.is_empty() {
        return Err("which URL? (--help lists the arguments)".to_owned());
    }
    let mut tasks = Vec::new();
    for line in urls {
        let (weight, url) = assembly::weighted(line)?;
        tasks.push(common.task(assembly, weight, &common.method, base, url, None)?);
    }
    let order = if arguments.in_turn {
        Order::InTurn((0..tasks.len() as u32).collect())
    } else {
        Order::Weighted
    };
    Ok(Source::new(tasks, order))
}

/// What the arguments say of every request.
struct Common {
    method: String,
    headers: Vec<(String, Template)>,
    body: Option<Template>,
    checks: Checks,
}

impl Common {
    fn new(arguments: &Arguments) -> Result<Common, String> {
        let body = body(arguments)?;
        let method = match &arguments.method {
            Some(method) if request::is_method(method) => method.clone(),
            Some(method) => return Err(format!("\"{method}\" is no method")),
            None if body.is_some() => "POST".to_owned(),
            None => "GET".to_owned(),
        };
        let fixed = |(name, value): (String, String)| (name, Template::fixed(value));
        Ok(Common {
            method,
            headers: headers(arguments)?.into_iter().map(fixed).collect(),
            body,
            checks: checks(arguments)?,
        })
    }

    fn task(
        &self,
        assembly: &mut Assembly,
        weight: u32,
        method: &str,
        base: Option<&str>,
        url: &str,
        name: Option<String>,
    ) -> Result<Task, String> {
        let target = assembly::target(base, url)?;
        let sent = Sent {
            path: Template::fixed(target.path.as_str()),
            target: &target,
            method,
            headers: &self.headers,
            body: self.body.clone(),
            name,
        };
        let step = assembly.step(sent, self.checks.clone(), Vec::new(), None)?;
        Ok(Task {
            weight,
            steps: vec![step],
        })
    }
}

fn headers(arguments: &Arguments) -> Result<Vec<(String, String)>, String> {
    let lines = arguments.headers.iter();
    lines.map(|line| request::header(line)).collect()
}

fn body(arguments: &Arguments) -> Result<Option<Template>, String> {
    match (&arguments.body, &arguments.body_file) {
        (Some(text), _) => Ok(Some(Template::fixed(text.as_str()))),
        (None, Some(path)) => read(path, BODY_MAX).map(|bytes| Some(Template::fixed(bytes))),
        (None, None) => Ok(None),
    }
}

fn checks(arguments: &Arguments) -> Result<Checks, String> {
    let statuses = arguments.expect_status.as_deref();
    let pattern = arguments.expect_body.as_deref();
    Ok(Checks {
        statuses: statuses.map_or(Ok(Vec::new()), assembly::statuses)?,
        body: pattern.map(assembly::pattern).transpose()?,
        length: arguments.expect_length,
    })
}

fn text_of(path: &Path) -> Result<String, String> {
    let bytes = read(path, MEASURE_FILE_MAX)?;
    String::from_utf8(bytes).map_err(|_| format!("\"{}\" is no text", path.display()))
}

/// The URLs of a file, one a line; empty lines and those that begin with `#` are left out.
fn list(path: &Path, base: Option<&str>) -> Result<Vec<String>, String> {
    let text = text_of(path)?;
    let mut urls = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let placed = |why| format!("{}:{}: {why}", path.display(), index + 1);
        let (_, url) = assembly::weighted(line).map_err(placed)?;
        assembly::target(base, url).map_err(placed)?;
        if urls.len() >= URLS_MAX {
            return Err(placed(format!("more than {URLS_MAX} URLs")));
        }
        urls.push(line.to_owned());
    }
    if urls.is_empty() {
        return Err(format!("\"{}\" holds no URL", path.display()));
    }
    Ok(urls)
}

/// The requests of an access log, in their order.
fn from_log(
    arguments: &Arguments,
    path: &Path,
    base: &str,
    common: &Common,
    assembly: &mut Assembly,
) -> Result<Source, String> {
    let bytes = read(path, MEASURE_FILE_MAX)?;
    let text = String::from_utf8_lossy(&bytes);
    let (mut tasks, mut sequence, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
    let mut known = HashMap::new();
    let mut left_out = 0usize;
    for line in text.lines() {
        let Some(entry) = replay::entry(line).filter(|_| sequence.len() < replay::ENTRIES_MAX)
        else {
            left_out += 1;
            continue;
        };
        let number = match known.get(&(entry.method, entry.target)) {
            Some(number) => *number,
            None => {
                // Rows are by path: arguments would make each request a row of its own.
                let name = entry
                    .target
                    .split('?')
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                let (method, target) = (entry.method, entry.target);
                match common.task(assembly, 1, method, Some(base), target, Some(name)) {
                    Ok(task) => tasks.push(task),
                    Err(_) => {
                        left_out += 1;
                        continue;
                    }
                }
                let number = tasks.len() as u32 - 1;
                known.insert((method, target), number);
                number
            }
        };
        sequence.push(number);
        seconds.push(entry.time_s);
    }
    if sequence.is_empty() {
        return Err(format!(
            "\"{}\" holds no request that can be sent again",
            path.display()
        ));
    }
    let recorded = |speed| Pace::Recorded(replay::schedule(&seconds, speed));
    let pace = arguments.speed.map(recorded);
    let count = sequence.len();
    let mut source = Source::new(tasks, Order::InTurn(sequence));
    source.requests = Some(count as u64);
    source.pace = pace;
    source.remark = (left_out > 0).then(|| {
        format!("{left_out} lines of the log are left out: not GET or HEAD, or no request at all")
    });
    Ok(source)
}

fn from_scenario(
    arguments: &Arguments,
    path: &Path,
    base: Option<&str>,
    assembly: &mut Assembly,
) -> Result<Source, String> {
    let of_urls = [
        (arguments.method.is_some(), "--method"),
        (
            arguments.body.is_some() || arguments.body_file.is_some(),
            "--body",
        ),
        (arguments.expect_status.is_some(), "--expect-status"),
        (arguments.expect_body.is_some(), "--expect-body"),
        (arguments.expect_length.is_some(), "--expect-length"),
        (arguments.in_turn, "--in-turn"),
    ];
    if let Some((_, name)) = of_urls.iter().find(|(given, _)| *given) {
        return Err(format!("{name} stands in the scenario, not beside it"));
    }
    let name = path.display().to_string();
    let text = text_of(path)?;
    let mut scenario = scenario::read(&name, &text, base, &headers(arguments)?, assembly)?;
    let tasks = std::mem::take(&mut scenario.tasks);
    let mut source = Source::new(tasks, Order::Weighted);
    source.scenario = Some(scenario);
    Ok(source)
}
