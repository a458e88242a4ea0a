//! `gannet ab`: ab's common switches, ab's requests (HTTP/1.0), ab's report.

use super::arguments::Arguments;
use super::{NOT_RUN, complain, measure, planning, print, reach, refused, write};
use crate::plan::Plan;
use crate::report::ab;
use crate::template::Template;
use clap::Parser;
use std::ffi::OsString;
use std::path::PathBuf;

/// With `-t`, so many requests unless `-n` says otherwise.
const TIMED_REQUESTS: u64 = 50_000;

/// ab's switches. Those of ab that are not here are refused.
#[derive(Debug, Parser)]
#[command(name = "gannet ab", disable_version_flag = true)]
struct AbArguments {
    /// http[s]://hostname[:port]/path
    url: String,
    /// Number of requests
    #[arg(short = 'n', value_name = "requests")]
    requests: Option<u64>,
    /// Number of requests at a time
    #[arg(short = 'c', value_name = "concurrency", default_value_t = 1)]
    concurrency: u64,
    /// Seconds at most; without -n, 50000 requests at most
    #[arg(short = 't', value_name = "timelimit")]
    time: Option<u64>,
    /// Seconds to wait for a response
    #[arg(short = 's', value_name = "timeout", default_value_t = 30)]
    timeout: u64,
    /// File with the body of a POST
    #[arg(short = 'p', value_name = "postfile", conflicts_with = "put")]
    post: Option<String>,
    /// File with the body of a PUT
    #[arg(short = 'u', value_name = "putfile")]
    put: Option<String>,
    /// Content-Type of the body
    #[arg(short = 'T', value_name = "content-type", default_value = "text/plain")]
    content_type: String,
    /// HEAD instead of GET
    #[arg(short = 'i')]
    head: bool,
    /// A cookie, name=value
    #[arg(short = 'C', value_name = "attribute")]
    cookies: Vec<String>,
    /// A header line
    #[arg(short = 'H', value_name = "attribute")]
    headers: Vec<String>,
    /// Keep connections
    #[arg(short = 'k')]
    keep_alive: bool,
    /// No percentiles
    #[arg(short = 'd')]
    without_percentiles: bool,
    /// No warnings: there are none
    #[arg(short = 'S')]
    _without_warnings: bool,
    /// No progress
    #[arg(short = 'q')]
    quiet: bool,
    /// Bodies may differ in length
    #[arg(short = 'l')]
    variable_length: bool,
    /// Go on after errors of sockets, which is done anyway
    #[arg(short = 'r')]
    _go_on: bool,
    /// The method
    #[arg(short = 'm', value_name = "method")]
    method: Option<String>,
    /// CSV file with the percentages served
    #[arg(short = 'e', value_name = "filename")]
    percentages: Option<PathBuf>,
}

/// Runs `gannet ab` with what stands after it; gives the exit code.
pub fn ab(arguments: &[OsString]) -> u8 {
    let name = std::iter::once(OsString::from("gannet ab"));
    let arguments = match AbArguments::try_parse_from(name.chain(arguments.iter().cloned())) {
        Ok(arguments) => arguments,
        Err(error) => return refused(&error),
    };
    match carry_out(&arguments) {
        Ok(()) => 0,
        Err(complaint) => {
            complain(&complaint);
            NOT_RUN
        }
    }
}

fn carry_out(arguments: &AbArguments) -> Result<(), String> {
    let mut plan = plan(arguments)?;
    reach(&mut plan)?;
    let report = measure(plan, arguments.quiet)?;
    print(&ab::text(&report, arguments.without_percentiles));
    match &arguments.percentages {
        Some(path) => write(path, &ab::percentages(&report)),
        None => Ok(()),
    }
}

/// ab's switches as those of `gannet load`, and what only ab does.
fn plan(arguments: &AbArguments) -> Result<Plan, String> {
    let requests = arguments.requests.unwrap_or(match arguments.time {
        Some(_) => TIMED_REQUESTS,
        None => 1,
    });
    if arguments.concurrency > requests {
        return Err("-c must not be greater than -n".to_owned());
    }
    let mut words: Vec<String> = vec!["gannet load".into(), arguments.url.clone()];
    let mut add = |name: &str, value: String| words.push(format!("{name}={value}"));
    add("--requests", requests.to_string());
    add("--users", arguments.concurrency.to_string());
    add("--threads", "1".to_owned());
    add("--timeout", format!("{}s", arguments.timeout));
    add("--expect-status", "100-999".to_owned());
    if let Some(seconds) = arguments.time {
        add("--duration", format!("{seconds}s"));
    }
    let body = arguments.post.as_ref().or(arguments.put.as_ref());
    let usual = match body {
        _ if arguments.head => "HEAD",
        Some(_) if arguments.put.is_some() => "PUT",
        Some(_) => "POST",
        None => "GET",
    };
    add(
        "--method",
        arguments.method.as_deref().unwrap_or(usual).to_owned(),
    );
    if let Some(file) = body {
        add("--body-file", file.clone());
        add(
            "--header",
            format!("Content-Type: {}", arguments.content_type),
        );
    }
    if !arguments.cookies.is_empty() {
        add(
            "--header",
            format!("Cookie: {}", arguments.cookies.join("; ")),
        );
    }
    for line in &arguments.headers {
        add("--header", line.clone());
    }
    let parsed = Arguments::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        text.lines().next().unwrap_or_default().to_owned()
    })?;
    let (mut plan, _) = planning::plan(&parsed)?;
    plan.same_length = !arguments.variable_length;
    plan.client.new_connection = !arguments.keep_alive;
    for step in plan.steps_mut() {
        let request = &mut step.request;
        request.http10 = true;
        if arguments.keep_alive {
            let value = Template::fixed("Keep-Alive");
            request.headers.insert(0, ("Connection".to_owned(), value));
        }
        request.prepare(false);
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_become_a_plan() {
        let words = [
            "ab",
            "-n",
            "25000",
            "-c100",
            "-k",
            "-H",
            "Accept-Encoding: gzip",
            "-C",
            "a=1",
            "http://a/x",
        ];
        let plan = plan(&AbArguments::parse_from(words)).unwrap();
        assert_eq!(
            (plan.requests, plan.users, plan.threads),
            (Some(25_000), 100, 1)
        );
        assert!(plan.same_length && !plan.client.new_connection);
        let request = plan.tasks[0].steps[0].request.prepared.clone().unwrap();
        let text = String::from_utf8(request.to_vec()).unwrap();
        assert!(
            text.starts_with("GET /x HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: a\r\n"),
            "{text}"
        );
        assert!(
            text.ends_with("Cookie: a=1\r\nAccept-Encoding: gzip\r\n\r\n"),
            "{text}"
        );
        let few = AbArguments::parse_from(["ab", "-c", "2", "a"]);
        assert!(super::plan(&few).is_err());
        let timed = super::plan(&AbArguments::parse_from(["ab", "-t", "3", "a/"])).unwrap();
        assert_eq!(
            (timed.requests, timed.duration.map(|t| t.as_secs())),
            (Some(50_000), Some(3))
        );
    }
}
