//! From the arguments of `gannet load` to a plan. Everything that can be wrong with them is said here, in one line.

use super::arguments::Arguments;
use crate::plan::{
    Checks, ClientOptions, LABELS_MAX, Order, Pace, Plan, Stage, Step, THREADS_MAX, Task, Think,
    USERS_MAX,
};
use crate::request::{self, Request};
use crate::require::Requirement;
use crate::target::{Endpoint, Target, plain};
use crate::template::Template;
use crate::units;
use regex::bytes::Regex;
use std::path::Path;
use std::time::Duration;

/// Users unless told otherwise; in an open model connections.
const USERS: usize = 10;
const CONNECTIONS: usize = 100;
/// How long a run lasts that nothing else ends.
const DURATION: Duration = Duration::from_secs(10);
/// As good as for ever.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 86_400);
/// The largest body that may be sent.
const BODY_MAX: u64 = 1 << 30;
/// Servers in one run.
const ENDPOINTS_MAX: usize = 100;

/// Makes a plan of the arguments.
pub fn plan(arguments: &Arguments) -> Result<Plan, String> {
    let mut endpoints = Vec::new();
    let (tasks, labels) = from_urls(arguments, &mut endpoints)?;
    let threads = threads(arguments)?;
    let requirements = arguments
        .require
        .iter()
        .map(|text| Requirement::parse(text))
        .collect::<Result<_, _>>()?;
    let mut plan = Plan {
        endpoints,
        tasks,
        order: Order::Weighted,
        labels,
        values: 0,
        users: 0,
        threads,
        pace: Pace::Closed(Vec::new()),
        think: arguments.think.map(|(from, to)| Think { from, to }),
        requests: arguments.requests,
        duration: arguments.duration,
        client: ClientOptions {
            new_connection: arguments.new_connection,
            timeout: arguments.timeout,
            ..ClientOptions::default()
        },
        same_length: false,
        requirements,
        seed: arguments.seed,
    };
    settle_pace(arguments, &mut plan)?;
    if plan.requests == Some(0) {
        return Err("-n 0 asks for nothing".to_owned());
    }
    for step in plan.tasks.iter_mut().flat_map(|task| &mut task.steps) {
        step.request.prepare(arguments.new_connection);
    }
    Ok(plan)
}

fn threads(arguments: &Arguments) -> Result<usize, String> {
    match arguments.threads {
        None => Ok(sys::machine::cpu_count().clamp(1, THREADS_MAX)),
        Some(threads) if (1..=THREADS_MAX).contains(&threads) => Ok(threads),
        Some(_) => Err(format!("--threads must be between 1 and {THREADS_MAX}")),
    }
}

/// Users, stages and the end of the run.
fn settle_pace(arguments: &Arguments, plan: &mut Plan) -> Result<(), String> {
    let is_open = arguments.rate.is_some();
    let written = match &arguments.stages {
        Some(text) => Some(stages(text, is_open)?),
        None => None,
    };
    if written.is_some() && arguments.ramp_up.is_some() {
        return Err("--ramp-up and --stages exclude each other".to_owned());
    }
    if is_open && plan.think.is_some() {
        return Err("--think belongs to users, who do not wait with --rate".to_owned());
    }
    let most = written
        .iter()
        .flatten()
        .fold(0.0, |most: f64, stage| most.max(stage.from).max(stage.to));
    let usual = match (is_open, &written) {
        (true, _) => CONNECTIONS,
        (false, Some(_)) => most.ceil() as usize,
        (false, None) => USERS,
    };
    plan.users = arguments.users.unwrap_or(usual);
    if !(1..=USERS_MAX).contains(&plan.users) {
        return Err(format!("--users must be between 1 and {USERS_MAX}"));
    }
    let length = written
        .as_ref()
        .map(|stages| stages.iter().map(|stage| stage.duration).sum());
    if plan.duration.is_none() {
        plan.duration = length.or(match plan.requests {
            None => Some(DURATION),
            Some(_) => None,
        });
    }
    let value = arguments.rate.unwrap_or(plan.users as f64);
    let stages = match written {
        Some(stages) => stages,
        None => level(value, arguments.ramp_up, plan.duration),
    };
    plan.pace = match (
        is_open,
        arguments.stages.is_some() || arguments.ramp_up.is_some(),
    ) {
        (true, _) => Pace::Open(stages),
        (false, true) => Pace::Closed(stages),
        (false, false) => Pace::Closed(Vec::new()),
    };
    Ok(())
}

/// One value all the time, perhaps after a rise.
fn level(value: f64, ramp_up: Option<Duration>, duration: Option<Duration>) -> Vec<Stage> {
    let rise = ramp_up.unwrap_or_default();
    let rest = duration.unwrap_or(FOREVER).saturating_sub(rise);
    let stage = |duration, from| Stage {
        duration,
        from,
        to: value,
    };
    [stage(rise, 0.0), stage(rest, value)]
        .into_iter()
        .filter(|stage| !stage.duration.is_zero())
        .collect()
}

/// Reads `10s:100,1m:100`. The first stage begins at 0, each other where the one before ended.
fn stages(text: &str, is_open: bool) -> Result<Vec<Stage>, String> {
    let mut from = 0.0;
    let mut stages = Vec::new();
    for part in text.split(',') {
        let wrong = |why: &str| format!("invalid stage \"{part}\": {why}");
        let (time, value) = part
            .split_once(':')
            .ok_or_else(|| wrong("it must be TIME:VALUE"))?;
        let duration = units::duration(time.trim()).map_err(|why| wrong(&why))?;
        let value = value.trim();
        let to = match value {
            "0" => 0.0,
            _ if is_open => units::rate(value).map_err(|why| wrong(&why))?,
            _ => match value.parse::<usize>() {
                Ok(users) if users <= USERS_MAX => users as f64,
                _ => return Err(wrong("it must end with a number of users")),
            },
        };
        if duration.is_zero() {
            // A jump.
            from = to;
            continue;
        }
        stages.push(Stage { duration, from, to });
        from = to;
    }
    if stages.is_empty() {
        return Err("--stages has no stage".to_owned());
    }
    Ok(stages)
}

