//! `gannet warm`: fetches the URLs of lists and sitemaps once, so that a cache on the way has them.

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use load::fetch::Options;
use load::tls::{Tls, TlsOptions};
use load::{request, units, warm};
use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Fetches the URLs of lists and sitemaps once, at a bounded rate, so that a cache on the way has them. A list has one URL
/// a line; a sitemap may be an index of others. Both may be gzip.
#[derive(Parser)]
#[command(name = "gannet warm", version, disable_version_flag = true)]
struct Arguments {
    /// Lists and sitemaps: files or URLs
    #[arg(required = true, value_name = "LIST")]
    lists: Vec<String>,
    /// Requests, as in 20/s or 100/min
    #[arg(long, default_value = "20/s", value_name = "RATE", value_parser = units::rate)]
    rate: f64,
    /// Requests at a time
    #[arg(short = 'c', long, default_value_t = 4, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,
    /// A field to send; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = request::header)]
    headers: Vec<(String, String)>,
    /// The server to ask, whatever server the URLs name
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = server_address)]
    server: Option<SocketAddr>,
    /// To connect, and between two pieces of a response
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = units::duration)]
    timeout: Duration,
    /// The most URLs that are fetched
    #[arg(long, default_value_t = 1_000_000, value_name = "NUMBER")]
    max: usize,
    /// Trust any server
    #[arg(short = 'k', long)]
    insecure: bool,
}

fn server_address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text.to_socket_addrs().map_err(|error| error.to_string())?;
    found.next().ok_or_else(|| "there is no address".into())
}

/// Runs it with the arguments after its name.
pub fn run(arguments: &[OsString]) -> ExitCode {
    let name = OsString::from("gannet warm");
    let arguments = std::iter::once(name).chain(arguments.iter().cloned());
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Nobody is left to tell that standard error is closed.
            let _closed = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1));
        }
    };
    match warmed(&arguments) {
        Ok(outcome) if outcome.failed == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("gannet: {why}");
            ExitCode::FAILURE
        }
    }
}

fn warmed(arguments: &Arguments) -> Result<warm::Outcome, String> {
    let tls = Tls::new(&TlsOptions {
        insecure: arguments.insecure,
        ..TlsOptions::default()
    });
    let options = Arc::new(Options {
        tls: tls.ok(),
        timeout: arguments.timeout,
        headers: arguments.headers.clone(),
        server: arguments.server,
    });
    let urls = warm::collect(&arguments.lists, arguments.max, &options)?;
    let plan = warm::Plan {
        urls,
        rate: arguments.rate,
        jobs: usize::from(arguments.concurrency),
    };
    // It draws on standard error, and nothing where that is no terminal.
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} URLs, {eta} left");
    let bar = ProgressBar::new(plan.urls.len() as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let begun = Instant::now();
    let outcome = warm::run(&plan, &options, &|| bar.inc(1));
    bar.finish_and_clear();
    for line in &outcome.failures {
        eprintln!("{line}");
    }
    println!("{}", summary(&outcome, begun.elapsed()));
    Ok(outcome)
}

/// What came of it, in a line.
fn summary(outcome: &warm::Outcome, time: Duration) -> String {
    let statuses = outcome.statuses.iter();
    let statuses: String = statuses
        .map(|(status, count)| format!(", {count} × {status}"))
        .collect();
    format!(
        "{} fetched, {} failed, {} bytes in {}{statuses}",
        outcome.fetched,
        outcome.failed,
        outcome.bytes,
        units::show(time)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }
}
