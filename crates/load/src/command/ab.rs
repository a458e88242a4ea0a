//! `gannet ab`: ab's common switches, ab's requests (HTTP/1.0), ab's report.

use super::arguments::Arguments;
use super::{NOT_RUN, complain, first_words, measure, planning, print, reach, refused, write};
use crate::plan::Plan;
use crate::report::ab;
use crate::target::{Scheme, Target};
use crate::template::Template;
use clap::Parser;
use std::ffi::OsString;
use std::path::PathBuf;
use wire::fields::base64;

/// With `-t`, so many requests unless `-n` says otherwise.
const TIMED_REQUESTS: u64 = 50_000;

/// ab's switches. Those of ab that are not here are refused.
#[derive(Debug, Parser)]
#[command(name = "gannet ab", disable_version_flag = true)]
struct AbArguments {
    /// http[s]://hostname[:port]/path
    #[arg(required_unless_present = "version")]
    url: Option<String>,
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
    /// Credentials, user:password
    #[arg(short = 'A', value_name = "auth-username:password")]
    credentials: Option<String>,
    /// Credentials for the proxy, user:password
    #[arg(short = 'P', value_name = "proxy-auth-username:password")]
    proxy_credentials: Option<String>,
    /// The proxy to ask
    #[arg(short = 'X', value_name = "proxy[:port]")]
    proxy: Option<String>,
    /// File with a client's certificate and its key, in PEM
    #[arg(short = 'E', value_name = "client-certificate file")]
    certificate: Option<String>,
    /// TLS1.2, TLS1.3 or ALL
    #[arg(short = 'f', value_name = "protocol", value_parser = protocol)]
    protocol: Option<Protocol>,
    /// How much is told: 1, nothing more than the report
    #[arg(short = 'v', value_name = "verbosity", value_parser = clap::value_parser!(u8).range(0..=1))]
    _verbosity: Option<u8>,
    /// Tells the version
    #[arg(short = 'V')]
    version: bool,
    /// File with the times of each request, for gnuplot
    #[arg(short = 'g', value_name = "filename")]
    gnuplot: Option<PathBuf>,
    /// CSV file with the percentages served
    #[arg(short = 'e', value_name = "filename")]
    percentages: Option<PathBuf>,
}

/// What `-f` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    All,
    /// As `--tls-version` calls it.
    Only(&'static str),
}

fn protocol(text: &str) -> Result<Protocol, String> {
    match text {
        "ALL" => Ok(Protocol::All),
        "TLS1.2" => Ok(Protocol::Only("1.2")),
        "TLS1.3" => Ok(Protocol::Only("1.3")),
        _ => Err("only TLS1.2, TLS1.3 and ALL are spoken".to_owned()),
    }
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
    if arguments.version {
        print(concat!("gannet ab ", env!("CARGO_PKG_VERSION"), "\n"));
        return Ok(());
    }
    let mut plan = plan(arguments)?;
    reach(&mut plan)?;
    let report = measure(plan, arguments.quiet)?;
    print(&ab::text(&report, arguments.without_percentiles));
    if let Some(path) = &arguments.gnuplot {
        write(path, &ab::gnuplot(&report))?;
    }
    match &arguments.percentages {
        Some(path) => write(path, &ab::percentages(&report)),
        None => Ok(()),
    }
}