/// A task for each URL.
fn from_urls(
    arguments: &Arguments,
    endpoints: &mut Vec<Endpoint>,
) -> Result<(Vec<Task>, Vec<String>), String> {
    if arguments.urls.is_empty() {
        return Err("which URL? (--help lists the arguments)".to_owned());
    }
    let (headers, body) = (headers(arguments)?, body(arguments)?);
    let method = match &arguments.method {
        Some(method) if request::is_method(method) => method.as_str(),
        Some(method) => return Err(format!("\"{method}\" is no method")),
        None if body.is_some() => "POST",
        None => "GET",
    };
    let checks = checks(arguments)?;
    let mut targets = Vec::new();
    for url in &arguments.urls {
        let (weight, url) = weighted(url)?;
        let target = Target::parse(url)?;
        targets.push((weight, endpoint(endpoints, &target)?, target));
    }
    let (mut tasks, mut labels) = (Vec::new(), Vec::new());
    for (weight, endpoint, target) in targets {
        let path = Template::fixed(target.path.as_str());
        let authority = &target.endpoint.authority;
        let request = Request::new(endpoint, authority, method, path, &headers, body.clone());
        let name = match endpoints.len() {
            1 => target.path,
            _ => format!("{}{}", target.endpoint.authority, target.path),
        };
        let step = Step {
            label: label(&mut labels, name),
            request,
            checks: checks.clone(),
            takes: Vec::new(),
            think: None,
        };
        tasks.push(Task {
            weight,
            steps: vec![step],
        });
    }
    Ok((tasks, labels))
}

/// The number of the row with this name; when there are too many, the last one is for all others.
fn label(labels: &mut Vec<String>, name: String) -> usize {
    if let Some(found) = labels.iter().position(|label| *label == name) {
        return found;
    }
    if labels.len() + 1 < LABELS_MAX {
        labels.push(name);
    } else if labels.len() < LABELS_MAX {
        labels.push("others".to_owned());
    }
    labels.len() - 1
}

/// The number of the URL's server.
fn endpoint(endpoints: &mut Vec<Endpoint>, target: &Target) -> Result<usize, String> {
    let known = endpoints
        .iter()
        .position(|endpoint| endpoint.is_same(&target.endpoint));
    if let Some(known) = known {
        return Ok(known);
    }
    if endpoints.len() >= ENDPOINTS_MAX {
        return Err(format!("more than {ENDPOINTS_MAX} servers"));
    }
    endpoints.push(target.endpoint.clone());
    Ok(endpoints.len() - 1)
}

/// Cuts `3:URL`; a URL alone weighs 1.
fn weighted(text: &str) -> Result<(u32, &str), String> {
    let Some((weight, url)) = text.split_once(':') else {
        return Ok((1, text));
    };
    let is_weight = weight.bytes().all(|byte| byte.is_ascii_digit()) && url.contains("//");
    if weight.is_empty() || !is_weight {
        return Ok((1, text));
    }
    match weight.parse() {
        Ok(weight @ 1..=1_000_000) => Ok((weight, url)),
        _ => Err(format!(
            "the weight in \"{text}\" must be between 1 and 1000000"
        )),
    }
}

fn headers(arguments: &Arguments) -> Result<Vec<(String, Template)>, String> {
    let read = |line: &String| {
        let (name, value) = request::header(line)?;
        Ok((name, Template::fixed(value)))
    };
    arguments.headers.iter().map(read).collect()
}

fn body(arguments: &Arguments) -> Result<Option<Template>, String> {
    match (&arguments.body, &arguments.body_file) {
        (Some(text), _) => Ok(Some(Template::fixed(text.as_str()))),
        (None, Some(path)) => read(path, BODY_MAX).map(|bytes| Some(Template::fixed(bytes))),
        (None, None) => Ok(None),
    }
}

/// Reads a file of at most so many bytes.
fn read(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    let failed = |why: &str| format!("cannot read \"{}\": {why}", path.display());
    let metadata = std::fs::metadata(path).map_err(|error| failed(&plain(&error)))?;
    if metadata.len() > max {
        return Err(failed("it is too large"));
    }
    std::fs::read(path).map_err(|error| failed(&plain(&error)))
}

fn checks(arguments: &Arguments) -> Result<Checks, String> {
    let statuses = match &arguments.expect_status {
        Some(text) => statuses(text)?,
        None => Vec::new(),
    };
    let pattern = |text: &String| {
        Regex::new(text).map_err(|error| {
            let why = error.to_string();
            let last = why.lines().last().unwrap_or_default();
            format!(
                "invalid regular expression \"{text}\": {}",
                last.trim_start_matches("error: ")
            )
        })
    };
    Ok(Checks {
        statuses,
        body: arguments.expect_body.as_ref().map(pattern).transpose()?,
        length: arguments.expect_length,
    })
}

/// Reads `200,300-399`.
fn statuses(text: &str) -> Result<Vec<(u16, u16)>, String> {
    let one = |text: &str| {
        let status = text.trim().parse().ok();
        status.filter(|status| (100..=999).contains(status))
    };
    text.split(',')
        .map(|part| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            match (one(from), one(to)) {
                (Some(from), Some(to)) if from <= to => Ok((from, to)),
                _ => Err(format!("\"{part}\" is no status such as 200 or 300-399")),
            }
        })
        .collect()
}
