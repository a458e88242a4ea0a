//! From the arguments of `gannet load` to a plan. Everything that can be wrong with them is said here, in one line.

use super::arguments::Arguments;
use super::sources;
use crate::assembly::Assembly;
use crate::plan::{ClientOptions, Pace, Plan, STREAMS_MAX, Stage, THREADS_MAX, Think, USERS_MAX};
use crate::require::Requirement;
use crate::target::{Endpoint, Scheme, plain};
use crate::tls::{Tls, TlsOptions};
use crate::units;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Users unless told otherwise; in an open model connections.
const USERS: usize = 10;
const CONNECTIONS: usize = 100;
/// How long a run lasts that nothing else ends.
const DURATION: Duration = Duration::from_secs(10);
/// As good as for ever.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 86_400);
/// The largest list, log or scenario.
pub const MEASURE_FILE_MAX: u64 = 1 << 30;

/// Makes a plan of the arguments, and a remark about it.
pub fn plan(arguments: &Arguments) -> Result<(Plan, Option<String>), String> {
    let mut assembly = Assembly::default();
    let source = sources::source(arguments, &mut assembly)?;
    let requirements = arguments
        .require
        .iter()
        .map(|text| Requirement::parse(text))
        .collect::<Result<_, _>>()?;
    let mut plan = Plan {
        endpoints: assembly.endpoints,
        tasks: source.tasks,
        start: Vec::new(),
        given: Vec::new(),
        order: source.order,
        labels: assembly.labels,
        values: 0,
        users: 0,
        threads: threads(arguments)?,
        pace: Pace::Closed(Vec::new()),
        think: None,
        requests: arguments.requests,
        duration: arguments.duration,
        client: ClientOptions {
            new_connection: arguments.new_connection,
            timeout: arguments.timeout,
            http2: arguments.http2 || arguments.http2_prior_knowledge,
            streams: arguments.streams.unwrap_or(1),
            cookies: arguments.cookies,
            ..ClientOptions::default()
        },
        tls: None,
        same_length: false,
        keeps_times: false,
        requirements,
        seed: arguments.seed,
    };
    if let Some(scenario) = source.scenario {
        plan.start = scenario.start;
        plan.given = scenario.given;
        plan.values = scenario.values;
        plan.client.cookies |= scenario.cookies;
        plan.think = scenario.think.filter(|_| arguments.rate.is_none());
    }
    if plan.requests.is_none() && plan.duration.is_none() && arguments.stages.is_none() {
        plan.requests = source.requests;
    }
    if let Some((from, to)) = arguments.think {
        plan.think = Some(Think { from, to });
    }
    settle_pace(arguments, &mut plan)?;
    if let Some(pace) = source.pace {
        if arguments.rate.is_some() || arguments.stages.is_some() || arguments.ramp_up.is_some() {
            return Err(
                "--speed takes the pace from the log: no --rate, --stages, --ramp-up".to_owned(),
            );
        }
        plan.pace = pace;
        plan.users = arguments.users.unwrap_or(CONNECTIONS);
    }
    if plan.requests == Some(0) {
        return Err("-n 0 asks for nothing".to_owned());
    }
    settle_tls(arguments, &mut plan)?;
    settle_http2(arguments, &plan)?;
    prepare(arguments, &mut plan)?;
    Ok((plan, source.remark))
}

fn settle_tls(arguments: &Arguments, plan: &mut Plan) -> Result<(), String> {
    let is_secure = |endpoint: &Endpoint| endpoint.scheme == Scheme::Https;
    if !plan.endpoints.iter().any(is_secure) {
        return match arguments.cert {
            Some(_) => Err("--cert belongs to https".to_owned()),
            None => Ok(()),
        };
    }
    let key = |certificate: &PathBuf| arguments.key.as_ref().unwrap_or(certificate).clone();
    let certificate = arguments.cert.as_ref();
    plan.tls = Some(Tls::new(&TlsOptions {
        insecure: arguments.insecure,
        resumption: !arguments.no_resumption,
        name: arguments.sni.clone(),
        http2: plan.client.http2,
        version: arguments.tls_version,
        certificate: certificate.map(|certificate| (certificate.clone(), key(certificate))),
    })?);
    Ok(())
}

/// Makes the requests' bytes ready.
fn prepare(arguments: &Arguments, plan: &mut Plan) -> Result<(), String> {
    let schemes: Vec<Scheme> = plan
        .endpoints
        .iter()
        .map(|endpoint| endpoint.scheme)
        .collect();
    let http2 = plan.client.http2;
    for step in plan.steps_mut() {
        step.request.may_repeat |= arguments.repeat_any;
        step.request.prepare(arguments.new_connection);
        let scheme = schemes.get(step.request.endpoint);
        if let (true, Some(scheme)) = (http2, scheme) {
            step.request.prepare_http2(scheme.as_str())?;
        }
    }
    Ok(())
}

/// What does not go together with HTTP/2, or without it.
fn settle_http2(arguments: &Arguments, plan: &Plan) -> Result<(), String> {
    let (http2, streams) = (plan.client.http2, plan.client.streams);
    let is_plain = |endpoint: &Endpoint| endpoint.scheme == Scheme::Http;
    if !(1..=STREAMS_MAX).contains(&streams) {
        return Err(format!("--streams must be between 1 and {STREAMS_MAX}"));
    }
    if arguments.streams.is_some() && !http2 {
        return Err("--streams belongs to --http2".to_owned());
    }
    if streams > 1 && arguments.new_connection {
        return Err("--new-connection leaves no connection for --streams".to_owned());
    }
    if http2 && !arguments.http2_prior_knowledge && plan.endpoints.iter().any(is_plain) {
        return Err(
            "--http2 is agreed on in TLS; for http:// say --http2-prior-knowledge".to_owned(),
        );
    }
    Ok(())
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

/// Reads a file of at most so many bytes.
pub fn read(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    let failed = |why: &str| format!("cannot read \"{}\": {why}", path.display());
    let metadata = std::fs::metadata(path).map_err(|error| failed(&plain(&error)))?;
    if metadata.len() > max {
        return Err(failed("it is too large"));
    }
    std::fs::read(path).map_err(|error| failed(&plain(&error)))
}