/// ab's switches as those of `gannet load`, and what only ab does.
fn plan(arguments: &AbArguments) -> Result<Plan, String> {
    let url = arguments.url.clone().unwrap_or_default();
    let parsed = Arguments::try_parse_from(words(arguments, &url)?)
        .map_err(|error| first_words(&error.to_string()))?;
    let (mut plan, _) = planning::plan(&parsed)?;
    plan.same_length = !arguments.variable_length;
    plan.keeps_times = arguments.gnuplot.is_some();
    plan.client.new_connection = !arguments.keep_alive;
    if let Some(proxy) = &arguments.proxy {
        ask_proxy(&mut plan, proxy, &url)?;
    }
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

/// The switches that `gannet load` has, too.
fn words(arguments: &AbArguments, url: &str) -> Result<Vec<String>, String> {
    let requests = arguments.requests.unwrap_or(match arguments.time {
        Some(_) => TIMED_REQUESTS,
        None => 1,
    });
    if arguments.concurrency > requests {
        return Err("-c must not be greater than -n".to_owned());
    }
    let mut words: Vec<String> = vec!["gannet load".into(), url.to_owned()];
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
    let method = arguments.method.as_deref().unwrap_or(usual);
    add("--method", method.to_owned());
    if let Some(file) = body {
        add("--body-file", file.clone());
    }
    if let Some(file) = &arguments.certificate {
        add("--cert", file.clone());
    }
    if let Some(Protocol::Only(version)) = arguments.protocol {
        add("--tls-version", version.to_owned());
    }
    for line in header_lines(arguments) {
        add("--header", line);
    }
    // ab believes every server.
    words.push("--insecure".to_owned());
    Ok(words)
}

fn header_lines(arguments: &AbArguments) -> Vec<String> {
    let mut lines = Vec::new();
    if arguments.post.is_some() || arguments.put.is_some() {
        lines.push(format!("Content-Type: {}", arguments.content_type));
    }
    if !arguments.cookies.is_empty() {
        lines.push(format!("Cookie: {}", arguments.cookies.join("; ")));
    }
    for (name, credentials) in [
        ("Authorization", &arguments.credentials),
        ("Proxy-Authorization", &arguments.proxy_credentials),
    ] {
        if let Some(credentials) = credentials {
            let encoded = base64::encode(credentials.as_bytes());
            lines.push(format!(
                "{name}: Basic {}",
                String::from_utf8_lossy(&encoded)
            ));
        }
    }
    lines.extend(arguments.headers.iter().cloned());
    lines
}

/// The proxy is connected to, and asked for the whole URL.
fn ask_proxy(plan: &mut Plan, proxy: &str, url: &str) -> Result<(), String> {
    let target = Target::parse(url)?;
    if target.endpoint.scheme == Scheme::Https {
        return Err("-X asks a proxy for http:// only".to_owned());
    }
    let proxy = Target::parse(proxy)?.endpoint;
    let whole = format!("http://{}{}", target.endpoint.authority, target.path);
    for endpoint in &mut plan.endpoints {
        endpoint.host.clone_from(&proxy.host);
        endpoint.port = proxy.port;
    }
    for step in plan.steps_mut() {
        step.request.path = Template::fixed(whole.as_str());
    }
    Ok(())
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

    #[test]
    fn credentials_and_proxies_are_asked_for_as_ab_does() {
        let words = [
            "ab",
            "-A",
            "me:secret",
            "-P",
            "a:b",
            "-X",
            "proxy:3128",
            "-g",
            "times",
            "http://host/x?y",
        ];
        let plan = plan(&AbArguments::parse_from(words)).unwrap();
        assert_eq!(
            (plan.endpoints[0].host.as_str(), plan.endpoints[0].port),
            ("proxy", 3128)
        );
        assert!(plan.keeps_times);
        let request = plan.tasks[0].steps[0].request.prepared.clone().unwrap();
        let text = String::from_utf8(request.to_vec()).unwrap();
        assert!(
            text.starts_with("GET http://host/x?y HTTP/1.0\r\nHost: host\r\n"),
            "{text}"
        );
        for line in [
            "Authorization: Basic bWU6c2VjcmV0\r\n",
            "Proxy-Authorization: Basic YTpi\r\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let secure = AbArguments::parse_from(["ab", "-X", "proxy", "https://host/"]);
        assert!(super::plan(&secure).unwrap_err().contains("http:// only"));
    }

    #[test]
    fn what_is_not_taken_is_named() {
        for (words, named) in [
            (&["ab", "-Z", "AES", "http://a/"][..], "'-Z'"),
            (&["ab", "-w", "http://a/"], "'-w'"),
            (&["ab", "-f", "SSL3", "http://a/"], "SSL3"),
            (&["ab", "-v", "4", "http://a/"], "-v"),
            (&["ab"], "<URL>"),
        ] {
            let error = AbArguments::try_parse_from(words).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
        assert!(AbArguments::try_parse_from(["ab", "-V"]).unwrap().version);
    }
}
